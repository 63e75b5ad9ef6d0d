"""A report on the deployment for the public: the fields of the registry of deployments of differential privacy.

The fields are those of the registry's records (OpenDP, proposed to NIST; arXiv 2509.13509). What follows from the
policy is written here, what only the owner knows comes from [report]; nothing comes from the data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from dpproxy import __version__
from dpproxy.catalog.build_policy import unit_words
from dpproxy.config.sections import AccountLimit, Config, Privacy, ReportSection
from dpproxy.deployment.service import BoundConfig
from dpproxy.owner.check import guarantee_of, limits_of, rows_per_unit, shown_name
from dpproxy.owner.limit_drift import beside_ledger
from rewriter.policy import Policy, Table

MONTH, YEAR = 30, 365
"""Days for which guarantees are stated, besides a period."""
_NOISE = {
    "gaussian": "discrete Gaussian noise and Gumbel noise",
    "laplace": "discrete Laplace noise and Gumbel noise",
}
_PERIODS = {"day": "a day", "week": "7 days", "month": "30 days", "none": "all time"}
_UNPROTECTED = (
    "Names and types of tables and columns, and the domains, ranges and bounds that the policy declares. How long an "
    "answer takes, and that a statement runs into the timeout or the row cap."
)
_MODEL = (
    "The curator's database holds the rows. A proxy between it and analysts adds noise and charges budgets."
)
_ACTORS = (
    "The curator, who holds data, key, ledger and policy, is trusted. Analysts are not: they may know everything but "
    "one unit, and choose statements by earlier answers."
)
_POST_PROCESSING = (
    "Sorting, limits, expressions, joins and window functions over released rows, by PostgreSQL. Ratios, averages and "
    "variances are functions of released sums and counts."
)
_COMPOSITION = (
    "The cost of releases, in information units and calls, adds up under {accounting}, whatever is asked next (fully "
    "adaptive composition). A release that a limit does not cover is refused. The guarantee follows from the "
    "limits, not from what was spent. An answer that was paid for is repeated with the same noise, at no charge, until "
    "its epoch ({epoch}) is over."
)
_ACCOUNTING = {
    "gaussian": "approximate zero-concentrated DP",
    "laplace": "bounded range and approximate zero-concentrated DP",
}
_TUNING = (
    "Bounds on what one unit contributes are declared in the policy, or found by a mechanism whose privacy loss is "
    "charged. That the policy was written without looking at the data is its owner's word."
)
_MECHANISMS = (
    "{noise}, drawn exactly over integers without floating point: noisy counts and sums, private choices of top "
    "groups, quantiles and clips, thresholds for groups of unknown domain, and partition selection. Each unit's "
    "contribution is bounded in the SQL that the database runs. Timing is not protected. By dpproxy {version}, of "
    "which each mechanism has a proof."
)


@dataclass(frozen=True)
class Bound:
    """What an account's limits guarantee; None where nothing is, and `per` says for how long."""

    per: str
    epsilon: str | None
    delta: str | None


@dataclass(frozen=True)
class AccountGuarantee:
    """The guarantee against one account: for one of its periods, for any month and for any year."""

    account: str
    information: str
    calls: str
    period: str
    bounds: tuple[Bound, ...]


@dataclass(frozen=True)
class TableGuarantee:
    """A table: whom it protects, whose rows are theirs, how many count. The bounds are those of every account."""

    table: str
    protects: str
    rows: str
    found_by: str
    bounds: tuple[Bound, ...]


@dataclass(frozen=True)
class DeploymentReport:
    """What is told of a deployment.

    Attributes:
        entry: a record as the registry has them.
        tables: the guarantee by table, for everybody's account or else any analyst's.
        accounts: the guarantee by account.
        missing: keys of [report] that the owner has not filled in.
        differences: where the ledger in force is not as the file says, so that the report is not true.
    """

    entry: Mapping[str, Any]
    tables: tuple[TableGuarantee, ...]
    accounts: tuple[AccountGuarantee, ...]
    missing: tuple[str, ...]
    differences: tuple[str, ...]


def report_of(checked: BoundConfig) -> DeploymentReport:
    """The report on a configuration that was checked against its backend."""
    config, policy = checked.config, checked.policy
    found = beside_ledger(checked)
    limits = limits_of(config.budget, config.privacy)
    caps = (limit for limit in limits if limit.account == "dataset" and limit.mode == "enforce")
    whole = next(caps, limits[0])
    bounds = _bounds(found.privacy, whole)
    tables = tuple(_table(table, policy, bounds) for table in policy.tables.values() if not table.public)
    said = config.report
    return DeploymentReport(
        _entry(config, policy, found.privacy, whole, bounds),
        tables,
        tuple(_account(found.privacy, limit) for limit in limits),
        tuple(key for key in type(said).model_fields if not getattr(said, key)),
        tuple(found.told),
    )


