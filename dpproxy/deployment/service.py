"""Everything that a configuration names, started in order and stopped in reverse.

Why: docs/decisions/one-server-for-a-configuration.md.
"""

from __future__ import annotations

import asyncio
import fcntl
import gc
import hashlib
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from budget.account import Generation, LedgerError, Limit, OtherData, Pinned
from budget.approvals import Approvals
from budget.backup import BackupError
from budget.ledger import Ledger
from dpproxy.backends.base import Backend, BackendError, BackendSchema, BackendUnavailable
from dpproxy.catalog.build_policy import build_policy, open_backend, policy_warnings, unit_name
from dpproxy.config.approval import ApprovedLimits
from dpproxy.config.epoch import epoch_name
from dpproxy.config.highwater_file import MarkFile, mark_path
from dpproxy.config.key_file import Keys, load_keys
from dpproxy.config.sections import Config, ConfigError, ServerSection, load
from dpproxy.deployment.administration import Owner
from dpproxy.deployment.control import RELOAD, control_path, controlled
from dpproxy.deployment.epoch_rollover import OncePerEpoch, tables_changed, turn_at_owner
from dpproxy.deployment.in_place import check_policy, check_settings
from dpproxy.deployment.login_methods import login_methods_of
from dpproxy.embedded.server import Embedded, EmbeddedError
from dpproxy.engine.executor import QueryEngine
from dpproxy.engine.paying_accounts import in_ledger
from dpproxy.engine.planner import Planner
from dpproxy.engine.published_tables import Publishing
from dpproxy.engine.rollback_guard import ACCEPT, MarkError, RollbackGuardedLedger
from dpproxy.engine.sealed_texts import SealedTexts
from dpproxy.front.front import Front, FrontError
from dpproxy.reporting.rows import RowSet
from dpproxy.server import local_client
from dpproxy.server.impersonation import Identity, no_owner
from dpproxy.server.listener import Rooms, Server, ServerError, ServerSettings, Shared, tls_of
from dpproxy.telemetry.lateness import Lateness
from dpproxy.telemetry.metrics import Metrics
from dpproxy.telemetry.observer import Observer, Watchers
from dpproxy.telemetry.progress import Progress
from dpproxy.telemetry.refusal_counter import RefusalCounts, kept_shape
from dpproxy.telemetry.stages import Observe
from dpproxy.telemetry.statement_log import StatementLog
from mechanisms import randomness
from rewriter.policy import Policy
from rewriter.refusal import Refusal

log = logging.getLogger("dpproxy.deployment.service")

SLOTS = 4
"""Queries that the backend runs at once."""
RECOVERY_SECONDS = 600
RENEWAL_SECONDS = 5.0
"""How soon a due published answer is refreshed, and one of another proxy is shown."""
_ATTACH_SECONDS = 60
MOST_WORKERS = 64
"""So many workers have a lasting name in the ledger."""
_LEDGER_CONNECTIONS, _MORE_CONNECTIONS = 34, 40
"""Of each process to an embedded ledger, and for commands on a running server."""


class ServiceError(Exception):
    """The parts that the configuration names cannot be started; the message is for the owner."""


EXPECTED: tuple[type[Exception], ...] = (
    *(BackendError, BackendUnavailable, ConfigError, EmbeddedError, FrontError, LedgerError),
    *(BackupError, MarkError, OSError, Refusal, ServerError, ServiceError),
)
"""Why a deployment may not start or serve, for reasons that one line can tell; anything else is a defect."""


def configured(path: Path, **server: object) -> Config:
    """Reads dpproxy.toml with some keys of [server] overridden; raises ConfigError.

    `server`: None leaves the file's value.
    """
    config = load(path)
    given = {name: value for name, value in server.items() if value is not None}
    try:
        section = ServerSection(**{**config.server.model_dump(), **given})
    except ValueError as error:
        raise ConfigError(path, "server", str(error)) from error
    return config.model_copy(update={"server": section})


