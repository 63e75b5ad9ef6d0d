"""Errors for clients: SQLSTATE, message, hint, and never a value of the data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from budget.account import Exhausted, Frozen, LedgerError, PolicyChanged, UnknownAccount, in_words
from dpproxy.backends.base import BackendError, BackendUnavailable, Cancelled
from dpproxy.front.front import FrontError
from dpproxy.pgwire.identifiers import literal
from rewriter.policy import Table
from rewriter.refusal import Refusal


class PolicyReloaded(Refusal):
    """40001: the policy was changed after the statement was planned.

    `shown`: the client was told what it is planned to; otherwise it can be planned again without the client.
    """

    def __init__(self, *, shown: bool) -> None:
        self.shown = shown
        super().__init__(
            "40001",
            "the policy was changed while this statement was under way"
            if shown
            else "nothing is bought at the moment: the data owner has paused the proxy, or changes its policy",
            detail="Nothing was charged for what was not bought before.",
            hint="Send it again.",
        )


@contextmanager
def translated() -> Iterator[None]:
    """Turns errors of ledger and backend into Refusals."""
    try:
        yield
    except Exhausted as error:
        raise exhausted(error) from None
    except Frozen as error:
        raise frozen(error) from None
    except UnknownAccount:
        raise Refusal(
            "28000", "the ledger has no account for this analyst", hint="Ask the data owner."
        ) from None
    except PolicyChanged:
        raise PolicyReloaded(shown=False) from None
    except LedgerError:
        raise Refusal(
            "57P03",
            "the ledger cannot be used, so nothing can be answered",
            hint="Try again; no answer was released.",
        ) from None
    except BackendUnavailable:
        raise Refusal(
            "57P03", "the backend cannot be reached; nothing was charged", hint="Try again in a moment."
        ) from None
    except FrontError:
        raise Refusal(
            "57P03",
            "the public tables cannot be reloaded; nothing was charged",
            hint="Try again in a moment.",
        ) from None
    except BackendError:
        raise Refusal(
            "PV090",
            "the backend could not run this query; details are withheld because they may depend on private data",
            hint="Simplify expressions and conditions, or ask the data owner, whose log has the kind of the error; "
            "the reserved budget stays charged. After three failures in a period the data owner has to look.",
        ) from None
    except Cancelled:
        raise Refusal(
            "57014", "canceling statement: it was stopped after the backend was reached and stays charged"
        ) from None


def exhausted(error: Exhausted) -> Refusal:
    """PV001: what was needed, and of one's own account what is left and when it refreshes."""
    if error.left is None:
        return Refusal(
            "PV001",
            f"privacy budget exhausted: this query needs {error.needed}, more than a shared budget has left",
            hint="Ask the data owner; the level of shared budgets is not shown.",
        )
    needed, left = in_words(error.needed, error.left)
    until = "" if error.refreshes_at is None else f" until {error.refreshes_at:%Y-%m-%d %H:%M} UTC"
    return Refusal(
        "PV001",
        f"privacy budget exhausted: this query needs {needed}, {left} left{until}",
        hint="Ask for fewer aggregates, lower LIMIT, or wait; see SELECT * FROM dpproxy.budget",
    )


def too_many_rows(rows: int, most: int) -> Refusal:
    """54000: public numbers let a query bring more rows than the owner lets one bring."""
    return Refusal(
        "54000",
        f"this query can bring {rows:,} rows from the private data, more than the {most:,} that it may",
        detail="Nothing was charged. The data owner has set max_rows in [backend].",
        hint="Group by fewer values.",
    )


def too_many_groups(groups: int, most: int) -> Refusal:
    """54000: quantiles of more groups than are cut into bins."""
    return Refusal(
        "54000",
        f"quantiles are answered in up to {most:,} groups, and this query has {groups:,}",
        detail="Nothing was charged.",
        hint="Group by fewer values, or choose some of them with WHERE.",
    )


def more_rows_than_fit(most: int) -> Refusal:
    """54000: a query whose rows no public number bounds has more than fit; noise on the limit decided it."""
    return Refusal(
        "54000",
        f"this query needs more rows of the private data than the about {most:,} that it may",
        detail="Its price stays charged. The data owner has set max_rows in [backend]; it has noise, so that nobody's "
        "rows decide this.",
        hint="Narrow the question with WHERE.",
    )


