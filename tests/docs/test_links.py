"""Every page and test that a page or a docstring names exists, and so does every heading that a link leads to."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TRACKED = subprocess.run(
    ["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True
).stdout.splitlines()
PAGES = [name for name in TRACKED if name.endswith(".md")]
SOURCES = [name for name in TRACKED if name.endswith(".py") and not name.startswith("tests/")]
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)")
NAMED = re.compile(r"(?<![\w/.-])((?:[\w-]+/)*[\w-]+\.md)\b")
TEST = re.compile(r"`((?:[\w-]+/)*test_\w+\.py)(?:::(\w+))?")
CODE = re.compile(r"`([^`\n]+)`")
GUIDE = "CONTRIBUTING.md"


@cache
def text_of(page: str) -> str:
    return (ROOT / page).read_text()


@cache
def anchors(page: Path) -> frozenset[str]:
    """The anchors of a page's headings, as a forge makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings)
    return frozenset(plain)


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    for target, anchor in LINK.findall(text_of(page)):
        if "://" in target or target.startswith("mailto:"):
            continue
        found = (ROOT / page).parent / target if target else ROOT / page
        assert found.exists(), target
        if anchor and found.suffix == ".md":
            assert anchor in anchors(found), f"{target}#{anchor}"


def test_every_page_can_be_reached_from_the_readme() -> None:
    found, left = set(), ["README.md"]
    while left:
        page = left.pop()
        found.add(page)
        targets = [target for target, _ in LINK.findall(text_of(page)) if "://" not in target]
        near = {((ROOT / page).parent / one).resolve() for one in targets if one.endswith(".md")}
        left += {str(path.relative_to(ROOT)) for path in near} - found
    assert set(PAGES) <= found


def test_pages_that_docstrings_name_exist() -> None:
    for source in SOURCES:
        for name in NAMED.findall(text_of(source)):
            assert any(page == name or page.endswith(f"/{name}") for page in PAGES), f"{source}: {name}"


def test_tests_that_pages_name_exist() -> None:
    for page in PAGES:
        for name, function in TEST.findall(text_of(page)):
            found = [one for one in TRACKED if one == name or one.endswith(f"/{name}")]
            assert found, f"{page}: {name}"
            assert not function or any(f"def {function}(" in text_of(one) for one in found), function


def test_files_that_the_guide_names_exist() -> None:
    named = {word for word in CODE.findall(text_of(GUIDE)) if re.fullmatch(r"[\w.-]*[/.][\w./-]*", word)}
    assert len(named) > 50
    for name in named:
        if name.startswith(".venv"):
            continue
        assert (ROOT / name).exists() or any(one.endswith(f"/{name}") for one in TRACKED), name


def test_targets_that_the_guide_names_exist() -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):", text_of("Makefile"), re.M))
    assert set(re.findall(r"`make ([a-z-]+)`", text_of(GUIDE))) <= targets


def test_constants_that_the_guide_names_exist() -> None:
    named = {word for word in CODE.findall(text_of(GUIDE)) if re.fullmatch(r"_?[A-Z]+(_[A-Z]+)*", word)}
    assert len(named) > 5
    code = {word for name in TRACKED if name.endswith(".py") for word in re.findall(r"\w+", text_of(name))}
    assert named - {"CODE"} <= code


def test_decisions_are_listed_and_named_by_what_they_govern() -> None:
    listed = re.findall(
        r"\]\(([\w-]+\.md)\).*\]\(\.\./\.\./(.+)\) \|$", text_of("docs/decisions/README.md"), re.M
    )
    folder = ROOT / "docs" / "decisions"
    assert {name for name, _ in listed} == {page.name for page in folder.glob("*.md")} - {"README.md"}
    for name, governed in listed:
        assert name in text_of(governed), f"{governed} does not name {name}"