@dataclass(frozen=True)
class BoundConfig:
    """A configuration that was checked against its backend."""

    config: Config
    backend: Backend
    schema: BackendSchema
    policy: Policy
    warnings: tuple[str, ...]

    @classmethod
    def open(cls, config: Config) -> Self:
        """Opens the backend and binds to it; raises ConfigError, BackendUnavailable, BackendError."""
        backend = open_backend(config, slots=SLOTS)
        try:
            return cls.to(config, backend)
        except BaseException:
            backend.close()
            raise

    @classmethod
    def to(cls, config: Config, backend: Backend) -> Self:
        """Reads the schema and builds the policy; raises ConfigError, BackendUnavailable, BackendError."""
        schema = backend.schema()
        policy = build_policy(config, schema, backend)
        return cls(config, backend, schema, policy, (*config.warnings(), *policy_warnings(config, schema)))

    @property
    def pinned(self) -> Pinned:
        """The parameters that the ledger fixes at its creation."""
        privacy = self.config.privacy
        unit = unit_name(self.policy)
        return Pinned(privacy.epsilon_per, privacy.delta_per, privacy.delta_prime, unit)


@dataclass(frozen=True, repr=False)
class LedgerAndKey:
    """The ledger of a configuration and the deployment's key.

    Attributes:
        ledger: the ledger.
        keys: the deployment's.
        owner: no other process runs its server.
        mark: the mark that the ledger is checked against before its first charge.
        data: the backend that its answers are computed from.
        deployment: the name of the deployment, which all its processes have.
    """

    ledger: Ledger
    keys: Keys
    owner: bool
    mark: MarkFile
    data: str
    deployment: str


@dataclass(frozen=True)
class WorkerSlot:
    """A worker's number, from 0, and the private folder that it shares with its parent."""

    number: int
    folder: Path


@contextmanager
def open_vault(
    checked: BoundConfig,
    place: WorkerSlot | None = None,
    *,
    workers: int = 1,
    new: bool = False,
    approving: bool = False,
) -> Iterator[LedgerAndKey]:
    """Starts the embedded ledger or attaches to it, or connects to the one that the file names.

    `place`: of a worker, which attaches under a lasting name of its own; `workers`: how many will follow;
    `new`: an embedded ledger may be made though the key has had one before; `approving`: limits of the file may wait
    for a second person. Raises EmbeddedError, LedgerError, MarkError, ConfigError.
    """
    config, section = checked.config, checked.config.ledger
    key_path, data_dir = config.path(config.privacy.key_file), config.path(section.data_dir)
    exists = bool(section.url) or (data_dir / "cluster").exists()
    if not (exists or new) and mark_path(key_path).exists():
        raise MarkError(
            f"{key_path} has a ledger, but none is in {data_dir}: put it back, or start a new ledger by {ACCEPT}"
        )
    # An existing ledger may hold answers whose noise depends on the key.
    keys = load_keys(key_path, may_make=not exists)
    with ExitStack() as stack:
        if section.url:
            conninfo, name = section.url, f"{socket.gethostname()}:{key_path}"
            owner = place is None and stack.enter_context(sole_user(key_path))
        else:
            most = {"max_connections": str(_LEDGER_CONNECTIONS * (workers + 1) + _MORE_CONNECTIONS)}
            server = stack.enter_context(Embedded.start(data_dir, durable=True, settings=most))
            conninfo, name, owner = server.conninfo(), "owner", server.owner
        deployment = name
        names = [f"{name} worker {number}" for number in range(MOST_WORKERS)]
        if place is not None:
            name = names[place.number]
        elif not owner:
            name = f"attached {randomness.random_bytes(16).hex()}"
        ledger = Ledger.open(conninfo, checked.pinned, instance=name)
        stack.callback(ledger.close)
        # A worker has the policy of its parent, which was compared when the parent took it.
        if not approving and place is None:
            check_approved(config, ledger.approvals)
        if owner:
            ledger.recover(*names)
        # An embedded ledger and a file beside it may be moved together.
        data = checked.backend.place(None if section.url else data_dir)
        yield LedgerAndKey(ledger, keys, owner, MarkFile(key_path, *keys.all), data, deployment)


