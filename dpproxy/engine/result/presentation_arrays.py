"""Released rows as the arrays that are bound to a presentation."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import cast

from dpproxy.backends.base import text as value_text
from dpproxy.engine.planner import INT8_ARRAY, PreparedQuery
from dpproxy.engine.result.binary_arrays import int8_array, text_array
from dpproxy.engine.result.postprocess import OutputColumn
from dpproxy.engine.result.postprocess import column as column_texts
from rewriter.api import ReleasedColumns
from rewriter.logical.plan import AggregateNode

Texts = tuple[str | None, ...]


def released(
    keys: Sequence[Texts],
    outputs: Sequence[OutputColumn],
    node: AggregateNode,
    columns: ReleasedColumns,
    *,
    nonnegative: bool,
) -> list[Sequence[object]]:
    """A node's columns in the order of its arrays, after post-processing.

    `columns`: their types; `nonnegative`: counts below 0 are shown as 0.
    """
    measured: list[Sequence[object]] = []
    for output, shown, column in zip(node.outputs, outputs, columns[len(node.keys) :], strict=True):
        values = shown.values
        if nonnegative and output.function == "count":
            values = tuple(None if v is None else max(v, 0) for v in values)
        if column.transport == "int8":
            measured.append([None if v is None else round(v) for v in values])
        else:
            measured.append(column_texts(values, column.type))
    return [*keys, *measured]


def arrays(columns: Sequence[Sequence[object]], prepared: PreparedQuery) -> tuple[bytes, ...]:
    """Released columns as binary arrays, empty ones for those that are not there yet."""
    missing = len(prepared.array_oids) - len(columns)
    return tuple(
        _array(c, oid) for c, oid in zip([*columns, *[()] * missing], prepared.array_oids, strict=True)
    )


def _array(column: Sequence[object], oid: int) -> bytes:
    if oid == INT8_ARRAY:
        return int8_array(cast("Sequence[int | None]", column))
    return text_array([v if v is None or isinstance(v, str) else _text(v) for v in column])


def _text(value: object) -> str | None:
    if isinstance(value, Fraction):
        return value_text(Decimal(value.numerator) / Decimal(value.denominator))
    return value_text(value)
