"""Regular expressions that PostgreSQL and RE2 understand alike: a small common part, written without flags.

Of the classes only digits are in it: which characters are letters or blanks depends on the locale of a database and the
version of its Unicode tables. The other case of a letter is written out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rewriter.scalar.letters import lower, upper

_PLAIN = r"[A-Za-z0-9 _\-@:;,/#%&=!\"'<>~`\u00a1-\uffff]"
_ESCAPED = r"\\[.*+?()\[\]{}|^$\\/\-]|\\d"
_CLASS = r"\[:digit:\]"
_RANGE = r"[a-z]-[a-z]|[A-Z]-[A-Z]|[0-9]-[0-9]|[\u00a1-\uffff]-[\u00a1-\uffff]"
_ITEM = rf"{_CLASS}|{_RANGE}|[A-Za-z0-9 _.,:;/@#%&=!+*?()<>\u00a1-\uffff]"
_SET = rf"\[\^?(?:-?(?:{_ITEM})+-?|-)\]"
"""A `-` that is no range stands first or last: behind a class or a range, PostgreSQL cannot read it."""
_ATOM = re.compile(rf"{_SET}|{_ESCAPED}|{_PLAIN}|\.")
_TIMES = re.compile(r"[*+?]|\{\d{1,2}(?:,\d{0,2})?\}")
_CHARACTER = re.compile(r"[^.^$\\\[]|\\[^d]")
_FIXED = re.compile(r"\{(?!0+\})\d+\}")
MOST = 200
"""Characters of a pattern."""
WIDEST = 1_000
"""Characters of a range."""
MOST_ATOMS = 1_000
"""Atoms of a pattern whose repetitions are written out."""
MOST_ARCS = 100_000
"""Arcs of the automaton of a pattern, counted from above: PostgreSQL fails at more than ten million."""


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
        elif atom is not None and (not atom[0].startswith("[") or _in_order(atom[0])):
            part = atom[0]
        else:
            return None
        found.append(part)
        place += len(part)
    return None if depth or found[-1] == "|" or _too_complex(found) else found


def _ordered(times: str) -> bool:
    low, _, high = times.strip("{}").partition(",")
    return not times.startswith("{") or not high or int(low) <= int(high)


def _in_order(written: str) -> bool:
    return all(1 <= len(_characters(item)) <= WIDEST for item in _items(written))


def _items(written: str) -> list[str]:
    """The classes, ranges and characters of a set, without a `-` that stands for itself."""
    return re.findall(_ITEM, written[1:-1].removeprefix("^").removeprefix("-"))


def _characters(item: str) -> range:
    """The code points of a character or range of a set; those of digits for their class."""
    ends = "09" if item.startswith("[") else item
    return range(ord(ends[0]), ord(ends[-1]) + 1)


@dataclass
class _Size:
    """The size of a part of a pattern whose repetitions are written out.

    Attributes:
        atoms: how many characters, sets and anchors.
        skips: how many parts may be left out, over each of which every arc before it can lead on.
        anchored: it holds a `^` or `$`.
    """

    atoms: int = 0
    skips: int = 0
    anchored: bool = False

    def add(self, part: _Size) -> None:
        self.atoms += part.atoms
        self.skips += part.skips
        self.anchored |= part.anchored

    def repeated(self, times: str) -> _Size:
        least, most = _bounds(times)
        return _Size(self.atoms * most, self.skips * most + most - least, self.anchored)


def _bounds(times: str) -> tuple[int, int]:
    """How often a part is repeated at least, and how often PostgreSQL writes it at most: twice for `+`."""
    low, comma, high = times.strip("{}").partition(",") if times.startswith("{") else ("0", "", "")
    return int(low), max(int(high) if high else int(low) + bool(comma), 2)


def _too_complex(found: list[str]) -> bool:
    """Whether an engine could find a pattern too complex: the arcs of its automaton are counted from above.

    >>> _too_complex(["a", "{99}"]), _too_complex(["(", "a", "{99}", ")", "{99}"]), _too_complex([".", "?"] * 99)
    (False, True, False)
    """
    outer: list[_Size] = []
    whole, last = _Size(), _Size()
    for part in found:
        if _TIMES.fullmatch(part):
            if last.anchored:
                return True
            last = last.repeated(part)
            continue
        whole.add(last)
        last = _Size()
        if part == "(":
            outer.append(whole)
            whole = _Size()
        elif part == ")":
            whole, last = outer.pop(), whole
        elif part != "|":
            last = _Size(atoms=1, anchored=part in ("^", "$"))
    whole.add(last)
    arcs = whole.atoms * (whole.skips + 1) * _colours(found) * 2 ** _inner_anchors(found)
    return whole.atoms > MOST_ATOMS or arcs > MOST_ARCS


def _colours(found: list[str]) -> int:
    """How many kinds of characters a pattern tells apart: a set has an arc for each."""
    atoms = {part for part in found if _ATOM.fullmatch(part)}
    items = (_items(atom) if atom.startswith("[") else [] for atom in atoms)
    # In letters beyond ASCII capitals and small letters take turns: for either case each is an item of its own.
    return 1 + sum(
        1 + sum(1 if one.isascii() else len(_characters(one)) for one in listed) for listed in items
    )


def _inner_anchors(found: list[str]) -> int:
    """The anchors elsewhere than at the ends of a whole alternative: PostgreSQL may copy the automaton for each."""
    depth = inner = 0
    for before, part, after in zip(["|", *found], found, [*found[1:], "|"], strict=False):
        depth += (part == "(") - (part == ")")
        ends = (part == "^" and before == "|") or (part == "$" and after == "|")
        inner += part in ("^", "$") and (depth > 0 or not ends)
    return inner


def either_case(found: list[str]) -> str:
    """The pattern that also matches letters of the other case.

    >>> either_case(["a", "[b-d]", "é", "[ß-à]", "1"])
    '[aA][b-dB-D][éÉ][ß-àÀ]1'
    """
    return "".join(_either(part) for part in found)


def _either(part: str) -> str:
    if len(part) == 1:
        cases = dict.fromkeys((lower(part), upper(part)))
        return part if part in cases and len(cases) == 1 else f"[{''.join(cases)}]"
    if not part.startswith("["):
        return part
    head = "[^" if part.startswith("[^") else "["
    items = _items(part)
    itself = part.startswith(f"{head}-") or part.endswith("-]")
    inside = {chr(code) for item in items for code in _characters(item)}
    other = {case(one) for one in inside for case in (lower, upper)} - inside
    # PostgreSQL has both other cases of a letter such as ǅ in the place of it.
    kept = [item for item in items if len(item) != 1 or item in (lower(item), upper(item))]
    return f"{head}{''.join(kept)}{''.join(_ranges(sorted(other)))}{'-' * itself}]"


def _ranges(characters: Iterable[str]) -> Iterator[str]:
    """Characters in order as ranges, where three or more follow each other."""
    run = ""
    for one in (*characters, ""):
        if run and (not one or ord(one) > ord(run[-1]) + 1):
            yield run if len(run) < 3 else f"{run[0]}-{run[-1]}"
            run = ""
        run += one


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
