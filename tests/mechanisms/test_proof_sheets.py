"""Every mechanism has its proof sheet, and what a sheet says is in the code is there."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

ROOM = Path(__file__).parent.parent.parent / "mechanisms"
WITHOUT_SHEET = {
    "__init__",
    "choose",
    "exact",
    "histogram",
    "item_sets",
    "randomness",
    "runners_up",
    "validation",
}
"""Values, plumbing, the lookup and its prices; exact.py is covered by noise.md and tails.md,
item_sets.py by partition_selection.md and matching.md."""
MODULES = sorted(path.stem for path in ROOM.glob("*.py"))
SHEETS = sorted(path.stem for path in ROOM.glob("*.md") if path.stem != "README")
PLACE = re.compile(rf"`((?:{'|'.join(MODULES)})(?:\.\w+)+)`")


def test_every_mechanism_has_its_sheet() -> None:
    assert set(MODULES) - WITHOUT_SHEET == set(SHEETS)


@pytest.mark.parametrize("sheet", SHEETS)
def test_places_in_the_code_exist(sheet: str) -> None:
    places = PLACE.findall((ROOM / f"{sheet}.md").read_text())
    assert len(places) > 3
    for place in places:
        module, *names = place.split(".")
        found = importlib.import_module(f"mechanisms.{module}")
        for name in names:
            assert hasattr(found, name), place
            found = getattr(found, name)


@pytest.mark.parametrize("sheet", SHEETS)
def test_every_public_function_and_mechanism_is_proved(sheet: str) -> None:
    module = importlib.import_module(f"mechanisms.{sheet}")
    text = (ROOM / f"{sheet}.md").read_text()
    for name, value in vars(module).items():
        if getattr(value, "__module__", None) == module.__name__ and not name.startswith("_"):
            assert f"`{sheet}.{name}" in text or name.endswith("_stddev"), name


@pytest.mark.parametrize("sheet", SHEETS)
def test_a_sheet_stands_alone(sheet: str) -> None:
    text = (ROOM / f"{sheet}.md").read_text()
    assert not re.search(r"proofs\.md|mechanisms\.md|shared", text)
    others = set(re.findall(r"(\w+)\.md", text)) - {sheet}
    assert others <= set(SHEETS)
