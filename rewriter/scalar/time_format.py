"""Formats of to_char for dates and timestamps: which of PostgreSQL's patterns are read, and what each of them shows."""

from __future__ import annotations

import re
from dataclasses import dataclass

MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
PATTERNS = {
    "YYYY": ("year", 4),
    "YY": ("year", 2),
    "IYYY": ("isoyear", 4),
    "Q": ("quarter", 1),
    "MONTH": ("month", 9),
    "MON": ("month", 3),
    "MM": ("month", 2),
    "IW": ("week", 2),
    "WW": ("doy", 2),
    "W": ("day", 1),
    "DAY": ("dow", 9),
    "DY": ("dow", 3),
    "DDD": ("doy", 3),
    "DD": ("day", 2),
    "ID": ("isodow", 1),
    "D": ("dow", 1),
    "HH24": ("hour", 2),
    "HH12": ("hour", 2),
    "HH": ("hour", 2),
    "AM": ("hour", 2),
    "PM": ("hour", 2),
    "MI": ("minute", 2),
    "SS": ("second", 2),
}
"""The field of a time that each pattern shows, and in how many characters."""
NAMES = {"MONTH": MONTHS, "MON": MONTHS, "DAY": WEEKDAYS, "DY": WEEKDAYS}
_OTHERS = r"(?i:SSSSS?|FF[1-6]|Y,YYY|YYY(?!Y)|IYY(?!Y)|IDDD|T[HZM])"
"""Patterns that begin as others do."""
_TOKEN = re.compile(
    rf'(?P<other>{_OTHERS})|(?P<fill>FM|fm)?(?P<pattern>{{}})|"(?P<quoted>[^"\\]*)"|(?P<plain>[^A-Za-z"\\%])'.format(
        "|".join(
            spelling
            for name in sorted(PATTERNS, key=len, reverse=True)
            for spelling in (name, *([name.capitalize()] if name in NAMES else []), name.lower())
        )
    )
)
LONGEST = 100
"""Characters of a format."""


@dataclass(frozen=True)
class FormatPart:
    """A pattern of a format, in the letters in which it was written, or a text that is shown as it is.

    Attributes:
        pattern: the pattern in capitals; "" for a text.
        text: as it was written.
        filled: whether it has zeros or blanks up to its width.
    """

    pattern: str
    text: str
    filled: bool = True

    @property
    def field(self) -> str:
        """The field of a time that it shows."""
        return PATTERNS[self.pattern][0]

    @property
    def width(self) -> int:
        """In how many characters it is shown."""
        return PATTERNS[self.pattern][1]

    def names(self) -> list[str]:
        """The names of months or weekdays, Sunday first, as this pattern shows them.

        >>> names = [FormatPart(p, said).names() for p, said in (("MON", "mon"), ("DAY", "Day"))]
        >>> names[0][:2], names[1][1], FormatPart("DAY", "DAY", False).names()[1]
        (['jan', 'feb'], 'Monday   ', 'MONDAY')
        """
        case = str.lower if self.text.islower() else str.upper if self.text.isupper() else str
        shown = [case(name)[: self.width] for name in NAMES[self.pattern]]
        return [name.ljust(self.width) if self.filled else name for name in shown]


def pieces(text: str) -> list[FormatPart] | None:
    """The parts of a format; None where PostgreSQL has patterns in it that are not read here.

    >>> [piece.pattern or piece.text for piece in pieces('FMMonth YYYY"w"IW') or []]
    ['MONTH', ' ', 'YYYY', 'w', 'IW']
    >>> pieces("DDth"), pieces("YYYY-MM-DDTHH24"), pieces("SSSS")
    (None, None, None)
    """
    found: list[FormatPart] = []
    place = 0
    while place < len(text):
        token = _TOKEN.match(text, place)
        if token is None or token["other"] is not None:
            return None
        if token["pattern"] is not None:
            found.append(FormatPart(token["pattern"].upper(), token["pattern"], token["fill"] is None))
        else:
            found.append(FormatPart("", token["plain"] or token["quoted"] or ""))
        place = token.end()
    return found if found and len(text) <= LONGEST else None
