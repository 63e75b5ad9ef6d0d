"""The key: 32 random bytes in a file that only its owner may read.

Why: docs/decisions/key-of-a-ledger.md.
"""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from dpproxy.config.sections import ConfigError
from mechanisms.randomness import random_bytes

LENGTH = 32


def load_key(path: Path, *, may_make: bool) -> bytes:
    """The key in `path`, made when it is missing and `may_make`.

    Paid noise depends on the key, so a ledger that has entries and no key must not get a new
    one: say `may_make=False`. Raises ConfigError for a missing key, one of another length, and one that
    others may read.
    """
    if may_make and not path.exists():
        save_key(path, random_bytes(LENGTH))
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            key = file.read(LENGTH + 1)
    except FileNotFoundError:
        raise ConfigError(
            path, "", "the key is missing; what the ledger holds cannot be used without it"
        ) from None
    except OSError as error:
        raise ConfigError(path, "", f"the key cannot be read ({error.strerror})") from error
    if stat.S_IMODE(mode) & 0o077:
        raise ConfigError(path, "", f"others may read the key: chmod 600 {path}")
    if len(key) != LENGTH:
        raise ConfigError(path, "", f"the key has to be {LENGTH} bytes")
    return key


def save_key(path: Path, key: bytes) -> None:
    """Writes a key where there is none; one that is there stays.

    Under another name first, readable by the owner alone, so that no process reads a part of a key.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, new = tempfile.mkstemp(prefix=f"{path.name}.", dir=path.parent)
    with open(handle, "wb") as file:
        file.write(key)
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(new, path)
    except FileExistsError:
        pass
    finally:
        os.unlink(new)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