def _account(privacy: Privacy, limit: AccountLimit) -> AccountGuarantee:
    amounts = (f"{float(limit.information):g}", f"{float(limit.calls):g}")
    return AccountGuarantee(limit.account, *amounts, limit.period, _bounds(privacy, limit))


def _bounds(privacy: Privacy, limit: AccountLimit) -> tuple[Bound, ...]:
    """By the accounting that is best for each length of time; all three are true."""
    one = [(found.epsilon, found.delta) for found in guarantee_of(privacy, limit, limit)]
    spans = [(f"a period of {_PERIODS[limit.period]}", one)]
    for words, days in (("month of 30 days", MONTH), ("year", YEAR)):
        found = guarantee_of(privacy, limit, limit, days)
        spans.append((f"any {words}", [(bound.kept_epsilon, bound.kept_delta) for bound in found]))
    return tuple(Bound(per, *_least(pairs)) for per, pairs in spans)


def _least(pairs: Sequence[tuple[str | None, str | None]]) -> tuple[str | None, str | None]:
    stated = [pair for pair in pairs if pair[0] is not None]
    return min(stated, key=lambda pair: Fraction(pair[0] or 0), default=(None, None))


def _table(table: Table, policy: Policy, bounds: tuple[Bound, ...]) -> TableGuarantee:
    unit = unit_words(policy, table.kind)
    path = " -> ".join(
        ".".join(hop.target) if hop.target[0] != "public" else hop.target[1] for hop in table.path
    )
    own = ", ".join(table.unit)
    found_by = f"a path to {path}" if path else own if table.view is None else "the tables that it reads"
    return TableGuarantee(shown_name(table), unit, rows_per_unit(table, policy), found_by, bounds)


def _entry(
    config: Config, policy: Policy, privacy: Privacy, whole: AccountLimit, bounds: Sequence[Bound]
) -> Mapping[str, Any]:
    shared = whole.account == "dataset"
    return {
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": _basic(config.report, policy),
            "dp_variant": {
                "variant_name": "Approximate DP",
                "data_domain": f"All databases with any rows in the tables {_names(policy, public=False)}.",
                "unprotected_quantities": f"{_UNPROTECTED} Public tables: {_names(policy, public=True) or 'none'}.",
            },
            "privacy_loss": _privacy_loss(policy, privacy, whole, bounds),
            "deployment_model": {
                "model_name": "Central",
                "model_name_details": _MODEL,
                "actors": f"{_ACTORS} They {'may' if shared else 'are assumed not to'} share what they learn.",
                "release_type": "Many releases",
                "release_type_details": _releases(whole),
                "data_source_type": config.report.data_source,
                "access_type": "Interactive",
                "access_type_details": _apportioned(config, shared),
            },
            "accounting": {
                "post_processing": _POST_PROCESSING
                + (f" Counts below {privacy.min_units} are suppressed." if privacy.min_units else "")
                + (" Counts below 0 are shown as 0." if privacy.nonnegative else ""),
                "composition": _COMPOSITION.format(
                    accounting=_ACCOUNTING[privacy.noise], epoch=privacy.epoch
                ),
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": _TUNING,
                "mechanisms": _MECHANISMS.format(noise=_NOISE[privacy.noise], version=__version__),
                "justification": config.report.justification,
            },
            "administrative": {
                "sources": config.report.sources,
                "registry_authors": list(config.report.authors),
            },
        },
    }


def _basic(said: ReportSection, policy: Policy) -> Mapping[str, Any]:
    return {
        "name": said.name,
        "data_curators": [{"data_curator_name": said.curator, "data_curator_type": said.curator_type}],
        "intended_use": said.intended_use,
        "data_product_type": "Summary statistics",
        "data_product_region": said.region,
        "data_product_sector": said.sector,
        "description": f"Answers to SQL over the tables {_names(policy, public=False)}: counts, sums, averages, "
        "quantiles and lists of groups.",
        "publication_date": said.publication_date.isoformat() if said.publication_date else "",
    }


def _privacy_loss(
    policy: Policy, privacy: Privacy, whole: AccountLimit, bounds: Sequence[Bound]
) -> Mapping[str, Any]:
    unit, (period, *_) = unit_words(policy), bounds
    stated = {}
    if period.epsilon is not None and period.delta is not None:
        stated = {"epsilon": float(period.epsilon), "delta": float(period.delta)}
    return {
        "privacy_unit": f"{unit}-level",
        "privacy_unit_details": "Two databases are adjacent if one is the other without all rows of one unit in all "
        f"private tables, however many these are. A unit is a value of {unit}.",
        "privacy_parameters": stated,
        "privacy_parameters_details": _parameters(privacy, whole, bounds),
    }


