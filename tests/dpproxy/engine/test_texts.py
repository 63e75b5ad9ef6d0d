"""Texts with letters beyond ASCII: answers are those of PostgreSQL, or there is none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from dpproxy.deployment.service import Service, configured
from rewriter.refusal import Refusal
from tests.dpproxy.engine.test_executor import Analyst
from tests.dpproxy.on_both import ENGINES, service_on
from tests.dpproxy.postgres_data import databases

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
