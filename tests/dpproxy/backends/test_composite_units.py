"""Privacy units that several columns name together, as a patient's number within a hospital, on both databases."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import duckdb
import pytest

from dpproxy.backends.base import Backend, BackendError, Cancellation
from dpproxy.catalog.build_policy import build_policy, open_backend
from dpproxy.config.sections import ConfigError, load
from rewriter.api import histogram_query, split_query
from rewriter.logical.plan import AggregateNode
from rewriter.policy import Hop, Policy
from rewriter.refusal import Refusal
from tests.dpproxy.backends.test_unit_types import Make
from tests.dpproxy.backends.test_unit_types import on_postgres as on_postgres
from tests.dpproxy.postgres_data import Databases, databases

pytestmark = pytest.mark.service

SCHEMA = (
    "CREATE TABLE patients (hospital VARCHAR(9) NOT NULL, patient_no INTEGER NOT NULL, ward VARCHAR(9),"
    " PRIMARY KEY (hospital, patient_no))",
    "CREATE TABLE visits (year INTEGER NOT NULL, visit_no BIGINT NOT NULL, hospital VARCHAR(20), patient_no BIGINT,"
    " page VARCHAR(9), PRIMARY KEY (year, visit_no))",
    "CREATE TABLE items (year BIGINT, visit_no INTEGER, item VARCHAR(9))",
    "CREATE TABLE notes (no INTEGER, hosp VARCHAR(9), word VARCHAR(9))",
    "INSERT INTO patients VALUES ('a', 11, 'x'), ('a1', 1, 'x'), ('a', 1, 'y'), ('b', 1, NULL)",
    # The last three are nobody's.
    "INSERT INTO visits VALUES (2024, 1, 'a', 11, 'p'), (2024, 2, 'a', 11, 'q'), (2024, 3, 'a1', 1, 'p'),"
    " (2025, 1, 'a', 1, 'p'), (2025, 2, 'a', NULL, 'p'), (2025, 3, NULL, 1, 'p'), (2025, 4, 'b', 11, 'p')",
    "INSERT INTO items VALUES (2024, 1, 'i'), (2024, 1, 'j'), (2025, 1, 'i'), (2025, 2, 'i'), (2024, 9, 'i'),"
    " (NULL, 1, 'i')",
    "INSERT INTO notes VALUES (11, 'a', 'w'), (11, 'a', 'v'), (1, 'b', 'w'), (1, NULL, 'w'), (1, 'z', 'w')",
)
POLICY = """
[backend]
url = "{url}"
[privacy]
mechanisms = "paper"
[tables.patients]
privacy_unit = ["hospital", "patient_no"]
[tables.visits]
privacy_unit_path = ["(hospital, patient_no) -> patients (hospital, patient_no)"]
max_rows_per_unit = 5
max_rows_per_unit_per_group = 5
max_groups_per_unit = {{ page = 1 }}
[tables.items]
privacy_unit_path = ["(year, visit_no) -> visits (year, visit_no)"]
max_rows_per_unit = 5
max_rows_per_unit_per_group = 5
[tables.notes]
privacy_unit = ["hosp", "no"]
privacy_unit_path = ["(no, hosp) -> patients (patient_no, hospital)"]
unique = ["hosp, no"]
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Databases]:
    with databases(tmp_path_factory.mktemp("composite") / "server") as started:
        yield started


def made(kind: str, folder: Path, server: Databases, schema: Sequence[str]) -> str:
    """A database with these tables; gives its URL."""
    if kind == "postgres":
        return server.url(server.make(schema))
    with duckdb.connect(folder / "composite.duckdb") as connection:
        for statement in schema:
            connection.execute(statement)
    return f"duckdb:///{folder}/composite.duckdb"


@contextmanager
def opened(folder: Path, url: str, policy: str = POLICY) -> Iterator[tuple[Backend, Policy]]:
    file = folder / "dpproxy.toml"
    file.write_text(policy.format(url=url))
    config = load(file)
    backend = open_backend(config, slots=1)
    with closing(backend):
        yield backend, build_policy(config, backend.schema(), backend)


@pytest.fixture(scope="module", params=["duckdb", "postgres"])
def world(
    request: pytest.FixtureRequest, server: Databases, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Backend, Policy]]:
    folder = tmp_path_factory.mktemp(request.param)
    with opened(folder, made(request.param, folder, server, SCHEMA)) as found:
        yield found


