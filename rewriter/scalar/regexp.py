"""Regular expressions that PostgreSQL and RE2 understand alike: a small common part, written without flags."""

from __future__ import annotations

import re

_PLAIN = r"[A-Za-z0-9 _\-@:;,/#%&=!\"'<>~`\u00a1-\uffff]"
_ESCAPED = r"\\[.*+?()\[\]{}|^$\\/\-]|\\d"
_SET = r"\[\^?(?:\[:(?:alpha|digit|alnum|upper|lower):\]|[A-Za-z0-9]-[A-Za-z0-9]|[A-Za-z0-9 _.,:;/@#%&=!+*?()<>-])+\]"
_ATOM = re.compile(rf"{_SET}|{_ESCAPED}|{_PLAIN}|\.")
_TIMES = re.compile(r"[*+?]|\{\d{1,2}(?:,\d{0,2})?\}")
_CHARACTER = re.compile(r"[^.^$\\\[]|\\[^d]")
_FIXED = re.compile(r"\{(?!0+\})\d+\}")
MOST = 200
"""Characters of a pattern: neither engine finds such a pattern too complex."""


def tokens(pattern: str) -> list[str] | None:
    """The parts of a pattern: atoms, quantifiers, `(`, `)`, `|`, `^`, `$`; None outside of the common part.

    >>> tokens("^a[0-9]+(x|y)?$"), tokens("a(?=b)"), tokens("a**")
    (['^', 'a', '[0-9]', '+', '(', 'x', '|', 'y', ')', '?', '$'], None, None)
    """
    if not pattern or len(pattern) > MOST:
        return None
    found: list[str] = []
    depth = place = 0
    while place < len(pattern):
        atom, times = _ATOM.match(pattern, place), _TIMES.match(pattern, place)
        after = found[-1] if found else ""
        if pattern[place] in "()|^$":
            part = pattern[place]
            depth += (part == "(") - (part == ")")
            if depth < 0 or (part in ")|" and after in ("", "(", "|")):
                return None
        elif times is not None:
            part = times[0]
            if after in ("", "(", "|", "^", "$") or _TIMES.fullmatch(after) or not _ordered(part):
                return None
        elif atom is not None and _in_order(atom[0]):
            part = atom[0]
        else:
            return None
        found.append(part)
        place += len(part)
    nested = depth or found[-1] == "|" or _repeats_of_repeats(found)
    return None if nested else found


def _ordered(times: str) -> bool:
    low, _, high = times.strip("{}").partition(",")
    return not times.startswith("{") or not high or int(low) <= int(high)


def _in_order(atom: str) -> bool:
    ranges = re.findall(r"(?<!\[)([A-Za-z0-9])-([A-Za-z0-9])", atom) if atom.startswith("[") else []
    return all(low <= high for low, high in ranges)


def _repeats_of_repeats(found: list[str]) -> bool:
    """Whether a group that holds a counted repetition is itself counted: the product could be large."""
    counted = [n for n, part in enumerate(found) if part.startswith("{")]
    return len(counted) > 1 and any(found[n - 1] == ")" for n in counted)


def either_case(found: list[str]) -> str:
    """The pattern that also matches ASCII letters of the other case.

    >>> either_case(["a", "[b-d]", "1"])
    '[aA][b-dB-D]1'
    """
    return "".join(_either(part) for part in found)


def _either(part: str) -> str:
    if len(part) == 1 and part.isascii() and part.isalpha():
        return f"[{part.lower()}{part.upper()}]"
    if not part.startswith("["):
        return part
    head = "[^" if part.startswith("[^") else "["
    body = part[len(head) : -1]
    folded = re.sub(r"\[:(upper|lower):\]", "[:alpha:]", body)
    classes = re.findall(r"\[:[a-z]+:\]", folded)
    letters = re.sub(r"\[:[a-z]+:\]", "", folded)
    other = "".join(re.findall(r"[A-Za-z]-[A-Za-z]|[A-Za-z](?!-)", letters)).swapcase()
    return (
        head + "".join(classes) + letters.rstrip("-") + other + ("-" if letters.endswith("-") else "") + "]"
    )


def settled(found: list[str]) -> bool:
    """Whether all engines find the same part of a text: PostgreSQL the longest from the first place on where there is
    one, RE2 the first that it tries.

    With one repeated part alone, RE2 tries the longest first; what reaches the end of the text is longest by itself.
    Without groups, PostgreSQL has nothing to find again within the part.

    >>> settled(["[0-9]", "+"]), settled(["a", "b", "?", "c", "*"]), settled(["a", "?", ".", "*", "$"])
    (True, False, True)
    """
    to_end = found[-1] == "$" or found[-2:] in ([".", "*"], [".", "+"])
    return not {"(", ")", "|"}.intersection(found) and (to_end or _one_choice(found))


def extracts(found: list[str]) -> bool:
    """Whether all engines find the same part of a text, and in it the same part for a group, of which there may be one.

    >>> extracts(["@", "(", "[^.]", "+", ")", "."]), extracts(["(", "a", ")", "?"]), extracts(["a", "*", "a", "+"])
    (True, False, False)
    """
    if "|" in found or found.count("(") > 1:
        return False
    after = [*found, ""][found.index(")") + 1] if ")" in found else ""
    return not _TIMES.fullmatch(after) and _one_choice([part for part in found if part not in ("(", ")")])


def _one_choice(found: list[str]) -> bool:
    """Whether the last repeated part of a pattern without groups is the only one that can be taken shorter or longer:
    what follows each other one is a character that it cannot be."""
    repeated = [n for n, part in enumerate(found) if _TIMES.fullmatch(part) and not _FIXED.fullmatch(part)]
    parts = [*found, "", ""]
    return all(_ends(parts[n - 1], parts[n + 1], parts[n + 2]) for n in repeated[:-1])


def _ends(repeated: str, following: str, after: str) -> bool:
    """Whether a repeated character or set ends where the character that has to follow it stands."""
    if not _CHARACTER.fullmatch(following) or "[:" in repeated or re.match(r"[*?]|\{0", after):
        return False
    return re.fullmatch(repeated, following[-1]) is None


def may_be_empty(found: list[str]) -> bool:
    """Whether a pattern without groups is found between characters.

    >>> may_be_empty(["a", "*"]), may_be_empty(["a", "+"]), may_be_empty(["a", "b", "*"]), may_be_empty(["^"])
    (True, False, False, True)
    """
    atoms = [n for n, part in enumerate(found) if part not in ("^", "$") and not _TIMES.fullmatch(part)]
    return all(re.match(r"[*?]|\{0", part) for part in ([*found, ""][n + 1] for n in atoms))
