"""A checkpoint is read by those who hold the key it was written with."""

from __future__ import annotations

from pathlib import Path

import pytest

from budget.checkpoint import Checkpoint
from dpproxy.config.checkpoint_file import CheckpointFile
from dpproxy.config.sections import ConfigError


def test_a_checkpoint_needs_its_key(tmp_path: Path) -> None:
    file, one = CheckpointFile(tmp_path / "key", bytes(32)), Checkpoint("a ledger", 7, "ab", "{}")
    assert file.read() is None
    file.write(one)
    assert (file.read(), file.path.stat().st_mode & 0o777) == (one, 0o600)
    with pytest.raises(ConfigError):
        CheckpointFile(tmp_path / "key", bytes(31) + b"1").read()
    file.path.write_text(file.path.read_text().replace("7", "8"))
    with pytest.raises(ConfigError):
        file.read()
