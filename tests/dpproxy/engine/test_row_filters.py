"""Row filters and computed columns: withdrawn people and soft-deleted rows exist for nobody, and nobody learns why."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dpproxy.backends.base import BackendError, Cancellation
from dpproxy.deployment.service import Service
from dpproxy.engine.optimizer import plan_release
from dpproxy.engine.options import terms
from dpproxy.engine.planner import BoundNode, Planner
from dpproxy.engine.release_keys import ReleaseKeys
from dpproxy.owner.check import rows_per_unit
from dpproxy.owner.explain_policy import in_words
from dpproxy.reporting.rows import RowSet
from dpproxy.server.local_client import ClientError
from rewriter.plan import HistogramQuery
from rewriter.policy import Policy
from tests.dpproxy.on_both import ENGINES, service_on

pytestmark = pytest.mark.service

SCHEMA = (
    "CREATE TABLE patients (id BIGINT PRIMARY KEY, sex VARCHAR(1), deleted_at DATE, consents JSON)",
    "CREATE TABLE stays (stay_id BIGINT PRIMARY KEY, patient_id BIGINT REFERENCES patients (id), days INTEGER, "
    "extra JSON)",
    "CREATE TABLE labs (stay_id BIGINT REFERENCES stays (stay_id), result INTEGER)",
    "CREATE TABLE wards (ward INTEGER PRIMARY KEY, name VARCHAR(9), closed DATE)",
    "INSERT INTO patients SELECT i, 'f', CASE WHEN i % 4 = 0 THEN DATE '2024-05-06' END, CASE WHEN i % 5 > 0 THEN "
    'CAST(CASE WHEN i % 5 = 1 THEN \'{"opt_in_4711": "false"}\' ELSE \'{"opt_in_4711": "true"}\' END AS JSON) END '
    "FROM generate_series(0, 999) AS r(i)",
    "INSERT INTO stays SELECT i, i % 1000, CASE WHEN i >= 1000 THEN -1 ELSE 2 END, "
    'CAST(CASE WHEN i % 2 = 0 THEN \'{"kind_4711": "day"}\' ELSE \'{"kind_4711": "night"}\' END AS JSON) '
    "FROM generate_series(0, 1999) AS r(i)",
    "INSERT INTO labs SELECT i % 2000, i FROM generate_series(0, 3999) AS r(i)",
    "INSERT INTO wards VALUES (1, 'east', NULL), (2, 'west', '2024-05-06'), (3, 'attic', NULL)",
)
"""Of 1,000 patients 750 are not deleted, of whom those with i % 5 in (2, 3, 4) consent: 450. Each has a stay of two
days with two results, and one of -1 days."""
KEYS = ReleaseKeys(bytes(32), b"nonce", b"streams")
SECRETS = ("opt_in_4711", "deleted_at", "consents", "days > 0", "kind_4711", "closed")
POLICY = """
[backend]
url = "{}"
[privacy]
epsilon_per = 8
query_information = 8
[budget]
mode = "track"

[tables.patients]
privacy_unit = "id"
where = "deleted_at IS NULL AND CAST(consents->>'opt_in_4711' AS boolean)"
[tables.patients.columns]
deleted_at = {{ hidden = true }}
consents = {{ hidden = true }}

[tables.stays]
privacy_unit_path = ["patient_id -> patients.id"]
where = '''
days > 0
OR stays.days IS NULL'''
[tables.stays.columns]
extra = {{ hidden = true }}
shift = {{ expression = "extra->>'kind_4711'", domain = ["night", "day"] }}
weeks = {{ expression = "days * 0.5", bounds = [0, 2] }}

[tables.labs]
privacy_unit_path = ["stay_id -> stays.stay_id"]

