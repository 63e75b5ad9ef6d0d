"""`dpproxy key`: the deployment's key is replaced, and the one before kept while answers are named with it.

Why: docs/decisions/an-epoch-has-one-key.md.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime

from dpproxy.config.checkpoint_file import CheckpointFile
from dpproxy.config.epoch import epoch_end, epoch_name
from dpproxy.config.highwater_file import MarkFile
from dpproxy.config.key_file import Keys, load_keys, save_keys
from dpproxy.config.sections import Config, ConfigError
from dpproxy.owner.backup import ledger_server
from dpproxy.reporting.rows import OutputError
from dpproxy.reporting.tables import print_json


def rotate(config: Config, *, now: bool) -> None:
    """Makes a new key; `now`: for releases of the present epoch, too, and without keeping the one before.

    Raises OutputError where one is kept already or a server runs, and what opening the ledger raises.
    """
    path = config.path(config.privacy.key_file)
    with ledger_server(config, alone=True):
        keys = load_keys(path, may_make=False)
        if keys.old is not None:
            raise OutputError("the key before this one is still kept: dpproxy key retire")
        keys = keys.rotated("" if now else epoch_name(config.privacy.epoch, datetime.now(UTC)))
        save_keys(path, keys, replace=True)
        if now:
            _retire(config, keys)
    _tell(config, keys.retired() if now else keys)


def retire(config: Config, *, now: bool) -> None:
    """Throws the key before away; `now`: also while answers are named with it, which are then bought again.

    Raises OutputError where none is kept or a server runs, and what opening the ledger raises.
    """
    with ledger_server(config, alone=True):
        keys = load_keys(config.path(config.privacy.key_file), may_make=False)
        if keys.old is None:
            raise OutputError("there is one key alone")
        if not now and keys.epoch == epoch_name(config.privacy.epoch, datetime.now(UTC)):
            raise OutputError(
                f"the answers of {keys.epoch} are found with it{_until(config)}; with --now they are bought again"
            )
        _retire(config, keys)
    _tell(config, keys.retired())


def show(config: Config, *, as_json: bool) -> None:
    """Prints whether the key before is kept, and what for."""
    keys = load_keys(config.path(config.privacy.key_file), may_make=False)
    if as_json:
        print_json({"old_key_kept": keys.old is not None, "epoch": keys.epoch or None})
    else:
        _tell(config, keys)


def _retire(config: Config, keys: Keys) -> None:
    """First what the key before may have sealed, then the file of keys: an end in between leaves both keys."""
    path = config.path(config.privacy.key_file)
    with suppress(FileNotFoundError):
        MarkFile(path, *keys.all).reseal()
    file = CheckpointFile(path, *keys.all)
    with suppress(ConfigError):  # one that cannot be read cannot be read afterwards
        if (checkpoint := file.read()) is not None:
            file.write(checkpoint)
    save_keys(path, keys.retired(), replace=True)


def _tell(config: Config, keys: Keys) -> None:
    if keys.old is None:
        print("There is one key.")
    elif keys.epoch:
        print(f"A new key is in use. The one before is kept for the answers of {keys.epoch}{_until(config)}.")
        print("Afterwards: dpproxy key retire")
    else:
        print("A new key is in use. The one before is kept for what it has sealed: dpproxy key retire")


def _until(config: Config) -> str:
    end = epoch_end(config.privacy.epoch, datetime.now(UTC))
    return f", until {end:%Y-%m-%d %H:%M} UTC" if end else ""
