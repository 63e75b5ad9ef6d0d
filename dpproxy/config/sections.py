"""dpproxy.toml: sections and defaults, read exactly; a mistake is named by file, key and nearest name."""

from __future__ import annotations

import datetime as dt
import difflib
import json
import re
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from budget.units import MICRO, MOST
from dpproxy.config.identity import IdentitySection
from dpproxy.config.mechanism_limits import LEAST_EPSILON, MOST_FETCHED, between, impossible
from dpproxy.config.precision import LEVELS, Target
from dpproxy.config.values import MEMORY, SECTION, duration, exact, is_loopback, memory_bytes
from mechanisms.distinct_count import MOST_BOUNDS
from mechanisms.partition_selection import ONE
from mechanisms.quantile import MOST_LEVELS
from mechanisms.validation import LARGEST_BOUND, LARGEST_EPSILON, SMALLEST_DELTA

LEAST_SESSION_MEMORY = 128_000_000
"""Indexes of public tables are built in half of it."""


class ConfigError(Exception):
    """A mistake in the configuration: which file, which key, what is wrong, and the nearest valid name.

    >>> print(ConfigError(Path("dpproxy.toml"), "tables.users.uniqe", "unknown key", "unique"))
    dpproxy.toml: tables.users.uniqe: unknown key; did you mean "unique"?
    """

    def __init__(self, file: Path, key: str, message: str, nearest: str | None = None) -> None:
        hint = f'; did you mean "{nearest}"?' if nearest else ""
        super().__init__(": ".join(part for part in (str(file), key, message) if part) + hint)
        self.file = file
        self.key = key
        self.message = message
        self.nearest = nearest


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The name that `name` was probably meant to be, or None.

    >>> nearest("uniqe", ["unique", "public"])
    'unique'
    """
    return next(iter(difflib.get_close_matches(name, list(names), n=1, cutoff=0.5)), None)


def _exact(value: object) -> object:
    if isinstance(value, float):
        raise ValueError(f"must be a number to count with, not {value}")
    if isinstance(value, bool) or not isinstance(value, int | Fraction):
        raise ValueError("must be a number")
    return Fraction(value)


def _level(value: Fraction) -> Fraction:
    if value not in LEVELS:
        raise ValueError(f"must be one of {', '.join(f'{float(level):g}' for level in LEVELS)}")
    return value


def _error(value: object) -> object:
    """A share like "5%", or a size."""
    text = str(value) if isinstance(value, (int, Fraction)) and not isinstance(value, bool) else value
    if isinstance(text, str):
        Target.read(text)
    return text


def _duration(value: object) -> object:
    return duration(value) if isinstance(value, str) else value


Exact = Annotated[Fraction, BeforeValidator(_exact)]
Amount = Annotated[Exact, between(Fraction(0), Fraction(MOST, MICRO))]
Price = Annotated[Amount, Field(gt=0)]
Most = Annotated[Price | None, BeforeValidator(lambda value: None if value == "off" else value)]
Level = Annotated[Exact, AfterValidator(_level)]
Error = Annotated[str, BeforeValidator(_error)]
Positive = Annotated[int, Field(ge=1)]
Duration = Annotated[dt.timedelta, BeforeValidator(_duration), Field(gt=dt.timedelta())]
Period = Literal["none", "day", "week", "month"]
PERIOD_DAYS = {"none": None, "day": 1, "week": 7, "month": 30}
Mode = Literal["enforce", "track"]


class _Section(BaseModel):
    model_config = SECTION


class ServerSection(_Section):
    """[server]: where and how clients are let in."""

    host: str = "127.0.0.1"
    port: int = Field(default=6432, ge=0, le=65535)
    tls_cert: str = ""
    tls_key: str = ""
    tls_client_ca: str = ""
    auth: Literal["scram", "trust"] = "scram"
    max_sessions: Positive = 200
    max_sessions_per_login: Positive = 50
    statement_timeout: Duration = dt.timedelta(minutes=5)
    login_timeout: Duration = dt.timedelta(minutes=1)
    idle_timeout: Duration = dt.timedelta(hours=8)
    http: str = ""
    log: Literal["none", "json"] = "none"
    error_columns: list[str] = []

    @property
    def loopback(self) -> bool:
        """Whether only this machine can connect."""
        return is_loopback(self.host)

    @property
    def http_address(self) -> tuple[str, int]:
        """Host and port of the owner's console; ValueError for anything else than HOST:PORT."""
        host, _, port = self.http.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not host or not port.isdecimal() or int(port) > 65535:
            raise ValueError(f'http is "HOST:PORT", like "127.0.0.1:6480", not "{self.http}"')
        return host, int(port)

    @model_validator(mode="after")
    def _guarded(self) -> ServerSection:
        if bool(self.tls_cert) != bool(self.tls_key):
            raise ValueError("tls_cert and tls_key go together")
        if not self.loopback and not self.tls_cert:
            raise ValueError(f"host {self.host} is not loopback: set tls_cert and tls_key")
        if not self.loopback and self.auth == "trust":
            raise ValueError('auth = "trust" is for loopback only')
        if self.tls_client_ca and not self.tls_cert:
            raise ValueError("tls_client_ca needs tls_cert and tls_key")
        if self.tls_client_ca and self.auth == "trust":
            raise ValueError('tls_client_ca goes with auth = "scram": "trust" would ask for no certificate')
        if self.http and not is_loopback(self.http_address[0]) and not self.tls_cert:
            raise ValueError(f"http {self.http} is not loopback: set tls_cert and tls_key")
        if self.http and self.port and self.http_address[1] == self.port:
            raise ValueError(f"port {self.port} is analysts', and http {self.http} needs another one")
        return self


