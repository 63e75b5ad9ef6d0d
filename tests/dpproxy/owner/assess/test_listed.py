"""The files that dpproxy assess reads: each format as its tool writes it."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import pytest

from dpproxy.owner.assess.listed import Listed, read
from dpproxy.reporting.rows import OutputError

ONE, TWO = "SELECT COUNT(*) FROM users", "SELECT country, COUNT(*) FROM users GROUP BY 1"
CARDS = [
    {
        "id": 7,
        "name": "Users",
        "dataset_query": {
            "type": "native",
            "database": 1,
            "native": {"query": f"{ONE};", "template-tags": {}},
        },
    },
    {
        "id": 8,
        "name": "By country",
        "dataset_query": {
            "lib/type": "mbql/query",
            "stages": [{"lib/type": "mbql.stage/native", "native": TWO}],
        },
    },
    {
        "id": 9,
        "name": "Of a country",
        "dataset_query": {
            "type": "native",
            "native": {
                "query": ONE + " WHERE country = {{country}} AND age > {{age}} [[AND city = {{city}}]]",
                "template-tags": {
                    "country": {"type": "text", "default": "L'Aquila"},
                    "age": {"type": "number", "default": 18},
                    "city": {"type": "text"},
                },
            },
        },
    },
    {
        "id": 10,
        "name": "Filter",
        "dataset_query": {"type": "native", "native": {"query": "SELECT 1 WHERE {{f}}"}},
    },
    {"id": 11, "name": "Built", "dataset_query": {"type": "query", "query": {"source-table": 3}}},
]
SAVED = "label: Users\nschema: public\ndescription: null\nsql: |-\n  SELECT COUNT(*)\n  FROM users\nversion: 1.0.0\n"


def zipped(*files: tuple[str, str]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, text in files:
            archive.writestr(name, text)
    return content.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "form", "statements"),
    [
        ("a.sql", f"-- first\n{ONE};\n\n{TWO}; {ONE}", "SQL", [Listed(ONE, times=2), Listed(TWO)]),
        ("a.txt", "SELECT ';'", "SQL", [Listed("SELECT ';'")]),
        (
            "lab.sql",
            f"-- [SQL LAB] ann\n{ONE};\n{TWO}; -- [SQL LAB] ben\n{ONE};\n-- Metabase:: userID: 7\n{TWO}",
            "SQL",
            [Listed(ONE, times=2, users=("superset:ann", "superset:ben")), Listed(TWO, times=2, users=("metabase:7",))],
        ),
        (
            "stat.csv",
            f'userid,queryid,query,calls,rows\n10,77,"{ONE}",5,5\n11,78,"{ONE}",2,9\n10,79,"SELECT $1",1,1\n',
            "pg_stat_statements (CSV)",
            [Listed(ONE, "77", 7, users=("10", "11")), Listed("SELECT $1", "79", users=("10",))],
        ),
        (
            "stat.json",
            json.dumps([{"query": ONE, "calls": 3, "queryid": 5}]),
            "pg_stat_statements (JSON)",
            [Listed(ONE, "5", 3)],
        ),
        ("lines.json", f'{{"query": "{ONE}", "calls": 1}}\n{{"query": "{TWO}", "calls": 4}}\n',
         "pg_stat_statements (JSON)", [Listed(ONE), Listed(TWO, times=4)]),
        (
            "saved.json",
            json.dumps({"count": 1, "result": [{"id": 3, "label": "Users", "sql": f"{ONE};", "schema": None}]}),
            "Superset export (JSON)",
            [Listed(ONE, "Users")],
        ),
        (
            "saved.zip",
            zipped(("x/metadata.yaml", "version: 1.0.0\ntype: SavedQuery\n"), ("x/queries/db/users.yaml", SAVED)),
            "Superset export (YAML)",
            [Listed("SELECT COUNT(*)\nFROM users", "Users")],
        ),
        (
            "cards.json",
            json.dumps(CARDS),
            "Metabase export",
            [
                Listed(ONE, "Users"),
                Listed(TWO, "By country"),
                Listed(ONE + " WHERE country = 'L''Aquila' AND age > 18", "Of a country"),
                Listed("SELECT 1 WHERE {{f}}", "Filter", open="{{f}}"),
            ],
        ),
        ("card.yaml", f"name: Users\ndataset_query:\n  type: native\n  native:\n    query: {ONE}\n",
         "Metabase export", [Listed(ONE, "Users")]),
    ],
)  # fmt: skip
def test_formats(
    tmp_path: Path, name: str, content: str | bytes, form: str, statements: list[Listed]
) -> None:
    file = tmp_path / name
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    found = read(file)
    assert found.format == form
    assert list(found.statements) == statements


def test_what_holds_no_sql_is_told(tmp_path: Path) -> None:
    file = tmp_path / "cards.json"
    file.write_text(json.dumps(CARDS))
    assert read(file).passed_over == (
        "1 made in the query builder: they hold no SQL until Metabase runs them",
    )


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.json", b"[1, 2", "begins like JSON and is none"),
        ("a.json", b'[{"x": 1}]', "where are the statements"),
        ("a.zip", b"PK\x03\x04nothing", "cannot be read as a ZIP file"),
        ("a.zip", zipped(("a.yaml", "sql: [")), "cannot be read as YAML"),
        ("a.sql", b"\xff\xfe\x00", "neither text in UTF-8"),
        ("a.sql", b"SELECT 'open", "can be cut into statements"),
        ("a.sql", b"", "no SQL statement"),
    ],
)
def test_files_that_cannot_be_read(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(OutputError, match=said):
        read(file)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="No such file"):
        read(tmp_path / "missing.sql")