def total(backend: Backend, policy: Policy, sql: str, delta0: int | None = None) -> int:
    """The sum of a statement's first measure over all groups, without noise."""
    (node,) = split_query(sql, policy).nodes
    assert isinstance(node, AggregateNode)
    query = histogram_query(node, policy, (), None if node.keys else ((),), delta0, 100, backend.dialect)
    with backend.open() as slot:
        fetched = slot.fetch(query, "secret", Cancellation(), 100)
    return int(fetched.counts(len(node.keys) or 1).sum())


ALL = "(hospital, patient_no)"
ON = "v.hospital = p.hospital AND v.patient_no = p.patient_no"
ANSWERED = {
    "SELECT COUNT(*) FROM patients": 4,
    f"SELECT COUNT(DISTINCT {ALL}) FROM patients": 4,
    f"SELECT COUNT(DISTINCT {ALL}) FROM visits": 3,
    "SELECT COUNT(DISTINCT (patient_no, hospital)) FROM visits": 3,
    "SELECT COUNT(*) FROM visits": 4,
    "SELECT COUNT(DISTINCT (hospital, patient_no, page)) FROM visits": 4,
    "SELECT COUNT(*) FROM visits WHERE hospital = 'a' AND patient_no > 1": 2,
    "SELECT page, COUNT(*) FROM visits GROUP BY page": 4,
    f"SELECT COUNT(*) FROM patients p JOIN visits v ON {ON}": 4,
    f"SELECT COUNT(*) FROM visits v, patients p WHERE p.patient_no = v.patient_no AND {ON}": 4,
    "SELECT COUNT(*) FROM patients JOIN visits USING (hospital, patient_no) WHERE ward = 'x'": 3,
    f"SELECT COUNT(*) FROM patients p LEFT JOIN visits v ON {ON} WHERE v.page IS NULL": 1,
    f"SELECT COUNT(*) FROM patients p FULL JOIN visits v ON {ON}": 5,
    "SELECT COUNT(*) FROM patients p JOIN notes n ON n.hosp = p.hospital AND p.patient_no = n.no": 2,
    "SELECT COUNT(*) FROM notes": 2,
    f"SELECT COUNT(*) FROM patients WHERE {ALL} IN (SELECT hospital, patient_no FROM visits)": 3,
    f"SELECT COUNT(*) FROM patients WHERE {ALL} NOT IN (SELECT hospital, patient_no FROM visits)": 1,
    f"SELECT COUNT(*) FROM patients p WHERE EXISTS (SELECT FROM visits v WHERE {ON} AND v.page = 'q')": 1,
    f"SELECT COUNT(*) FROM patients p WHERE NOT EXISTS (SELECT FROM visits v WHERE {ON})": 1,
    f"SELECT COUNT(*) FROM patients p WHERE (SELECT COUNT(*) FROM visits v WHERE {ON}) = 2": 1,
    "SELECT n, COUNT(*) FROM (SELECT hospital, patient_no, COUNT(*) AS n FROM visits GROUP BY 1, 2) t GROUP BY n": 3,
    "SELECT COUNT(*) FROM patients p JOIN (SELECT hospital, patient_no, COUNT(*) AS n FROM visits "
    f"GROUP BY hospital, patient_no) v ON {ON} WHERE n = 2": 1,
    f"SELECT COUNT(DISTINCT {ALL}) FROM (SELECT DISTINCT hospital, patient_no, page FROM visits) t": 3,
    "SELECT COUNT(*) FROM (SELECT DISTINCT ON (hospital, patient_no) page FROM visits "
    "ORDER BY hospital, patient_no, visit_no) t WHERE page = 'p'": 3,
    "SELECT COUNT(*) FROM (SELECT ROW_NUMBER() OVER (PARTITION BY patient_no, hospital ORDER BY visit_no) AS n "
    "FROM visits) t WHERE n = 1": 3,
    f"SELECT COUNT(DISTINCT {ALL}) FROM (SELECT hospital, patient_no FROM visits UNION "
    "SELECT hosp, no FROM notes) t": 4,
    "SELECT COUNT(*) FROM (SELECT hospital, patient_no FROM patients EXCEPT SELECT hosp, no FROM notes) t": 2,
    "SELECT COUNT(*) FROM items": 3,
    "SELECT COUNT(*) FROM items i JOIN visits v ON i.year = v.year AND i.visit_no = v.visit_no": 3,
    f"SELECT COUNT(DISTINCT {ALL}) FROM items i JOIN visits v USING (year, visit_no) WHERE item = 'i'": 2,
    f"SELECT COUNT(*) FROM items i JOIN visits v USING (year, visit_no) JOIN patients p ON {ON} "
    "WHERE p.ward = 'x'": 2,
}


