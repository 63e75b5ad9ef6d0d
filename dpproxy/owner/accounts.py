"""`dpproxy budget show/set/history/verify/prune/accept`: the accounts as their owner sees them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import get_args

from budget.account import AccountRow, AnotherLedger, AskedRow, LedgerOlder, Limit, LimitRow, Mode, Period
from budget.ledger import Ledger
from budget.units import micro_limit, shown, units
from dpproxy.config.approval import ApprovedLimits
from dpproxy.config.checkpoint_file import CheckpointFile
from dpproxy.config.epoch import Epoch, epoch_name
from dpproxy.config.sections import PERIOD_DAYS, AccountLimit, Config, ConfigError, nearest
from dpproxy.deployment.service import LedgerAndKey, opened_vault
from dpproxy.engine.bounded_range import Accounting
from dpproxy.engine.paying_accounts import seed
from dpproxy.engine.sealed_texts import SealedTexts
from dpproxy.owner.check import Guarantee, guarantee_of, print_guarantees
from dpproxy.reporting.rows import OutputError
from dpproxy.reporting.tables import print_json, print_table
from rewriter.refusal import CATALOGUE

NO_GUARANTEE = (
    "What was spent so far is a count, and guarantees nothing: the guarantee follows from the limits."
)
_WIDTH = 120
"""Of the table of a history."""
_SHOWN = 1000
"""Characters of a statement."""
_MOST_SHAPES = 50
_TIME = "%Y-%m-%d %H:%M:%S"


def account_named(name: str) -> str:
    """An account by what an owner calls it: an analyst's name, team:NAME, or dataset.

    >>> account_named("alice"), account_named("team:acme"), account_named("dataset")
    ('analyst:alice', 'team:acme', 'dataset')
    """
    return name if name == "dataset" or name.startswith(("analyst:", "team:")) else f"analyst:{name}"


def existing(ledger: Ledger, config: Config, name: str) -> AccountRow:
    """An account, made by the file's limits if it is of somebody known who has asked nothing yet.

    Raises OutputError for nobody known.
    """
    wanted = account_named(name)
    rows = {row.account: row for row in ledger.accounts.all()}
    if wanted not in rows:
        members = [member for team in config.budget.teams.values() for member in team.members]
        names = [*ledger.analysts.names(), *config.budget.analysts, *members]
        teams = config.budget.teams
        links = {link.account: link for one in ("", *names) for link in config.budget.chain(one, teams)}
        del links["analyst:"]
        if wanted not in links:
            raise unknown(name, [*rows, *links])
        seed(ledger.accounts, ledger.memberships, config, links[wanted])
    return ledger.accounts.get(wanted)


def unknown(name: str, accounts: Sequence[str]) -> OutputError:
    """The error for an account that is not there."""
    known = [account.removeprefix("analyst:") for account in accounts]
    close = nearest(name, known)
    return OutputError(f"no account of {name} is known" + (f"; did you mean {close}?" if close else ""))


def show(config: Config, name: str | None, days: int | None, *, as_json: bool) -> None:
    """Prints accounts, or one of them, and what their limits guarantee.

    `days`: how long data are kept, None for as long as a period.
    """
    with opened_vault(config) as vault:
        ledger = vault.ledger
        rows = ledger.accounts.all() if name is None else (existing(ledger, config, name),)
        accounting = Accounting.read(config.privacy, ledger.history)
        had = ledger.accounts.all_limits()
        bounds = {row.account: account_guarantee(accounting, row, had[row.account], days) for row in rows}
    if as_json:
        accounts = [{**_plain(row), "guarantee": [asdict(b) for b in bounds[row.account]]} for row in rows]
        print_json({"accounts": accounts, "note": NO_GUARANTEE})
        return
    heads = ("account", "unit", "limit", "spent so far", "reserved", "left", "refreshes (UTC)", "mode")
    print_table("Accounts", heads, [line for row in rows for line in _lines(row)], right=(2, 3, 4, 5))
    told = [bound for row in rows for bound in bounds[row.account]]
    print_guarantees("Guarantee, by the limits", told, days)
    for row in rows:
        if row.limit.mode == "track":
            print(f"{row.account} is only tracked: no guarantee is claimed for it.")
    print(NO_GUARANTEE)


def change(
    config: Config,
    name: str,
    information: Fraction | None,
    calls: Fraction | None,
    period: Period | None,
    mode: Mode | None,
    frozen: bool | None,
) -> None:
    """Changes what is given of an account's limits, and freezes or unfreezes it.

    Raises LimitTooLow for less than is used and reserved, OutputError for nobody known, or for more than a second
    person has approved.
    """
    with opened_vault(config) as vault:
        row = existing(vault.ledger, config, name)
        old = row.limit
        most = old.information if information is None else micro_limit(information)
        limit = Limit(
            most,
            old.calls if calls is None else micro_limit(calls),
            period or old.period,
            mode or old.mode,
            vault.ledger.accounts.epsilon_limit(most) if config.privacy.noise == "laplace" else 0,
        )
        approved = vault.ledger.approvals.in_force()
        if approved is not None and approved.limits is not None:
            allowed = ApprovedLimits.read(approved.limits).allows(limit_link(row.account, limit))
            if limit != old and not allowed:
                raise OutputError(
                    f"{row.account} would have more than was approved: write it into {config.file.name} and have the "
                    "second person approve it, by dpproxy budget approve"
                )
        if limit != old:
            vault.ledger.accounts.set_limit(row.account, limit)
        if frozen is not None and frozen != row.frozen:
            (vault.ledger.accounts.freeze if frozen else vault.ledger.accounts.unfreeze)(row.account)


def history(
    config: Config,
    name: str,
    since: datetime | None,
    until: datetime | None,
    last: int | None,
    *,
    as_json: bool,
) -> None:
    """Prints what an account was answered and charged for, the `last` so many or all, and the limits it has had."""
    with opened_vault(config) as vault:
        account = existing(vault.ledger, config, name).account
        releases = vault.ledger.history.releases(account, since, until, last, newest=True)
        limits = vault.ledger.accounts.limits(account)
        texts = SealedTexts(*vault.keys.all) if config.audit.statements else None
    statements = [sent(row, account, texts) for row in releases]
    if as_json:
        print_json(
            {
                "account": account,
                "releases": [
                    {**_told(row), "statement": statement}
                    for row, statement in zip(releases, statements, strict=True)
                ],
                "limits": [
                    {"time": row.time.isoformat(), **_limit(row.limit), "frozen": row.frozen}
                    for row in limits
                ],
            }
        )
        return
    lines = [
        (_when(row.time), in_words(row, statement), row.mechanism, charged(row), row.attributed)
        for row, statement in zip(releases, statements, strict=True)
    ]
    heads = ("time (UTC)", "asked", "mechanism", "charge", "from")
    print_table(f"Releases of {account}", heads, lines, width=_WIDTH)
    print("The canonical form of each, which is charged once in an epoch: --json.")
    told = [(_when(row.time), *_limit(row.limit).values(), "yes" if row.frozen else "") for row in limits]
    print_table(
        "Limits",
        ("from (UTC)", "information", "calls", "epsilon", "period", "mode", "frozen"),
        told,
        right=(1, 2, 3),
    )


def refusals(config: Config, days: int, *, as_json: bool) -> None:
    """Prints how often statements were refused in so many days, by code, and what these were like."""
    since = datetime.now(UTC).date() - timedelta(days=days - 1)
    with opened_vault(config) as vault:
        counts = Counter[str]()
        for (_, code), times in vault.ledger.refusals.by_day(since).items():
            counts[code] += times
        shapes = vault.ledger.refusals.shapes(since, _MOST_SHAPES)
    if as_json:
        print_json({"codes": dict(counts.most_common()), "shapes": [asdict(row) for row in shapes]})
        return
    codes = [(code, str(times), meaning(code)) for code, times in counts.most_common()]
    print_table(
        f"Refused in {days} days", ("code", "times", "what it means"), codes, right=(1,), width=_WIDTH
    )
    heads = ("code", "times", "shape" if config.audit.statements else "shape, as a fingerprint")
    lines = [(row.code, str(row.times), row.shape) for row in shapes]
    print_table("What they are like, the most frequent first", heads, lines, right=(1,), width=_WIDTH)
    if not config.audit.statements:
        print(
            "With statements = true in [audit] the ledger keeps shapes: statements without their constants."
        )


def meaning(code: str) -> str:
    """What an SQLSTATE says to people."""
    if code == "XX000":
        return "An error inside of the proxy: its log has more."
    known = CATALOGUE.get(code)
    return known.meaning if known is not None else "An error of PostgreSQL's own."


def sent(row: AskedRow, account: str, texts: SealedTexts | None) -> str | None:
    """The text that bought an answer of an account; None where it is not kept, or may not be shown."""
    if texts is None or row.sealed is None or row.release_key is None:
        return None
    return texts.open(row.sealed, account, row.release_key)


def in_words(row: AskedRow, statement: str | None) -> str:
    """What was asked, and below it the statement as it was sent, cut where it is long.

    Constants of the analyst's are in it: what a terminal would take for commands is left out.
    """
    words = row.asked or row.query
    if statement is not None:
        words += f"\nsent: {statement if len(statement) <= _SHOWN else f'{statement[: _SHOWN - 1]}…'}"
    return "".join(letter if letter.isprintable() or letter == "\n" else " " for letter in words)


def charged(row: AskedRow) -> str:
    """What a release cost, in words."""
    if not row.information and not row.calls:
        return "free, paid before"
    information, calls = _number(row.information), _number(row.calls)
    told = [f"{information} unit{'' if information == '1' else 's'}"]
    told += [f"{calls} call{'' if calls == '1' else 's'}"] if row.calls else []
    return ", ".join(told)


def prune(config: Config, *, as_json: bool) -> None:
    """Deletes answers of epochs that are over: by a clock that is up to a day off, whatever length epochs have."""
    now = datetime.now(UTC)
    times = [now + timedelta(hours=hours) for hours in range(-24, 25)]
    with opened_vault(config) as vault:
        deleted = vault.ledger.epochs.prune(
            {epoch_name(length, time) for length in get_args(Epoch) for time in times}
        )
    if as_json:
        print_json({"answers_deleted": deleted})
    else:
        print(f"{deleted} answers of past epochs are deleted.")


def verify(config: Config, *, whole: bool, as_json: bool) -> None:
    """Recomputes balances from the entries, from where the last verification ended, or of the `whole` ledger.

    Raises OutputError for the first difference, ConfigError for a checkpoint that was not written with the key.
    """
    with opened_vault(config) as vault:
        file = CheckpointFile(config.path(config.privacy.key_file), *vault.keys.all)
        since = file.read()
        found = vault.ledger.history.verified(since, whole=whole)
        if found.checkpoint is None:
            raise OutputError(f"the ledger contradicts itself: {found.difference}")
        file.write(found.checkpoint)
    before = 0 if since is None else since.number
    if as_json:
        print_json({"entries_read": found.entries, "unchanged_up_to": before, "differences": 0})
        return
    if before:
        print(f"The entries up to {before} are those that were verified before.")
    print(f"{found.entries} entries read: all balances are what the entries come to.")


def accept(config: Config, *, charged: bool, as_json: bool) -> None:
    """Accepts the ledger as it is, for the present data, and writes a new mark.

    Unless its mark shows that nothing is missing, each account pays all that it has left; not `charged`: none does.
    Why: docs/decisions/losses-are-charged.md.
    """
    with opened_vault(config, new=True) as vault:
        before, whole = _marked(vault)
        vault.ledger.origins.accept(vault.data)
        charges = {} if whole or not charged else vault.ledger.charge_for_loss()
        if not whole:
            # It may cover entries that are missing now.
            CheckpointFile(config.path(config.privacy.key_file)).path.unlink(missing_ok=True)
        # Last, so that an end in between leaves a ledger that serves nobody.
        now = vault.ledger.high_water.now()
        vault.mark.replace(now)
    if as_json:
        found = {"ledger": now.ledger, "entry": now.number, "marked_before": before, "data": vault.data}
        told = {
            name: {"information": shown(c.information), "calls": shown(c.calls)}
            for name, c in charges.items()
        }
        print_json({**found, "complete": whole, "charged": told})
        return
    marked_before = "no mark could be read" if before is None else f"its mark was at entry {before}"
    print(f"The ledger is taken as it is, up to entry {now.number}; {marked_before}.")
    print(f"Its answers are of {vault.data}. Running counts start again.")
    if whole:
        print("Nothing is missing, and nothing is charged.")
    elif not charged:
        print("What is missing is not charged: it can be spent again.")
    else:
        print("Entries may be missing: accounts are charged with all that they had left in their periods.")
        for account, charge in charges.items():
            print(f"  {account}: {charge}")
        print("Accounts that are made within a period from now on are frozen at first.")


def _marked(vault: LedgerAndKey) -> tuple[int | None, bool]:
    """The last entry of the mark, None where none can be read, and whether the mark shows that nothing is missing."""
    try:
        mark = vault.mark.read()
    except ConfigError:
        return None, False
    if mark is None:
        return None, not vault.ledger.high_water.now().number
    try:
        vault.ledger.high_water.check(mark)
    except (AnotherLedger, LedgerOlder):
        return mark.number, False
    return mark.number, True


def account_guarantee(
    accounting: Accounting, row: AccountRow, limits: Sequence[LimitRow], days: int | None
) -> list[Guarantee]:
    """The guarantee of an account by the limits that it has and, of kept data, has had; `days`: None for a period."""
    length = days or PERIOD_DAYS[row.limit.period]
    since = None if length is None else datetime.now(UTC) - timedelta(days=length)
    link = limit_link(row.account, row.limit)
    return guarantee_of(accounting.of_account(row.account), link, largest(link, limits, since), days)


def largest(link: AccountLimit, limits: Sequence[LimitRow], since: datetime | None) -> AccountLimit | None:
    """The most of each unit that was allowed from `since` on, in the shortest period; None if tracked in that time."""
    ends = [row.time for row in limits[1:]]
    held = [
        row.limit
        for row, end in zip(limits, [*ends, None], strict=True)
        if since is None or end is None or end > since
    ]
    if any(limit.mode == "track" for limit in held):
        return None
    return replace(
        link,
        information=units(max(limit.information for limit in held)),
        calls=units(max(limit.calls for limit in held)),
        epsilon=units(max(limit.epsilon for limit in held)),
        period=min((limit.period for limit in held), key=lambda period: PERIOD_DAYS[period] or 1 << 30),
    )


def limit_link(account: str, limit: Limit) -> AccountLimit:
    """The ledger's limits of an account as the configuration has them."""
    amounts = units(limit.information), units(limit.calls), units(limit.epsilon)
    return AccountLimit(account, *amounts[:2], limit.period, limit.mode, amounts[2])


