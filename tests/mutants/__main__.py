"""`python -m tests.mutants [WORD ...]`: which detector finds each mutant, after how many seconds.

Each mutant is applied in a copy of the repository, and the detectors are run on it one after the other until one fails.
WORD: only mutants with such a word in their name or file; `none` is the code as it is, which nothing may find.
`--detectors near,oracle`: only these, in their order. Exit code 1 if a mutant without an argument survives.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.mutants.detectors import Detector, chosen
from tests.mutants.mutant import ROOT, Mutant, mutants

NO_TESTS = 5
"""Exit code of a pytest that has found no test."""
STOPPING_SECONDS = 30
"""How long a detector may take to stop its servers."""


def copied(folder: Path) -> None:
    """The repository as it stands, in another folder, with this environment."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in filter(None, listed.stdout.split("\0")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).exists():
            shutil.copy2(ROOT / name, folder / name)
    (folder / ".venv").symlink_to(Path(sys.prefix))


@contextmanager
def applied(mutant: Mutant, folder: Path) -> Iterator[None]:
    """The copy with a mutant, and then without it again."""
    try:
        for edit in mutant.edits:
            file = folder / edit.file
            file.write_text(edit.applied(file.read_text()))
        yield
    finally:
        for edit in mutant.edits:
            shutil.copy2(ROOT / edit.file, folder / edit.file)


def found(detector: Detector, mutant: Mutant, folder: Path) -> str | None:
    """What a detector says that fails, None where it passes or has no time to."""
    command = detector.command(mutant)
    if not command:
        return None
    environment = os.environ | {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    with tempfile.TemporaryFile("w+") as said:
        running = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=said, stderr=said, start_new_session=True
        )
        try:
            failed = running.wait(detector.seconds)
        except subprocess.TimeoutExpired:
            stopped(running)
            return "does not end" if detector.ends else None
        said.seek(0)
        lines = [line.strip() for line in said if line.strip()]
    told = [line for line in lines if line.startswith(("FAILED", "ERROR"))] or lines[-1:]
    return " ".join(told[:1])[:160] if failed not in (0, NO_TESTS) else None


def stopped(running: subprocess.Popen[bytes]) -> None:
    """Ends a detector as Ctrl-C does, so that what it has started ends with it."""
    os.killpg(running.pid, signal.SIGINT)
    try:
        running.wait(STOPPING_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()


def searched(mutant: Mutant, detectors: Sequence[Detector], folder: Path) -> bool:
    """Prints a mutant's row; whether it ended as it has to: found, unless it is no mistake."""
    name, why = mutant.name, f"equivalent: {mutant.equivalent}" if mutant.equivalent else ""
    with applied(mutant, folder):
        for detector in detectors:
            begun = time.monotonic()
            told = found(detector, mutant, folder)
            if told is not None:
                print(f"| {name} | {detector.name} | {time.monotonic() - begun:.0f} | {told} |", flush=True)
                return bool(mutant.edits)
    print(f"| {name} | survived | | {why} |", flush=True)
    return bool(why) or not mutant.edits


def main(arguments: list[str]) -> int:
    """Runs and prints the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--detectors", default="")
    asked = parser.parse_args(arguments)
    detectors = chosen(asked.detectors)
    for detector in detectors:
        if detector.missing:
            print(f"{detector.name}: not in this repository ({detector.needs})")
    present = [detector for detector in detectors if not detector.missing]
    nothing = Mutant("none", "none", ())
    wanted = [
        m
        for m in (*mutants(), *([nothing] if "none" in asked.words else []))
        if not asked.words or any(word in f"{m.made} {m.name}" for word in asked.words)
    ]
    print("| mutant | found by | seconds | what it says |\n|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        copied(folder)
        missed = [mutant.name for mutant in wanted if not searched(mutant, present, folder)]
        return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
