"""What comments before a statement say: the user whom a tool names, who is recorded in the history without any right,
and how precise the answer should be."""

from __future__ import annotations

import re
from collections.abc import Iterator

MOST, LONGEST = 100, 200
"""Characters of an attribution, and of a comment with settings."""
_COMMENT = re.compile(r"\s*(?:--([^\n]*)(?:\n|\Z)|/\*(.*?)\*/)", re.DOTALL)
_SETTING = r"dpproxy\.(units|error|most_units|reuse)\s*=\s*(?:'([^']*)'|([^\s,;*']+))"
_HINT = re.compile(_SETTING, re.IGNORECASE)
_HINTS = re.compile(rf"\+?\s*{_SETTING}(?:\s*[,;]?\s*{_SETTING})*\s*;?", re.IGNORECASE)
"""Settings alone make a hint: prose that names one, as tools write titles, buys nothing."""
_FORMS = (
    ("metabase", re.compile(r"Metabase:: userID: (\d+)\b")),
    ("superset", re.compile(r"\s*\[SQL LAB\] (\S+)")),
    ("redash", re.compile(r"(?:^|[\s,])Username: ([^\s,]+)")),
    ("grafana", re.compile(r"\s*grafana\b.*?\buser=(?:'([^']*)'|([^\s,]+))", re.DOTALL)),
)
"""As the tools write them: Metabase's remark, Superset's SQL_QUERY_MUTATOR as its configuration suggests it, Redash's
annotation, and what Grafana's SQL plugins and panels put before a query."""


def attributed(text: str) -> str:
    """The tool and the user that the comments before a statement name, "" where they name none.

    Letters, digits and .@_+- of the name are kept, MOST characters in all.

    >>> attributed("-- Metabase:: userID: 7 queryType: native queryHash: ab01\\nSELECT 1")
    'metabase:7'
    >>> attributed("-- [SQL LAB] ann 2024-05-01T10:00:00\\nSELECT 1"), attributed("SELECT 1 -- Metabase:: userID: 7")
    ('superset:ann', '')
    >>> attributed("/* Username: ann@x.org, query_id: 3, Queue: queries */ SELECT 1")
    'redash:ann@x.org'
    >>> attributed("/* grafana dashboard=Sales, user='ann' */ SELECT 1")
    'grafana:ann'
    """
    for said in _comments(text):
        for tool, form in _FORMS:
            found = form.search(said)
            name = plain_name(found[found.lastindex or 0]).replace(" ", "") if found is not None else ""
            if name:
                return f"{tool}:{name}"[:MOST]
    return ""


def hinted(text: str) -> dict[str, str]:
    """The settings of an answer's precision in the comments before a statement, for that statement alone.

    >>> hinted("/* dpproxy.error = '5%', dpproxy.most_units = 8 */ SELECT 1")
    {'dpproxy.error': '5%', 'dpproxy.most_units': '8'}
    >>> hinted("-- dpproxy.units = 4\\nSELECT 1"), hinted("SELECT '/* dpproxy.units = 4 */'")
    ({'dpproxy.units': '4'}, {})
    >>> hinted("/* never use dpproxy.units = 64 */ SELECT 1")
    {}
    """
    hints = (said for said in _comments(text) if len(said) <= LONGEST and _HINTS.fullmatch(said.strip()))
    found = (hint for said in hints for hint in _HINT.findall(said))
    return {f"dpproxy.{name.lower()}": quoted or plain for name, quoted, plain in found}


def _comments(text: str) -> Iterator[str]:
    """What the comments before a statement say."""
    at = 0
    while (comment := _COMMENT.match(text, at)) is not None:
        at = comment.end()
        yield comment[1] or comment[2] or ""


def plain_name(text: str) -> str:
    """Letters, digits, blanks and .@_+- of a name that a client has chosen, MOST characters of it.

    >>> plain_name("DBeaver 24.1 - Main;\\n")
    'DBeaver 24.1 - Main'
    """
    return re.sub(r"[^\w .@+-]", "", text)[:MOST].strip()
