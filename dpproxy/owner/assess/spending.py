"""What a log costs: its statements are asked, in order, of a deployment that is thrown away.

The accounts, the matching of what is bought with what is asked, and the sharing are the server's own. How often an
answer is used again depends on released values in some cases, so that another key may give a little more or less.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from tempfile import TemporaryDirectory

from budget.account import Charge
from dpproxy.config.identity import IdentitySection
from dpproxy.config.sections import Analyst, Budget, Config, LedgerSection, Limits, Team
from dpproxy.deployment.service import Service
from dpproxy.engine.options import REUSE, Reuse
from dpproxy.engine.request import QueryRequest
from dpproxy.owner.assess.assessor import refuse_others
from dpproxy.owner.assess.listed import Listed
from rewriter.refusal import Refusal
from rewriter.statements.classify import Verdict

WISHES: tuple[Reuse, ...] = ("on", "always", "off")
SESSIONS = 8
"""Of the front that is thrown away."""
UNNAMED = "unnamed analyst"
"""Who asks what the log says nobody's name of."""


@dataclass(frozen=True)
class Spending:
    """What an account would pay for its statements of a log.

    Attributes:
        account: an analyst, `team:NAME` or `dataset`.
        statements: how many of them are answered.
        afresh: with `dpproxy.reuse = off`; of a shared account what its members pay, one by one.
        reused: with `on`; a shared account pays once for one answer.
        always: with `always`; None for shared accounts.
    """

    account: str
    statements: int
    afresh: Charge
    reused: Charge
    always: Charge | None = None


def spending(
    service: Service, statements: Sequence[Listed], watched: Callable[[Sequence[Listed]], Iterable[Listed]]
) -> tuple[Spending, ...]:
    """What each analyst of a log would pay, and what teams and the dataset would where there are several.

    `service`: a deployment that nobody has asked yet; `watched`: passes the statements on as they are asked.
    """
    # Reuse comes first: shared accounts are read before the same answers are bought for comparison.
    reused = _all_paid(service, "on", watched(statements))
    shared = [*_shared(service, [*reused])] if len(reused) > 1 else []
    always, afresh = _all_paid(service, "always", statements), _all_paid(service, "off", statements)
    own = (
        Spending(who, len(charged), *(Charge.sum(wish.get(who, ())) for wish in (afresh, reused, always)))
        for who, charged in reused.items()
    )
    together = (
        Spending(
            account,
            sum(len(reused[who]) for who in members),
            Charge.sum(Charge.sum(afresh.get(who, ())) for who in members),
            charged,
        )
        for account, members, charged in shared
    )
    return (*own, *together)


def _users(one: Listed) -> tuple[str, ...]:
    return one.users or (UNNAMED,)


def _all_paid(service: Service, wish: Reuse, statements: Iterable[Listed]) -> Mapping[str, Sequence[Charge]]:
    """What each analyst pays for each answer, who asks from an account of their own for each wish."""
    found: dict[str, list[Charge]] = {}
    for one in statements:
        for who in _users(one):
            charged = paid(service, one.text, _name(who, wish), wish)
            if charged is not None:
                found.setdefault(who, []).append(charged)
    return found


def paid(service: Service, text: str, analyst: str, wish: Reuse) -> Charge | None:
    """What an analyst pays for an answer; None where nothing private is answered."""
    request = QueryRequest(text, (), analyst, (), {REUSE: wish})
    with suppress(Refusal):
        if service.answering.classify(text) is Verdict.PRIVATE:
            service.answering.execute(request)
            return request.paid.charged
    return None


def _name(who: str, wish: Reuse) -> str:
    return who if wish == "on" else f"{who}, {wish}"


def _shared(service: Service, analysts: Iterable[str]) -> Iterator[tuple[str, list[str], Charge]]:
    """The teams of a policy with more than one analyst of the log, and the dataset, with what each has paid."""
    members = {
        f"team:{name}": [who for who in analysts if who in team.members]
        for name, team in service.config.budget.teams.items()
    }
    for account, found in {**members, "dataset": [*analysts]}.items():
        if len(found) > 1:
            yield account, found, service.ledger.accounts.get(account).used


@contextmanager
def thrown_away(config: Config, statements: Iterable[Listed]) -> Iterator[Service]:
    """The deployment of a configuration with a key, a ledger and a front of its own, and without limits, for the
    analysts of a log.

    Raises ConfigError if the deployment's key cannot be read, and what starting a deployment raises.
    """
    refuse_others(config)
    written = config.budget.analysts
    precise = {
        _name(who, wish): Analyst(
            **written[who].model_dump(include={"units", "error", "most_units"}, exclude_none=True)
        )
        for who in {who for one in statements for who in _users(one)}
        if who in written
        for wish in WISHES
    }
    teams = {name: Team(members=team.members) for name, team in config.budget.teams.items()}
    budget = Budget(mode="track", period="none", analysts=precise, teams=teams, dataset=Limits())
    with TemporaryDirectory(prefix="dpproxy-assess-") as folder:
        sections = {
            "budget": budget,
            "identity": IdentitySection(),
            "privacy": config.privacy.model_copy(update={"key_file": f"{folder}/key"}),
            "ledger": LedgerSection(data_dir=f"{folder}/ledger"),
            "front": config.front.model_copy(update={"url": "", "data_dir": f"{folder}/front"}),
            "server": config.server.model_copy(update={"max_sessions": SESSIONS}),
        }
        with Service.start(config.model_copy(update=sections), alone=True) as service:
            yield service
