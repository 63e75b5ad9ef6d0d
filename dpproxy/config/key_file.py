"""The deployment's keys, in a file that only its owner may read: 32 random bytes, or JSON once they were rotated.

Why: docs/decisions/key-of-a-ledger.md, docs/decisions/an-epoch-has-one-key.md.
"""

from __future__ import annotations

import json
import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from dpproxy.config.sections import ConfigError
from mechanisms.randomness import derive, random_bytes

LENGTH = 32
_LONGEST = 1 << 12


@dataclass(frozen=True, repr=False)
class Keys:
    """The secrets of a deployment, of 32 bytes each.

    Attributes:
        present: all that is written now is sealed with it, and releases are made with it.
        old: the one before, while it is kept: what it has sealed can be read.
        epoch: the epoch whose releases are made with `old`.
        salt: made from the first key of the deployment: fake salts tell who exists if they change. None before a
            rotation.
    """

    present: bytes
    old: bytes | None = None
    epoch: str = ""
    salt: bytes | None = None

    @property
    def all(self) -> tuple[bytes, ...]:
        """What may have sealed something, the present one first."""
        return (self.present,) if self.old is None else (self.present, self.old)

    @property
    def fake_salt(self) -> bytes:
        """The key of the salts of analysts who do not exist; the same for the deployment's life."""
        return self.salt or derive(self.present, "fake salt")

    def of(self, epoch: str) -> bytes:
        """The key that names and noises the releases of an epoch.

        >>> keys = Keys(bytes(32)).rotated("2026-11")
        >>> keys.of("2026-11") == bytes(32), keys.of("2026-12") == keys.present
        (True, True)
        """
        return self.old if self.old is not None and epoch == self.epoch else self.present

    def rotated(self, epoch: str) -> Keys:
        """A new key, with this one kept for the releases of an epoch."""
        return Keys(random_bytes(LENGTH), self.present, epoch, self.fake_salt)

    def retired(self) -> Keys:
        """Without the key before."""
        return Keys(self.present, salt=self.salt)

    def dump(self) -> bytes:
        """As the file has it.

        >>> keys = Keys(bytes(32))
        >>> Keys.load(keys.dump()) == keys, Keys.load(keys.rotated("2026-11").dump()).old == bytes(32)
        (True, True)
        """
        if self.salt is None:
            return self.present
        old = {} if self.old is None else {"old": self.old.hex(), "epoch": self.epoch}
        return (json.dumps({"key": self.present.hex(), "salt": self.salt.hex(), **old}) + "\n").encode()

    @classmethod
    def load(cls, content: bytes) -> Self:
        """What `dump` wrote; ValueError for anything else."""
        if len(content) == LENGTH:
            return cls(content)
        read = json.loads(content)
        old = bytes.fromhex(read["old"]) if "old" in read else None
        keys = cls(bytes.fromhex(read["key"]), old, read.get("epoch", ""), bytes.fromhex(read["salt"]))
        if any(len(key) != LENGTH for key in (*keys.all, keys.fake_salt)):
            raise ValueError("a key has 32 bytes")
        return keys


def load_keys(path: Path, *, may_make: bool) -> Keys:
    """The keys in `path`, made when the file is missing and `may_make`.

    Paid noise depends on the key, so a ledger that has entries and no key must not get a new
    one: say `may_make=False`. Raises ConfigError for a missing key, one of another length, and one that
    others may read.
    """
    if may_make and not path.exists():
        save_keys(path, Keys(random_bytes(LENGTH)))
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read(_LONGEST)
    except FileNotFoundError:
        raise ConfigError(
            path, "", "the key is missing; what the ledger holds cannot be used without it"
        ) from None
    except OSError as error:
        raise ConfigError(path, "", f"the key cannot be read ({error.strerror})") from error
    if stat.S_IMODE(mode) & 0o077:
        raise ConfigError(path, "", f"others may read the key: chmod 600 {path}")
    try:
        return Keys.load(content)
    except (KeyError, TypeError, ValueError):
        raise ConfigError(path, "", f"the key has to be {LENGTH} bytes, or what a rotation wrote") from None


def save_keys(path: Path, keys: Keys, *, replace: bool = False) -> None:
    """Writes keys where there are none, or in the place of others where that is said, as a whole; raises OSError.

    Under another name first, readable by the owner alone, so that no process reads a part of a key.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, new = tempfile.mkstemp(prefix=f"{path.name}.", dir=path.parent)
    with open(handle, "wb") as file:
        file.write(keys.dump())
        file.flush()
        os.fsync(file.fileno())
    try:
        if replace:
            os.replace(new, path)
        else:
            os.link(new, path)
    except FileExistsError:
        pass
    finally:
        Path(new).unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
