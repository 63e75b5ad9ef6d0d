"""The table of programs by actions in docs/clients.md: what users do with each, and what is refused and why."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.clients.programs import NODE_MODULES
from tests.clients.world import ROOT, World

PAGE = ROOT / "docs" / "clients.md"
HERE = Path(__file__).parent
MADE = re.compile(r"(?<=<!-- made: programs -->\n)(.*?)(?=<!-- end -->)", re.DOTALL)
HEAD = "| program | works | refused, and why |\n|---|---|---|\n"


@dataclass(frozen=True)
class Program:
    """A program with what its users do.

    `source`: the file in which its actions stand, beside this one; `command`: what runs it; `needs`: a file or a
    command without which it is not installed; `refused`: actions that end with an error, what it says, and why.
    """

    name: str
    source: str
    command: tuple[str, ...]
    needs: str
    refused: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    @property
    def missing(self) -> str | None:
        """What is not installed, None if all is there."""
        return None if Path(self.needs).exists() or shutil.which(self.needs) else self.needs

    def actions(self) -> list[str]:
        """The names of its actions, as its source declares them."""
        return re.findall(r"\baction\(\s*\"([^\"]+)\"", (HERE / self.source).read_text())


@dataclass(frozen=True)
class Done:
    """What came of a program's actions: the versions of its packages, and by action its error, None for none."""

    program: Program
    versions: Mapping[str, str]
    errors: Mapping[str, str | None]
    said: str

    def failures(self) -> Iterator[str]:
        """Each action that did not end as it should."""
        for action in self.program.actions():
            error = self.errors.get(action, f"it was not done: {self.said[-2000:]}")
            words = self.program.refused.get(action, (None,))[0]
            if (error is None) != (words is None) or (error and words and words not in error):
                yield f"{self.program.name}: {action}: {error or f'nothing said {words}'}"

    def row(self) -> str:
        """Its row of the table."""
        refused = self.program.refused
        works = [action for action in self.program.actions() if action not in refused]
        why = [f"{action}: {reason}" for action, (_, reason) in refused.items()]
        packages = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        return f"| **{self.program.name}**: {packages} | {'; '.join(works)} | {'; '.join(why)} |"


def done(program: Program, world: World) -> Done:
    """Runs a program against a served policy."""
    with TemporaryDirectory() as folder:
        notes = Path(folder) / "notes"
        notes.touch()
        found = subprocess.run(
            [*program.command, world.url, str(notes)],
            cwd=ROOT,
            env={**os.environ, "NODE_PATH": str(NODE_MODULES)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=900,
            check=False,
        )
        lines = [json.loads(line) for line in notes.read_text().splitlines()]
    versions: dict[str, str] = next((line["versions"] for line in lines if "versions" in line), {})
    errors = {line["action"]: line["error"] for line in lines if "action" in line}
    return Done(program, versions, errors, found.stdout)


def rows(page: str) -> dict[str, str]:
    """The rows of the table on the page, by the program's name."""
    table = MADE.search(page)
    assert table is not None
    return {row.split("**")[1]: row for row in table[1].splitlines() if row.startswith("| **")}


def written(page: str, found: Sequence[Done], programs: Sequence[Program]) -> str:
    """The page with the rows of what has been run, and the others as they were."""
    kept = rows(page) | {one.program.name: one.row() for one in found}
    table = "".join(f"{kept[program.name]}\n" for program in programs if program.name in kept)
    return MADE.sub(lambda _: HEAD + table, page, count=1)


def python(
    environment: str, module: str, refused: Mapping[str, tuple[str, str]] | None = None, name: str = ""
) -> Program:
    """A program whose actions are a module here, run by the Python of an environment."""
    executable = str(ROOT / f".venv-{environment}" / "bin" / "python")
    command = (executable, "-m", f"tests.programs.{module}")
    return Program(name or module, f"{module}.py", command, executable, refused or {})


def node(name: str, refused: Mapping[str, tuple[str, str]]) -> Program:
    """A package of node whose actions are a script in node/."""
    module = name.removesuffix(".js").lower()
    source = f"node/{module}.js"
    command = ("node", str(HERE / source))
    return Program(
        name, source, command, str(NODE_MODULES / module.replace("drizzle", "drizzle-orm")), refused
    )
