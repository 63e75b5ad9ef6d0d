"""The client's parameters, with values and before they have any."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Parameter:
    """A client's parameter: its type's name in the front and its value as canonical text.

    Without a value it is not known yet, or NULL; `null`: it is known to be NULL, as constants of a query can be.
    `name`: that of the column whose value or values it is.
    """

    type: str
    value: str | None
    null: bool = False
    name: str = ""

    def meets(self, test: Callable[..., bool], *also: object) -> bool:
        """Whether the value, if there is one, meets a test.

        >>> Parameter("integer", "7").meets(str.startswith, "8"), Parameter("integer", None).meets(str.isdigit)
        (False, True)
        """
        return self.value is None or test(self.value, *also)


@dataclass(frozen=True)
class Unbound(Parameter):
    """A parameter that gets its value later, and notes what is asked about the value until then.

    A pure function that never asks gives the same result for every value, and one that only tests it gives the same
    for every value that meets the tests.

    >>> limit, date = Unbound("bigint", None), Unbound("date", None)
    >>> limit.value, date.meets(str.startswith, "2024-")
    (None, True)
    >>> limit.takes(Parameter("bigint", "10")), date.takes(Parameter("date", "2024-01-31"))
    (False, True)
    """

    _tests: set[tuple[Callable[..., bool], tuple[object, ...]]] = field(
        init=False, repr=False, compare=False, default_factory=set
    )

    def __getattribute__(self, name: str) -> object:
        if name == "value":
            self._tests.add((_unread, ()))
        return super().__getattribute__(name)

    def meets(self, test: Callable[..., bool], *also: object) -> bool:
        self._tests.add((test, also))
        return True

    def takes(self, bound: Parameter) -> bool:
        """Whether what was computed without the value is the same with that of `bound`."""
        if bound.value is None:
            return not bound.null
        return all(test(bound.value, *also) for test, also in self._tests)


def _unread(_: str) -> bool:
    """No value meets the test of a parameter whose value itself was asked for."""
    return False


Parameters = Sequence[Parameter]
