"""The documentation says what the code does: every setting and every command, and no others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from dpproxy.config import identity, sections

DOCS = Path(__file__).parent.parent.parent / "docs"
SECTIONS: dict[str, tuple[type[BaseModel], set[str]]] = {
    "## [server]": (sections.ServerSection, set()),
    "## [backend]": (sections.BackendSection, set()),
    "## [privacy]": (sections.Privacy, set()),
    "## [budget]": (sections.Budget, {"analysts", "teams", "dataset"}),
    "## [report]": (sections.ReportSection, set()),
    "## [identity.services.NAME]": (identity.ServiceLogin, set()),
    "## [identity.tokens]": (identity.TokensSection, set()),
    "## [[identity.certificates]]": (identity.CertificateRule, set()),
    "## [identity.ldap]": (identity.LdapSection, set()),
    "## [tables.NAME]": (sections.TableSection, set()),
    "### [tables.NAME.columns]": (sections.ColumnSection, set()),
}


def section(page: str, heading: str) -> str:
    _, _, rest = page.partition(f"{heading}\n")
    assert rest, f"no {heading}"
    return re.split(r"^#{2,3} ", rest, maxsplit=1, flags=re.M)[0]


def documented(text: str) -> Iterator[str]:
    """The keys in the first column of the section's first table."""
    table = re.search(r"(?:^\|.*\n)+", text, flags=re.M)
    assert table
    for row in table[0].splitlines()[2:]:
        yield from re.findall(r"`([a-z_.]+)`", row.split("|")[1])


@pytest.mark.parametrize("heading", SECTIONS)
def test_every_key_is_documented(heading: str) -> None:
    model, elsewhere = SECTIONS[heading]
    page = (DOCS / "configuration.md").read_text()
    assert sorted(documented(section(page, heading))) == sorted(set(model.model_fields) - elsewhere)


def test_front_and_ledger_are_documented() -> None:
    keys = set(documented(section((DOCS / "configuration.md").read_text(), "## [front] and [ledger]")))
    expected = {f"front.{name}" for name in sections.FrontSection.model_fields}
    expected |= {f"ledger.{name}" for name in sections.LedgerSection.model_fields}
    assert keys == expected


def test_documented_defaults_are_the_defaults(tmp_path: Path) -> None:
    page = (DOCS / "configuration.md").read_text()
    text = "[backend]\nurl = 'duckdb:///x'\n[tables]\n"
    for heading, name in (("## [server]", "server"), ("## [privacy]", "privacy"), ("## [budget]", "budget")):
        text += f"[{name}]\n"
        table = re.search(r"(?:^\|.*\n)+", section(page, heading), flags=re.M)
        assert table
        for row in table[0].splitlines()[2:]:
            keys, defaults = (re.findall(r"`([^`]+)`", cell) for cell in row.split("|")[1:3])
            if len(defaults) < len(keys):
                defaults *= len(keys)
            text += "".join(f"{key} = {value}\n" for key, value in zip(keys, defaults, strict=True))
    file = tmp_path / "dpproxy.toml"
    file.write_text(text)
    loaded = sections.load(file)
    assert loaded.server == sections.ServerSection()
    assert loaded.privacy == sections.Privacy()
    assert loaded.budget == sections.Budget()
