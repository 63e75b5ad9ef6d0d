"""Whether a ledger has only ever held releases of bounded range: by its entries, not by the present noise setting.

[AEA] Theorem 2 holds for accounts all of whose releases are of bounded range: those of noise = "laplace". A release
with Gaussian noise that was reserved before the noise was changed rules the theorem out for good: its answer stays
known; so does an entry that does not name its noise.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Self

from budget.history import History
from dpproxy.config.sections import Privacy

# By name: entries of the ledger say nothing else, and have to be understood for as long as there are any.
_ALWAYS = frozenset({"KnownLap", "UnkLap", "KnownGumb", "UnkGumb"})
_EITHER = frozenset({"ClampedSum", "PositiveHistogram", "QuantileTree"})
"""With Laplace noise of bounded range, with Gaussian noise not."""
_LAPLACE = " with Laplace noise"
UNSAID = ("",)
"""What reservations say that nobody can read just now."""
_TIMES = re.compile(r" x\d+$")


def recorded(name: str, noise: str) -> str:
    """The text that a reservation stores about a release: the mechanisms' names and the noise of the deployment.

    >>> recorded("UnkLap, ClampedSum x2", "laplace"), recorded("UnkGauss, ClampedSum", "gaussian")
    ('UnkLap, ClampedSum x2 with Laplace noise', 'UnkGauss, ClampedSum')
    """
    return name + _LAPLACE if noise == "laplace" and _EITHER & _names(name) else name


def of_bounded_range(said: str) -> bool:
    """Whether a reservation says that its release is of bounded range.

    >>> [of_bounded_range(said) for said in ("UnkGumb", "KnownLap, ClampedSum with Laplace noise", "ClampedSum", "")]
    [True, True, False, False]
    """
    names = _names(said.removesuffix(_LAPLACE))
    return names <= (_ALWAYS | _EITHER if said.endswith(_LAPLACE) else _ALWAYS)


def accountable(privacy: Privacy, reserved: Iterable[str]) -> Privacy:
    """The parameters that a guarantee may be computed from; `reserved`: what all reservations so far say.

    Their noise is that of the deployment, unless anything but Laplace noise was ever reserved.
    """
    if all(map(of_bounded_range, reserved)):
        return privacy
    return privacy.model_copy(update={"noise": "gaussian"})


@dataclass(frozen=True)
class Accounting:
    """The inputs of a guarantee: parameters, and the mechanisms that the reservations of each account name."""

    privacy: Privacy
    reserved: Mapping[str, Collection[str]]

    @classmethod
    def read(cls, privacy: Privacy, history: History) -> Self:
        """That of a deployment, whose ledger's entries are read where a guarantee depends on them."""
        return cls(privacy, history.mechanisms() if privacy.noise == "laplace" else {})

    def of_account(self, account: str) -> Privacy:
        """The parameters that an account's guarantee may be computed from."""
        return accountable(self.privacy, self.reserved.get(account, ()))

    @property
    def together(self) -> Privacy:
        """The same of all accounts."""
        return accountable(self.privacy, chain.from_iterable(self.reserved.values()))


def _names(text: str) -> set[str]:
    return {_TIMES.sub("", name) for name in text.split(", ")}
