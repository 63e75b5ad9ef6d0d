"""`dpproxy init`: a dpproxy.toml and a key for a database, by its schema alone."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import typer

from dpproxy.owner.init.propose import Proposal, propose
from dpproxy.owner.init.units import shown
from dpproxy.owner.people import called_after_people
from dpproxy.owner.presets import DEFAULT, PRESETS, Name
from dpproxy.reporting.rows import OutputError
from dpproxy.reporting.tables import print_json


def init(
    url: str, file: Path, persons: Sequence[str], public: Sequence[str], preset: Name | None, *, as_json: bool
) -> None:
    """Writes the configuration and the key, and prints a summary.

    `persons`: TABLE.COLUMN of the privacy unit, and of further columns that hold it; `public`: tables of
    nobody's rows; `preset`: whose parameters and budgets, None for the defaults. Raises what `propose` raises.
    """
    chosen = DEFAULT if preset is None else PRESETS[preset]
    _tell(propose(url, file, persons, public, chosen, _ask), as_json=as_json)


def _ask(options: Sequence[str]) -> str:
    """The privacy unit as the terminal answers; OutputError without one."""
    if not sys.stdin.isatty():
        example = options[0] if options else "users.user_id"
        said = f"it may be {', '.join(options)}" if options else "no table has a key of one column"
        raise OutputError(f"who is protected? {said}; say so: --person {example}")
    print("Who is protected? The column that names one person, household, customer ...:", file=sys.stderr)
    for option in options:
        print(f"  {option}", file=sys.stderr)
    answer: str = typer.prompt("TABLE.COLUMN", err=True)
    return answer


def _tell(proposal: Proposal, *, as_json: bool) -> None:
    file, key, plan, hidden = proposal.file, proposal.key, proposal.plan, proposal.hidden()
    private, public = [shown(name) for name in plan.private], [shown(name) for name in plan.public]
    left_out = {shown(name): why for name, why in plan.left_out.items()}
    if as_json:
        print_json(
            {
                "file": str(file),
                "key": str(key),
                "privacy_unit": str(plan.unit),
                "private": private,
                "public": public,
                "guessed": sorted(shown(name) for name in plan.guessed),
                "to_confirm": {
                    "private": {
                        shown(name): f"{way.column} -> {way.target}" for name, way in plan.paths.items()
                    },
                    "public": {shown(name): why for name, why in plan.dimensions.items()},
                },
                "left_out": left_out,
                "hidden": hidden,
            }
        )
        return
    print(f"{file} is written, and the key {key}. No row was read.")
    print(f"Protected: {plan.unit}, in {', '.join(private)}.")
    if public:
        print(f"Public, by your word: {', '.join(public)}.")
    if guessed := [shown(name) for name in plan.private if name in plan.guessed]:
        print(f"Guessed by names, no foreign key says so: {', '.join(guessed)}.")
    for kind, tables in (("private", plan.paths), ("public", plan.dimensions)):
        if tables:
            print(f"To confirm in {file}, as {kind}: {', '.join(map(shown, tables))}.")
    if plan.views:
        print(f"Views, to uncomment in {file}: {', '.join(map(shown, plan.views))}.")
    for name, why in left_out.items():
        print(f"Left out: {name} ({why}).")
    others = [shown(name) for name in plan.left_out if called_after_people(name[1])]
    if others:
        print(
            f"Only {plan.unit} is protected. Other people, perhaps: {', '.join(others)} (privacy_unit_kind)."
        )
    if hidden:
        print(f"Hidden: {', '.join(hidden)}.")
    option = "" if file.name == "dpproxy.toml" and file.parent == Path() else f" -c {file}"
    print(f"Next: dpproxy check{option}; dpproxy user add NAME{option}; dpproxy serve{option}")