class Service:
    """A running configuration: its front, ledger, backend and the composition of the rooms over them.

    Make it by `Service.start`; leaving it stops what this process started, in reverse order. `observe`, once it is
    set, is told by servers made later how long the stages of private statements take.
    """

    checked: BoundConfig
    config: Config
    generation: Generation
    answering: QueryEngine
    publishing: Publishing

    def __init__(
        self,
        checked: BoundConfig,
        stack: ExitStack,
        place: WorkerSlot | None,
        workers: int,
        generation: Generation | None = None,
    ) -> None:
        self.checked, self.config = checked, checked.config
        self._stack, self._reloading = stack, threading.Lock()
        vault = stack.enter_context(open_vault(checked, place, workers=workers))
        self.ledger, self._keys = RollbackGuardedLedger(vault.ledger, vault.mark), vault.keys
        stack.callback(self.ledger.close)
        self._keep_to(vault.data)
        self.front = stack.enter_context(open_front(self.config, workers=workers))
        self.owner = vault.owner and (self.front.owner or bool(self.config.front.url))
        self.metrics = Metrics(SLOTS)
        self.lateness = Lateness(self.metrics.late)
        counts = (self.ledger.refusals.count, self.ledger.refusals.count_shapes)
        self._watchers: list[Observer] = [
            stack.enter_context(RefusalCounts(*counts, lambda text: self._shape_of(text))),
            self.metrics,
        ]
        self.observe: Observe = self.metrics.stage
        self.turn = OncePerEpoch(epoch_name(self.config.privacy.epoch, datetime.now(UTC)), self._begin_epoch)
        self._turned = self.turn if self.owner else _nothing
        if place is not None:
            self._turned = partial(turn_at_owner, place.folder)
        if generation is None and not self.owner:
            generation = self._bought_under(vault.deployment)
        self._prepare_front()
        self._hold(checked, generation or self.ledger.generations.begin(vault.deployment))
        if self.owner:
            self.publishing.synchronise(afresh=True)

    @classmethod
    def start(
        cls,
        config: Config,
        *,
        alone: bool,
        place: WorkerSlot | None = None,
        workers: int = 1,
        generation: Generation | None = None,
    ) -> Self:
        """Starts everything, or attaches to what another process of the same configuration runs.

        `alone`: refuses to attach; `place`, `generation`: of a worker; `workers`: how many will attach. Raises
        ServiceError, ConfigError, BackendUnavailable, BackendError, EmbeddedError, FrontError, LedgerError.
        """
        with ExitStack() as stack:
            checked = BoundConfig.open(config)
            stack.callback(checked.backend.close)
            service = cls(checked, stack, place, workers, generation)
            if alone and not service.owner:
                raise ServiceError(f"another dpproxy runs on the folders of {config.file}: stop it first")
            service._stack = stack.pop_all()
        return service

    def stop(self) -> None:
        """Stops what this process started."""
        gc.unfreeze()
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def texts(self) -> SealedTexts | None:
        """What opens the texts of answered statements; None where the file says that none are kept."""
        return SealedTexts(*self._keys.all) if self.config.audit.statements else None

    def secret(self, purpose: str) -> bytes:
        """32 secret bytes of the deployment for a purpose of this process's owner."""
        return randomness.derive(self._keys.present, purpose)

    def secrets(self, purpose: str) -> tuple[bytes, ...]:
        """The same of every key that is kept, the present one first."""
        return tuple(randomness.derive(key, purpose) for key in self._keys.all)

    def _hold(self, checked: BoundConfig, generation: Generation, epoch: str | None = None) -> None:
        """Answers under a policy from now on; `epoch`: as of QueryEngine. Raises ConfigError."""
        config = checked.config
        methods = login_methods_of(config, self.ledger.memberships)
        planner = Planner(checked.policy, self.front, checked.backend.dialect)
        keys, ledger = self._keys, self.ledger
        answering = QueryEngine(
            config, planner, checked.backend, ledger, keys, self._turned, generation, epoch
        )
        services = {name: login.analysts for name, login in config.identity.services.items()}
        self.checked, self.config, self.generation = checked, config, generation
        self._methods, self._identity = methods, Identity(services, self.front.let_take)
        self._shape_of = self._shapes()
        self.answering = answering
        self.publishing = Publishing(config, answering, ledger, self.front)

    def reload(self, config: Config, spread: Callable[[], None] = lambda: None) -> None:
        """Goes over to what the file says now, for the sessions that there are, or changes nothing; may block.

        What has reserved under the old policy ends under it; from then on nothing is bought before all processes hold
        the new one. `spread`: has other processes hold it. Raises ConfigError and the others of EXPECTED.
        """
        with self._reloading:
            before = self.checked
            check_settings(before.config, config)
            after = BoundConfig.to(config, before.backend)
            check_policy(config.file, before.policy, after.policy)
            if before.pinned != after.pinned:
                raise ConfigError(
                    config.file, "tables", "the first private table has another privacy unit: restart"
                )
            tls_of(settings_of(config))
            login_methods_of(config)
            check_approved(config, self.ledger.approvals)
            generations = self.ledger.generations
            shown = (before.policy, before.schema), (after.policy, after.schema)
            paused = generations.bought_under(self.generation.deployment) is None
            following = replace(self.generation, number=self.generation.number + 1)
            try:
                with self.front.changing(*shown, before.backend.read_public):
                    generations.suspend(following)
                    self.ledger.accounts.set_limits(self._changed_limits(config))
            except BaseException:
                (generations.suspend if paused else generations.resume)(self.generation)
                raise
            stamp_path(config).write_text(stamp_of(config))
            self._hold(after, following, self.answering.epochs.present)
            spread()
            if not paused:
                generations.resume(following)

    def follow(self, config: Config, generation: Generation) -> None:
        """Goes over to the policy that the parent has gone over to; raises ConfigError and the others of EXPECTED."""
        self._hold(BoundConfig.to(config, self.checked.backend), generation, self.answering.epochs.present)

    def _changed_limits(self, config: Config) -> dict[str, Limit]:
        """The limits that the file has changed, of the accounts that there are; the others are made with theirs."""
        limits = {}
        for row in self.ledger.accounts.all():
            old, new = self.config.budget.limit(row.account), config.budget.limit(row.account)
            if new is not None and new != old:
                limits[row.account] = in_ledger(self.ledger.accounts, config, new)
        return limits

    def _bought_under(self, deployment: str) -> Generation:
        """The policy of the running owner, once it does not change."""
        deadline = time.monotonic() + _ATTACH_SECONDS
        while (generation := self.ledger.generations.bought_under(deployment)) is None:
            if time.monotonic() > deadline:
                raise ServiceError("the running dpproxy answers nothing: it changes its policy, or is paused")
            time.sleep(0.05)
        return generation

    def _shapes(self) -> Callable[[str], str]:
        """What the ledger keeps of a refused text: its shape, or a keyed fingerprint of that."""
        known = {part for name in self.checked.schema.relations for part in name}
        known |= {c.name for table in self.checked.schema.relations.values() for c in table.columns}
        known |= {c.name for table in self.checked.policy.tables.values() for c in table.columns}
        return kept_shape(known, None if self.config.audit.statements else self.secret("refusal shapes"))

    def server(self, shared: Shared | None = None) -> Server:
        """The listener of [server], not started yet, on a port of its own or a `shared` one.

        Raises ServerError.
        """
        # A full collection would look at all that was imported: some 0.1 s amid a statement. `stop` undoes it, since
        # DuckDB's types complain about what is not collected at the end.
        gc.freeze()
        # Trees of SQL are garbage in cycles: looking for it at each 700 objects takes a twelfth of a new plan's time.
        gc.set_threshold(20_000)
        return Server(settings_of(self.config), self._served(), shared)

    def carry_on(self, server: Server) -> None:
        """Has a server go on under the policy that is answered under by now; raises ServerError."""
        server.reload(settings_of(self.config), self._served())

    def _served(self) -> Rooms:
        told = [StatementLog(self.secret("statement log"))] if self.config.server.log == "json" else []
        return replace(
            self._rooms(*told),
            role_for=lambda analyst: self._role_for(no_owner(analyst)),
            administration=Owner(lambda: self.config, self.ledger, self.metrics),
            lateness=self.lateness,
        )

    async def serve(
        self,
        ready: Callable[[str, int], None],
        reread: Callable[[], Config],
        inherited: socket.socket | None = None,
    ) -> None:
        """Serves until SIGTERM or SIGINT; `ready` gets host and port, `reread` reads the file again.

        `inherited`: a socket that listens already. Raises ServerError.
        """
        server = self.server()

        async def reload() -> None:
            await asyncio.to_thread(self.reload, reread())
            self.carry_on(server)

        async with self.recovering(), controlled(control_path(self.config), self.words(reload), EXPECTED):
            await server.serve(ready, self.stop, inherited)

    def words(self, reload: Callable[[], Awaitable[None]]) -> dict[str, Callable[[], Awaitable[object]]]:
        """What the owner may say to the process that runs the deployment."""

        async def shutdown() -> None:
            os.kill(os.getpid(), signal.SIGTERM)

        pause, resume = self.ledger.generations.suspend, self.ledger.generations.resume
        return {
            RELOAD: reload,
            "pause": lambda: asyncio.to_thread(pause, self.generation),
            "resume": lambda: asyncio.to_thread(resume, self.generation),
            "shutdown": shutdown,
            "drain": shutdown,
        }

    @asynccontextmanager
    async def recovering(self) -> AsyncIterator[None]:
        """Within the context, reservations of dead processes are ended when their leases expire, and published
        answers are renewed."""
        tasks = [asyncio.create_task(work) for work in (self._recover_at_times(), self._renew_at_times())]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()

    async def ask(
        self, analyst: str, statement: str, heard: Callable[[Progress], None] = local_client.unheard
    ) -> RowSet:
        """Runs one statement of an analyst by the code of a session, over a private socket.

        `heard`: called with the progress of a long statement. Raises ClientError.
        """
        seconds = self.config.server.statement_timeout.total_seconds()
        server = Server(ServerSettings(auth="trust", statement_timeout=seconds), self._rooms())
        theirs, ours = socket.socketpair()
        try:
            await server.admit(theirs)
            return await local_client.ask(ours, analyst, statement, heard)
        finally:
            await server.drain()
            # The loop ends next: let it remove the connections that the drain has closed.
            await asyncio.sleep(0)

    def _rooms(self, *watchers: Observer) -> Rooms:
        return Rooms(
            answering=self.answering,
            front=self.front.address,
            database=self.front.database,
            role_for=self._role_for,
            verifier=self.ledger.analysts.verifier,
            fake_salt_key=self._keys.fake_salt,
            observe=self.observe,
            identity=self._identity,
            watcher=Watchers([*self._watchers, *watchers]),
            methods=self._methods,
            publish=self.publishing.run,
            remembered=lambda: self.answering.remembered(),
        )

    def _keep_to(self, data: str) -> None:
        try:
            self.ledger.origins.keep_to(data)
        except OtherData as error:
            raise OtherData(
                f"{error}: put the right [backend] url back, or say that these are the same data, moved, by {ACCEPT}"
            ) from None

    def _role_for(self, analyst: str) -> tuple[str, str]:
        return self.front.role_for(analyst, partial(self._identity.may, analyst))

    def _prepare_front(self) -> None:
        """The owner makes and fills the clone; other processes wait until it has the same policy."""
        place = stamp_path(self.config)
        if self.owner:
            place.unlink(missing_ok=True)
            self.front.clone(self.checked.policy, self.checked.schema)
            self._load_public()
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(stamp_of(self.config))
        elif _written(place) != stamp_of(self.config):
            raise ServiceError(
                f"a running dpproxy serves another policy of {self.config.file}: restart it first"
            )

    def _load_public(self) -> None:
        for table in self.checked.policy.tables.values():
            if table.in_front:
                self.front.load_public(table, self.checked.backend.read_public(table))

    def _begin_epoch(self, _: str) -> None:
        """Reloads public rows for a new epoch, and checks that the policy still holds for them."""
        # Never amid a change of the policy, which would be followed by rows as the old one shows them.
        with self._reloading:
            checked = self.checked
            try:
                schema = checked.backend.schema()
                holds = build_policy(checked.config, schema, checked.backend) == checked.policy
            except ConfigError:
                holds = False
            if not holds:
                raise tables_changed()
            self._load_public()

    async def _recover_at_times(self) -> None:
        while True:
            await asyncio.sleep(RECOVERY_SECONDS)
            with suppress(LedgerError):
                await asyncio.to_thread(self.ledger.recover)

    async def _renew_at_times(self) -> None:
        while True:
            await asyncio.sleep(RENEWAL_SECONDS)
            try:
                await asyncio.to_thread(self.publishing.refresh_due, datetime.now(UTC))
            except Exception as error:
                log.error("published answers are not renewed: %s", type(error).__name__)


