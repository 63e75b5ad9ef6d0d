"""Rows of two kinds of units never meet in one aggregate; released numbers of both do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rewriter.binder import joins, scan_filter, set_operations
from rewriter.emit.engines.duckdb import DUCKDB
from rewriter.emit.histogram import histogram_query
from rewriter.logical.plan import AggregateNode
from rewriter.logical.split import split_query
from rewriter.policy import Column, Hop, Policy, Table
from rewriter.refusal import Refusal
from tests.rewriter.hints import applied
from tests.rewriter.test_hints import assert_answered

WARD = Column("ward", "text", nullable=True, domain=("A", "B"))


def private(name: str, *columns: str, unit: str = "id", kind: str = "", path: tuple[Hop, ...] = ()) -> Table:
    stored = (*(Column(column, "bigint", nullable=False) for column in columns), WARD)
    keys = (frozenset({columns[0]}),)
    return Table("public", name, stored, False, (name,), privacy_unit=unit, path=path, keys=keys, kind=kind)


DOCTOR = (Hop("doctor_id", ("public", "doctors"), "id"),)
PATIENT = (Hop("patient_id", ("public", "patients"), "id"),)
TABLES = (
    private("patients", "id"),
    private("visits", "visit_id", "patient_id", "doctor_id", unit="patient_id", path=PATIENT),
    private("doctors", "id", kind="doctor"),
    private("shifts", "shift_id", "doctor_id", unit="doctor_id", kind="doctor", path=DOCTOR),
    Table("public", "wards", (Column("ward", "text", nullable=False),), True, ("wards",), in_front=True),
)
TWO_KINDS = Policy({(table.schema, table.name): table for table in TABLES}, unit_clips=True)
"""Both kinds name their units alike, by numbers that occur in both: comparing them looks like a join on the unit."""

REFUSED = (
    "SELECT COUNT(*) FROM visits v JOIN doctors d ON v.doctor_id = d.id",
    "SELECT COUNT(*) FROM patients p JOIN doctors d ON p.id = d.id",
    "SELECT COUNT(*) FROM patients p, doctors d WHERE p.id = d.id",
    "SELECT COUNT(*) FROM patients JOIN doctors USING (id)",
    "SELECT COUNT(*) FROM patients NATURAL JOIN doctors",
    "SELECT COUNT(*) FROM patients CROSS JOIN doctors",
    "SELECT COUNT(*) FROM patients p LEFT JOIN doctors d ON p.id = d.id",
    "SELECT COUNT(*) FROM patients p RIGHT JOIN doctors d ON p.id = d.id",
    "SELECT COUNT(*) FROM patients p FULL JOIN doctors d ON p.id = d.id",
    "SELECT COUNT(*) FROM patients p JOIN wards w ON p.ward = w.ward JOIN doctors d ON p.id = d.id",
    "SELECT w.ward, COUNT(p.id) FROM wards w LEFT JOIN patients p ON p.ward = w.ward "
    "JOIN doctors d ON d.id = p.id GROUP BY 1",
    "SELECT COUNT(*) FROM patients p JOIN (SELECT doctor_id FROM shifts) s ON p.id = s.doctor_id",
    "SELECT COUNT(*) FROM patients p JOIN (SELECT doctor_id, COUNT(*) AS n FROM shifts GROUP BY doctor_id) s "
    "ON p.id = s.doctor_id",
    "WITH d AS (SELECT id FROM doctors) SELECT COUNT(*) FROM patients p JOIN d ON p.id = d.id",
    "SELECT COUNT(*) FROM visits WHERE patient_id IN (SELECT id FROM doctors)",
    "SELECT COUNT(*) FROM visits WHERE doctor_id IN (SELECT id FROM doctors WHERE ward = 'A')",
    "SELECT COUNT(*) FROM visits WHERE patient_id NOT IN (SELECT doctor_id FROM shifts)",
    "SELECT COUNT(*) FROM visits v WHERE EXISTS (SELECT FROM doctors d WHERE d.id = v.patient_id)",
    "SELECT COUNT(*) FROM visits v WHERE NOT EXISTS (SELECT FROM shifts s WHERE s.doctor_id = v.doctor_id)",
    "SELECT COUNT(*) FROM visits WHERE (patient_id, ward) IN (SELECT id, ward FROM doctors)",
    "SELECT COUNT(*) FROM visits WHERE patient_id = ANY (SELECT id FROM doctors)",
    "SELECT COUNT(*) FROM patients p WHERE (SELECT COUNT(*) FROM shifts s WHERE s.doctor_id = p.id) > 1",
    "SELECT COUNT(*) FROM patients p WHERE (SELECT d.ward FROM doctors d WHERE d.id = p.id) = 'A'",
    "SELECT ward, (SELECT COUNT(*) FROM doctors d WHERE d.id = p.id) AS n, COUNT(*) FROM patients p GROUP BY 1, 2",
    "SELECT COUNT(*) FROM patients p WHERE p.id IN (SELECT patient_id FROM visits WHERE patient_id IN "
    "(SELECT id FROM doctors))",
    "SELECT COUNT(*) FROM (SELECT id, ward FROM patients UNION ALL SELECT id, ward FROM doctors) t",
    "SELECT COUNT(*) FROM (SELECT id, ward FROM patients UNION SELECT id, ward FROM doctors) t",
    "SELECT COUNT(*) FROM (SELECT id FROM patients INTERSECT SELECT doctor_id FROM shifts) t",
    "SELECT COUNT(*) FROM (SELECT id FROM patients EXCEPT SELECT id FROM doctors) t",
    "SELECT COUNT(DISTINCT t.id) FROM (SELECT id, ward FROM patients UNION ALL SELECT doctor_id, ward FROM shifts) t "
    "JOIN patients p ON p.id = t.id",
)


@pytest.mark.parametrize("sql", REFUSED)
def test_rows_of_two_kinds_never_meet(sql: str) -> None:
    with pytest.raises(Refusal) as caught:
        split_query(sql, TWO_KINDS)
    refusal = caught.value
    assert (refusal.code, bool(refusal.detail), bool(refusal.hint)) == ("PV013", True, True)
    hints = list(applied(sql, refusal))
    assert len(hints) == 2
    for statement in hints:
        assert_answered(statement, TWO_KINDS, refusal)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT (SELECT COUNT(*) FROM visits) / (SELECT COUNT(*) FROM doctors)",
        "SELECT ward, COUNT(*) FROM patients GROUP BY ward UNION ALL SELECT ward, COUNT(*) FROM doctors GROUP BY ward",
        "SELECT a.ward, a.n, b.n FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) a "
        "JOIN (SELECT ward, COUNT(*) AS n FROM shifts GROUP BY ward) b ON a.ward = b.ward",
        "WITH d AS (SELECT ward, COUNT(*) AS n FROM doctors GROUP BY ward) SELECT p.ward, p.n, d.n FROM "
        "(SELECT ward, COUNT(*) AS n FROM patients GROUP BY ward) p LEFT JOIN d ON p.ward = d.ward",
        "SELECT COUNT(*) FROM patients p JOIN visits v ON v.patient_id = p.id",
        "SELECT COUNT(*) FROM doctors d JOIN shifts s ON s.doctor_id = d.id WHERE d.ward IN (SELECT ward FROM wards)",
    ],
)
def test_aggregates_of_each_kind_are_combined(sql: str) -> None:
    assert split_query(sql, TWO_KINDS).nodes


def test_no_sql_is_written_in_which_two_kinds_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the analysis takes all units for one kind, what writes the SQL does not."""
    for room in (joins, scan_filter, set_operations):
        monkeypatch.setattr(room, "refuse_two_kinds", lambda *_: None)
    reached = 0
    for sql in REFUSED:
        try:
            (node,) = split_query(sql, TWO_KINDS).nodes
        except Refusal:  # It looks like no join on the unit.
            continue
        assert isinstance(node, AggregateNode)
        with pytest.raises(ValueError, match="two kinds of units meet"):
            histogram_query(node, TWO_KINDS, (), None if node.keys else ((),), None, 10, DUCKDB)
        reached += 1
    assert reached >= 20


def test_units_of_one_name_and_type_are_one_kind_where_nothing_is_said() -> None:
    """So every policy keeps its meaning: unit 5 is patient 5 and doctor 5, who are removed together."""
    silent = replace(TWO_KINDS, tables={n: replace(t, kind="") for n, t in TWO_KINDS.tables.items()})
    for sql in ("SELECT COUNT(*) FROM patients p JOIN doctors d ON p.id = d.id", REFUSED[14]):
        assert split_query(sql, silent).nodes