def noise_above_rows(noise: float, most: int) -> Refusal:
    """54000: one unit can have so many of a query's rows that the noise on the limit would be as large as it."""
    return Refusal(
        "54000",
        f"one privacy unit can bring too many of the rows of this query for the {most:,} that it may have",
        detail=f"Nothing was charged. Noise on that limit would have a standard deviation of {noise:,.0f} rows. "
        "The data owner has set max_rows in [backend].",
        hint="Group by fewer values.",
    )


def too_many_releases(most: int) -> Refusal:
    """54000: the account has more releases than one statement reads."""
    return Refusal(
        "54000",
        f"the account has more than {most} releases",
        detail="With this LIMIT the ledger is asked for no more: without conditions, groups and other orders.",
        hint="SELECT * FROM dpproxy.releases ORDER BY at DESC LIMIT 100",
    )


def limit_beyond(needed: str, left: str, k: int) -> Refusal:
    """PV001: the groups that LIMIT asks for cost more than is left; `k`: how many could be paid."""
    return Refusal(
        "PV001",
        f"the privacy budget does not cover this LIMIT: it needs up to {needed}, {left} left",
        detail="Rows that OFFSET passes over are paid for, too.",
        hint=f"LIMIT {k}",
    )


def above_max_cost(needed: str, most: str, price: str, limit: int | None, *, own: bool) -> Refusal:
    """PV026: a statement that may cost more than the session, or the policy for it, lets one cost.

    `limit`: the LIMIT with which it would not, if there is one.
    """
    setting = f"`SET dpproxy.max_cost = {price}`"
    return Refusal(
        "PV026",
        f"this statement costs up to {needed}, more than dpproxy.max_cost allows, which is {most}",
        detail="Nothing was charged. "
        + (
            "The session has set dpproxy.max_cost." if own else "The data owner has set max_cost in [budget]."
        ),
        hint=f"{setting}, then send it again." if limit is None else f"LIMIT {limit}, or {setting}.",
    )


def price_first(needed: str, left: str, minutes: int, least: str) -> Refusal:
    """PV027: the price of a statement that is bought when it is sent again; `least`: which groups cannot come out."""
    return Refusal(
        "PV027",
        f"this statement costs up to {needed} of the {left} that are left",
        detail="Nothing was charged." + (f" In its answer {least}." if least else ""),
        hint=f"To buy it, send it again within {minutes} minutes. "
        "To see no prices first: `SET dpproxy.price_first = off`.",
    )


def frozen(error: Frozen) -> Refusal:
    """PV001: the owner has stopped the account, or a shared one; or failures have stopped the login or the analyst."""
    if error.reason == "failures":
        return Refusal(
            "PV001",
            "too many statements of this login or analyst have failed at the backend: "
            "nothing new is answered until the data owner has looked",
            hint="Paid answers of this epoch can still be replayed. Ask the data owner, who clears failures by "
            "dpproxy failures or at the console.",
        )
    whose = "this privacy budget is frozen" if error.own else "a shared budget is frozen"
    return Refusal(
        "PV001",
        f"{whose}: no new release can be bought",
        hint="Paid answers of this epoch can still be replayed. Ask the data owner.",
    )


def needs_limit() -> Refusal:
    """PV017: one unit can be in any number of groups, and no LIMIT says how many are wanted."""
    return Refusal(
        "PV017",
        "one privacy unit can appear in any number of these groups",
        detail="Without a LIMIT they are answered for numbers of units and rows, sums, averages and quantiles, with "
        "Gaussian noise. Numbers of different values are paid for in each group.",
        hint="Add ORDER BY COUNT(DISTINCT <privacy unit>) DESC LIMIT 10 or ORDER BY COUNT(*) DESC LIMIT 10, group by "
        "fewer columns, or ask the data owner to declare max_groups_per_unit.",
    )


def not_with_laplace(what: str) -> Refusal:
    """PV018: a release that the guarantee of noise = "laplace" does not cover."""
    return Refusal(
        "PV018",
        f"{what} needs Gaussian noise, and this deployment has noise = laplace",
        hint="Add COUNT(DISTINCT <privacy unit>) and ORDER BY it DESC LIMIT 10.",
    )


def one_level(instead: str) -> Refusal:
    """PV018: another level than one unit, which the guarantee of noise = "laplace" does not cover."""
    return Refusal(
        "PV018",
        "another precision than the usual needs Gaussian noise, and this deployment has noise = laplace",
        hint=f"`{instead}`",
    )


