"""How far the ledger was verified, in a file next to the key, sealed with it: nobody without the key can write one."""

from __future__ import annotations

import hmac
import os
from pathlib import Path

from budget.checkpoint import Checkpoint
from dpproxy.config.sections import ConfigError
from mechanisms import randomness


class CheckpointFile:
    """The checkpoint of one ledger; `keys`: the deployment's, of which the first one seals."""

    def __init__(self, key_path: Path, *keys: bytes) -> None:
        self.path = key_path.with_name(f"{key_path.name}.verified")
        self._secrets = [randomness.derive(key, "checkpoint") for key in keys]

    def read(self) -> Checkpoint | None:
        """The checkpoint, None where there is no file; raises ConfigError for one that was not written with the key."""
        try:
            seal, _, said = self.path.read_text("utf-8", "replace").partition(" ")
        except FileNotFoundError:
            return None
        if not any(hmac.compare_digest(seal.encode(), _seal(one, said).encode()) for one in self._secrets):
            raise ConfigError(self.path, "", "the checkpoint is damaged, or was made with another key")
        return Checkpoint.load(said)

    def write(self, checkpoint: Checkpoint) -> None:
        """Replaces the checkpoint; raises OSError."""
        said = checkpoint.dump()
        new = self.path.with_name(f"{self.path.name}.new")
        with open(new, "w", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write(f"{_seal(self._secrets[0], said)} {said}")
        os.replace(new, self.path)


def _seal(secret: bytes, said: str) -> str:
    return hmac.digest(secret, said.encode(), "sha256").hex()