def _limit(limit: Limit) -> dict[str, str]:
    return {
        "information": shown(limit.information),
        "calls": shown(limit.calls),
        "epsilon": shown(limit.epsilon) if limit.epsilon else "",
        "period": limit.period,
        "mode": limit.mode,
    }


def _plain(row: AccountRow) -> dict[str, object]:
    amounts: dict[str, object] = {
        unit: {
            "limit": shown(getattr(row.limit, unit)),
            "spent_so_far": shown(getattr(row.used, unit)),
            "reserved": shown(getattr(row.reserved, unit)),
            "left": shown(getattr(row.left, unit)),
        }
        for unit in row.limit.units
    }
    return {
        "account": row.account,
        **amounts,
        "period": row.limit.period,
        "refreshes_at": None if row.refreshes_at is None else row.refreshes_at.isoformat(),
        "mode": row.limit.mode,
        "frozen": row.frozen,
    }


def _lines(row: AccountRow) -> list[tuple[str, ...]]:
    until = "" if row.refreshes_at is None else _when(row.refreshes_at)
    mode = row.limit.mode + (", frozen" if row.frozen else "")
    return [
        (
            row.account,
            unit,
            shown(getattr(row.limit, unit)),
            shown(getattr(row.used, unit)),
            shown(getattr(row.reserved, unit)),
            shown(getattr(row.left, unit)),
            until,
            mode,
        )
        for unit in row.limit.units
    ]


def _when(time: datetime) -> str:
    return time.astimezone(UTC).strftime(_TIME)


def _number(value: Fraction) -> str:
    return shown(int(value * 1_000_000))


def _told(row: AskedRow) -> dict[str, object]:
    """A row as JSON has it, without what is sealed."""
    return {k: _value(v) for k, v in asdict(row).items() if k not in ("release_key", "sealed")}


def _value(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat()
    return _number(value) if isinstance(value, Fraction) else value