@contextmanager
def opened_vault(config: Config, *, new: bool = False, approving: bool = False) -> Iterator[LedgerAndKey]:
    """The vault alone, for commands that need no front; raises what Checked.open and open_vault raise."""
    checked = BoundConfig.open(config)
    checked.backend.close()
    with open_vault(checked, new=new, approving=approving) as vault:
        yield vault


@contextmanager
def sole_user(key_path: Path) -> Iterator[bool]:
    """Whether this process is the only user of a key file on this machine, for as long as it lives."""
    with open(key_path.with_name(f"{key_path.name}.lock"), "ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def check_approved(config: Config, approvals: Approvals) -> None:
    """Raises ConfigError where the file lets anybody spend more than a second person has approved, if one has to."""
    latest = approvals.in_force()
    if latest is None or latest.limits is None:
        return
    for raised in ApprovedLimits.of(config.budget).above(ApprovedLimits.read(latest.limits)):
        raise ConfigError(
            config.file, "budget", f"{raised}: the second person approves it by dpproxy budget approve"
        )


def settings_of(config: Config) -> ServerSettings:
    """[server] as the listener takes it."""
    section = config.server
    certificate, key, client_ca = (
        str(config.path(written)) if written else ""
        for written in (section.tls_cert, section.tls_key, section.tls_client_ca)
    )
    return ServerSettings(
        section.host,
        section.port,
        certificate,
        key,
        section.auth,
        section.max_sessions,
        section.statement_timeout.total_seconds(),
        section.login_timeout.total_seconds(),
        section.idle_timeout.total_seconds(),
        client_ca,
        section.max_sessions_per_login,
        error_columns=tuple(section.error_columns),
        tick=config.privacy.tick.total_seconds() if config.privacy.timing == "padded" else None,
    )


def stamp_path(config: Config) -> Path:
    """Where the owner of the front says which policy it shows."""
    data_dir = config.path(config.front.data_dir)
    return data_dir.with_name(f"{data_dir.name}.policy")


def stamp_of(config: Config) -> str:
    """What the owner of the front writes for a policy."""
    return hashlib.sha256(config.fingerprint()).hexdigest()


def open_front(config: Config, *, workers: int = 1) -> Front:
    """Starts the embedded front for so many `workers`, attaches to it, or connects.

    Raises EmbeddedError, FrontError.
    """
    section = config.front
    if section.url:
        return Front.connect(section.url)
    return Front.start(
        config.path(section.data_dir),
        sessions=config.server.max_sessions,
        processes=workers + 1,
        memory=section.session_bytes,
    )


def _written(place: Path) -> str:
    """The stamp of the running owner's policy, once it is there."""
    deadline = time.monotonic() + _ATTACH_SECONDS
    while time.monotonic() < deadline:
        with suppress(FileNotFoundError):
            return place.read_text()
        time.sleep(0.05)
    return ""


def _nothing(_: str) -> None:
    """A process that only attached does not stop the front."""