@pytest.mark.parametrize(("sql", "truth"), ANSWERED.items(), ids=ANSWERED)
def test_all_parts_mean_the_unit(world: tuple[Backend, Policy], sql: str, truth: int) -> None:
    assert total(*world, sql) == truth


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("SELECT COUNT(*) FROM patients p JOIN visits v ON v.hospital = p.hospital", "PV012"),
        ("SELECT COUNT(*) FROM patients p JOIN visits v USING (patient_no)", "PV012"),
        (
            "SELECT COUNT(*) FROM patients p JOIN visits v ON v.hospital = p.hospital AND v.patient_no > p.patient_no",
            "PV012",
        ),
        (
            "SELECT COUNT(*) FROM notes n JOIN visits v ON v.hospital = n.hosp AND v.hospital = n.hosp",
            "PV012",
        ),
        ("SELECT COUNT(*) FROM items i JOIN visits v ON i.visit_no = v.visit_no", "PV012"),
        ("SELECT COUNT(*) FROM patients p FULL JOIN visits v ON v.hospital = p.hospital", "PV012"),
        ("SELECT COUNT(*) FROM patients WHERE hospital IN (SELECT hospital FROM visits)", "PV015"),
        (
            "SELECT COUNT(*) FROM patients p WHERE EXISTS (SELECT FROM visits v WHERE v.patient_no = p.patient_no)",
            "PV015",
        ),
        (
            "SELECT COUNT(*) FROM patients "
            "WHERE (patient_no, patient_no) IN (SELECT patient_no, patient_no FROM visits)",
            "PV015",
        ),
        (
            "SELECT COUNT(*) FROM patients p WHERE "
            "(SELECT COUNT(*) FROM visits v WHERE v.hospital = p.hospital) > 1",
            "PV015",
        ),
        ("SELECT COUNT(*) FROM (SELECT SUM(patient_no) OVER (PARTITION BY hospital) FROM visits) t", "PV014"),
        (
            "SELECT COUNT(*) FROM (SELECT DISTINCT ON (hospital) page FROM visits ORDER BY hospital) t",
            "PV014",
        ),
        (
            "SELECT COUNT(*) FROM (SELECT hospital FROM patients EXCEPT SELECT hospital FROM visits) t",
            "PV014",
        ),
        (
            "SELECT COUNT(*) FROM (SELECT hospital, patient_no FROM patients EXCEPT SELECT no, hosp FROM notes) t",
            "PV014",
        ),
        ("SELECT hospital, patient_no, COUNT(*) FROM visits GROUP BY hospital, patient_no", "PV011"),
        ("SELECT hospital, patient_no FROM visits", "PV010"),
    ],
)
def test_some_parts_mean_nothing(world: tuple[Backend, Policy], sql: str, code: str) -> None:
    with pytest.raises(Refusal) as refused:
        total(*world, sql)
    assert refused.value.code == code


UNITS = (("a", 11), ("a1", 1), ("a", 1), ("b", 1))


def alone(hospital: str, number: int) -> list[str]:
    """The tables with the rows of one unit; strangers' rows stay."""
    mine = f"hospital = '{hospital}' AND patient_no = {number}"
    return [
        *SCHEMA,
        f"DELETE FROM items WHERE NOT EXISTS (SELECT 1 FROM visits v WHERE v.year = items.year "
        f"AND v.visit_no = items.visit_no AND {mine})",
        f"DELETE FROM visits WHERE NOT ({mine})",
        f"DELETE FROM notes WHERE NOT (hosp = '{hospital}' AND no = {number})",
        f"DELETE FROM patients WHERE NOT ({mine})",
    ]


@pytest.mark.parametrize("kind", ["duckdb", "postgres"])
def test_answers_are_sums_over_units(kind: str, server: Databases, tmp_path: Path) -> None:
    """Each unit's part of an answer is what it has alone, so that no unit's removal changes another's part."""
    sums = dict.fromkeys(ANSWERED, 0)
    for number, unit in enumerate(UNITS):
        (folder := tmp_path / str(number)).mkdir()
        with opened(folder, made(kind, folder, server, alone(*unit))) as (backend, policy):
            for sql in ANSWERED:
                sums[sql] += total(backend, policy, sql)
    assert sums == ANSWERED


