"""Process liveness: whether the process at the other end of a connection has ended.

A closed connection is no proof: a proxy, a firewall or the peer itself may have closed it. But for a process
on the same machine the kernel knows, so that peers need not wait before they suspect a killed process. This
works on Linux only (`/proc`); elsewhere, and for processes on other machines, the answer is unknown.
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
    """Return the boot id of this system and its process id name space; "" if unknown."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {(_PROC / 'self/ns/pid').stat().st_ino}"
    except OSError:
        return ""


def _stat(pid: int) -> list[str] | None:
    """Return the fields of /proc/PID/stat after the name; None if no such process can be seen."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text.rpartition(")")[2].split()


def this_process() -> str:
    """Return a unique description of this process, for a hello; "" if unknown."""
    machine = _machine()
    try:
        fields = _stat(os.getpid()) if machine else None
    except OSError:
        return ""
    return f"{machine} {os.getpid()} {fields[_STARTED]}" if fields else ""


def is_visible(process: str) -> bool:
    """Return whether the described process runs on this machine and can be seen. Never raises."""
    return _runs(process) is True


def has_ended(process: str) -> bool:
    """Return whether the described process, which was visible before, has certainly ended. Never raises."""
    return _runs(process) is False


def _runs(process: str) -> bool | None:
    """Return whether the described process runs; None if that is unknown here."""
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