def above_most_units(needed: str, most: str) -> Refusal:
    """PV026: the first look at an answer costs more than the session lets an answer cost for its error."""
    return Refusal(
        "PV026",
        f"this answer costs {needed} at least, more than dpproxy.most_units allows, which is {most}",
        detail="Nothing was charged for it.",
        hint="Ask for fewer groups or measures, or raise dpproxy.most_units.",
    )


def not_offered(what: str, kind: str, instead: str) -> Refusal:
    """PV025: a kind of release that the data owner does not offer; `kind`: its name among the allowances."""
    return Refusal(
        "PV025",
        f"{what} are not offered here",
        detail=f"The data owner has set {kind} = 0 in [privacy] allowances.",
        hint=instead,
    )


def above_allowance(what: str, kind: str, most: str, needed: str) -> Refusal:
    """PV025: a release that costs more than the data owner lets a query spend on its kind."""
    return Refusal(
        "PV025",
        f"{what} may cost at most {most} in a query here; this query needs {needed}",
        detail=f"The data owner has set {kind} in [privacy] allowances.",
        hint="Ask for fewer groups, or add ORDER BY COUNT(DISTINCT <privacy unit>) DESC LIMIT 10; see EXPLAIN.",
    )


def beyond_limits() -> Refusal:
    """PV016: bounds so wide that no mechanism takes them."""
    return Refusal(
        "PV016",
        "the bounds of an aggregate are too wide for exact noise",
        hint="Narrow them: LEAST(GREATEST(x, lo), hi) in place of x, or WHERE x BETWEEN lo AND hi.",
    )


def null_bound() -> Refusal:
    """PV016: the bound of an aggregate's values is a parameter, and that is NULL."""
    return Refusal(
        "PV016",
        "an aggregate needs finite bounds, and a parameter that it takes them from is NULL",
        hint="Bind a number to it.",
    )


def no_delta() -> Refusal:
    """PV022: an unknown domain under a policy without delta."""
    return Refusal(
        "PV022",
        "groups of unknown domain need delta > 0, and this policy has none",
        hint="Restrict the groups with WHERE column IN (...).",
    )


def scan(table: Table, column: str) -> Refusal:
    """PV024: a list of a column's values that a tool has most likely requested automatically."""
    unit = f"({table.privacy_unit})" if table.composite else table.privacy_unit
    return Refusal(
        "PV024",
        f'a bare list of the values of "{table.name}.{column}", or its first or last, is not answered from the data: '
        "tools send such statements automatically, and each would be charged",
        detail="It has a LIMIT above [privacy] max_k, or the policy does not name the column. [privacy] scans = "
        '"charge" answers it; a declared domain answers it free of charge.',
        hint=f"SELECT {column}, COUNT(DISTINCT {unit}) FROM {table.name} GROUP BY {column} "
        "ORDER BY 2 DESC LIMIT 10",
    )


def unknown_value(name: str, values: Sequence[str]) -> Refusal:
    """22023: a value of one of dpproxy's settings that does not exist."""
    return Refusal("22023", f"{name} is {' or '.join(values)}", hint=f"RESET {name}")


def may_not_publish(analyst: str) -> Refusal:
    """42501: only analysts who may publish may change published answers."""
    return Refusal(
        "42501",
        f'"{analyst}" may not publish answers',
        hint=f"Ask the data owner for publish = true under [budget.analysts.{analyst}], or to publish it: "
        "dpproxy publish NAME --sql FILE",
    )


def not_the_publisher(name: str) -> Refusal:
    """42501: the answer was published by another analyst."""
    return Refusal(
        "42501",
        f"must be owner of table {name}",
        hint="Ask its publisher, or the data owner, who can use dpproxy published. The publisher: "
        f"SELECT publisher FROM dpproxy.published WHERE name = {literal(name)}",
    )


def exists(name: str) -> Refusal:
    """42P07: the name of another published answer."""
    return Refusal("42P07", f'relation "{name}" already exists', hint=f'DROP TABLE published."{name}"')


def missing(name: str) -> Refusal:
    """42P01: nothing is published under this name."""
    return Refusal("42P01", f'table "{name}" does not exist', hint="SELECT name FROM dpproxy.published")


def no_column(table: str, column: str) -> Refusal:
    """42703: a published table has no such column."""
    return Refusal(
        "42703", f'column "{column}" of relation "{table}" does not exist', hint=f'\\d published."{table}"'
    )