class BackendSection(_Section):
    """[backend]: where the data are, and how much of them a query may fetch."""

    url: str
    password_file: str = ""
    max_rows: Positive = 5_000_000
    memory: str = Field(default="4GB", pattern=MEMORY)
    owner_writes: bool = True

    @model_validator(mode="after")
    def _one_password(self) -> BackendSection:
        if self.password_file:
            kind, _, rest = self.url.partition("://")
            if kind not in ("postgresql", "postgres"):
                raise ValueError("password_file is for PostgreSQL")
            if ":" in rest.partition("/")[0].rpartition("@")[0]:
                raise ValueError("url has a password already: leave it out, or password_file")
        return self


class FrontSection(_Section):
    """[front]: the PostgreSQL of the schema; public tables up to `public_rows` rows are copied there."""

    url: str = ""
    data_dir: str = ".dpproxy/front"
    public_rows: int = Field(default=1_000_000, ge=0)
    session_memory: str = "512MB"

    @property
    def session_bytes(self) -> int:
        """`session_memory` as a number."""
        return memory_bytes(self.session_memory)

    @field_validator("session_memory")
    @classmethod
    def _enough(cls, written: str) -> str:
        if memory_bytes(written) < LEAST_SESSION_MEMORY:
            raise ValueError(f"a session of the front needs at least {LEAST_SESSION_MEMORY // 10**6}MB")
        return written


class LedgerSection(_Section):
    """[ledger]: the PostgreSQL that holds accounts and answers."""

    url: str = ""
    data_dir: str = ".dpproxy/ledger"


class Allowances(_Section):
    """[privacy] allowances: most information units that a query may spend on a costly kind of release; 0: none."""

    count_release: Amount | None = None
    partition_selection: Amount | None = None
    distinct_count: Amount | None = None


