"""A program of its own that becomes postgres or initdb: dies with its parent, never runs as root.

Run as `python -I -S launcher.py PARENT_PID IDENTITY MEMORY PROGRAM ARGUMENT...`; only the standard library, no
threads (a user namespace can only be entered by a process with one thread). IDENTITY is `same`,
`namespace:UID` (a user namespace in which root is the ordinary user UID) or `user:UID:GID` (drop to an
existing user). MEMORY are the bytes that each process of the program may have for itself, 0 without a limit.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys

FORBIDDEN = 75
"""Exit status: this machine forbids the change of identity."""
NOT_RUN = 76
"""Exit status: the program could not be executed."""

_CLONE_NEWUSER = 0x10000000
_PR_SET_PDEATHSIG = 1


def _call(libc: ctypes.CDLL, name: str, *arguments: int) -> None:
    if getattr(libc, name)(*map(ctypes.c_ulong, arguments)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def _enter_namespace(libc: ctypes.CDLL, uid: int) -> None:
    outer_uid, outer_gid = os.geteuid(), os.getegid()
    _call(libc, "unshare", _CLONE_NEWUSER)
    for file, line in (
        ("setgroups", "deny"),
        ("uid_map", f"{uid} {outer_uid} 1"),
        ("gid_map", f"{uid} {outer_gid} 1"),
    ):
        with open(f"/proc/self/{file}", "w") as stream:
            stream.write(line)


def _become(libc: ctypes.CDLL, identity: str) -> None:
    kind, *numbers = identity.split(":")
    if kind == "namespace":
        try:
            _enter_namespace(libc, int(numbers[0]))
        except OSError as error:
            print(f"user namespaces are forbidden here: {error}", file=sys.stderr)
            sys.exit(FORBIDDEN)
    elif kind == "user":
        try:
            os.setgroups([])
            os.setgid(int(numbers[1]))
            os.setuid(int(numbers[0]))
        except OSError as error:
            print(f"cannot become user {numbers[0]}: {error}", file=sys.stderr)
            sys.exit(FORBIDDEN)


def die_with(parent: int, number: signal.Signals) -> bool:
    """Has this process sent a signal when its parent dies; whether the parent still lives."""
    _call(ctypes.CDLL(None, use_errno=True), "prctl", _PR_SET_PDEATHSIG, number)
    return os.getppid() == parent


def main() -> None:
    """Takes on the identity, asks to be interrupted when the parent dies, and becomes the program.

    The death signal comes after the change of identity, which would clear it; a parent that died before
    is noticed by its number.
    """
    parent, identity, memory, *command = sys.argv[1:]
    _become(ctypes.CDLL(None, use_errno=True), identity)
    if not die_with(int(parent), signal.SIGINT):
        sys.exit(NOT_RUN)
    if int(memory):
        # Neither shared memory nor libraries count.
        resource.setrlimit(resource.RLIMIT_DATA, (int(memory), int(memory)))
    os.umask(0o077)
    try:
        os.execv(command[0], command)
    except OSError as error:
        print(f"{command[0]}: {error}", file=sys.stderr)
        sys.exit(NOT_RUN)


if __name__ == "__main__":
    main()
