"""The other case of a letter: Unicode's mapping of one character to one, which PostgreSQL has under C.UTF-8."""

from __future__ import annotations


def lower(letter: str) -> str:
    """
    >>> lower("É"), lower("İ"), lower("Σ"), lower("1")
    ('é', 'i', 'σ', '1')
    """
    return letter.lower()[0]


def upper(letter: str) -> str:
    """
    >>> upper("é"), upper("ß"), upper("ᾳ"), upper("ς")
    ('É', 'ß', 'ᾼ', 'Σ')
    """
    return next(found for found in (letter.upper(), letter.title(), letter) if len(found) == 1)