def _parameters(privacy: Privacy, whole: AccountLimit, bounds: Sequence[Bound]) -> str:
    if bounds[0].epsilon is None:
        return f"No guarantee is claimed: the account of {whole.account} is only tracked."
    spans = ", ".join(f"({bound.epsilon}, {bound.delta}) for {bound.per}" for bound in bounds)
    return (
        f"Of {'all analysts together' if whole.account == 'dataset' else 'one analyst'}, who may spend "
        f"{float(whole.information):g} information units of epsilon {float(privacy.epsilon_per):g} and "
        f"{float(whole.calls):g} calls of delta {float(privacy.delta_per):g} in a period: {spans}. Rounded up."
    )


def _releases(whole: AccountLimit) -> str:
    if whole.period == "none":
        return "The budget does not refresh: what it allows is all that is ever released."
    return (
        f"Budgets refresh {_PERIODS[whole.period]} after the first statement of a period. Over the years the loss "
        "grows without bound, as the figures for a month and a year show."
    )


def _names(policy: Policy, *, public: bool) -> str:
    return ", ".join(shown_name(table) for table in policy.tables.values() if table.public == public)


def _apportioned(config: Config, shared: bool) -> str:
    own = config.budget.chain("")[0]
    told = [
        f"Each analyst has {float(own.information):g} information units and {float(own.calls):g} calls a period"
    ]
    if config.budget.analysts:
        told.append(f"{len(config.budget.analysts)} of them have limits of their own")
    if config.budget.teams:
        told.append(f"{len(config.budget.teams)} teams share an account")
    publishers = [name for name in config.budget.analysts if config.budget.may_publish(name)]
    if publishers:
        told.append(
            f"{len(publishers)} may publish answers, whose readers learn what the publishers' limits allow, too"
        )
    told.append(
        "all of them together are limited by one account"
        if shared
        else "no account limits all of them together, so that the guarantee assumes that they do not collude"
    )
    return "; ".join(told) + "."


def plain(made: DeploymentReport) -> dict[str, object]:
    """A report as JSON has it."""
    return asdict(made)


def markdown(made: DeploymentReport) -> str:
    """A report to be read, in Markdown."""
    lines = [f"# {made.entry['deployment']['basic']['name'] or 'A deployment of dpproxy'}", ""]
    for difference in made.differences:
        lines += [f"**Not true as it stands:** {difference}", ""]
    for name, section in made.entry["deployment"].items():
        lines += [f"## {_title(name)}", ""]
        lines += [f"- **{_title(key)}**: {_text(value)}" for key, value in section.items()]
        lines.append("")
    spans = [bound.per for bound in (made.tables[0].bounds if made.tables else ())]
    lines += [
        "## Guarantee by table",
        "",
        *_head("table", "protects", "its rows, by", "rows that count", *spans),
    ]
    lines += [_row(t.table, t.protects, t.found_by, t.rows, *map(_pair, t.bounds)) for t in made.tables]
    lines += [
        "",
        "The figures hold for all tables together, and so for each.",
        "",
        "## Guarantee by account",
        "",
    ]
    lines += _head("account", "information", "calls", "of a period", "of any month", "of any year")
    lines += [_row(a.account, a.information, a.calls, *map(_pair, a.bounds)) for a in made.accounts]
    if made.missing:
        lines += ["", f"To be filled in, in `[report]` of dpproxy.toml: {', '.join(made.missing)}."]
    return "\n".join(lines) + "\n"


def _text(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {one:g}" for key, one in value.items()) or "none"
    if isinstance(value, list):
        texts = [" ".join(one.values()) if isinstance(one, Mapping) else str(one) for one in value]
        return ", ".join(texts).strip() or "not said"
    return str(value) or "not said"


def _title(key: str) -> str:
    """A key of the registry as a title.

    >>> _title("dp_variant"), _title("intended_use")
    ('DP variant', 'Intended use')
    """
    words = key.replace("_", " ")
    return words.replace("dp ", "DP ", 1) if words.startswith("dp ") else words[0].upper() + words[1:]


def _pair(bound: Bound) -> str:
    return "none" if bound.epsilon is None else f"({bound.epsilon}, {bound.delta})"


def _head(*names: str) -> list[str]:
    return [_row(*names), _row(*("---" for _ in names))]


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
