"""Values to try for the parameters that pg_stat_statements has in place of constants.

What a value decides is often its place alone: the unit of date_trunc, the number of LIMIT, a quantile. The others
get a value of their type, which groups and prices do not hang on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rewriter.statements.lexer import Token, TokenKind, tokens

_BEHIND = {"LIMIT": "10", "OFFSET": "0", "FETCH": "10", "FIRST": "10", "INTERVAL": "'7 days'"}
_BEHIND |= dict.fromkeys(("DATE", "TIMESTAMP", "TIMESTAMPTZ"), "'2024-01-01'")
_ARGUMENTS: dict[str, tuple[str | None, ...]] = {
    "date_trunc": ("'month'", None, "'UTC'"),
    "date_part": ("'year'",),
    "extract": ("year",),
    "date_bin": ("'1 day'", None, "'2024-01-01'"),
    "to_char": (None, "'YYYY-MM'"),
    "to_date": (None, "'YYYY-MM-DD'"),
    "to_timestamp": (None, "'YYYY-MM-DD'"),
    "timezone": ("'UTC'",),
    "percentile_cont": ("0.5",),
    "percentile_disc": ("0.5",),
    "width_bucket": (None, "0", "100", "10"),
    "round": (None, "2"),
    "trunc": (None, "2"),
    "split_part": (None, "','", "1"),
    "substr": (None, "1", "1"),
    "left": (None, "1"),
    "right": (None, "1"),
}
"""Arguments of functions by place; None for those whose type says enough."""
_TYPES = {16: "true", **dict.fromkeys((20, 21, 23, 700, 701, 1700), "1")}
_TYPES |= {1186: "'7 days'", **dict.fromkeys((1082, 1114, 1184), "DATE '2024-01-01'")}
_TYPES |= {1083: "'12:00'", 2950: "'00000000-0000-0000-0000-000000000001'"}
_TEXT = "'A'"


def typical(text: str, types: Callable[[str], Sequence[int]]) -> str:
    """The statement with a value for each parameter; `types`: the type OIDs of a statement's parameters.

    Raises Refusal for a text that cannot be read, and what `types` raises.

    >>> typical("SELECT date_trunc($1, t) FROM x WHERE a > $2 AND b = $3 LIMIT $4", lambda _: (23, 25))
    "SELECT date_trunc('month', t) FROM x WHERE a > 1 AND b = 'A' LIMIT 10"
    """
    found = tokens(text)
    placed = {n: _placed(found, n) for n, token in enumerate(found) if token.kind is TokenKind.PARAMETER}
    numbers = {found[n].text for n, value in placed.items() if value is None}
    order = {number: f"${place}" for place, number in enumerate(sorted(numbers, key=_number), 1)}
    left = _replaced(text, found, {n: value or order[found[n].text] for n, value in placed.items()})
    if not order:
        return left
    values = [_TYPES.get(oid, _TEXT) for oid in types(left)]
    by_number = dict(zip(sorted(numbers, key=_number), values, strict=True))
    return _replaced(text, found, {n: value or by_number[found[n].text] for n, value in placed.items()})


def _number(parameter: str) -> int:
    return int(parameter[1:])


def _placed(found: Sequence[Token], place: int) -> str | None:
    """A value by what stands before a parameter."""
    before = found[place - 1].word if place else ""
    if before in _BEHIND:
        return _BEHIND[before]
    depth = argument = 0
    for at in range(place - 1, -1, -1):
        token = found[at]
        if token.text in ")]":
            depth += 1
        elif token.text in "([" and depth:
            depth -= 1
        elif token.text == "(":
            known = _ARGUMENTS.get(found[at - 1].text.lower(), ()) if at else ()
            return known[argument] if argument < len(known) else None
        elif token.text == "," and not depth:
            argument += 1
    return None


def _replaced(text: str, found: Sequence[Token], values: dict[int, str]) -> str:
    parts, at = [], 0
    for place, value in values.items():
        parts += [text[at : found[place].start], value]
        at = found[place].end
    return "".join([*parts, text[at:]])
