"""Views of the backend: answered as what their texts say, and shown as names alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dpproxy.owner.check import rows_per_unit
from dpproxy.owner.explain_policy import in_words
from dpproxy.server.local_client import ClientError
from tests.dpproxy.engine.test_row_filters import POLICY as FILTERED
from tests.dpproxy.engine.test_row_filters import SCHEMA, Analyst, keys_of
from tests.dpproxy.on_both import ENGINES, service_on

pytestmark = pytest.mark.service

VIEWS = (
    "CREATE VIEW active AS SELECT * FROM patients WHERE id <> 4711 AND sex IN ('f', 'm')",
    'CREATE VIEW "Long stays" AS SELECT p.id AS "patientId", p.sex, s.stay_id, s.days, s.days * 2 AS nights, '
    "CASE WHEN s.stay_id < 4712 THEN 'early' ELSE 'late' END AS kind FROM active p "
    "JOIN stays s ON s.patient_id = p.id WHERE s.days > 1",
    "CREATE VIEW per_patient (who, n) AS SELECT patient_id, count(*) FROM stays WHERE stay_id <> 4713 "
    "GROUP BY patient_id",
    "CREATE VIEW firsts AS SELECT * FROM (SELECT stay_id, patient_id, row_number() OVER (PARTITION BY patient_id "
    "ORDER BY stay_id) AS n FROM stays WHERE stay_id <> 4714) AS x WHERE n = 1",
    "CREATE VIEW either AS SELECT patient_id, 1 AS of FROM stays WHERE stay_id <> 4715 "
    "UNION ALL SELECT id, 2 FROM patients",
    "CREATE VIEW computed AS SELECT patient_id, round(CAST(days AS numeric(9, 2)), 1) AS rounded, "
    "length(CAST(days AS varchar)) AS digits, CAST(days AS numeric(5, 1)) * days AS product FROM stays",
)
POLICY = (
    FILTERED
    + """
[tables.active]
[tables.active.columns]
deleted_at = {{ hidden = true }}
consents = {{ hidden = true }}
[tables."Long stays"]
[tables.per_patient]
[tables.firsts]
[tables.either]
[tables.computed]
"""
)
TEXTS = ("4711", "4712", "4713", "4714", "4715", "JOIN stays", "s.days", "<> ", "deleted_at", "consents")


@pytest.fixture(scope="module", params=ENGINES)
def ann(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Analyst]:
    folder: Path = tmp_path_factory.mktemp(f"views_{request.param}")
    with service_on(request.param, folder, (*SCHEMA, *VIEWS), POLICY) as running:
        yield Analyst(running)


@pytest.mark.parametrize(
    ("sql", "truth"),
    [
        ("SELECT COUNT(*) FROM active", 450),
        ('SELECT COUNT(DISTINCT "patientId") FROM "Long stays"', 450),
        ('SELECT SUM(nights) FROM "Long stays" AS l JOIN active a ON a.id = l."patientId"', 1800),
        ("SELECT COUNT(*) FROM \"Long stays\" WHERE kind = 'late'", 0),
        ("SELECT COUNT(*) FROM per_patient WHERE n = 1", 450),
        ("SELECT SUM(n) FROM per_patient", 450),
        ("SELECT COUNT(*) FROM firsts", 450),
        ("SELECT COUNT(*) FROM either", 900),
        ("SELECT COUNT(*) FROM either WHERE of = 2", 450),
        ("WITH stays AS (SELECT 1 AS x) SELECT COUNT(*) FROM per_patient", 450),
        ("SELECT COUNT(*) FROM patients WHERE id IN (SELECT who FROM per_patient)", 450),
    ],
)
def test_answers_are_those_of_the_text(ann: Analyst, sql: str, truth: int) -> None:
    ((said,),) = ann.ask(sql).rows
    assert abs(float(said or "0") - truth) < 30


@pytest.mark.parametrize("column", ["rounded", "digits", "product"])
def test_computed_columns_of_a_view_have_the_types_of_their_text(ann: Analyst, column: str) -> None:
    """PostgreSQL's, which are not those of every engine."""
    rows = ann.ask(f"SELECT {column}, COUNT(*) FROM computed GROUP BY {column}").rows
    assert rows
    assert abs(sum(float(n or "0") for _, n in rows) - 450) < 60


