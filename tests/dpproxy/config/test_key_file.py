"""The key file: made once, 32 bytes, for its owner alone."""

from __future__ import annotations

import stat
import threading
from pathlib import Path

import pytest

from dpproxy.config.key_file import Keys, load_keys, save_keys
from dpproxy.config.sections import ConfigError


def test_a_missing_key_is_made_once(tmp_path: Path) -> None:
    path = tmp_path / "new" / "key"
    key = load_keys(path, may_make=True)
    assert len(key.present) == 32
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert load_keys(path, may_make=True) == key
    assert load_keys(path, may_make=False) == key
    assert [entry.name for entry in path.parent.iterdir()] == ["key"]


def test_a_missing_key_is_not_made_where_the_ledger_has_entries(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="missing"):
        load_keys(tmp_path / "key", may_make=False)
    assert not (tmp_path / "key").exists()


@pytest.mark.parametrize(("mode", "size"), [(0o640, 32), (0o604, 32), (0o600, 31), (0o600, 33)])
def test_a_key_that_others_may_read_or_of_another_length(tmp_path: Path, mode: int, size: int) -> None:
    path = tmp_path / "key"
    path.write_bytes(b"k" * size)
    path.chmod(mode)
    with pytest.raises(ConfigError, match="chmod 600" if size == 32 else "32 bytes"):
        load_keys(path, may_make=True)


def test_who_starts_at_the_same_time_gets_the_same_key(tmp_path: Path) -> None:
    keys: list[Keys] = []
    barrier = threading.Barrier(8)

    def start() -> None:
        barrier.wait()
        keys.append(load_keys(tmp_path / "key", may_make=True))

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(keys) == 8
    assert len(set(keys)) == 1


def test_a_rotation_replaces_the_file_as_a_whole_and_keeps_the_salt(tmp_path: Path) -> None:
    first = load_keys(tmp_path / "key", may_make=True)
    both = first.rotated("2026-11")
    save_keys(tmp_path / "key", both, replace=True)
    assert load_keys(tmp_path / "key", may_make=False) == both
    assert both.all == (both.present, first.present)
    assert (both.of("2026-11"), both.of("2026-12")) == (first.present, both.present)
    save_keys(tmp_path / "key", both.retired(), replace=True)
    last = load_keys(tmp_path / "key", may_make=False)
    assert (last.all, last.of("2026-11"), last.fake_salt) == ((both.present,), both.present, first.fake_salt)
    assert first.present.hex() not in repr(both)
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["key"]
    for content in (
        b"{}",
        b"[]",
        b'{"key": "ab", "salt": "ab"}',
        b'{"key": 1, "salt": 2}',
        both.dump()[:100],
    ):
        (tmp_path / "key").write_bytes(content)
        with pytest.raises(ConfigError, match="rotation"):
            load_keys(tmp_path / "key", may_make=False)
