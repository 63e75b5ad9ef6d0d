"""Texts with letters beyond ASCII, and texts of character(n): answers are those of PostgreSQL, or there is none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from dpproxy.deployment.service import Service, configured
from rewriter.refusal import Refusal
from tests.dpproxy.engine.test_executor import Analyst
from tests.dpproxy.on_both import ENGINES, service_on
from tests.dpproxy.postgres_data import Databases, databases

pytestmark = pytest.mark.service

POLICY = """
[backend]
url = "{}"
[privacy]
epsilon_per = 8
query_information = 8
[budget]
mode = "track"
[tables.people]
privacy_unit = "id"
"""
EACH = 300
NAMES = (
    *("straße", "Straße", "STRASSE", "STRAẞE", "münchen", "MÜNCHEN", "ΟΔΟΣ", "οδος", "İnce", "ınce", "ﬁn"),
    *("ǆ", "ǅ", "ᾳ", "ᾼ", "Åse", "x"),
)
NAMED = [
    "CREATE TABLE people (id BIGINT PRIMARY KEY, name TEXT NOT NULL)",
    f"INSERT INTO people SELECT i, (ARRAY[{', '.join(map(repr, NAMES))}])[1 + i % {len(NAMES)}] "
    f"FROM generate_series(0, {EACH * len(NAMES) - 1}) AS r(i)",
]
LETTERS = (
    *("upper(name) = 'STRAßE'", "upper(name) = 'STRAẞE'", "lower(name) = 'straße'", "lower(name) = 'οδοσ'"),
    *(
        "upper(name) IN ('INCE', 'İNCE')",
        "lower(name) LIKE 'i%'",
        "upper(name) LIKE 'ﬁ%'",
        "upper(name) = 'ᾼ'",
    ),
    *("lower(upper(name)) = name", "upper(lower(name)) = upper(name)", "upper(name) = name"),
    *("name ILIKE 'STRAẞE'", "name ILIKE 'strasse'", "name ILIKE 'οδο_'", "name ILIKE 'STRXAẞE' ESCAPE 'X'"),
    *("name ILIKE 'xstraße' ESCAPE 'X'", "name NOT ILIKE '%ß%'", "name ILIKE 'i%'", "name ILIKE 'å%'"),
    *("name ~* '^MÜNCHEN$'", "name ~* 'ß'", "name ~* 'ẞ'", "name ~* '^οδος$'", "name ~* '^ΟΔΟΣ$'"),
    *(
        "name ~* '^[À-Ü]se'",
        "name ~* '^[^α-ω]+$'",
        "name ~* '^i'",
        "name ~* '^ı'",
        "name ~* 'ᾼ'",
        "name ~* 'ﬁ'",
    ),
    *("name ~* 'ǅ'", "name ~* '[ǅå]'", "name ~ '^[a-zß-ÿ]+$'", "name ~* '[s]'", "name ~ '[A-ZÀ-ÖØ-Þ]'"),
    *("name ~ ''", "name ~* ''", "substring(name from '') = ''", "regexp_replace(name, '', 'x') LIKE 'x%'"),
)
UNKNOWN_LETTERS = ("[[:alpha:]]+", "[^[:upper:]]", r"^\w+$", r"\s", r"\mx", "[[:space:]]", "x(?=y)", r"(x)\1")


def counted(ann: Analyst, sql: str) -> int:
    ((count,),) = ann.ask(sql)
    return int(count)


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[psycopg.Connection]:
    with databases(tmp_path_factory.mktemp("judge")) as server, server.owner("postgres") as connection:
        yield connection


@pytest.mark.parametrize("engine", ENGINES)
def test_letters_have_the_cases_that_postgresql_gives_them(
    engine: str, tmp_path: Path, judge: psycopg.Connection
) -> None:
    with service_on(engine, tmp_path, NAMED, POLICY) as service:
        ann = Analyst(service, "ann")
        for condition in LETTERS:
            counting = (
                f"SELECT count(*) FROM unnest(%s::text[]) AS n(name) WHERE {condition.replace('%', '%%')}"
            )
            row = judge.execute(counting.encode(), (list(NAMES),)).fetchone()
            assert row is not None
            found = counted(ann, f"SELECT COUNT(*) FROM people WHERE {condition}")
            assert abs(found - EACH * row[0]) < EACH / 3, condition
        for pattern in UNKNOWN_LETTERS:
            with pytest.raises(Refusal) as refused:
                ann.ask(f"SELECT COUNT(*) FROM people WHERE name ~ '{pattern}'")
            assert refused.value.code == "PV020", pattern
        with pytest.raises(Refusal, match="depends on the locale") as refused:
            ann.ask("SELECT COUNT(*) FROM people WHERE substring(name from '[[:alpha:]]+') = 'x'")
        assert "[A-Za-zÀ-ÖØ-öø-ÿ]" in (refused.value.hint or "")


@pytest.mark.parametrize("engine", ENGINES)
def test_groups_of_capitals_are_found(engine: str, tmp_path: Path) -> None:
    """The front computes the cells, and the backend the rows."""
    declared = f"{POLICY}[tables.people.columns]\nname = {{{{ domain = {list(NAMES)} }}}}\n"
    with service_on(engine, tmp_path, NAMED, declared) as service:
        rows = Analyst(service, "ann").ask("SELECT upper(name), COUNT(*) FROM people GROUP BY 1")
        groups = {label: int(count) for label, count in rows}
    assert abs(groups["STRAßE"] - 2 * EACH) < EACH / 3
    assert abs(groups["STRAẞE"] - EACH) < EACH / 3
    assert all(count > EACH / 2 for count in groups.values())


def test_a_database_whose_letters_have_other_cases(tmp_path: Path) -> None:
    """In the locale C there is none beyond ASCII, so that rows would not be in the cells that the front computes."""
    with databases(tmp_path / "server") as server:
        with server.owner("postgres") as owner:
            owner.execute("CREATE DATABASE plain LOCALE 'C' TEMPLATE template0")
        with server.owner("plain") as owner:
            for statement in (*NAMED, "GRANT SELECT ON people TO reader"):
                owner.execute(statement.encode())
        (tmp_path / "dpproxy.toml").write_text(POLICY.format(server.url("plain")))
        with Service.start(configured(tmp_path / "dpproxy.toml"), alone=True) as service:
            ann = Analyst(service, "ann")
            for condition in (
                "upper(name) = 'ÅSE'",
                "name ILIKE 'ÅSE'",
                "substring(lower(name) from 1) = 'x'",
            ):
                with pytest.raises(Refusal, match="is not supported on this database") as refused:
                    ann.ask(f"SELECT COUNT(*) FROM people WHERE {condition}")
                assert refused.value.code == "PV020"
            assert ann.used() == (0, 0)
            assert abs(counted(ann, "SELECT COUNT(*) FROM people WHERE name ~* '^ÅSE$'") - EACH) < EACH / 3


PADDED = [
    "CREATE TABLE people (id BIGINT PRIMARY KEY, c CHAR(10), d CHAR(4) NOT NULL, t TEXT NOT NULL, v VARCHAR(9))",
    "INSERT INTO people SELECT i, (ARRAY['ab', 'ab c', 'xy', NULL])[1 + i % 4], (ARRAY['ab', 'zz'])[1 + i % 2], "
    "(ARRAY['ab', 'ab  ', 'xy'])[1 + i % 3], 'ab ' FROM generate_series(0, 2399) AS r(i)",
    "CREATE TABLE codes (code CHAR(6) PRIMARY KEY, kind CHAR(3) NOT NULL)",
    "INSERT INTO codes VALUES ('ab', 'k'), ('xy', 'l'), ('no', 'k')",
    "CREATE VIEW abs AS SELECT id, d FROM people WHERE c = 'ab    '",
]
PADDED_POLICY = f"""{POLICY}
[tables.people.columns]
c = {{{{ domain = ["ab", "ab c  ", "xy"], nullable = true }}}}
[tables.codes]
public = true
[tables.abs]
"""
ANSWERED = (
    *("c = 'ab   '", "c = 'ab'", "c <> 'ab '", "c IN ('ab  ', 'xy')", "NOT c = 'ab '", "c > 'ab '"),
    *(
        "c = 'ab   '::text",
        "c = 'ab'::text",
        "c = 'ab   '::char(6)",
        "c = 'ab  '::bpchar",
        "c = 'ab '::varchar",
    ),
    *("c BETWEEN 'ab ' AND 'ab z '", "c IS NOT DISTINCT FROM 'ab '", "c = ANY('{ab,xy}')", "c IS NULL"),
    *("CASE c WHEN 'ab  ' THEN true ELSE false END", "(c, d) = ('ab ', 'ab ')", "t = 'ab '::char(5)"),
    *("length(c) = 2", "c || 'x' = 'abx'", "upper(c) = 'AB'", "md5(c) = md5('ab')", "left(c, 3) = 'ab'"),
    *("substring(c from '^ab$') IS NOT NULL", "c::text LIKE 'ab'", "c::text ~ 'ab$'", "c::varchar(2) = 'ab'"),
    *("c = d", "c = t", "c::text = v", "d <> c", "c IN (SELECT code FROM codes)", "d = c AND c = 'ab '"),
    *("EXISTS (SELECT FROM codes WHERE code = c AND kind = 'k ')", "c = (SELECT max(code) FROM codes)"),
    *("id IN (SELECT id FROM people WHERE c = 'ab ')", "c = (SELECT min(code) || ' ' FROM codes)"),
)
REFUSED = (
    *("c LIKE 'ab%'", "c ILIKE 'ab%'", "c ~ 'ab$'", "c SIMILAR TO 'ab'", "c NOT LIKE '% '", "c = v", "v = d"),
    *(
        "coalesce(c, 'x') = 'x'",
        "nullif(c, 'ab ') IS NULL",
        "greatest(c, 'b ') = 'b'",
        "concat(c, 'x') = 'abx'",
    ),
    *("c = ANY(ARRAY['ab '])", "c = ANY('{\"ab \"}')", "c IN (SELECT v FROM people)"),
)
SELECTED = (
    "SELECT c, COUNT(*) FROM people GROUP BY c",
    "SELECT c AS k, COUNT(*) FROM people WHERE c <> 'xy  ' GROUP BY k",
    "SELECT d, COUNT(*) FROM people GROUP BY d",
    "SELECT kind, COUNT(*) FROM people JOIN codes ON code = c GROUP BY kind",
    "SELECT code, COUNT(*) FROM people JOIN codes ON code = c WHERE kind = 'k ' GROUP BY code",
    "SELECT upper(c), COUNT(*) FROM people GROUP BY 1",
    "SELECT k, COUNT(*) FROM (SELECT id, c AS k FROM people) AS s WHERE k = 'ab  ' GROUP BY k",
    "SELECT COUNT(*) FROM abs",
    "SELECT COUNT(*) FROM (SELECT id, d FROM people UNION ALL SELECT id, d FROM people) AS u WHERE d = 'ab '",
    "SELECT COUNT(*) FROM (SELECT id, max(d) AS d FROM people GROUP BY id HAVING max(d) = 'ab ') AS u",
)
PUBLIC = (
    "SELECT * FROM codes WHERE kind = 'k  ' ORDER BY 1",
    "SELECT code FROM codes WHERE code LIKE 'ab' OR code ~ 'y$'",
    "SELECT concat(code, '|'), length(code), code || '|' FROM codes ORDER BY 1",
)


@pytest.fixture(scope="module")
def padded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, Databases, str]]:
    folder = tmp_path_factory.mktemp("padded")
    with databases(folder / "server") as server:
        database = server.make(PADDED)
        (folder / "dpproxy.toml").write_text(PADDED_POLICY.format(server.url(database)))
        with Service.start(configured(folder / "dpproxy.toml"), alone=True) as service:
            yield service, server, database


def near(found: list[tuple[Any, ...]], truth: list[tuple[Any, ...]]) -> bool:
    """Whether the same groups have numbers that differ by the noise at most."""
    exact = {row[:-1]: int(str(row[-1])) for row in truth}
    counts = {row[:-1]: int(row[-1]) for row in found if abs(int(row[-1])) > 60}
    return exact.keys() == counts.keys() and all(abs(counts[key] - exact[key]) < 60 for key in exact)


@pytest.mark.parametrize("sql", [*(f"SELECT COUNT(*) FROM people WHERE {c}" for c in ANSWERED), *SELECTED])
def test_blanks_at_the_end_of_a_character(padded: tuple[Service, Databases, str], sql: str) -> None:
    service, server, database = padded
    with server.owner(database) as owner:
        truth = owner.execute(sql.encode()).fetchall()
    found = Analyst(service, "ann").ask(sql)
    if truth == [(0,)]:
        assert abs(int(found[0][0])) < 60
    else:
        assert near(found, truth), (found, truth)


@pytest.mark.parametrize("condition", REFUSED)
def test_what_would_see_the_blanks_of_a_character_is_refused(
    padded: tuple[Service, Databases, str], condition: str
) -> None:
    ann = Analyst(padded[0], "bob")
    with pytest.raises(Refusal) as refused:
        ann.ask(f"SELECT COUNT(*) FROM people WHERE {condition}")
    assert refused.value.code in ("PV020", "42804"), refused.value
    assert "text" in (refused.value.hint or "")


@pytest.mark.parametrize("sql", PUBLIC)
def test_a_character_of_a_public_table_is_postgresqls(
    padded: tuple[Service, Databases, str], sql: str
) -> None:
    service, server, database = padded
    with server.owner(database) as owner:
        truth = owner.execute(sql.encode()).fetchall()
    rows = service.front.rows(sql)
    assert [tuple(map(str, row)) for row in rows] == [tuple(map(str, row)) for row in truth]


def test_groups_by_a_character_imply_others(padded: tuple[Service, Databases, str]) -> None:
    ann = Analyst(padded[0], "eve")
    ann.ask("SELECT c, COUNT(*) FROM people GROUP BY c")
    paid = ann.used()
    assert near(
        ann.ask("SELECT kind, COUNT(*) FROM people JOIN codes ON code = c GROUP BY kind"),
        [("k  ", 600), ("l  ", 600)],
    )
    assert abs(counted(ann, "SELECT COUNT(*) FROM people WHERE c = 'ab  '") - 600) < 60
    assert ann.used() == paid
