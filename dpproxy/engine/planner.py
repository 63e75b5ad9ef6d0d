"""From a client's text to what must be released: the rewriter's pure passes, checked and completed by the front."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, Literal, TypeVar, cast

from dpproxy.engine.kept import Kept
from dpproxy.front.front import CONSTANT_TIMEOUT, Front
from dpproxy.front.statement import Described, says_nothing
from dpproxy.pgwire.identifiers import identifier
from mechanisms.randomness import Plain, encoded
from rewriter.api import (
    MAX_CELLS,
    MAX_ELEMENTS,
    Constant,
    Outline,
    QueryContext,
    ReleasedColumn,
    ReleasedColumns,
    Scanned,
    Stretch,
    Vectors,
    array_text,
    averages_query,
    bins_query,
    check_dialect,
    clipped_query,
    domain_queries,
    groups_per_unit,
    has_no_rows,
    held,
    histogram_query,
    in_utc,
    items_query,
    known_cells,
    lasting,
    lengths_query,
    node_columns,
    node_text,
    outline,
    outlines_apart,
    position,
    present,
    probe,
    public_tables,
    readable,
    running,
    running_query,
    same_with_values,
    shown_text,
    split_query,
    stretches,
    tied,
    types_query,
    weights_query,
    within_horizon,
    without_blanks,
    without_rows,
)
from rewriter.effort import bounded
from rewriter.emit.engines.base import Engine
from rewriter.ir.measure import Count, DistinctItems, Vector
from rewriter.ir.parameter import Parameter, Parameters, Unbound
from rewriter.logical.plan import SYSTEM, SYSTEM_TABLES, AggregateNode, LogicalPlan, SystemTableNode
from rewriter.plan import Asked, Cell, Cells, HistogramQuery, Presentation, Product
from rewriter.policy import Policy, Table, front_name
from rewriter.refusal import Refusal
from rewriter.statements.classify import ClassifiedStatement, Verdict, classify
from rewriter.statements.lexer import substitute
from rewriter.statements.parameterization import Parameterized, parameterized

INT8_ARRAY, TEXT_ARRAY = 1016, 1009
MOST_CHARACTERS = 10_000
BYTES_A_STEP, BYTES_A_CELL = 64, 128
"""What a step of planning leaves in memory, and a value of a domain, at most: measured over long statements."""
MOST_ROWS, MOST_IN_ROWS = 10_000, 1_000_000
"""Rows, and characters in them, that are evaluated for one item of FROM."""
MOST_COMPARED, MOST_SHOWN = 64, 200
"""Readings that are compared to find a part that PostgreSQL reads otherwise, and characters of it that are shown."""
MOST_COUNTED = 10_000
"""Values of a known domain that are counted, so that no distinct count is larger."""
MOST_SEEN = 64
"""The largest domain of which the values that units have are counted one by one."""
MOST_TRIED = 1000
"""Rows that are made of an answer which is tried."""
MOST_NOTED = 16
"""What is kept of one node: queries as they were written, prices by terms."""

Value = TypeVar("Value")


@dataclass(frozen=True)
class PreparedQuery:
    """A private statement with its presentation, before parameters and constants have values.

    Attributes:
        presentation: the text for the front; $1..$n are the client's parameters, arrays follow.
        array_oids: the types of the arrays.
        columns: the released columns of each node.
        explain: the format of an EXPLAIN, None for any other statement.
        constants: what the front has to evaluate for the nodes.
        nodes: the nodes.
        values: the parameters and constants that the nodes name, with what was asked about their values.
        orders: those of the keys, whatever the values.
        errors: what the last arrays are: sizes of the noise of outputs (node and place).
        derived, unknown: the columns that have an interval of their own, and those without a known one.
        steps: the cost of planning, and the weight of the plan in its cache.
        template: what is planned in its place, with the types and values of the parameters, which `values` are then.
        tried: the front computes something from the answer that can be computed from any other one before.
    """

    presentation: str
    array_oids: tuple[int, ...]
    columns: tuple[ReleasedColumns, ...]
    explain: Literal["TEXT", "JSON"] | None
    constants: tuple[PreparedConstant, ...]
    nodes: tuple[AggregateNode | SystemTableNode, ...]
    values: tuple[Parameter, ...] = ()
    orders: tuple[Sequence[int], ...] = ()
    errors: tuple[Asked, ...] = ()
    derived: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    steps: int = 0
    template: Bound | None = None
    tried: bool = False

    def ready(self, constants: int) -> int:
        """How many nodes can be planned when the first `constants` constants are known."""
        waiting = self.constants[constants:]
        return waiting[0].nodes if waiting else len(self.columns)


@dataclass(frozen=True)
class PreparedConstant:
    """A constant's statement, over the parameters of the presentation; it reads the first `nodes` nodes at most.

    `columns`: its columns without values, one unless it is all rows of an item of FROM.
    """

    sql: str
    nodes: int
    columns: tuple[Parameter, ...]
    listed: bool
    whole: bool

    @property
    def most(self) -> int:
        """How many rows it may have."""
        return MOST_ROWS if self.whole else MAX_ELEMENTS if self.listed else 1


@dataclass(frozen=True)
class BoundNode:
    """A DP node with everything public that decides its release.

    Attributes:
        aggregate: the node.
        cells: the cells of a known domain, None for an unknown one.
        text: the node in canonical form, the same for equal questions.
        scanned: the stored columns that it reads, with their kinds.
        domain: a digest of the cells.
        policy, parameters, dialect: what its SQL is written with.
        waits: constants in it are not known yet, so that it can be priced but not released.
        times: the possible times of a running count, ascending.
        lasting: the unit of time of a running count over append-only history, None for others.
        public: digests of the public tables that such a running count reads.
        values: by its place, of each distinct count of values with a small known domain, the units of each value.
        most: by its place, of each other distinct count of values with a known domain, how many of them there are.
        types: of the keys, in PostgreSQL.
        chosen: the cells are some of those that its text has.
    """

    aggregate: AggregateNode
    cells: Cells | None
    text: str
    scanned: Scanned
    domain: bytes
    policy: Policy
    parameters: tuple[Parameter, ...]
    dialect: Engine
    waits: bool = False
    times: tuple[str, ...] = ()
    lasting: str | None = None
    public: tuple[tuple[str, str], ...] = ()
    values: Mapping[int, BoundNode] = field(default_factory=dict)
    most: Mapping[int, int] = field(default_factory=dict)
    types: tuple[str, ...] = ()
    chosen: bool = False
    _noted: dict[Hashable, object] = field(init=False, repr=False, compare=False, default_factory=dict)

    @property
    def delta0(self) -> int | None:
        """The most groups one unit can be in by declaration or structure, None if unrestricted."""
        return self.aggregate.bound.value

    @property
    def kept(self) -> Plain:
        """In how many groups the SQL keeps a unit, and whether by a keyed order."""
        kept = held(self.aggregate.bound, self.aggregate.keys, self.delta0)
        return kept.most, kept.ranked

    @property
    def shown(self) -> str:
        """`text` without what the owner wrote, for the ledger and its analysts."""
        if not self.policy.secretive:
            return self.text
        return shown_text(self.aggregate, self.policy, self.parameters)

    @property
    def asked(self) -> str:
        """What the node asks, in words, for the ledger."""
        return self.noted("asked", lambda n: readable(n.aggregate, n.parameters))

    def closed(self) -> BoundNode:
        """The same node whose SQL may be shown to analysts, and is not run."""
        return replace(self, dialect=self.dialect.closed()) if self.policy.secretive else self

    def noted(self, key: Hashable, make: Callable[[BoundNode], Value]) -> Value:
        """The result of `make` for this node, kept for as long as its plan."""
        value = self._noted.get(key)
        if value is None:
            value = make(self)
            if len(self._noted) >= MOST_NOTED:
                self._noted.clear()
            self._noted[key] = value
        return cast(Value, value)

    def text_of(self, place: int) -> tuple[str, Scanned]:
        """As `text` and `scanned`, of one measure alone."""

        def written(node: BoundNode) -> tuple[str, Scanned]:
            alone = replace(node.aggregate, measures=(node.aggregate.measures[place],), outputs=())
            return node_text(alone, node.policy, node.parameters)

        return self.noted(("text", place), written)

    @property
    def outline(self) -> Outline | None:
        """Its measures and keys, None where its rows are not those of its relation alone."""
        return self.noted("outline", lambda n: (outline(n.aggregate, n.policy, n.parameters),))[0]

    @property
    def outlines_apart(self) -> tuple[Outline, ...]:
        """The same over its rows without some of the public tables that they meet."""
        return self.noted("apart", lambda n: tuple(outlines_apart(n.aggregate, n.policy, n.parameters)))

    def over(self, cells: Cells) -> BoundNode:
        """The same node over these groups as a known domain."""
        return self if cells is self.cells else replace(self, cells=cells)

    def among(self, cells: Cells) -> BoundNode:
        """The same node asked about some of its cells alone."""
        digest = sha256(encoded([list(cell) for cell in cells])).digest()
        return replace(self, cells=cells, domain=digest, chosen=True)

    def histogram(self, places: Sequence[int], limit: int | None) -> HistogramQuery:
        """The backend's SQL for the counts and sums `places`; the largest `limit` groups by the first of them
        where the domain is unknown."""

        def written(node: BoundNode) -> HistogramQuery:
            measures = tuple(node.aggregate.measures[p] for p in places)
            aggregate = replace(node.aggregate, measures=measures, order_by=0)
            return histogram_query(
                aggregate, node.policy, node.parameters, node.cells, node.delta0, limit, node.dialect
            )

        return self.noted(("histogram", tuple(places), limit), written)

    def bins(self, place: int, bins: int) -> HistogramQuery:
        """The backend's SQL for the bins of the quantiles `place` in known groups."""
        return bins_query(self.aggregate, place, self.cells or (), bins, self.delta0, self._context)

    def averages(self, vectors: Sequence[Vector], steps: int, most: int) -> HistogramQuery:
        """The backend's SQL for the number of units by their average of some joint moments."""
        return self.noted(
            ("averages", tuple(vectors)), lambda n: averages_query(n._vectors(vectors), steps, most)
        )

    def lengths(self, vectors: Sequence[Vector], steps: int, most: int) -> HistogramQuery:
        """The backend's SQL for the number of units by the length of their vectors of some totals."""
        return self.noted(
            ("lengths", tuple(vectors), most), lambda n: lengths_query(n._vectors(vectors), steps, most)
        )

    def clipped(self, vectors: Sequence[Vector], clips: Sequence[tuple[int, int]]) -> HistogramQuery:
        """The backend's SQL for totals in known groups, of vectors clipped to a length each."""
        return clipped_query(self._vectors(vectors), clips)

    def _vectors(self, vectors: Sequence[Vector]) -> Vectors:
        def made(node: BoundNode) -> Vectors:
            cells = node.cells or () if node.aggregate.keys else ((),)
            return Vectors(node.aggregate, vectors, cells, node._context)

        return self.noted(("vectors", tuple(vectors)), made)

    def items(self, place: int, most: int) -> HistogramQuery:
        """The backend's SQL for the items `place` of each unit in known groups, `most` of a unit in a group."""
        return items_query(self.aggregate, place, self.cells or (), most, self.delta0, self._context)

    def weights(
        self,
        left_out: Sequence[str],
        delta0: int,
        turn: int,
        floor: int,
        largest: int | None,
        *,
        marked: bool,
    ) -> HistogramQuery:
        """The backend's SQL for a round of partition selection: without the groups whose marks are `left_out`, and
        those of less weight than `floor`; each unit's set is cut to `largest` groups first. Rows are `marked` for the
        next round."""
        context = self._context
        return weights_query(self.aggregate, left_out, delta0, turn, context, floor, largest, marked=marked)

    def running(self, times: int) -> HistogramQuery:
        """The backend's SQL for the events of each item at the first `times` times."""
        return running_query(self.aggregate, self.times[:times], self._context)

    @property
    def _context(self) -> QueryContext:
        return QueryContext(self.policy, self.parameters, self.dialect)


