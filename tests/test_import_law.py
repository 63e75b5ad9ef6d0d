"""The import law of docs/architecture.md: which room may import what, and who may draw random bytes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROOMS = ("rewriter", "mechanisms", "budget", "dpproxy")
BACKENDS = "dpproxy/backends/"
ALLOWED = {
    "benchmarks": (),
    "tests": (),
    "sqlglot": ("rewriter/",),
    "duckdb": (BACKENDS,),
    "pyspark": (BACKENDS,),
    "psycopg": (
        BACKENDS,
        "budget/store",
        "budget/schema",
        "budget/backup",
        "budget/single_flight",
        "dpproxy/front/",
    ),
    "random": (),
    "secrets": (),
    "os.urandom": ("mechanisms/randomness.py",),
    "os.getrandom": ("mechanisms/randomness.py",),
    "numpy.random": (),
    "uuid.uuid1": (),
    "uuid.uuid4": (),
    "importlib.import_module": (),
}

REWRITER = ("ir", "syntax", "scalar", "canonical", "binder", "logical", "emit")
"""Each room of the rewriter imports what stands left of it, and the files of its face; so does each of dpproxy."""
GROUND = ("pgwire", "backends", "embedded", "telemetry", "reporting")
DPPROXY = ("config", "front", "catalog", "engine", "server", "deployment", "owner", "console", "cli")
FACE = {"rewriter": ("plan", "policy", "refusal", "effort"), "dpproxy": ("__version__",)}
ORDER = {
    **{f"rewriter/{room}/": REWRITER[: n + 1] for n, room in enumerate(REWRITER)},
    "rewriter/statements/": ("statements",),
    **{f"dpproxy/{room}/": (room,) for room in GROUND},
    **{f"dpproxy/{room}/": (*GROUND, *DPPROXY[: n + 1]) for n, room in enumerate(DPPROXY)},
}
MORE = {
    "rewriter/syntax/": ("statements.lexer",),
    "rewriter/logical/": ("statements.value_listing",),
}
"""What a room may import besides."""
DOORS = {
    "dpproxy/": FACE["rewriter"],
    "dpproxy/engine/": ("api", "ir", "logical.plan", "emit.engines", "statements"),
    "dpproxy/catalog/": ("api", "ir.types", "statements"),
    "dpproxy/owner/": ("ir", "logical.plan", "binder.contribution_bounds", "statements"),
    "dpproxy/backends/": ("emit.engines",),
    "dpproxy/cli/": ("statements", "scalar.functions", "scalar.aggregates"),
    **{f"dpproxy/{room}/": ("statements",) for room in ("pgwire", "server", "front", "telemetry")},
}
"""What of the rewriter is seen from outside, where."""


def names(source: str) -> Iterator[str]:
    """Every dotted name that a module imports or reads from an imported module, aliases resolved."""
    tree = ast.parse(source)
    aliases: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name
                bound = alias.asname or alias.name.partition(".")[0]
                aliases[bound] = alias.name if alias.asname else bound
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide the room"
            for alias in node.names:
                yield f"{node.module}.{alias.name}"
                aliases[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            parts = ast.unparse(node).split(".")
            if parts[0] in aliases:
                yield ".".join([aliases[parts[0]], *parts[1:]])
        elif isinstance(node, ast.Name) and node.id == "__import__":
            yield "importlib.import_module"


def within(name: str, module: str) -> bool:
    return name == module or name.startswith(module + ".")


def violations(path: str, source: str) -> list[str]:
    """The names in the source of `path` (relative to the project) that the law forbids there."""
    room = path.partition("/")[0]
    found = []
    for name in names(source):
        ours = name.partition(".")[0] in ROOMS
        if ours and room != "dpproxy" and not within(name, room):
            found.append(name)
        if ours and not _in_order(path, name):
            found.append(name)
        for module, places in ALLOWED.items():
            if within(name, module) and not path.startswith(places or "nowhere"):
                found.append(name)
    return found


def _in_order(path: str, name: str) -> bool:
    """Whether a file may import a name of its own package, by the order of the rooms."""
    package, _, rest = name.partition(".")
    if package == "rewriter" and path.startswith("dpproxy/"):
        doors = [door for place, found in DOORS.items() if path.startswith(place) for door in found]
        return any(within(rest, door) for door in doors)
    place = next((room for room in ORDER if path.startswith(room)), None)
    if place is None or not place.startswith(f"{package}/") or not rest:
        return True
    rooms = (*ORDER[place], *FACE[package], *MORE.get(place, ()))
    return any(within(rest, room) for room in rooms)


FILES = sorted(str(path.relative_to(ROOT)) for room in ROOMS for path in (ROOT / room).rglob("*.py"))


@pytest.mark.parametrize("path", FILES)
def test_file_obeys_the_law(path: str) -> None:
    assert violations(path, (ROOT / path).read_text()) == []


def test_every_room_was_looked_at() -> None:
    assert {path.partition("/")[0] for path in FILES} == set(ROOMS)


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("rewriter/syntax/parse.py", "import mechanisms.noise"),
        ("mechanisms/noise.py", "from budget.units import Cost"),
        ("budget/ledger.py", "from dpproxy import config"),
        ("dpproxy/engine/executor.py", "import sqlglot"),
        ("dpproxy/engine/executor.py", "from sqlglot import exp"),
        ("dpproxy/cli/app.py", "import duckdb"),
        ("dpproxy/server/session.py", "import psycopg"),
        ("budget/accounting.py", "import psycopg"),
        ("mechanisms/noise.py", "import random"),
        ("mechanisms/noise.py", "import numpy as np\nnp.random.default_rng()"),
        ("mechanisms/noise.py", "from numpy import random as r"),
        ("dpproxy/config/sections.py", "import os\nos.urandom(32)"),
        ("dpproxy/config/sections.py", "from os import urandom"),
        ("dpproxy/config/sections.py", "import os as system\nkey = system.urandom"),
        ("dpproxy/server/session.py", "from uuid import uuid4"),
        ("dpproxy/server/session.py", "import secrets"),
        ("dpproxy/server/session.py", "__import__('random')"),
        ("dpproxy/cli/app.py", "from benchmarks.data import folder"),
        ("dpproxy/console/app.py", "from dpproxy.cli.options import EXPECTED"),
        ("dpproxy/deployment/workers.py", "from dpproxy.cli.app import app"),
        ("mechanisms/noise.py", "from tests.mechanisms import goodness"),
    ],
)
def test_a_breach_is_seen(path: str, source: str) -> None:
    assert violations(path, source) != []


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("rewriter/syntax/parse.py", "import sqlglot\nfrom rewriter.refusal import Refusal"),
        ("budget/store.py", "import psycopg"),
        ("dpproxy/front/front.py", "import psycopg.sql"),
        ("dpproxy/backends/duckdb/adapter.py", "import duckdb"),
        ("dpproxy/engine/executor.py", "import rewriter.plan, mechanisms.choose, budget.ledger"),
        ("mechanisms/randomness.py", "import os\nos.urandom(32)"),
        ("mechanisms/noise.py", "import numpy as np\nnp.int64(1)\nrandom = 1\nrandom.bit_length()"),
    ],
)
def test_what_the_law_allows(path: str, source: str) -> None:
    assert violations(path, source) == []


def naming(word: str, source: str) -> list[str]:
    """The lines of code, without comments and docstrings, that name `word`."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(body := getattr(node, "body", None), list):
            texts = [s for s in body if isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant)]
            node.body = [s for s in body if s not in texts] or [ast.Pass()]  # type: ignore[attr-defined]
    return [line for line in ast.unparse(tree).splitlines() if word in line.lower()]


def test_an_engine_is_named_in_its_folders_and_the_list_of_engines() -> None:
    """So that it goes as it comes: docs/backends.md."""
    found: dict[str, list[str]] = {}
    for file in sorted(f for room in ROOMS for f in (ROOT / room).rglob("*.py")):
        path, text = file.relative_to(ROOT).as_posix(), file.read_text()
        if "spark" not in path and "spark" in text.lower() and (lines := naming("spark", text)):
            found[path] = lines
    assert {path: len(lines) for path, lines in found.items()} == {"dpproxy/backends/__init__.py": 2}
