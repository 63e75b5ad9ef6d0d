"""Running counts: windows that add up the counts of the times so far, as a stream's own mechanism answers them.

In:  SELECT article_id, ts::date, SUM(COUNT(*)) OVER (PARTITION BY article_id ORDER BY ts::date) ... GROUP BY 1, 2
Out: the running count over time ts::date of items article_id

It takes the place of a window over the released counts where times are known and items are not, or where the data
owner declares the stream's horizon.

Why: docs/decisions/running-counts-of-known-items.md.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from rewriter.binder.contribution_bounds import Bound, rows_per_group
from rewriter.ir.measure import Running
from rewriter.ir.relation import Relation
from rewriter.ir.texts import sql_text
from rewriter.ir.trees import walk
from rewriter.ir.types import DATED
from rewriter.logical.aggregate_calls import Call, read_call
from rewriter.logical.lasting_streams import declared_horizon, grain_of
from rewriter.scalar.typecheck import Parameters, type_of

Keys = tuple[exp.Expr, ...]
Known = Callable[[Keys], bool]
"""Whether expressions have a known domain."""


def running_count(
    tree: exp.Select,
    relation: Relation,
    keys: Keys,
    parameters: Parameters,
    key_of: Callable[[exp.Expr], int | None],
    known: Known,
) -> Running | None:
    """The running count of a SELECT that has no other aggregate, else None; `key_of` finds the position of a key."""
    windows = _windows(tree)
    if not windows or len(keys) < 2:
        return None
    found = {_shape(w, key_of) for w in windows}
    shape = found.pop()
    if found or shape is None or set(shape[1]) | {shape[0]} != set(range(len(keys))):
        return None
    time, call = keys[shape[0]], _counted(windows[0], relation, parameters)
    if call is None or type_of(time, relation, parameters) not in DATED:
        return None
    declared = declared_horizon(time, relation)
    if not known((time,)) and (declared is None or grain_of(time) is None):
        return None
    events = None if declared is None else declared[1].events_per_unit
    if events is None and known(tuple(k for n, k in enumerate(keys) if n != shape[0])):
        return None
    most = rows_per_group(relation, Bound(1, False)) if events is None else events
    return Running(shape[0], call.argument, most, events is not None)


def _windows(tree: exp.Select) -> list[exp.Window]:
    """The windows of a SELECT where no aggregate stands outside of them; nothing otherwise."""
    parts = [*tree.expressions, *(tree.args[p] for p in ("having", "order") if tree.args.get(p))]
    nodes = [node for part in parts for node in walk(part, stop=_is_apart)]
    if any(isinstance(node, (exp.AggFunc, exp.Filter, exp.WithinGroup)) for node in nodes):
        return []
    return [node for node in nodes if isinstance(node, exp.Window)]


def _is_apart(node: exp.Expr) -> bool:
    return isinstance(node, (exp.Window, exp.Query))


def _shape(
    window: exp.Window, key_of: Callable[[exp.Expr], int | None]
) -> tuple[int, tuple[int, ...], str] | None:
    """(time, items, what is counted) of SUM(COUNT(*)) OVER (PARTITION BY items ORDER BY time)."""
    order, frame = window.args.get("order"), window.args.get("spec")
    if not isinstance(window.this, exp.Sum) or order is None or len(order.expressions) != 1:
        return None
    if order.expressions[0].args.get("desc") or not _from_the_start(frame):
        return None
    time = key_of(order.expressions[0].this)
    items = [key_of(e) for e in window.args.get("partition_by") or []]
    if time is None or not items or time in items:
        return None
    return time, tuple(sorted(i for i in items if i is not None)), sql_text(window.this.this)


def _from_the_start(frame: exp.Expr | None) -> bool:
    if frame is None:
        return True
    ends = [str(frame.args.get(k) or "").upper() for k in ("start", "start_side", "end")]
    return ends[:2] == ["UNBOUNDED", "PRECEDING"] and ends[2] in ("", "CURRENT ROW")


def _counted(window: exp.Window, relation: Relation, parameters: Parameters) -> Call | None:
    counted = window.this.this
    bare = counted.this if isinstance(counted, exp.Filter) else counted
    if not isinstance(bare, exp.Count) or isinstance(bare.this, exp.Distinct):
        return None
    return read_call(counted, relation, parameters, clips=False)