Planned = tuple[BoundNode | SystemTableNode, ...]


Bound = tuple[str, tuple[int, ...], tuple[str | None, ...]]
"""A statement with the types and values of its parameters."""


@dataclass(frozen=True)
class Template:
    """The types of the parameters of a statement that is planned in place of those with constants there.

    Why: docs/decisions/constants-share-plans.md.
    """

    oids: tuple[int, ...]
    types: tuple[str, ...]


class _NotByTemplate(Exception):
    """The statement is planned by itself."""


class Planner:
    """Plans statements under one policy; everything is cached by text (and bound values), nothing depends on data."""

    def __init__(self, policy: Policy, front: Front, dialect: Engine) -> None:
        self.policy = self._policy = policy
        self._front = front
        self._dialect = dialect
        guarded = [t.name.lower() for t in policy.tables.values() if not t.in_front]
        self._guarded = frozenset({*guarded, *SYSTEM_TABLES})
        self._verdicts, self._prepared, self._plans, self._digests = Kept(), Kept(), Kept(), Kept()
        self._templates = Kept()

    def forget(self) -> None:
        """Drop all plans: public tables were reloaded."""
        self._digests.clear()
        self._templates.clear()
        self._prepared.clear()
        self._plans.clear()

    def remembered(self) -> dict[str, tuple[int, int]]:
        """What is kept of statements, by kind: how many, and about how many bytes."""
        kinds = {"texts": self._verdicts, "prepared": self._prepared, "plans": self._plans}
        return {name: kept.size for name, kept in kinds.items()}

    def rows(self, sql: str) -> Sequence[Cell]:
        """The rows of a query over constants, every value as text. Raises Refusal."""
        return self._front.rows(sql)

    def classify(self, text: str) -> Verdict:
        """How a statement is handled; raises Refusal for a statement that no analyst may send."""
        return self._statement(text).verdict

    def _statement(self, text: str) -> ClassifiedStatement:
        return self._verdicts.get(text, lambda: classify(text, self._guarded))

    def prepare(self, text: str, oids: Sequence[int], errors: bool = False) -> PreparedQuery:
        """The presentation of a private statement; `oids` are the types of its parameters. Raises Refusal.

        `errors`: with a column <name>_stddev behind the others for each output that is shown by itself.
        """
        key = (text, tuple(oids), errors)
        return self._prepared.get(key, lambda: self._prepare(*key), _weight)

    def known(self, text: str, oids: Sequence[int], errors: bool = False) -> PreparedQuery | None:
        """The result of `prepare` if it is cached, without I/O."""
        return cast(PreparedQuery | None, self._prepared.known((text, tuple(oids), errors)))

    def _either(self, text: str, oids: Sequence[int]) -> PreparedQuery:
        """What is prepared with error columns or without them: nodes and constants are the same."""
        return self.known(text, oids, errors=True) or self.prepare(text, oids)

    def _prepare(self, text: str, oids: tuple[int, ...], errors: bool) -> PreparedQuery:
        statement = self._statement(text)
        other = self.known(text, oids, not errors)
        if statement.explain is None and (other is None or other.template is not None):
            with suppress(_NotByTemplate):
                return self._by_template(text, oids, errors)
        try:
            with bounded() as effort:
                before = effort.spent
                checked = self._checked(statement, oids, errors)
                return replace(checked, steps=effort.spent - before)
        except Refusal as refusal:
            if refusal.position is not None:
                refusal.position += statement.offset
            raise

    def _checked(self, statement: ClassifiedStatement, oids: tuple[int, ...], errors: bool) -> PreparedQuery:
        body = statement.body
        described = self._front.describe(body, oids)
        parameters = tuple(Unbound(name, None) for name in self._front.type_names(oids))
        read: list[tuple[Parameter, ...]] = []

        def typed(_: int, sql: str) -> tuple[Parameter, ...]:
            read.append((Parameter(self._only_type(sql, oids), None),))
            return (Unbound(in_utc(*read[-1]).type, None),)

        def rows(_: int, sql: str) -> tuple[Parameter, ...]:
            columns = self._front.describe(sql, oids)
            read.append(tuple(Parameter(f"{c.type}[]", None, name=c.name) for c in columns))
            return read[-1]

        try:
            logical = split_query(body, self._policy, parameters, typed, rows)
        except Refusal as refusal:
            if refusal.code.startswith("PV") and not statement.explain:
                if without_rows(body):
                    return self._unasked(_no_rows(described), described, oids, parameters)
                if (asked := probe(body)) is not None:
                    return self._unasked(asked, described, oids, parameters)
            raise
        if logical.nodes and has_no_rows(logical.tree) and not statement.explain:
            return self._unasked(_no_rows(described), described, oids, parameters)
        if logical.nodes and not any(self._front.agrees(body, text, oids) for text in logical.spellings()):
            raise self._read_differently(body, oids)
        for constant in logical.constants:
            self._check_constant(constant, oids)
        # What is asked about values from here on decides nothing about the nodes.
        values, logical = logical.values, replace(logical, values=tuple(map(_valueless, logical.values)))
        columns = tuple(self._columns(node, oids, logical.values) for node in logical.nodes)
        presentation = present(logical, columns, [name for name, _, _ in described], errors)
        array_oids = tuple(INT8_ARRAY if t == "int8" else TEXT_ARRAY for t in presentation.transports)
        constants = tuple(
            PreparedConstant(sql, c.nodes, columns_read, c.listed, c.whole)
            for sql, c, columns_read in zip(presentation.constants, logical.constants, read, strict=True)
        )
        shown = self._front.describe(presentation.sql, (*oids, *array_oids))
        if shown[: len(described)] != described or (len(shown) > len(described) and not errors):
            raise Refusal(
                "0A000",
                "the answer's columns could not be kept as the query declares them",
                hint="CAST what is selected and grouped by to the type that it should have.",
            )
        if statement.explain:
            line = "x.line::json" if statement.explain == "JSON" else "x.line"
            plan = f'SELECT {line} AS "QUERY PLAN" FROM unnest(${len(oids) + 1}::text[]) AS x(line)'
            return PreparedQuery(
                plan,
                (TEXT_ARRAY,),
                columns,
                statement.explain,
                constants,
                logical.nodes,
                values,
                logical.orders,
            )
        return PreparedQuery(
            presentation.sql,
            array_oids,
            columns,
            None,
            constants,
            logical.nodes,
            values,
            logical.orders,
            presentation.errors,
            presentation.derived,
            presentation.unknown,
            tried=presentation.computes and self._same_always(presentation, constants, (*oids, *array_oids)),
        )

    def _read_differently(self, text: str, oids: tuple[int, ...]) -> Refusal:
        """The refusal of a text that PostgreSQL reads otherwise, with the smallest part that it does so by itself."""
        found: Stretch | None = None
        asked = 0
        for part in stretches(text):
            if asked >= MOST_COMPARED or (found is not None and not found.holds(part)):
                continue
            written = list(part.spellings(text))
            asked += len(written)
            if written and not any(self._front.agrees(text, other, oids) for other in written):
                found = part
        return Refusal(
            "0A000",
            "PostgreSQL and dpproxy read this query differently",
            detail=None if found is None else f"They differ in {text[found.start : found.end][:MOST_SHOWN]}",
            hint="Write it more plainly: add parentheses, CAST(x AS type) and standard spellings.",
            position=None if found is None else found.start + 1,
        )

    def _same_always(
        self, presentation: Presentation, constants: Sequence[PreparedConstant], oids: Sequence[int]
    ) -> bool:
        """Whether a statement and its constants call nothing that is volatile or depends on the client's session."""
        statements = [presentation.sql, *(constant.sql for constant in constants if constant.nodes)]
        try:
            return not any(self._front.other_than_constant(sql, oids, rows=True) for sql in statements)
        except Refusal as refusal:
            if says_nothing(refusal):
                raise
            return False

    def _check_constant(self, constant: Constant, oids: tuple[int, ...]) -> None:
        """Refuse (PV020) an expression that may have another value for the next row, or for the client's session."""
        if not constant.calls:
            return
        name = self._front.other_than_constant(
            constant.statement().sql("postgres"), oids, rows=constant.whole
        )
        if name is not None:
            raise Refusal(
                "PV020",
                f"function {name} is not allowed on private rows",
                hint="It may be volatile or have side effects: write its value as a constant.",
                position=position(constant.node),
            )

    def _unasked(
        self,
        presentation: str,
        described: Sequence[Described],
        oids: Sequence[int],
        values: tuple[Parameter, ...],
    ) -> PreparedQuery:
        """A statement that is answered without the backend, if that has the columns of the client's text."""
        if [(c.name, c.oid) for c in self._front.describe(presentation, oids)] != [
            (c.name, c.oid) for c in described
        ]:
            raise Refusal("0A000", "the answer's columns could not be kept as the query declares them")
        return PreparedQuery(presentation, (), (), None, (), (), values)

    def _only_type(self, sql: str, oids: tuple[int, ...]) -> str:
        """The type of a query's one column."""
        columns = self._front.describe(sql, oids)
        if len(columns) != 1:
            raise Refusal("42601", "subquery must return only one column")
        return columns[0].type

    def _columns(
        self, node: AggregateNode | SystemTableNode, oids: tuple[int, ...], values: Parameters
    ) -> ReleasedColumns:
        if isinstance(node, SystemTableNode):
            described = self._front.describe(f"SELECT * FROM {SYSTEM}.{node.name}", ())
            return tuple(ReleasedColumn(name, type_name) for name, type_name, _ in described)
        sql = types_query(node, values, len(oids))
        return node_columns(node, [t for _, t, _ in self._front.describe(sql, oids)])

    def constant(
        self,
        text: str,
        oids: Sequence[int],
        number: int,
        values: Sequence[str | None],
        arrays: Sequence[bytes],
    ) -> tuple[str | None, ...]:
        """The values of constant `number` of a statement (one, of a list any number, of rows those of one row after the
        other), evaluated by the front.

        `arrays`: the released columns as far as they are there, empty arrays for the others. Raises Refusal.
        """
        prepared = self._either(text, oids)
        wanted = prepared.constants[number]
        arrays = arrays[: len(prepared.array_oids)]
        types = (*oids, *prepared.array_oids[: len(arrays)])
        try:
            rows = self._front.evaluate(wanted.sql, types, values, arrays, wanted.most)
        except Refusal as refusal:
            if refusal.code == "57014":
                refusal.hint = f"A constant of a private query is computed for {CONSTANT_TIMEOUT} at most."
            raise
        texts = tuple(value for row in rows for value in row)
        if any(len(value or "") > MOST_CHARACTERS for value in texts):
            raise Refusal("54000", f"a constant has more than {MOST_CHARACTERS} characters")
        if sum(len(value or "") for value in texts) > MOST_IN_ROWS:
            raise Refusal(
                "54000", f"rows joined with private tables have more than {MOST_IN_ROWS} characters"
            )
        return texts if wanted.listed or wanted.whole or rows else (None,)

    def present(
        self,
        prepared: PreparedQuery,
        oids: Sequence[int],
        values: Sequence[str | None],
        arrays: Sequence[bytes],
    ) -> None:
        """Has the front compute what a statement shows of these released columns. Raises Refusal."""
        types = (*oids, *prepared.array_oids)
        sql = f"SELECT * FROM ({prepared.presentation}) AS q"
        self._front.evaluate(sql, types, values, arrays, MOST_TRIED)

    def plan(
        self,
        text: str,
        oids: Sequence[int],
        values: Sequence[str | None],
        constants: Sequence[tuple[str | None, ...]] = (),
    ) -> Planned:
        """What must be released for a statement with these parameter values, in the order of its arrays.

        `constants`: the values of its first constants; nodes that wait for others are planned as if those were NULL.
        A query and its EXPLAIN have one plan.
        """
        body = self._statement(text).body
        with bounded() as effort:
            before = effort.spent
            prepared = self._either(body, oids)
            # A plan is one of what the query was prepared by: a template's is no other's.
            bound = prepared.template or (body, tuple(oids), tuple(values))
            key = (*bound, tuple(constants))
            known = cast(Planned | None, self._plans.known(key))
            if known is not None:
                return known
            planned = self._plan(prepared, *key)
            self._keep(key, planned, effort.spent - before, prepared)
        if prepared.template is None and not oids and not constants:
            self._learn(body, planned)
        return planned

    def _keep(self, key: tuple[object, ...], planned: Planned, steps: int, prepared: PreparedQuery) -> None:
        """Keeps a plan by its own weight, that of the prepared query whose nodes it holds, and of the SQL to come."""
        weight = BYTES_A_STEP * (steps + 2 * prepared.steps) + BYTES_A_CELL * _cells(planned)
        self._plans.put(key, planned, weight)

    def _by_template(self, text: str, oids: tuple[int, ...], errors: bool) -> PreparedQuery:
        """A statement that its template is planned for, with that plan; raises _NotByTemplate, Refusal.

        A statement is prepared and planned in one way: the plan is made here, so that it is prepared by itself where
        the template's is refused.
        """
        found = None if oids else parameterized(text)
        template = None if found is None else self._templates.known((found.text, found.oids))
        if found is None or not isinstance(template, Template):
            raise _NotByTemplate
        values = found.values(template.types)
        if values is None:
            raise _NotByTemplate
        bound = found.text, template.oids, values
        try:
            with bounded() as effort:
                before = effort.spent
                prepared = self._alone(*bound[:2], errors)
                planned = self._plan(prepared, *bound, ())
                self._keep((*bound, ()), planned, effort.spent - before, prepared)
        except Refusal as refusal:
            if says_nothing(refusal):
                raise
            raise _NotByTemplate from None
        return replace(prepared, template=bound)

    def _alone(self, template: str, oids: tuple[int, ...], errors: bool) -> PreparedQuery:
        """A template's query, whose presentation takes none of its parameters; raises Refusal."""
        return self._prepared.get(
            (template, oids, errors, "alone"),
            lambda: _without_parameters(self.prepare(template, oids, errors), len(oids)),
        )

    def _learn(self, text: str, planned: Planned) -> None:
        """Notes a statement without parameters, which has this plan; the second of those that differ in constants shows
        whether others can be planned by their template."""
        found = parameterized(text)
        if found is None:
            return
        key = found.text, found.oids
        known = self._templates.known(key)
        if known is None:
            self._templates.put(key, "seen", 0)
        elif known == "seen":
            with suppress(_NotByTemplate):
                self._templates.put(key, self._learnt(found, text, planned) or "of no use", 0)

    def _learnt(self, found: Parameterized, text: str, planned: Planned) -> Template | None:
        """The template of a statement, None unless it gives the same plan, and no constants decide an order in it.

        Raises _NotByTemplate where that is not known.
        """
        try:
            with bounded():
                oids = self._front.parameter_types(found.text, found.oids)
                prepared, alone = self._alone(found.text, oids, errors=False), self._either(text, ())
                types = tuple(p.type for p in prepared.values[: len(oids)])
                values = found.values(types)
                if values is None:
                    raise _NotByTemplate
                if (
                    not prepared.nodes
                    or prepared.constants
                    or any(map(_in_order_of_constants, prepared.nodes))
                ):
                    return None
                again = self._plan(prepared, found.text, oids, values, ())
                same = _shape(prepared) == _shape(alone) and _content(again) == _content(planned)
                return Template(oids, types) if same else None
        except Refusal as refusal:
            if says_nothing(refusal):
                raise _NotByTemplate from None
            return None

    def _plan(
        self,
        prepared: PreparedQuery,
        text: str,
        oids: tuple[int, ...],
        values: tuple[str | None, ...],
        constants: tuple[tuple[str | None, ...], ...],
    ) -> Planned:
        """The plan of the query that `text` with these types was prepared as."""
        parameters = tuple(
            without_blanks(Parameter(p.type, value))
            for p, value in zip(prepared.values[: len(oids)], values, strict=True)
        )

        def known(number: int, _: str) -> list[Parameter]:
            (column,) = prepared.constants[number].columns
            if number >= len(constants):
                return [column]
            return [Parameter(column.type, value, null=value is None) for value in constants[number]]

        def rows(number: int, _: str) -> Sequence[Parameter]:
            columns = prepared.constants[number].columns
            if number >= len(constants):
                return columns
            found = constants[number]
            return [
                replace(c, value=array_text(found[place :: len(columns)])) for place, c in enumerate(columns)
            ]

        nodes, all_values = prepared.nodes, _substituted(prepared, parameters, constants)
        if all_values is None:
            body = self._statement(text).body
            logical: LogicalPlan = split_query(body, self._policy, parameters, known, rows, prepared.orders)
            if [*map(_places, logical.nodes)] != [*map(_places, prepared.nodes)]:
                raise same_with_values()
            nodes, all_values = logical.nodes, logical.values
        ready = prepared.ready(len(constants))
        return tuple(
            node
            if isinstance(node, SystemTableNode)
            else self._complete(node, all_values, number >= ready, prepared.columns[number])
            for number, node in enumerate(nodes)
        )

    def _complete(
        self, node: AggregateNode, parameters: tuple[Parameter, ...], waits: bool, columns: ReleasedColumns
    ) -> BoundNode:
        types = tuple(c.type for c in columns[: len(node.keys)])
        if running(node) is not None:
            return replace(self._stream(node, parameters), waits=waits, types=types)
        cells: Cells | None = ((),)
        domain: Plain = None
        if node.keys:
            cells = known_cells(node.relation, node.keys, self._policy, parameters, self._front.rows)
            domain = None if cells is None else [(f.places, f.cells) for f in cells.factors]
        known = dict(self._counted(node, parameters))
        values = dict(self._values(node, parameters, known))
        most = {p: sum(None not in cell for cell in found) for p, found in known.items() if p not in values}
        return self._bound(
            node, parameters, cells, domain, waits=waits, types=types, values=values, most=most
        )

    def _counted(
        self, node: AggregateNode, parameters: tuple[Parameter, ...]
    ) -> Iterator[tuple[int, Product]]:
        """The values of what is counted, where they are known, by the place of the count."""
        for place, measure in enumerate(node.measures):
            if isinstance(measure, DistinctItems):
                found = known_cells(
                    node.relation, measure.items, self._policy, parameters, self._front.rows, MOST_COUNTED
                )
                if found is not None:
                    yield place, found

    def _values(
        self, node: AggregateNode, parameters: tuple[Parameter, ...], known: Mapping[int, Product]
    ) -> Iterator[tuple[int, BoundNode]]:
        """The units of each value of what is counted without keys, where its values are few and known."""
        for place, found in known.items():
            measure, rows = node.measures[place], node.relation
            if not isinstance(measure, DistinctItems) or not _one_by_one(node, measure, self._policy):
                continue
            cells = tuple(cell for cell in found if None not in cell) if len(found) <= MOST_SEEN else ()
            if cells:
                keys, count = measure.items, Count(measure.argument, 1)
                bound = groups_per_unit(rows, keys, parameters)
                units = replace(node, keys=keys, measures=(count,), outputs=(), bound=bound, names=())
                yield place, self._bound(units, parameters, cells, [list(cell) for cell in cells])

    def _bound(
        self,
        node: AggregateNode,
        parameters: tuple[Parameter, ...],
        cells: Cells | None,
        domain: Plain,
        **known: Any,
    ) -> BoundNode:
        check_dialect(node, self._policy, parameters, self._dialect)
        text, scanned = node_text(node, self._policy, parameters)
        digest = sha256(encoded(domain)).digest()
        return BoundNode(node, cells, text, scanned, digest, self._policy, parameters, self._dialect, **known)

    def _stream(self, node: AggregateNode, parameters: tuple[Parameter, ...]) -> BoundNode:
        """A running count with its times; it lasts while the public rows that it reads stay as they are."""
        count = running(node)
        assert count is not None
        time = node.keys[count.time]
        queries = domain_queries(within_horizon(node.relation, time), (time,), self._policy, parameters)
        rows = [row for _, query in queries or () for row in self._front.rows(query.sql("postgres"))]
        times = tuple(text for (text,) in rows if text is not None)
        if len(times) > MAX_CELLS:
            raise Refusal(
                "PV023",
                f"a running count over more than {MAX_CELLS} times",
                hint="Use coarser times, date_trunc('month', ...), or a WHERE range.",
            )
        tables = public_tables(node.relation)
        grain = lasting(node) if all(t.in_front for t in tables) else None
        public = () if grain is None else tuple(map(self._digest, tables))
        return replace(self._bound(node, parameters, None, times), times=times, lasting=grain, public=public)

    def _digest(self, table: Table) -> tuple[str, str]:
        """A public table's name, and a digest of its rows."""
        name = ".".join('"' + part.replace('"', '""') + '"' for part in (table.schema, table.name))
        sql = (
            "SELECT md5(string_agg(h.row, '' ORDER BY h.row)) "
            f"FROM (SELECT md5(CAST(t.* AS text)) AS row FROM {name} AS t) AS h"
        )
        return name, str(self._digests.get(name, lambda: self._front.rows(sql)[0][0]))