class Privacy(_Section):
    """[privacy]: what a unit is worth and how the mechanisms are set."""

    epsilon_per: Annotated[Exact, between(LEAST_EPSILON, LARGEST_EPSILON)] = Fraction(15, 100)
    delta_per: Annotated[Exact, Field(ge=0, lt=1)] = Fraction(1, 10**10)
    delta_prime: Annotated[Exact, between(SMALLEST_DELTA), Field(lt=1)] = Fraction(1, 10**9)
    noise: Literal["gaussian", "laplace"] = "gaussian"
    mechanisms: Literal["clipped", "paper"] = "clipped"
    d_bar: Annotated[int, between(1, MOST_FETCHED)] = 1000
    max_k: Annotated[int, between(1, MOST_FETCHED // 10)] = 100
    epoch: Literal["hour", "day", "week", "month", "forever"] = "day"
    key_file: str = ".dpproxy/key"
    query_information: Price = Fraction(50)
    query_calls: Price = Fraction(5)
    usual_information: Price = Fraction(10)
    usual_calls: Price = Fraction(3)
    most_units_per_answer: Annotated[Price, between(Fraction(1))] = Fraction(64)
    allowances: Allowances = Allowances()
    relative_error: Annotated[Exact, between(Fraction(1, 1000)), Field(lt=1)] = Fraction(1, 10)
    max_items_per_unit: Annotated[int, between(1, MOST_BOUNDS)] = 100
    least_weight: Annotated[int, between(0, LARGEST_BOUND // ONE)] = 0
    partition_selection: Literal["sips", "pruned"] = "sips"
    quantile_bins: Annotated[int, between(2, 1 << MOST_LEVELS)] = 1024
    min_units: int = Field(default=0, ge=0)
    nonnegative: bool = False
    scans: Literal["refuse", "charge"] = "refuse"
    timing: Literal["plain", "padded"] = "plain"
    tick: Duration = dt.timedelta(seconds=1)

    @model_validator(mode="after")
    def _fetching_all(self) -> Privacy:
        if self.partition_selection == "pruned" and self.least_weight:
            raise ValueError('partition_selection = "pruned" needs every group: least_weight = 0')
        return self

    @model_validator(mode="after")
    def _answering(self) -> Privacy:
        if why := impossible(self):
            raise ValueError(why)
        return self

    @property
    def unit_clips(self) -> bool:
        """Whether row counts, sums and averages need no declared bounds; Laplace noise has no such mechanism."""
        return self.mechanisms == "clipped" and self.noise == "gaussian"


class Limits(_Section):
    """Overrides of [budget] for one account; None: as in [budget]."""

    information: Amount | None = None
    calls: Amount | None = None
    period: Period | None = None
    mode: Mode | None = None


class Analyst(Limits):
    """[budget.analysts.NAME]: overrides for one analyst, and whether they may publish what they pay for."""

    publish: bool = False
    max_cost: Most = None
    units: Level | None = None
    error: Error | None = None
    most_units: Price | None = None
    reuse: Literal["on", "off", "always"] | None = None


class Team(Limits):
    """[budget.teams.NAME]: an account that its members share, by name or by the groups of an identity provider."""

    members: list[str] = []
    groups: list[str] = []

    @model_validator(mode="after")
    def _once(self) -> Team:
        if self.groups == [] and "members" not in self.model_fields_set:
            raise ValueError("a team has members, or groups")
        if len(set(self.members)) != len(self.members):
            raise ValueError("a member is named twice")
        return self


@dataclass(frozen=True)
class AccountLimit:
    """One account of a chain: at most `information` and `calls` units in a `period`.

    `epsilon`: the limit of its second filter in units of epsilon_per, 0 where it has none, or where that is not asked.
    """

    account: str
    information: Fraction
    calls: Fraction
    period: Period
    mode: Mode
    epsilon: Fraction = Fraction(0)


class Budget(_Section):
    """[budget]: what each analyst may spend in a period, with teams and a cap over everybody."""

    information: Amount = Fraction(300)
    calls: Amount = Fraction(30)
    period: Period = "month"
    mode: Mode = "enforce"
    max_cost: Most = None
    price_first: dict[str, Price] = {}
    analysts: dict[str, Analyst] = {}
    teams: dict[str, Team] = {}
    dataset: Limits | None = None

    def chain(self, analyst: str, joined: Collection[str] = ()) -> tuple[AccountLimit, ...]:
        """The accounts that a query of `analyst` debits: their own, their teams', the dataset's.

        `joined`: the teams that they are in by their groups.

        >>> [link.account for link in Budget(teams={"a": Team(members=["alice"])}).chain("alice")]
        ['analyst:alice', 'team:a']
        """
        links = [self._limit(f"analyst:{analyst}", self.analysts.get(analyst, Analyst()))]
        for name, team in self.teams.items():
            if analyst in team.members or (team.groups and name in joined):
                links.append(self._limit(f"team:{name}", team))
        if self.dataset is not None:
            links.append(self._limit("dataset", self.dataset))
        return tuple(links)

    def limit(self, account: str) -> AccountLimit | None:
        """The limit of an account; None where the file names no such account.

        >>> str(Budget().limit("analyst:ann").calls), Budget().limit("team:gone")
        ('30', None)
        """
        kind, _, name = account.partition(":")
        if kind == "analyst":
            return self.chain(name)[0]
        limits = {"team": self.teams.get(name), "dataset": self.dataset}.get(kind)
        return None if limits is None else self._limit(account, limits)

    def members(self, account: str) -> tuple[str, ...] | None:
        """The accounts of those who share an account by name; None for everybody, who shares the dataset's.

        >>> Budget(teams={"a": Team(members=["alice"])}).members("team:a")
        ('analyst:alice',)
        """
        if account == "dataset":
            return None
        return tuple(f"analyst:{name}" for name in self.teams[account.removeprefix("team:")].members)

    @property
    def teams_by_group(self) -> dict[str, frozenset[str]]:
        """The groups of each team that has any."""
        return {name: frozenset(team.groups) for name, team in self.teams.items() if team.groups}

    def most_of_statement(self, analyst: str) -> Fraction | None:
        """What one statement of an analyst may cost where the session says nothing, None for no bound."""
        own = self.analysts.get(analyst, Analyst())
        return own.max_cost if "max_cost" in own.model_fields_set else self.max_cost

    def precision(self, analyst: str) -> dict[str, str]:
        """The settings of an analyst's precision and reuse where neither the session nor the statement has any.

        >>> Budget(analysts={"ann": Analyst(error="5%")}).precision("ann")
        {'dpproxy.error': '5%'}
        """
        own = self.analysts.get(analyst, Analyst())
        asked = {"units": own.units, "error": own.error, "most_units": own.most_units, "reuse": own.reuse}
        return {f"dpproxy.{name}": str(value) for name, value in asked.items() if value is not None}

    def may_publish(self, analyst: str) -> bool:
        """Whether an analyst may make answers free for everybody."""
        return self.analysts.get(analyst, Analyst()).publish

    def _limit(self, account: str, limits: Limits) -> AccountLimit:
        return AccountLimit(
            account,
            self.information if limits.information is None else limits.information,
            self.calls if limits.calls is None else limits.calls,
            limits.period or self.period,
            limits.mode or self.mode,
        )


class ColumnSection(_Section):
    """[tables.T.columns] C = {...}: what is known of a column without looking, or the SQL that computes it."""

    expression: str | None = None
    domain: list[Any] | None = None
    domain_from: str | None = None
    range: list[Any] | None = Field(default=None, min_length=2, max_length=2)
    nullable: bool | None = None
    bounds: list[Exact] | None = Field(default=None, min_length=2, max_length=2)
    unit_bounds: list[Exact] | None = Field(default=None, min_length=2, max_length=2)
    scale: int | None = Field(default=None, ge=0, le=18)
    magnitude: Annotated[Exact, Field(gt=0)] | None = None
    of_unit: bool = False
    hidden: bool = False

    @field_validator("bounds", "unit_bounds", mode="before")
    @classmethod
    def _numbers(cls, value: object) -> object:
        if isinstance(value, list) and any(isinstance(v, (str, dt.date, dt.time)) for v in value):
            raise ValueError('must be two numbers; for dates write range = ["2024-01-01", "2024-12-31"]')
        return value

    @model_validator(mode="after")
    def _possible(self) -> ColumnSection:
        if sum(given is not None for given in (self.domain, self.domain_from, self.range)) > 1:
            raise ValueError("only one of domain, domain_from and range")
        if self.bounds is not None and self.unit_bounds is not None:
            raise ValueError("only one of bounds and unit_bounds")
        for key, bounds in (("bounds", self.bounds), ("unit_bounds", self.unit_bounds)):
            if bounds is not None and bounds[0] > bounds[1]:
                raise ValueError(f"{key}: the lower one is above the upper one")
        if self.magnitude is not None and (self.bounds is not None or self.unit_bounds is not None):
            raise ValueError("magnitude goes without bounds: these say already how large a value is")
        if self.hidden and self.model_fields_set != {"hidden"}:
            raise ValueError("a hidden column is not usable: nothing else can be said of it")
        return self


class TableSection(_Section):
    """[tables.T]: public, or private with its privacy unit, keys and bounds."""

    public: bool = False
    privacy_unit: str | Annotated[list[str], Field(min_length=1)] | None = None
    privacy_unit_path: list[str] = []
    privacy_unit_kind: Annotated[str, Field(min_length=1)] | None = None
    unique: list[str] = []
    vouched_key: str | None = None
    max_rows_per_unit: Positive | None = None
    max_rows_per_unit_per_group: Positive | None = None
    max_groups_per_unit: dict[str, Positive] = {}
    horizon: dict[str, Any] | None = None
    where: str | None = None
    columns: dict[str, ColumnSection] = {}

    @property
    def unit(self) -> tuple[str, ...]:
        """The columns that name the unit together; none where the file does not say."""
        if self.privacy_unit is None:
            return ()
        return (self.privacy_unit,) if isinstance(self.privacy_unit, str) else tuple(self.privacy_unit)


class AuditSection(_Section):
    """[audit]: what the ledger keeps of analysts' statements.

    `statements`: the texts of answered ones, encrypted, for as long as their answers; and the shapes of refused ones,
    without constants, of which it keeps keyed fingerprints otherwise.
    """

    statements: bool = False


class ReportSection(_Section):
    """[report]: what only the owner knows of the deployment, for `dpproxy report`."""

    name: str = ""
    curator: str = ""
    curator_type: str = ""
    intended_use: str = ""
    region: str = ""
    sector: str = ""
    publication_date: dt.date | None = None
    data_source: Literal["Dynamic", "Static"] = "Dynamic"
    justification: str = ""
    sources: str = ""
    authors: list[str] = []


class Config(_Section):
    """A whole dpproxy.toml; `file` is where it was read, and what relative paths are relative to."""

    file: Path = Field(exclude=True)
    server: ServerSection = ServerSection()
    backend: BackendSection
    front: FrontSection = FrontSection()
    ledger: LedgerSection = LedgerSection()
    privacy: Privacy = Privacy()
    budget: Budget = Budget()
    identity: IdentitySection = IdentitySection()
    audit: AuditSection = AuditSection()
    report: ReportSection = ReportSection()
    tables: dict[str, TableSection]

    @model_validator(mode="after")
    def _precise(self) -> Config:
        """A precision that no statement could have would refuse all of an analyst's."""
        most = self.privacy.most_units_per_answer
        for name, analyst in self.budget.analysts.items():
            if self.privacy.noise == "laplace" and self.budget.precision(name):
                raise ValueError(f'budget.analysts.{name}: noise = "laplace" has one precision')
            if analyst.units is not None and analyst.units > most:
                raise ValueError(f"budget.analysts.{name}.units is above privacy.most_units_per_answer")
        return self

    @model_validator(mode="after")
    def _padded(self) -> Config:
        """A published answer says when it was made."""
        publishers = [name for name in self.budget.analysts if self.budget.may_publish(name)]
        if publishers and self.privacy.timing == "padded":
            raise ValueError(
                f'budget.analysts.{publishers[0]}.publish: with privacy.timing = "padded" nobody publishes, since a '
                "published answer says when it was made"
            )
        return self

    @model_validator(mode="after")
    def _grouped(self) -> Config:
        """Otherwise nobody could log in, or a team would be of nobody."""
        told, teams = self.identity.tells_groups, self.budget.teams_by_group
        if told and not teams:
            raise ValueError(f"identity.{told}.groups: no team of [budget.teams] has groups")
        if teams and self.server.auth == "trust":
            raise ValueError(
                f'budget.teams.{next(iter(teams))}.groups: auth = "trust" asks nobody for groups'
            )
        if teams and not told:
            raise ValueError(
                f"budget.teams.{next(iter(teams))}.groups: no login tells its groups: set groups in "
                "[identity.tokens] or [identity.ldap]"
            )
        return self

    @model_validator(mode="after")
    def _certified(self) -> Config:
        if self.identity.certificates and not self.server.tls_client_ca:
            raise ValueError("identity.certificates: no certificate is asked for: set server.tls_client_ca")
        return self

    @model_validator(mode="after")
    def _capped(self) -> Config:
        """Accounts that appear as they are asked for would add up to any budget."""
        dataset = self.budget.dataset
        if dataset is None or (dataset.mode or self.budget.mode) != "enforce":
            for key, pattern in self.identity.patterns().items():
                raise ValueError(
                    f'identity.{key}: "{pattern}" lets accounts appear as they are asked for: set [budget.dataset], '
                    "enforced, or name every analyst"
                )
        return self

    @property
    def folder(self) -> Path:
        """The folder of the file."""
        return self.file.absolute().parent

    def path(self, written: str) -> Path:
        """A path of the file as it is meant: relative to the file."""
        return self.folder / written

    def fingerprint(self) -> bytes:
        """Tables and columns with their defaults, not budgets: the same bytes for the same policy."""
        return json.dumps(self.tables, sort_keys=True, ensure_ascii=True, default=_tagged).encode()

    def warnings(self) -> tuple[str, ...]:
        """Warnings about settings that are valid, but perhaps not intended."""
        return tuple(self._warnings())

    def _warnings(self) -> Iterator[str]:
        if self.server.auth == "trust" and self.budget.dataset is None:
            yield 'auth = "trust" lets any name in, each with its own budget: set [budget.dataset]'
        if self.budget.dataset is None:
            for name, service in self.identity.services.items():
                yield (
                    f'who holds the password of "{name}" holds the budgets of {len(service.analysts)} analysts that it '
                    "may act for: set [budget.dataset]"
                )
        publishers = [name for name in self.budget.analysts if self.budget.may_publish(name)]
        if publishers:
            yield (
                f"{', '.join(publishers)} may publish: whoever reads what they publish learns what their own limit "
                "allows and, on top, what the publishers' limits allow"
            )
        accounts = {"analysts": self.budget.mode}
        accounts |= {f"analyst {name}": one.mode or "enforce" for name, one in self.budget.analysts.items()}
        accounts |= {f"team {name}": team.mode or "enforce" for name, team in self.budget.teams.items()}
        if self.budget.dataset is not None:
            accounts["the dataset"] = self.budget.dataset.mode or self.budget.mode
        for account, mode in accounts.items():
            if mode == "track":
                yield f'mode = "track": no guarantee is claimed for {account}'


def load(path: Path) -> Config:
    """Reads dpproxy.toml; raises ConfigError.

    What depends on the backend's schema is checked by `catalog.build_policy`.
    """
    return validated(path, content(path))


def content(path: Path) -> dict[str, Any]:
    """What a file says, before it is checked; raises ConfigError for what is no TOML."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"), parse_float=_decimal)
    except FileNotFoundError as error:
        raise ConfigError(
            path, "", "there is no such file; `dpproxy init` writes one, and --config names another"
        ) from error
    except OSError as error:
        raise ConfigError(path, "", f"cannot be read ({error.strerror})") from error
    except (ValueError, UnicodeDecodeError) as error:
        raise ConfigError(path, "", str(error)) from error


def _decimal(written: str) -> Fraction | float:
    """A decimal as it is written; a float where none can be counted with, which is a mistake of its key."""
    try:
        return exact(written)
    except ValueError:
        return float(written)


def validated(path: Path, said: Mapping[str, Any]) -> Config:
    """The configuration that a file with this content would be; raises ConfigError."""
    if "file" in said:
        raise ConfigError(path, "file", "unknown key", nearest("file", Config.model_fields))
    try:
        return Config(file=path, **said)
    except ValidationError as error:
        raise _explained(path, error) from error


def _explained(path: Path, error: ValidationError) -> ConfigError:
    # A misspelt key first: what it should have been is reported as missing too.
    first = min(error.errors(include_url=False), key=lambda found: found["type"] != "extra_forbidden")
    key = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        names = _names_at(first["loc"][:-1])
        return ConfigError(path, key, "unknown key", nearest(str(first["loc"][-1]), names))
    if first["type"] == "missing":
        return ConfigError(path, key, "is missing")
    message = re.sub(r"^Value error, ", "", first["msg"])
    return ConfigError(path, key, message[0].lower() + message[1:])


def _names_at(location: tuple[int | str, ...]) -> Iterable[str]:
    """The keys of the section at `location`; below a dict's key they are those of its values."""
    place: Any = Config
    for part in location:
        if isinstance(place, type) and issubclass(place, BaseModel):
            place = place.model_fields[str(part)].annotation
        else:
            place = get_args(place)[-1]
        models = [kind for kind in get_args(place) if isinstance(kind, type) and issubclass(kind, BaseModel)]
        if models and type(None) in get_args(place):
            place = models[0]
    fields = place.model_fields if isinstance(place, type) and issubclass(place, BaseModel) else {}
    return [name for name in fields if name != "file"]


def _tagged(value: object) -> dict[str, Any]:
    """Sections as they are, numbers and dates apart from strings that look the same."""
    if not isinstance(value, _Section):
        return {type(value).__name__: str(value)}
    return dict(value)
