"""dbt: its commands over a project with sources, models, tests, a seed and a view."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from dbt.cli.main import dbtRunner

from tests.programs.actions import PORT, action, run

PROJECT = Path(__file__).with_name("dbt_project")


def dbt(*arguments: str) -> None:
    """A command that succeeds; raises AssertionError with what each part of it said."""
    result = dbtRunner().invoke(["--quiet", "--no-version-check", *arguments])
    said = [
        f"{one.node.name}: {one.message}"
        for one in getattr(result.result, "results", ())
        if hasattr(one, "node")
    ]
    assert result.success, (result.exception, said)


@action("debug")
def debug() -> None:
    dbt("debug")


@action("compile")
def compiles() -> None:
    dbt("compile")


@action("freshness of a source by its latest moment")
def freshness() -> None:
    dbt("source", "freshness")


@action("not_null of a source")
def not_null() -> None:
    dbt("test", "--select", "source:app,test_name:not_null")


@action("unique of a source's key")
def unique() -> None:
    dbt("test", "--select", "source:app,test_name:unique")


@action("accepted_values of a source")
def accepted_values() -> None:
    dbt("test", "--select", "source:app,test_name:accepted_values")


@action("relationships of sources")
def relationships() -> None:
    dbt("test", "--select", "source:app,test_name:relationships")


@action("a table")
def table() -> None:
    dbt("run", "--select", "countries")


@action("a table that refers to another")
def referring() -> None:
    dbt("run", "--select", "shares")


@action("tests of tables")
def tests() -> None:
    dbt("test", "--select", "countries", "shares")


@action("show")
def show() -> None:
    dbt("show", "--inline", "select country, people from {{ ref('countries') }} order by 2 desc")


@action("build again")
def again() -> None:
    dbt("build", "--select", "countries", "shares")


@action("docs generate")
def docs() -> None:
    dbt("docs", "generate", "--select", "countries", "shares")


@action("incremental, its first run")
def incremental() -> None:
    dbt("run", "--select", "months")


@action("incremental, its second run")
def second() -> None:
    dbt("run", "--select", "months")


@action("a view")
def view() -> None:
    dbt("run", "--select", "seen")


@action("a seed")
def seed() -> None:
    dbt("seed")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(PROJECT, folder, dirs_exist_ok=True)
        os.chdir(folder)
        os.environ |= {
            "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
            "DBT_PROFILES_DIR": folder,
            "DPPROXY_PORT": str(PORT),
        }
        run("dbt-core", "dbt-postgres")