def _substituted(
    prepared: PreparedQuery, parameters: tuple[Parameter, ...], constants: tuple[tuple[str | None, ...], ...]
) -> tuple[Parameter, ...] | None:
    """The values that the nodes name, None if the nodes themselves could be others with them.

    They could where the analysis asked for a value (LIMIT $1, ANY($1), the fraction of a percentile, a condition that
    bounds what is summed, formats and units), where a value is in a spelling that it refuses, where a constant is
    NULL, and where there are as many values as a subquery has rows.
    """
    known = prepared.constants[: len(constants)]
    if any(c.listed or c.whole for c in known):
        return None
    found = (
        in_utc(without_blanks(Parameter(c.columns[0].type, value, null=value is None)))
        for c, (value,) in zip(known, constants, strict=True)
    )
    bound = (*parameters, *found)
    asked, waiting = prepared.values[: len(bound)], prepared.values[len(bound) :]
    if not all(isinstance(a, Unbound) and a.takes(b) for a, b in zip(asked, bound, strict=True)):
        return None
    return (*bound, *map(_valueless, waiting))


def _places(node: AggregateNode | SystemTableNode) -> tuple[int, int] | None:
    """How many columns a node's released rows have, by which the presentation reads them."""
    return None if isinstance(node, SystemTableNode) else (len(node.keys), len(node.outputs))


