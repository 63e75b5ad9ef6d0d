"""`dpproxy backup` and `dpproxy restore`: ledger, key and configuration in one file; the mark stays where it is.

Why: docs/decisions/losses-are-charged.md.
"""

from __future__ import annotations

import fcntl
import hmac
import json
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile

from budget import backup as files
from budget.account import LedgerError
from budget.backup import BackupError, Saved
from budget.highwater import HighWater, HighWaterMarks, OwnEntries
from budget.store import Pool, PostgresStore
from dpproxy.config.highwater_file import MarkFile
from dpproxy.config.key_file import Keys, load_keys, save_keys
from dpproxy.config.owner_password import verifier_path
from dpproxy.config.sections import Config, ConfigError
from dpproxy.deployment.service import configured, sole_user
from dpproxy.embedded.server import Embedded
from dpproxy.engine.rollback_guard import ACCEPT
from dpproxy.reporting.rows import OutputError
from dpproxy.reporting.tables import print_json
from mechanisms import randomness

_FORM = 1
_MANIFEST, _KEY, _CONFIG, _OWNER = "manifest", "key", "dpproxy.toml", "owner"


def backup(config: Config, file: Path, *, with_key: bool, as_json: bool) -> None:
    """Writes everything that a restore needs into a file that its owner alone may read, or leaves the one before.

    Raises OutputError, and what opening the ledger raises.
    """
    key_path = config.path(config.privacy.key_file)
    keys = load_keys(key_path, may_make=False)
    owner = verifier_path(key_path)
    beside = {_CONFIG: config.file.read_bytes()}
    if owner.exists():
        beside[_OWNER] = owner.read_bytes()
    with _replaced(file) as new, ZipFile(new, "w", ZIP_DEFLATED) as archive:
        with ledger_server(config) as conninfo:
            saved = files.save(conninfo, archive)
        for name, content in beside.items():
            archive.writestr(name, content)
        if with_key:
            archive.writestr(_KEY, keys.dump())
        digests = {name: sha256(content).hexdigest() for name, content in beside.items()}
        said = json.dumps({"form": _FORM, "ledger": saved.dump(), "files": digests})
        archive.writestr(_MANIFEST, f"{_seal(keys.present, said)} {said}")
    if as_json:
        print_json(
            {"file": str(file), "ledger": saved.ledger, "entry": saved.entry, "at": saved.at, "key": with_key}
        )
        return
    print(f"{file}: the ledger up to entry {saved.entry}, {saved.at} UTC.")
    print("It holds the key: keep it as secret as the key itself." if with_key else "It holds no key.")


def restore(path: Path, file: Path, *, as_json: bool) -> None:
    """Puts back the ledger of a backup, and key and configuration where they are missing; all of the ledger or nothing.

    The mark stays. Without one a mark is written that the ledger cannot meet, so that nobody is served before the owner
    has accepted that what followed the backup is missing. Raises OutputError, and what opening the ledger raises.
    """
    try:
        with ZipFile(file) as archive:
            if not path.exists():
                _put(path, archive.read(_CONFIG))
            config = configured(path)
            key_path = config.path(config.privacy.key_file)
            missing = not key_path.exists()
            keys = _keys_of(archive, key_path) if missing else load_keys(key_path, may_make=False)
            saved, digests = _manifest(archive, keys, key_path)
            beside = {name: archive.read(name) for name in digests}
            if any(sha256(content).hexdigest() != digests[name] for name, content in beside.items()):
                raise BackupError("the backup is damaged")
            mark = MarkFile(key_path, *keys.all)
            with ledger_server(config, alone=True, new=True) as conninfo:
                if not mark.path.exists():
                    mark.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                    mark.replace(HighWater(saved.ledger, {saved.entry + 1: "what followed the backup"}))
                files.restore(conninfo, archive, saved)
                lost = _lost(conninfo, saved, mark)
            if _OWNER in beside and not verifier_path(key_path).exists():
                _put(verifier_path(key_path), beside[_OWNER])
            if missing:
                save_keys(key_path, keys)
    except (BadZipFile, KeyError, EOFError, ValueError, zlib.error) as error:
        raise OutputError(f"{file} is no backup, or a damaged one ({type(error).__name__})") from error
    if as_json:
        print_json({"ledger": saved.ledger, "entry": saved.entry, "at": saved.at, "complete": not lost})
        return
    print(f"The ledger is that of {saved.at} UTC, up to entry {saved.entry}.")
    if lost:
        print(f"What was charged later is missing: nobody is served before {ACCEPT}, which charges for it.")
    else:
        print("Nothing is missing: the mark knows no later entry.")


def _lost(conninfo: str, saved: Saved, mark: MarkFile) -> bool:
    """Whether the mark misses something in the restored ledger."""
    pool = Pool(conninfo, 1)
    try:
        known = mark.read()
        if known is not None:
            HighWaterMarks(PostgresStore(pool), saved.ledger, OwnEntries()).check(known)
    except (LedgerError, ConfigError):
        return True
    finally:
        pool.close()
    return False


@contextmanager
def ledger_server(config: Config, *, alone: bool = False, new: bool = False) -> Iterator[str]:
    """The server of the ledger, started where it is embedded and does not run.

    `alone`: no other process runs it; `new`: it may be made. Raises OutputError, EmbeddedError.
    """
    running = f"a dpproxy runs on the ledger of {config.file}: stop it first"
    key_path, data_dir = config.path(config.privacy.key_file), config.path(config.ledger.data_dir)
    if config.ledger.url:
        if not alone:
            yield config.ledger.url
            return
        key_path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with sole_user(key_path) as owner:
            if not owner:
                raise OutputError(running)
            yield config.ledger.url
        return
    if not (new or (data_dir / "cluster").exists()):
        raise OutputError(f"there is no ledger in {data_dir}")
    with Embedded.start(data_dir, durable=True) as server:
        if alone and not server.owner:
            raise OutputError(running)
        yield server.conninfo()


def _keys_of(archive: ZipFile, key_path: Path) -> Keys:
    if _KEY not in archive.namelist():
        raise OutputError(f"the backup holds no key: put the deployment's into {key_path} first")
    return Keys.load(archive.read(_KEY))


def _manifest(archive: ZipFile, keys: Keys, key_path: Path) -> tuple[Saved, dict[str, str]]:
    seal, _, said = archive.read(_MANIFEST).decode().partition(" ")
    if not any(hmac.compare_digest(seal.encode(), _seal(key, said).encode()) for key in keys.all):
        raise OutputError(f"the backup is damaged, or was made with another key than {key_path}")
    read = json.loads(said)
    if read["form"] != _FORM:
        raise BackupError("the backup was made by a newer dpproxy")
    return Saved.load(read["ledger"]), read["files"]


def _seal(key: bytes, said: str) -> str:
    return hmac.digest(randomness.derive(key, "backup"), said.encode(), "sha256").hex()


@contextmanager
def _replaced(path: Path) -> Iterator[Path]:
    """A file to write that takes the place of another one once it is whole and on disk."""
    new = path.with_name(f"{path.name}.new")
    handle = os.open(new, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        if os.fstat(handle).st_uid != os.geteuid():
            raise OutputError(f"{new} belongs to somebody else")
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OutputError(f"another command is writing {path}") from None
        os.fchmod(handle, 0o600)
        os.ftruncate(handle, 0)
        try:
            yield new
            os.fsync(handle)
        except BaseException:
            new.unlink(missing_ok=True)
            raise
        os.replace(new, path)
    finally:
        os.close(handle)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _put(path: Path, content: bytes) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _replaced(path) as new:
        new.write_bytes(content)
