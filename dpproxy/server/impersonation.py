"""Who a session acts for: a tool's login may take the roles of the analysts that [identity] names, nobody else any.

Why: docs/decisions/roles-are-the-fronts.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase

from dpproxy.config.identity import OWNER, is_pattern
from rewriter.refusal import Refusal
from rewriter.statements.set_role import NONE


def no_owner(name: str) -> str:
    """Returns the name of a login; raises Refusal 28000 for the owner's name."""
    if name == OWNER:
        raise Refusal(
            "28000",
            f'the name "{OWNER}" is kept for the commands of the data owner',
            hint="Log in under another name.",
        )
    return name


class Identity:
    """The service logins of a configuration: for each the analysts that it may act for, by name or by pattern.

    `takeable`: makes the front let a login take a role, which it makes where it is missing; it may block and raise
    Refusal.

    >>> identity = Identity({"metabase": ["ann", "bi_*"]}, takeable=lambda login, role: None)
    >>> identity.may("metabase", "bi_eve"), identity.may("metabase", "eve"), identity.may("ann", "bi_eve")
    (True, False, False)
    >>> identity.analyst("metabase", "none"), identity.analyst("metabase", "ann")
    ('metabase', 'ann')
    """

    def __init__(
        self,
        services: Mapping[str, Sequence[str]] | None = None,
        takeable: Callable[[str, str], None] | None = None,
    ) -> None:
        self._services, self._takeable = services or {}, takeable

    def is_service(self, login: str) -> bool:
        """Whether a login may act for others at all."""
        return login in self._services

    def named(self, login: str) -> tuple[str, ...]:
        """The analysts that a login may act for by their names, without those of patterns."""
        return tuple(analyst for analyst in self._services.get(login, ()) if not is_pattern(analyst))

    def may(self, login: str, role: str) -> bool:
        """Whether a login may act for an analyst; services act for each other by name only, never by a pattern.

        Nobody acts for OWNER.
        """
        return role != OWNER and (
            role in self.named(login)
            or (
                role not in self._services
                and any(fnmatchcase(role, pattern) for pattern in self._services.get(login, ()))
            )
        )

    def assume(self, login: str, role: str) -> None:
        """Checks that a login may take a role, and has the front grant it; raises Refusal 42501, 57P03."""
        if role in (NONE, login):
            return
        self._check(login, role)
        assert self._takeable is not None
        self._takeable(login, role)

    def analyst(self, login: str, role: str) -> str:
        """The analyst who asks in a session of `login` with the role `role`; raises Refusal 42501."""
        if role in (NONE, login):
            return login
        self._check(login, role)
        return role

    def _check(self, login: str, role: str) -> None:
        if not self.may(login, role):
            service = self.is_service(login)
            raise Refusal(
                "42501",
                f'permission denied to set role "{role}"' if role else "permission denied to set this role",
                hint=f'The data owner can name this analyst in [identity.services."{login}"].'
                if service
                else "Log in as the analyst; only a service login of [identity] may act for others.",
            )
