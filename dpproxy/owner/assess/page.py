"""An assessment as one HTML page, for its owner's eyes."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from dpproxy.owner.assess.report import GOOD, NOT_PRIVATE, USABLE, Report, Row

HEADINGS = (
    ("Refused", "refused"),
    ("Answered", "answered"),
    ("Need values", "needs values"),
    ("Free: no private rows are read", "free"),
)


def page(made: Report) -> str:
    """The report as one HTML page that loads nothing."""
    templates = Environment(
        loader=PackageLoader("dpproxy.owner.assess"),
        autoescape=select_autoescape(),
        undefined=StrictUndefined,
    )
    template = templates.get_template("assess.html")
    return template.render(r=made, warning=NOT_PRIVATE, headings=HEADINGS, grade=_grade)


def _grade(row: Row) -> str:
    """How an error is coloured."""
    text = row.error.strip("> %")
    if not text.replace(".", "").isdigit():
        return "soft"
    return "good" if float(text) <= 100 * GOOD else "fair" if float(text) <= 100 * USABLE else "bad"


def write_private(file: Path, text: str) -> None:
    """Writes a file that only its owner can read; what was there is replaced."""
    handle, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.absolute().parent)
    try:
        with open(handle, "w", encoding="utf-8") as opened:
            opened.write(text)
        os.replace(name, file)
    except BaseException:
        os.unlink(name)
        raise
