"""Which accounts pay for an analyst."""

from __future__ import annotations

from fractions import Fraction

from budget.account import Limit
from budget.accounting import epsilon_limit
from budget.accounts import Accounts
from budget.memberships import Memberships
from budget.units import micro_limit
from dpproxy.config.sections import AccountLimit, Config, Privacy


class PayingAccounts:
    """The accounts of [budget], made in the ledger at their first use."""

    def __init__(self, config: Config, accounts: Accounts, memberships: Memberships) -> None:
        self._config, self._accounts, self._memberships = config, accounts, memberships
        self._by_group = bool(config.budget.teams_by_group)
        self._chains: dict[tuple[str, tuple[str, ...]], list[str]] = {}
        self._own: dict[str, str] = {}

    def chain(self, analyst: str) -> list[str]:
        """The accounts that pay for an analyst, their own first; raises LedgerError."""
        joined = self._memberships.teams(analyst) if self._by_group else ()
        if (analyst, joined) not in self._chains:
            links = self._config.budget.chain(analyst, joined)
            for link in links:
                seed(self._accounts, self._memberships, self._config, link)
            self._chains[analyst, joined] = [link.account for link in links]
        return self._chains[analyst, joined]

    def own(self, name: str) -> str:
        """The account of a login, which others' questions are not paid from; raises LedgerError."""
        if name not in self._own:
            link = self._config.budget.chain(name)[0]
            seed(self._accounts, self._memberships, self._config, link)
            self._own[name] = link.account
        return self._own[name]


def seed(accounts: Accounts, memberships: Memberships, config: Config, link: AccountLimit) -> None:
    """Makes an account of [budget] at its first use; a shared one with what its members have spent before."""
    limit = in_ledger(accounts, config, link)
    if link.account.startswith("analyst:"):
        accounts.seed(link.account, limit)
    else:
        members = config.budget.members(link.account)
        if members is not None:
            joined = memberships.members(link.account.removeprefix("team:"))
            members = (*members, *(f"analyst:{name}" for name in joined))
        accounts.seed_shared(link.account, limit, members)


def in_ledger(accounts: Accounts, config: Config, link: AccountLimit) -> Limit:
    """A limit of the file as the ledger keeps it, with its second filter."""
    information = micro_limit(link.information)
    epsilon = accounts.epsilon_limit(information) if config.privacy.noise == "laplace" else 0
    return Limit(information, micro_limit(link.calls), link.period, link.mode, epsilon)


def second_limit(privacy: Privacy, information: Fraction) -> Fraction:
    """The limit of pure epsilon, in units of epsilon_per, that comes with one of units; 0 without Laplace noise.

    >>> [str(second_limit(Privacy(noise=noise), Fraction(4))) for noise in ("laplace", "gaussian")]
    ['4', '0']
    """
    if privacy.noise != "laplace":
        return Fraction(0)
    return epsilon_limit(information, privacy.epsilon_per, privacy.delta_prime)
