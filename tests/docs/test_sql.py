"""docs/sql.md says what the code does: its tables are made of it, its examples are asked."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from dpproxy.cli import sql_reference
from rewriter.refusal import CATALOGUE
from tests.dpproxy.serving import ROOT, Running, serving

PAGE = (ROOT / "docs" / "sql.md").read_text()
EXAMPLES = [block.strip() for block in re.findall(r"^```sql\n(.*?)^```$", PAGE, re.M | re.S)]
REFUSED = re.compile(r"-- (\w{5})\n")
CODE = re.compile(r"PV0\d\d|0A000|2[25]\w{3}|42\w{3}|54\w{3}")


@pytest.fixture(scope="module")
def demo(clone: Path) -> Iterator[Running]:
    with serving(["demo", "--port", "0"], folder=clone, root=clone) as running:
        yield running


def test_the_tables_are_made_of_the_code() -> None:
    assert sql_reference.page(PAGE) == PAGE, "run make reference"
    assert len(re.findall("<!-- made: ", PAGE)) == 7


def test_every_code_of_a_refusal_is_in_the_catalogue() -> None:
    for path in [*(ROOT / "rewriter").rglob("*.py"), *(ROOT / "dpproxy" / "engine").rglob("*.py")]:
        texts = (n.value for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Constant))
        codes = {t for t in texts if isinstance(t, str) and CODE.fullmatch(t)}
        assert codes <= set(CATALOGUE), path.name


def asked(connection: psycopg.Connection, sql: str) -> tuple[str | None, str | None]:
    """The code and the hint of a refusal, nothing for an answer with rows."""
    try:
        return (None, None) if connection.execute(sql.encode()).fetchall() else ("no rows", None)
    except psycopg.Error as error:
        return error.sqlstate, error.diag.message_hint


@pytest.mark.service
@pytest.mark.parametrize("example", EXAMPLES)
def test_example(demo: Running, example: str) -> None:
    expected = REFUSED.match(example)
    with demo.connect("reader") as connection:
        code, hint = asked(connection, example)
    assert code == (expected[1] if expected else None), hint
    assert expected is None or hint


def test_examples_are_there() -> None:
    assert len(EXAMPLES) > 15
