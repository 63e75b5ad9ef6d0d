"""The passwords of owner and auditor: scrypt verifiers in files next to the key, never a password itself."""

from __future__ import annotations

import hashlib
import hmac
import os
import tempfile
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from dpproxy.config.identity import LEAST_PASSWORD, OWNER
from dpproxy.config.sections import ConfigError
from dpproxy.reporting.rows import OutputError
from mechanisms.randomness import random_bytes

_N, _R, _P, _LENGTH = 1 << 15, 8, 1, 32
_MEMORY = 256 * _N * _R


@dataclass(frozen=True)
class ScryptVerifier:
    """The verifier of a password (RFC 7914)."""

    salt: bytes
    hash: bytes

    @classmethod
    def make(cls, password: str) -> Self:
        """A verifier of a new password, with a salt of its own; OutputError where it is too short."""
        if len(password.strip()) < LEAST_PASSWORD:
            raise OutputError(f"the password has at least {LEAST_PASSWORD} characters")
        salt = random_bytes(16)
        return cls(salt, _hash(password, salt))

    @classmethod
    def read(cls, text: str) -> Self:
        """A verifier as `str` writes it; ValueError for anything else.

        >>> ScryptVerifier.read(str(ScryptVerifier.make("correct horse"))).holds("correct horse")
        True
        """
        kind, n, r, p, salt, hash = text.strip().split("$")
        if (kind, n, r, p) != ("scrypt", str(_N), str(_R), str(_P)):
            raise ValueError("no verifier of this version")
        return cls(b64decode(salt, validate=True), b64decode(hash, validate=True))

    def __str__(self) -> str:
        salt, hash = (b64encode(part).decode() for part in (self.salt, self.hash))
        return f"scrypt${_N}${_R}${_P}${salt}${hash}"

    def holds(self, password: str) -> bool:
        """Whether a password matches the verifier."""
        return hmac.compare_digest(_hash(password, self.salt), self.hash)


def verifier_path(key_path: Path, role: str = OWNER) -> Path:
    """Where the verifier of a role lies, by the deployment's key."""
    return key_path.with_name(f"{key_path.name}.{role}")


def load(path: Path) -> ScryptVerifier | None:
    """The verifier in a file, None where there is no file; raises ConfigError for one that cannot be read."""
    try:
        return ScryptVerifier.read(path.read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError, Base64Error) as error:
        raise ConfigError(path, "", "the password cannot be read: set a new one") from error


def save(path: Path, verifier: ScryptVerifier) -> None:
    """Replaces the file as a whole, readable by its owner alone; raises OSError."""
    handle, new = tempfile.mkstemp(prefix=f"{path.name}.", dir=path.parent)
    with open(handle, "w") as file:
        file.write(f"{verifier}\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)


def _hash(password: str, salt: bytes) -> bytes:
    secret = password.encode(errors="surrogatepass")
    return hashlib.scrypt(secret, salt=salt, n=_N, r=_R, p=_P, maxmem=_MEMORY, dklen=_LENGTH)
