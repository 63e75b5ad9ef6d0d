"""The user whom a tool names in a comment before its statement: recorded in the history, without any right."""

from __future__ import annotations

import re

MOST = 100
"""Characters of an attribution."""
_COMMENT = re.compile(r"\s*(?:--([^\n]*)(?:\n|\Z)|/\*(.*?)\*/)", re.DOTALL)
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
    at = 0
    while (comment := _COMMENT.match(text, at)) is not None:
        at = comment.end()
        said = comment[1] or comment[2] or ""
        for tool, form in _FORMS:
            found = form.search(said)
            name = plain_name(found[found.lastindex or 0]).replace(" ", "") if found is not None else ""
            if name:
                return f"{tool}:{name}"[:MOST]
    return ""


def plain_name(text: str) -> str:
    """Letters, digits, blanks and .@_+- of a name that a client has chosen, MOST characters of it.

    >>> plain_name("DBeaver 24.1 - Main;\\n")
    'DBeaver 24.1 - Main'
    """
    return re.sub(r"[^\w .@+-]", "", text)[:MOST].strip()