def _weight(made: PreparedQuery) -> int:
    """Of what is prepared by itself: templates have their own."""
    return 0 if made.template else BYTES_A_STEP * made.steps


def _without_parameters(prepared: PreparedQuery, count: int) -> PreparedQuery:
    """A query whose presentation has none of its `count` parameters, with the arrays as its first ones.

    Raises Refusal for a presentation that has one.
    """
    arrays = range(1, len(prepared.array_oids) + 1)
    sql = substitute(prepared.presentation, {count + array: f"${array}" for array in arrays})
    return replace(prepared, presentation=sql)


def _in_order_of_constants(node: AggregateNode | SystemTableNode) -> bool:
    return not isinstance(node, AggregateNode) or tied(node.relation)


def _shape(prepared: PreparedQuery) -> tuple[object, ...]:
    """What clients are shown of a query, and what its released columns are."""
    shown = prepared.presentation, prepared.array_oids, prepared.explain
    return *shown, prepared.columns, prepared.errors, prepared.derived, prepared.unknown


def _content(planned: Planned) -> list[object]:
    """What decides the releases of a plan."""
    nodes = [n for n in planned if isinstance(n, BoundNode)]
    decides = [(n.text, n.scanned, n.domain, n.kept, n.delta0, n.times, n.lasting, n.public) for n in nodes]
    counted = [[(place, one.text, one.domain) for place, one in n.values.items()] for n in nodes]
    return [decides, counted, [(n.types, n.shown) for n in nodes]]


def _valueless(parameter: Parameter) -> Parameter:
    return Parameter(parameter.type, None, name=parameter.name)


def _one_by_one(node: AggregateNode, measure: DistinctItems, policy: Policy) -> bool:
    """Whether each value of a distinct count may be looked at by itself: it is of one expression, without keys."""
    return policy.unit_clips and not node.keys and len(measure.items) == 1


def _no_rows(described: Sequence[Described]) -> str:
    """SELECT of no rows with these columns."""
    columns = ", ".join(f"NULL::{front_name(kind)} AS {identifier(name)}" for name, kind, _ in described)
    return f"SELECT {columns} WHERE false"


def _cells(planned: Planned) -> int:
    """How many values the domains of a plan have."""
    nodes = [n for n in planned if isinstance(n, BoundNode)]
    return sum(len(n.aggregate.keys) * len(n.cells or ()) + len(n.times) for n in nodes)
