"""docs/published.md: its configuration is served, its SQL and its commands run; what dbt sends, word for word."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.dpproxy.serving import POLICY, ROOT, Running, command, make, serving

pytestmark = pytest.mark.client

PAGE = (ROOT / "docs" / "published.md").read_text()
(SETTINGS,) = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.M | re.S)
(SQL,) = re.findall(r"^```sql\n(.*?)^```$", PAGE, re.M | re.S)
COMMANDS = re.findall(r"^\$ dpproxy (.*)$", PAGE, re.M)
COMMENT = '/* {"app": "dbt", "dbt_version": "1.10.23", "profile_name": "dpproxy", "node_id": "model.towns.towns"} */\n'
COLUMNS = """
      select
          column_name,
          data_type,
          character_maximum_length,
          numeric_precision,
          numeric_scale

      from "dpproxy".INFORMATION_SCHEMA.columns
      where table_name = 'towns'
        and table_schema = 'published'
      order by ordinal_position
"""
RELATIONS = """
select
      'dpproxy' as database,
      tablename as name,
      schemaname as schema,
      'table' as type
    from pg_tables
    where schemaname ilike 'published'
    union all
    select
      'dpproxy' as database,
      viewname as name,
      schemaname as schema,
      'view' as type
    from pg_views
    where schemaname ilike 'published'
"""
CREATE = """
  create  table "dpproxy"."published"."towns__dbt_tmp"


    as

  (
    SELECT town, COUNT(*) AS people
FROM "dpproxy"."public"."people"
GROUP BY town
  );
"""
DOLLARS = "$dbt_comment_literal_block$"
TEST = """
    select
      count(*) as failures,
      count(*) != 0 as should_warn,
      count(*) != 0 as should_error
    from (
select town
from "dpproxy"."published"."towns"
where town is null
    ) dbt_internal_test
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder: Path = tmp_path_factory.mktemp("published")
    make(folder, f'[server]\nauth = "trust"\n{POLICY}[budget.dataset]\ninformation = 3000\n{SETTINGS}')
    (folder / "towns.sql").write_text("SELECT COUNT(*) AS n FROM people\n")
    with serving(["serve", "-c", str(folder / "dpproxy.toml"), "--port", "0"], folder=folder) as running:
        for line in COMMANDS:
            done = command(*line.split(), folder=folder)
            assert done.returncode == 0, done.stderr
        yield running


def test_the_sql_and_the_commands(server: Running) -> None:
    with server.connect("ann") as connection:
        statements = [one.strip() for one in SQL.split(";") if one.strip()]
        assert len(statements) == 7
        for statement in statements:
            done = connection.execute(statement.encode())
            assert done.description is None or done.fetchall(), statement
        assert connection.execute("SELECT * FROM dpproxy.published").fetchall() == [], "all was dropped again"


def built(connection: psycopg.Connection) -> None:
    """A table model as dbt-postgres makes it, with its transactions."""
    there = [name for _, name, _, _ in connection.execute(RELATIONS.encode()).fetchall()]
    steps = ["BEGIN", f"{COMMENT}\n        SET dpproxy.refresh = 'epoch'\n", COMMENT + CREATE]
    if "towns" in there:
        steps.append(f'{COMMENT}\nalter table "dpproxy"."published"."towns" rename to "towns__dbt_backup"')
    steps += [
        f'{COMMENT}\nalter table "dpproxy"."published"."towns__dbt_tmp" rename to "towns"',
        COMMENT + COLUMNS,
        f'{COMMENT}\n    comment on table "dpproxy"."published"."towns" is {DOLLARS}It\'s noisy.{DOLLARS};\n',
        f'{COMMENT}\n    comment on column "dpproxy"."published"."towns".people is {DOLLARS}{DOLLARS};\n',
        "COMMIT",
        "BEGIN",
        f'{COMMENT}\ndrop table if exists "dpproxy"."published"."towns__dbt_backup" cascade',
        "COMMIT",
    ]
    for step in steps:
        connection.execute(step.encode())


def test_what_dbt_sends(server: Running) -> None:
    with server.connect("ann") as connection:
        paid = "SELECT used FROM dpproxy.budget WHERE unit = 'information' AND account = 'analyst:ann'"
        connection.execute('create schema if not exists "published"')
        built(connection)
        first = connection.execute("SELECT * FROM published.towns ORDER BY town").fetchall()
        used = connection.execute(paid.encode()).fetchall()
        built(connection)
        assert connection.execute("SELECT * FROM published.towns ORDER BY town").fetchall() == first
        assert connection.execute(paid.encode()).fetchall() == used, "free in its epoch"
        assert connection.execute(TEST.encode()).fetchall() == [(0, False, False)]
        names = connection.execute("SELECT name, refresh FROM dpproxy.published").fetchall()
        assert names == [("towns", "epoch")]
        assert len(first) == 3
        with pytest.raises(psycopg.Error) as refused:
            connection.execute('create view "dpproxy"."published"."v__dbt_tmp" as (select 1)')
        assert "materialized='table'" in str(refused.value.diag.message_hint)