def test_a_view_looks_like_a_table(ann: Analyst) -> None:
    columns = ann.ask(
        "SELECT table_name, column_name, data_type FROM information_schema.columns "
        "WHERE table_name IN ('active', 'Long stays') ORDER BY 1, ordinal_position"
    ).rows
    assert columns == [
        ("Long stays", "patientId", "bigint"),
        ("Long stays", "sex", "text" if len(columns[1][2] or "") == 4 else "character varying"),
        ("Long stays", "stay_id", "bigint"),
        ("Long stays", "days", "integer"),
        ("Long stays", "nights", "integer"),
        ("Long stays", "kind", "text"),
        ("active", "id", "bigint"),
        ("active", "sex", "text" if len(columns[1][2] or "") == 4 else "character varying"),
    ]
    assert ann.ask("SELECT relkind FROM pg_class WHERE relname = 'active'").rows == [("r",)]
    assert ann.ask('SELECT * FROM "Long stays" LIMIT 0').columns == [row[1] for row in columns[:6]]


ATTACKS = (
    "EXPLAIN SELECT COUNT(*) FROM active",
    'EXPLAIN (VERBOSE) SELECT kind, COUNT(*) FROM "Long stays" GROUP BY kind',
    "EXPLAIN SELECT COUNT(*) FROM (SELECT who FROM per_patient UNION SELECT patient_id FROM firsts) AS x",
    "SELECT * FROM active",
    "SELECT who, COUNT(*) FROM per_patient GROUP BY who",
    "SELECT consents FROM active",
    'SELECT MEDIAN(nights) FROM "Long stays"',
    'SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY nights) FROM "Long stays"',
    'SELECT COUNT(*) FROM "Long stays" a JOIN labs b ON a.stay_id = b.stay_id',
    'SELECT COUNT(*) FROM "Long stays" WHERE stay_id IN (SELECT stay_id FROM labs)',
    'SELECT SUM(days) OVER () FROM "Long stays"',
    "SELECT COUNT(*) FROM (SELECT * FROM firsts LIMIT 3) AS x",
    "SELECT of, COUNT(*) FROM either GROUP BY patient_id, of",
    'SELECT MAX(kind) FROM "Long stays"',
    'SELECT kind || sqrt(nights) FROM "Long stays"',
    "TABLE dpproxy.releases",
    "TABLE dpproxy.columns",
    "TABLE pg_views",
    "SELECT pg_get_viewdef('active'::regclass)",
    "SELECT pg_get_ruledef(oid) FROM pg_rewrite WHERE ev_class = 'active'::regclass",
    "SELECT view_definition FROM information_schema.views",
    "SELECT obj_description('active'::regclass), col_description('per_patient'::regclass, 2)",
)


@pytest.mark.parametrize("sql", ATTACKS)
def test_no_answer_shows_the_text(ann: Analyst, sql: str) -> None:
    try:
        answer = ann.ask(sql)
        seen = repr((answer.columns, answer.rows, answer.notices))
        if "pg_" in sql or "information_schema" in sql:
            seen = seen.replace("<> ", "")
    except ClientError as error:
        seen = repr(error.__dict__)
    for text in TEXTS:
        if text not in sql:
            assert text not in seen, text


def test_another_text_is_another_key(ann: Analyst) -> None:
    policy = ann.service.checked.policy
    view = policy.tables["public", "active"]
    text = (view.view or "").replace("4711", "4712")
    other = replace(policy, tables={**policy.tables, ("public", "active"): replace(view, view=text)})
    for name, reads in (('"Long stays"', True), ("active", True), ("firsts", False), ("patients", False)):
        sql = f"SELECT COUNT(*) FROM {name}"
        assert (keys_of(ann.service, policy, sql) != keys_of(ann.service, other, sql)) == reads


def test_the_owner_is_told(ann: Analyst) -> None:
    policy = ann.service.checked.policy
    assert rows_per_unit(policy.tables["public", "firsts"], policy) == "one row a unit; a view"
    words = in_words(ann.service, "SELECT COUNT(*) FROM active")
    assert words[0] == "[tables.active] is a view: what follows is of the tables that it reads."
    assert words[1].startswith("[tables.patients] privacy_unit")
