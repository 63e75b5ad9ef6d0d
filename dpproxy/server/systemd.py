"""What systemd and a service tell each other: readiness by sd_notify(3), a listening socket by sd_listen_fds(3)."""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress
from functools import cache

_FIRST = 3
"""The number of the first descriptor that is handed over."""

READY, STOPPING = "READY=1", "STOPPING=1"


def notify(*lines: str) -> None:
    """Tells the service manager, if there is one; called by the service's main process."""
    address = _address()
    if address:
        with (
            suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as told,
        ):
            told.sendto(
                "\n".join(lines).encode(), address.replace("@", "\0", 1) if address[0] == "@" else address
            )


def reloading() -> tuple[str, str]:
    """The lines that say that a reload has begun, after the signal that asked for it.

    >>> reloading()[0]
    'RELOADING=1'
    """
    return "RELOADING=1", f"MONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}"


def listening() -> socket.socket | None:
    """The socket of the port that the service manager listens on for us; None where it does not.

    Raises ValueError where it is none of TCP, or there are several.
    """
    _address()
    mine = os.environ.pop("LISTEN_PID", "") == str(os.getpid())
    count = int(os.environ.pop("LISTEN_FDS", "0")) if mine else 0
    if not count:
        return None
    taken = socket.socket(fileno=_FIRST)
    if count > 1 or taken.family not in (socket.AF_INET, socket.AF_INET6) or taken.type != socket.SOCK_STREAM:
        raise ValueError("socket activation hands over one TCP port")
    taken.set_inheritable(False)
    return taken


@cache
def _address() -> str:
    """Taken out of the environment, so that no process that we start speaks for this one."""
    return os.environ.pop("NOTIFY_SOCKET", "")
