"""The results of the rewriter: plain values, without a tree of the SQL parser."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, product, repeat
from math import prod
from typing import Literal, get_args, overload

Cell = tuple[str | None, ...]
"""One text (or NULL) a key column, as PostgreSQL prints it."""
Cells = Sequence[Cell]
"""The cells of a known domain."""

UniqueKey = tuple[tuple[str, ...], tuple[str, ...]]
"""(the parts of a table's name in the backend, the key's columns in the order of their names)."""


@dataclass(frozen=True)
class Factor:
    """Key columns that depend on one another: their places among the keys, and the combinations of their values."""

    places: tuple[int, ...]
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Product(Sequence[Cell]):
    """The cells of independent key columns: each combination of the factors' cells, made when it is read.

    >>> cells = Product((Factor((0, 2), (("a", "x"), ("b", None))), Factor((1,), (("1",), ("2",), ("3",)))))
    >>> len(cells), cells[0], cells[5], list(cells)[5] == cells[5]
    (6, ('a', '1', 'x'), ('b', '3', None), True)
    >>> [tuple(c) for c in zip(*map(cells.column, range(3)))] == list(cells)
    True
    """

    factors: tuple[Factor, ...]

    def __len__(self) -> int:
        return prod(len(f.cells) for f in self.factors)

    def column(self, place: int) -> Iterator[str | None]:
        """The values of one key in all cells, in order."""
        number, factor = next((n, f) for n, f in enumerate(self.factors) if place in f.places)
        at, repeated = factor.places.index(place), prod(len(f.cells) for f in self.factors[number + 1 :])
        values = [value for cell in factor.cells for value in repeat(cell[at], repeated)]
        return chain.from_iterable(repeat(values, prod(len(f.cells) for f in self.factors[:number])))

    def __iter__(self) -> Iterator[Cell]:
        order = self._order
        for parts in product(*(f.cells for f in self.factors)):
            values = [value for part in parts for value in part]
            yield tuple(values[at] for at in order)

    @overload
    def __getitem__(self, index: int) -> Cell: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Cell]: ...

    def __getitem__(self, index: int | slice) -> Cell | Sequence[Cell]:
        if isinstance(index, slice):
            return [self[n] for n in range(len(self))[index]]
        left, parts = range(len(self))[index], []
        for factor in reversed(self.factors):
            left, at = divmod(left, len(factor.cells))
            parts.append(factor.cells[at])
        values = [value for part in reversed(parts) for value in part]
        return tuple(values[at] for at in self._order)

    @property
    def _order(self) -> list[int]:
        """Where each key stands in the joined cells of the factors."""
        places = [place for f in self.factors for place in f.places]
        return sorted(range(len(places)), key=places.__getitem__)


@dataclass(frozen=True)
class CellTexts:
    """The texts of one key in all cells, made when they are read.

    >>> list(CellTexts((("a", "1"), ("b", None)), 1))
    ['1', None]
    """

    cells: Cells
    place: int

    def __iter__(self) -> Iterator[str | None]:
        if isinstance(self.cells, Product):
            return self.cells.column(self.place)
        return (cell[self.place] for cell in self.cells)


@dataclass(frozen=True)
class Kept:
    """A part of a query that other queries of the same release begin with as well, so that it need not run again.

    `sql`: its text; `rest`: the query over its rows as the engine's `kept_table`.
    """

    sql: str
    rest: str


@dataclass(frozen=True)
class HistogramQuery:
    """The SQL that the backend runs for one node.

    With a known domain its rows are (cell, counts...), one a cell, where `cell` numbers the node's cells from 1.
    Otherwise they are (keys..., counts...), at most a limit of rows, largest count first.

    Attributes:
        sql: the text.
        arrays: the parameters $1.., lists of text.
        rank_key: the last parameter is the secret key of the rank.
        most: the most rows that there can be, by public numbers; None where they are as many as units bring.
        integers: every column is an integer.
        unique: the columns along privacy unit paths that must be unique while the query runs. If a value repeated, a
            row would belong to two units.
        trials: queries that must not fail while the query runs: what the owner wrote would, for a row that the query
            might reach or not.
        kept: what an engine that keeps tables for the length of a release may run in place of `sql`.
    """

    sql: str
    arrays: tuple[Iterable[str | None], ...] = field(repr=False)
    rank_key: bool
    most: int | None
    integers: bool = False
    unique: frozenset[UniqueKey] = frozenset()
    trials: frozenset[str] = frozenset()
    kept: Kept | None = None


Size = Literal["e", "w", "l", "h", "own_e", "own_w", "common_e", "common_w"]
"""Of the noise of a released output: its standard deviation, half the width of its interval, or the interval's ends; of
the first two that of the row's own noise and that of the noise that all rows have in common, apart."""
SIZES: Mapping[str, Size] = {size: size for size in get_args(Size)}
DEVIATION, LOW, HIGH = INTERVAL_CALLS = ("dp_stddev", "dp_low", "dp_high")
"""The functions of SQL that show the noise of an expression: its standard deviation, and the ends of its interval."""
Asked = tuple[Size, int, int]
"""A size, and of which output: node and place."""


@dataclass(frozen=True)
class Presentation:
    """The statement that the front runs in place of the client's.

    Attributes:
        sql: its text. Parameters $1..$n are the client's; the released columns follow as arrays, node after node, keys
            before counts.
        transports: the element types of the arrays, "int8" or "text".
        constants: the statements of the constants, over the same parameters.
        errors: what follows as arrays of text after all others: the sizes of the noise of outputs (node and place).
        derived: the columns that have an interval of their own, other than those of the outputs.
        unknown: the columns without a known interval, with the reason where noise may make them NULL.
        computes: something is computed from released values, which may fail.
    """

    sql: str
    transports: tuple[Literal["int8", "text"], ...]
    constants: tuple[str, ...] = ()
    errors: tuple[Asked, ...] = ()
    derived: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    computes: bool = False
