"""The calls that give another result on each replica, and what a reaction does instead."""

import _thread
import datetime
import os
import random
import sys
import time
import uuid
from collections.abc import Mapping
from types import CodeType, FrameType
from typing import Any, Final

__all__ = ["ADVICE", "audited", "builtin_called", "code_entered"]

ADVICE: Final[Mapping[str, str]] = {
    "clock": "take the time from ctx.now, or set a timer with ctx.timer",
    "randomness": "use ctx.random",
    "environment": "let a notification or the agent's state say it",
    "file": "let a client or a service read and write files, and send what is in them",
    "socket": "let a client or a service communicate, and send the result",
    "process": "let a client or a service run it, and send the result",
    "thread": "do it in the reaction, or in a reaction to a notification that the agent sends itself",
    "identity": "use a key of the state, such as a name or a number",
    "hash": "use hashlib, or a key of the state",
    "order": "sort a set, or use a list or a dict, where the order matters",
    "global": "keep it in an attribute of the agent: a replica that starts again has the first value",
}
"""By kind, what to do instead. The kinds are those of `Finding`."""

_CLOCKS: Final = (
    *("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time"),
    *("process_time_ns", "thread_time", "thread_time_ns", "clock_gettime", "clock_gettime_ns", "sleep"),
    *("localtime", "ctime", "mktime"),
)
_RANDOM: Final = ("urandom", "getrandom")
_ENVIRONMENT: Final = (
    *("getpid", "getppid", "getcwd", "getlogin", "getuid", "cpu_count", "uname", "times", "getloadavg"),
)
_FILES: Final = ("stat", "lstat", "access", "readlink")
_PROCESSES: Final = ("fork", "kill")

_EVENTS: Final[Mapping[str, str]] = {
    "open": "file",
    "os.": "file",
    "shutil.": "file",
    "tempfile.": "file",
    "glob.": "file",
    "pathlib.": "file",
    "sqlite3.connect": "file",
    "mmap.": "file",
    "fcntl.": "file",
    "os.system": "process",
    "os.exec": "process",
    "os.fork": "process",
    "os.forkpty": "process",
    "os.kill": "process",
    "os.killpg": "process",
    "os.posix_spawn": "process",
    "os.spawn": "process",
    "os.startfile": "process",
    "os.putenv": "environment",
    "os.unsetenv": "environment",
    "subprocess.Popen": "process",
    "signal.": "process",
    "socket.": "socket",
    "urllib.Request": "socket",
    "_thread.start_new_thread": "thread",
    "_thread.start_joinable_thread": "thread",
}
"""Kinds by the name of an audit event, or by the part of it up to a point."""


def _functions() -> dict[Any, tuple[str, str]]:
    found: dict[Any, tuple[str, str]] = {id: ("identity", "id()")}
    groups = (
        (time, "time", _CLOCKS, "clock"),
        (os, "os", _RANDOM, "randomness"),
        (os, "os", _ENVIRONMENT, "environment"),
        (os, "os", _FILES, "file"),
        (os, "os", _PROCESSES, "process"),
    )
    for member in ("start_new_thread", "start_joinable_thread"):
        function = getattr(_thread, member, None)
        if function is not None:
            found[function] = ("thread", "a thread")
    for module, name, members, kind in groups:
        for member in members:
            function = getattr(module, member, None)
            if function is not None:
                found[function] = (kind, f"{name}.{member}")
    return found


_FUNCTIONS: Final = _functions()
_SHARED_RANDOM: Final[object] = getattr(random, "_inst", None)


def _codes() -> dict[CodeType, tuple[str, str]]:
    environ: Any = type(os.environ)
    return {
        environ.__getitem__.__code__: ("environment", "os.environ"),
        environ.__iter__.__code__: ("environment", "os.environ"),
        environ.__setitem__.__code__: ("environment", "os.environ"),
        uuid.uuid1.__code__: ("randomness", "uuid.uuid1"),
        uuid.uuid4.__code__: ("randomness", "uuid.uuid4"),
        uuid.getnode.__code__: ("environment", "uuid.getnode"),
    }


_CODES: Final = _codes()
_SEEDED: Final = random.Random.seed.__code__


def builtin_called(function: Any) -> tuple[str, str] | None:
    """Return the kind and the name of a built-in function that a reaction must not call; None for others."""
    owner = getattr(function, "__self__", None)
    if owner is _SHARED_RANDOM and owner is not None:
        return "randomness", f"the random module ({function.__name__})"
    if isinstance(owner, type) and issubclass(owner, datetime.date):
        name = str(function.__name__)
        return ("clock", f"{owner.__name__}.{name}") if name in ("now", "today", "utcnow") else None
    numpy_random = sys.modules.get("numpy.random.mtrand")
    if numpy_random is not None and owner is not None and owner is getattr(numpy_random, "_rand", None):
        return "randomness", f"numpy.random.{function.__name__}"
    try:
        return _FUNCTIONS.get(function)
    except TypeError:  # a method of something that has no hash
        return None


def code_entered(frame: FrameType) -> tuple[str, str] | None:
    """Return the kind and the name of a Python function that a reaction must not call; None for others."""
    code = frame.f_code
    if code is _SEEDED:
        return ("randomness", "random.Random() without a seed") if frame.f_locals.get("a") is None else None
    return _CODES.get(code)


def audited(event: str) -> str | None:
    """Return the kind of an audit event that no reaction may cause; None for others."""
    return _EVENTS.get(event) or _EVENTS.get(event.partition(".")[0] + ".")
