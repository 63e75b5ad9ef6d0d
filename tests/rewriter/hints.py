"""Applies the SQL in a hint as an analyst would; what the pieces mean is said in rewriter/syntax/pasted.py."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import sqlglot
from sqlglot import exp

from rewriter.refusal import Refusal
from rewriter.statements.lexer import tokens

INSTEAD = re.compile(r"`([^`]+)` in place of `([^`]+)`")
ADDED = re.compile(r"Add `([^`]+)` to (WHERE|ON|the subquery's WHERE)")
MEANT = re.compile(r'Perhaps you meant ("(?:[^"]|"")+")')
MARKED = re.compile(r"`([^`]+)`")
BARE = re.compile(
    r"\b(SELECT|FROM|WHERE|OVER|FILTER|GROUP BY|ORDER BY|PARTITION BY) *[a-z\"<]|<\w+>|\w\((?!DISTINCT\))|\.\.\."
)
"""SQL outside of the marks, or SQL with gaps."""

CLASSES = {
    name
    for name, kind in vars(exp).items()
    if inspect.isclass(kind) and issubclass(kind, exp.Expr) and not name.isupper()
}
OURS = re.compile(r"\b(?:_[or]\d*|[acgtwxz]\d+)\b")
"""Names of columns and sources that are ours."""


def applied(sql: str, refusal: Refusal) -> Iterator[str]:
    """The statements that a refusal's hint leads to."""
    hint = refusal.hint or ""
    if (meant := MEANT.search(hint)) is not None and refusal.position is not None:
        start = refusal.position - 1
        column = re.compile(r'(?:\w+\.)?("[^"]*"|\w+)').match(sql, start)
        assert column is not None, sql
        yield sql[: column.start(1)] + meant[1] + sql[column.end(1) :]
    for new, old in INSTEAD.findall(hint):
        yield _replaced(sql, old, new)
    for condition, clause in ADDED.findall(hint):
        yield _added(sql, condition, clause)
    rest = ADDED.sub("", INSTEAD.sub("", hint))
    yield from MARKED.findall(rest)


def _folded(text: str) -> list[str]:
    return [t.text if t.text[:1] in "\"'" else t.text.lower() for t in tokens(text)]


def _replaced(sql: str, old: str, new: str) -> str:
    """The statement with `new` wherever it has the tokens of `old`."""
    found, wanted = tokens(sql), _folded(old)
    texts = _folded(sql)
    for at in reversed(range(len(texts) - len(wanted) + 1)):
        if texts[at : at + len(wanted)] == wanted:
            sql = sql[: found[at].start] + new + sql[found[at + len(wanted) - 1].end :]
    assert texts != _folded(sql), f"{old} is not in the statement: {sql}"
    return sql


def _added(sql: str, condition: str, clause: str) -> str:
    tree = sqlglot.parse_one(sql, read="postgres")
    added = sqlglot.parse_one(condition, read="postgres")
    names = {column.table for column in added.find_all(exp.Column)}
    for select in reversed(list(tree.find_all(exp.Select))):
        joins = select.args.get("joins") or []
        items = {item.this.alias_or_name for item in (select.args["from_"], *joins)}
        if names <= items or ("subquery" in clause and names & items):
            if clause == "ON":
                [j for j in joins if j.this.alias_or_name in names][-1].on(added, copy=False)
            else:
                select.where(added, copy=False)
            return str(tree.sql("postgres"))
    raise AssertionError(f"no SELECT reads {names}: {sql}")


def foreign(refusal: Refusal, sql: str) -> list[str]:
    """The words of a refusal that only the parser or the rewriter knows."""
    said, hint = set(re.findall(r"\w+", sql)), MARKED.sub("", refusal.hint or "")
    told = f"{refusal.message} {refusal.detail or ''} {hint}"
    # A hint begins with words that classes are called by, too: Add, Select, Count.
    words = [*re.findall(r"\w+", refusal.message), *re.findall(r"\w*[a-z][A-Z]\w*", told)]
    ours = OURS.findall(f"{told} {refusal.hint or ''}")
    return [w for w in dict.fromkeys([*(w for w in words if w in CLASSES), *ours]) if w not in said]