[tables.wards]
public = true
where = "closed IS NULL"
[tables.wards.columns]
closed = {{ hidden = true }}
floor = {{ expression = "ward * 10" }}
"""


class Analyst:
    """An analyst of a running service."""

    def __init__(self, service: Service) -> None:
        self.service = service

    def ask(self, sql: str) -> RowSet:
        return asyncio.run(self.service.ask("ann", sql))


@pytest.fixture(scope="module", params=ENGINES)
def ann(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Analyst]:
    folder: Path = tmp_path_factory.mktemp(f"filters_{request.param}")
    with service_on(request.param, folder, SCHEMA, POLICY) as running:
        yield Analyst(running)


@pytest.mark.parametrize(
    ("sql", "truth"),
    [
        ("SELECT COUNT(DISTINCT id) FROM patients", 450),
        ("SELECT COUNT(*) FROM stays", 450),
        ("SELECT COUNT(*) FROM labs", 900),
        ("SELECT COUNT(*) FROM stays s JOIN patients p ON s.patient_id = p.id", 450),
        ("SELECT COUNT(*) FROM patients WHERE id IN (SELECT patient_id FROM stays WHERE days < 0)", 0),
        ("SELECT COUNT(*) FROM stays WHERE shift = 'night'", 300),
        ("SELECT SUM(weeks) FROM stays", 450),
        ("SELECT COUNT(DISTINCT patient_id) FROM stays s JOIN wards w ON w.ward = s.days", 0),
        ("SELECT COUNT(*) FROM stays s JOIN wards w ON w.floor = 15 * s.days", 450),
    ],
)
def test_answers_are_about_the_rows_that_are_left(ann: Analyst, sql: str, truth: int) -> None:
    ((said,),) = ann.ask(sql).rows
    assert abs(float(said or "nan") - truth) < 30


def test_computed_columns_have_domains(ann: Analyst) -> None:
    rows = ann.ask("SELECT shift, COUNT(*) FROM stays GROUP BY shift ORDER BY 1").rows
    assert [value for value, _ in rows] == ["day", "night"]


def test_the_front_has_the_rows_that_are_left(ann: Analyst) -> None:
    found = ann.ask("SELECT * FROM wards ORDER BY ward")
    assert found.columns == ["ward", "name", "floor"]
    assert found.rows == [("1", "east", "10"), ("3", "attic", "30")]


ATTACKS = (
    "EXPLAIN SELECT COUNT(*) FROM stays",
    "EXPLAIN (VERBOSE) SELECT COUNT(*) FROM labs WHERE result = 1",
    "EXPLAIN SELECT * FROM wards",
    "SELECT * FROM patients",
    "SELECT deleted_at FROM patients",
    "SELECT COUNT(*) FROM patients WHERE consents IS NULL",
    "SELECT COUNT(*) FROM stays WHERE shifty = 'x'",
    "SELECT shift / 0 FROM stays",
    "SELECT days, COUNT(*) FROM stays GROUP BY days",
    "SELECT SUM(weeks) / COUNT(DISTINCT days) FROM stays",
    "TABLE dpproxy.last_release",
    "TABLE dpproxy.releases",
    "TABLE dpproxy.columns",
    "SELECT * FROM information_schema.columns",
    "SELECT * FROM information_schema.views",
    "SELECT * FROM information_schema.check_constraints",
    "SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef",
    "SELECT pg_get_expr(polqual, polrelid), pg_get_expr(polwithcheck, polrelid) FROM pg_policy",
    "SELECT pg_get_constraintdef(oid) FROM pg_constraint",
    "SELECT col_description(attrelid, attnum), attname FROM pg_attribute WHERE attrelid = 'stays'::regclass",
    "SELECT obj_description(oid), relname FROM pg_class WHERE relname IN ('patients', 'stays', 'wards')",
    "SELECT prosrc FROM pg_proc WHERE pronamespace = 'dpproxy'::regnamespace",
)


@pytest.mark.parametrize("sql", ATTACKS)
def test_no_answer_shows_what_the_owner_wrote(ann: Analyst, sql: str) -> None:
    try:
        answer = ann.ask(sql)
        seen = repr((answer.columns, answer.rows))
    except ClientError as error:
        seen = repr(error.__dict__) + str(error)
    for secret in SECRETS:
        if secret not in sql:
            assert secret not in seen, secret


def test_the_owner_is_told(ann: Analyst) -> None:
    checked = ann.service.checked
    said = rows_per_unit(checked.policy.tables["public", "stays"], checked.policy)
    assert said == "any number of rows a unit; filtered"
    words = in_words(ann.service, "SELECT COUNT(*) FROM labs")
    for table in ("stays", "patients"):
        assert f"[tables.{table}] where: rows for which it is not true exist for nobody." in words


def keys_of(service: Service, policy: Policy, sql: str) -> list[bytes]:
    planner = Planner(policy, service.front, service.checked.backend.dialect)
    nodes = [node for node in planner.plan(sql, (), ()) if isinstance(node, BoundNode)]
    return [plan_release(node, terms(service.config.privacy, {}), KEYS).release_key for node in nodes]


@pytest.mark.parametrize(
    ("table", "reads"),
    [
        (
            "patients",
            {"SELECT COUNT(*) FROM patients", "SELECT COUNT(*) FROM stays", "SELECT COUNT(*) FROM labs"},
        ),
        ("stays", {"SELECT COUNT(*) FROM stays", "SELECT COUNT(*) FROM labs"}),
        ("wards", set()),
    ],
)
def test_another_filter_is_another_key_where_the_table_is_read(
    ann: Analyst, table: str, reads: set[str]
) -> None:
    policy = ann.service.checked.policy
    changed = replace(policy.tables["public", table], where="1 = 1")
    other = replace(policy, tables={**policy.tables, ("public", table): changed})
    for name in ("patients", "stays", "labs"):
        sql = f"SELECT COUNT(*) FROM {name}"
        before, after = (keys_of(ann.service, one, sql) for one in (policy, other))
        assert len(before) == 1
        assert (before != after) == (sql in reads)


def test_an_error_on_one_row_tells_nothing_of_others(ann: Analyst) -> None:
    """Where an engine has no TRY, all questions about a table fail alike, whichever row raises."""
    dialect = ann.service.checked.backend.dialect
    patients = ann.service.checked.policy.tables["public", "patients"]
    raising = replace(patients, where="10 / (id - 7) < 99")
    rows = dialect.sql(dialect.rows(raising, ["id"], "s"))
    with ann.service.checked.backend.open() as slot:
        for condition in ("id = 7", "id <> 7"):
            query = HistogramQuery(f"SELECT count(*) FROM {rows} WHERE {condition}", (), False, None)
            if dialect.has_try:
                assert slot.fetch(query, "", Cancellation(), 1).texts(0) == (
                    "0" if condition == "id = 7" else "999",
                )
            else:
                with pytest.raises(BackendError):
                    slot.fetch(query, "", Cancellation(), 1)