def test_parts_are_compared_as_keys_compare_them(on_postgres: Make, tmp_path: Path) -> None:
    """citext in lower case and char(n) without trailing spaces, each part by itself."""
    url = on_postgres(
        [
            "CREATE TABLE patients (hospital citext, patient_no char(5), PRIMARY KEY (hospital, patient_no))",
            "CREATE TABLE visits (hospital citext, patient_no char(7), page text)",
            "INSERT INTO patients VALUES ('Nord', '1'), ('Nord', '2')",
            "INSERT INTO visits VALUES ('nord', '1', 'p'), ('NORD', '1  ', 'p'), ('Nord ', '1', 'p'),"
            " ('nord', '2', 'p')",
        ]
    )
    policy = POLICY[: POLICY.index("[tables.items]")]
    with opened(tmp_path, url, policy) as (backend, found):
        for sql, truth in (
            (f"SELECT COUNT(DISTINCT {ALL}) FROM visits", 2),
            ("SELECT page, COUNT(*) FROM visits GROUP BY page", 3),
            (f"SELECT COUNT(*) FROM patients p JOIN visits v ON {ON}", 3),
            (f"SELECT COUNT(*) FROM patients WHERE {ALL} IN (SELECT hospital, patient_no FROM visits)", 2),
        ):
            assert total(backend, found, sql) == truth


def test_a_unit_is_bounded_as_a_whole(world: tuple[Backend, Policy]) -> None:
    """Ranks and caps are of the pair of columns: ('a', 11) is in two groups of which one counts."""
    assert total(*world, "SELECT page, COUNT(*) FROM visits GROUP BY page", 1) == 3
    assert total(*world, f"SELECT page, COUNT(DISTINCT {ALL}) FROM visits GROUP BY page", 1) == 3


def test_the_names_of_a_composite_unit(world: tuple[Backend, Policy]) -> None:
    _, policy = world
    parts = {name: table.unit_parts for (_, name), table in policy.tables.items()}
    own = ("hospital", "patient_no")
    assert parts == {"patients": own, "visits": own, "items": (), "notes": ("hosp", "no")}
    assert policy.tables["public", "items"].privacy_unit == "hospital, patient_no"
    assert policy.tables["public", "items"].path[0] == Hop(
        "year", ("public", "visits"), "year", (("visit_no", "visit_no"),)
    )


@pytest.mark.parametrize("kind", ["duckdb", "postgres"])
def test_a_composite_key_that_is_dropped(kind: str, server: Databases, tmp_path: Path) -> None:
    """Items would belong to several patients: the query reads the constraint again and fails."""
    url = made(kind, tmp_path, server, SCHEMA)
    with opened(tmp_path, url) as (backend, policy):
        assert total(backend, policy, "SELECT COUNT(*) FROM items") == 3
        unkept = ("ALTER TABLE visits DROP CONSTRAINT visits_pkey",)
        if kind == "postgres":
            with server.owner(url.rpartition("/")[2]) as owner:
                for statement in unkept:
                    owner.execute(statement.encode())
        else:
            (other := tmp_path / "other").mkdir()
            made(kind, other, server, [s.replace(", PRIMARY KEY (year, visit_no)", "") for s in SCHEMA])
            (other / "composite.duckdb").replace(tmp_path / "composite.duckdb")
        with pytest.raises(BackendError):
            total(backend, policy, "SELECT COUNT(*) FROM items")


HOP = "(hospital, patient_no) -> patients (hospital, patient_no)"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (HOP, "(hospital, patient_no) -> patients (hospital)", "each column refers to one of the key"),
        (HOP, "(hospital, hospital) -> patients (hospital, patient_no)", "each column refers to one"),
        (HOP, "(patient_no, hospital) -> patients (hospital, patient_no)", "are not alike"),
        (HOP, "hospital -> patients.hospital", "has to keep patients.hospital unique"),
        (HOP, "(hospital, number) -> patients (hospital, patient_no)", 'no column "number"'),
        ('["hospital", "patient_no"]', '["hospital", "hospital"]', "named twice"),
        ('["hospital", "patient_no"]', '["hospital", "number"]', 'no column "number"'),
        ('["hosp", "no"]', '["no"]', 'starts from column "hosp, no"'),
        (
            "(year, visit_no) -> visits (year, visit_no)",
            "(year, visit_no) -> visits (year, patient_no)",
            "unique",
        ),
    ],
)
def test_a_mistake_is_named(server: Databases, tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in POLICY
    url = made("duckdb", tmp_path, server, SCHEMA)
    with pytest.raises(ConfigError, match=message), opened(tmp_path, url, POLICY.replace(old, new)):
        pass
