"""The machine that a page's figures were measured on."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version

from dpproxy.embedded.binaries import find_binaries


def machine() -> str:
    """This machine in words, without its name."""
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    binaries = find_binaries()
    postgres = "?" if binaries is None else str(binaries.major)
    return (
        f"{os.cpu_count()} virtual cores ({platform.machine()}), {pages * size / 2**30:.0f} GB of memory, "
        f"Linux {platform.release().split('-')[0]}, Python {platform.python_version()}, "
        f"DuckDB {version('duckdb')}, PostgreSQL {postgres}"
    )
