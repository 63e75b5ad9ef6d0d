"""The databases that hold the data: a folder each, chosen by the URL of `[backend]`."""

from __future__ import annotations

from pathlib import Path

from dpproxy.backends import duckdb, postgres, spark
from dpproxy.backends.base import Adapter, Backend, BackendUnavailable

ADAPTERS: tuple[Adapter, ...] = (duckdb, postgres, spark)


def connect(
    url: str,
    *,
    folder: Path,
    memory: str,
    slots: int,
    seconds: float = 0,
    owner_writes: bool = True,
    password_file: Path | None = None,
) -> Backend:
    """The backend behind a URL, not opened yet.

    `folder`: what a relative path in the URL is relative to; `memory`: DuckDB's limit, such as "4GB"; `slots`: how
    many queries may run at once; `seconds`: the longest query of a server, 0 for no limit; `owner_writes`: whether a
    DuckDB file is let go of as soon as nothing is asked; `password_file`: read for each
    connection to PostgreSQL. Raises BackendUnavailable for a URL that this version does not serve.

    >>> connect("duckdb:///data.duckdb", folder=Path("/srv"), memory="1GB", slots=2).path
    PosixPath('/srv/data.duckdb')
    """
    kind, separator, _ = url.partition("://")
    for adapter in ADAPTERS:
        if separator and kind in adapter.SCHEMES:
            found = adapter.connect(
                url,
                folder=folder,
                memory=memory,
                slots=slots,
                seconds=seconds,
                owner_writes=owner_writes,
                password_file=password_file,
            )
            if found is not None:
                return found
    *first, last = (adapter.EXAMPLE for adapter in ADAPTERS)
    raise BackendUnavailable(f"the backend's url has to be like {', '.join(first)} or {last}")
