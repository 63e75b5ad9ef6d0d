"""What was read of short texts, remembered: few clients send anything else again and again."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Concatenate, ParamSpec, TypeVar, cast

MOST_TEXTS, MOST_CHARACTERS = 1000, 4000
P = ParamSpec("P")
Result = TypeVar("Result")


def remembered(read: Callable[Concatenate[str, P], Result]) -> Callable[Concatenate[str, P], Result]:
    """A function of a text that remembers the latest short ones; a long one is read each time, so that what is
    remembered has a bound in bytes.

    >>> calls = []
    >>> length = remembered(lambda text: calls.append(text) or len(text))
    >>> [length("ab"), length("ab"), length("a" * 5000), length("a" * 5000)], len(calls)
    ([2, 2, 5000, 5000], 3)
    """
    kept = cast(Callable[Concatenate[str, P], Result], lru_cache(maxsize=MOST_TEXTS)(read))

    @wraps(read)
    def reading(text: str, /, *args: P.args, **kwargs: P.kwargs) -> Result:
        known = kept if len(text) <= MOST_CHARACTERS else read
        return known(text, *args, **kwargs)

    return cast(Callable[Concatenate[str, P], Result], reading)
