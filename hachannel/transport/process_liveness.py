"""Whether the process at the other end of a connection has ended, from the operating system, where it is one.

A closed connection proves nothing: a proxy, a firewall or the peer itself may have closed it. On one machine
the kernel knows better, and a killed process need not be waited for as if it might still be there. Linux.
"""

import os
from functools import cache
from pathlib import Path
from typing import Final

__all__ = ["has_ended", "is_visible", "this_process"]

_PROC: Final = Path("/proc")
_STATE, _STARTED = 0, 19
"""Fields of /proc/PID/stat, counted from the one after the name (proc(5): 3 and 22)."""


@cache
def _machine() -> str:
    """The booted system and the name space of process numbers that this process is in; "" if unknown."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {(_PROC / 'self/ns/pid').stat().st_ino}"
    except OSError:
        return ""


def _stat(pid: int) -> list[str] | None:
    """The fields of a process, None if there is none to be seen."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text.rpartition(")")[2].split()


def this_process() -> str:
    """What tells this process from all others of this machine, for a hello; "" if unknown."""
    machine = _machine()
    try:
        fields = _stat(os.getpid()) if machine else None
    except OSError:
        return ""
    return f"{machine} {os.getpid()} {fields[_STARTED]}" if fields else ""


def is_visible(process: str) -> bool:
    """Whether a process of that description runs on this machine and can be seen. Never raises."""
    return _looked_up(process) is True


def has_ended(process: str) -> bool:
    """Whether it certainly runs no more. Only for one that was visible before. Never raises."""
    return _looked_up(process) is False


def _looked_up(process: str) -> bool | None:
    """Whether a process runs; None if that cannot be told from here."""
    parts = process.split(" ")
    if len(parts) != 4 or not _machine() or " ".join(parts[:2]) != _machine():
        return None
    if not (parts[2].isascii() and parts[2].isdigit() and len(parts[2]) < 10):
        return None
    try:
        fields = _stat(int(parts[2]))
    except OSError:
        return None
    if fields is None:
        return False
    if len(fields) <= _STARTED:
        return None
    return fields[_STARTED] == parts[3] and fields[_STATE] not in ("Z", "X")
