"""The audit log of a replica: who has administered it, what was done, and with what outcome."""

import contextlib
import getpass
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import attrs

from ...agents.ids import AgentId, factory
from ...agents.notification import UNREADABLE, known_type, read
from ...text_files import reason
from ..storage.private_files import private_opener
from . import wire

__all__ = ["MAX_BYTES", "Act", "AuditLog", "act_of", "this_user"]

MAX_BYTES: Final = 16 * 1024 * 1024
"""A file that has more becomes the former one, ``audit.log.1``."""
MAX_TEXT: Final = 500
READING: Final = ("list", "describe", "browse", "status", "show")
"""The words with which the last part of a type of notification begins that changes nothing."""
READING_COMMANDS: Final = frozenset({"status", "topics", "subscriptions", "explain"})
"""Commands of a mesh that change nothing."""


@attrs.frozen
class Act:
    """What an administrator asks for."""

    act: str
    """``send``, ``stop``, ``admit``, ``remove``, or the type of a request to the factory of agents."""
    target: str
    """The agent, the replica, or what a command of a mesh is about."""
    facts: dict[str, Any] = attrs.field(factory=dict[str, Any])


def act_of(body: wire.Body) -> Act | None:
    """Return what a call changes; None if it only shows something."""
    match body:
        case wire.Post() | wire.Request():
            return _sending(body)
        case wire.Stop():
            act = "restart" if body.again else "stop"
            return Act(act, "the server" if body.together else "the replica")
        case wire.Admit():
            return Act("admit", f"replica {body.replica}", {"witness": body.witness})
        case wire.Remove():
            return Act("remove", f"replica {body.replica}")
        case wire.BeginBackup():
            return Act("backup", "the state")
        case wire.Command():
            if body.name in READING_COMMANDS:
                return None
            target = body.arguments.get("topic") or body.arguments.get("daemon", "")
            return Act(f"mesh {body.name}", _short(target))
        case _:
            return None


def _sending(body: "wire.Post | wire.Request") -> Act | None:
    if body.type.partition("/")[0].rpartition(".")[2].startswith(READING):
        return None
    if not isinstance(body.to, AgentId) or body.to != factory(body.to.host):
        return Act("send", _short(body.to), {"type": _short(body.type), "bytes": len(body.payload)})
    facts: dict[str, Any] = {}
    cls = known_type(body.type)
    if cls is not None:
        # What cannot be read is refused by the factory.
        with contextlib.suppress(*UNREADABLE):
            note: Any = read(cls, body.type, body.payload)
            fields: dict[str, Any] = attrs.asdict(note, recurse=False)
            facts = {name: _short(value) for name, value in fields.items() if value and name != "state"}
    return Act(_short(body.type.partition("/")[0]), "agents", facts)


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}..."


class AuditLog:
    """Lines of JSON in ``audit.log`` in the directory of the replica, and the former file beside it."""

    def __init__(self, directory: Path, wall_ns: Callable[[], int], log: Callable[[str], None]) -> None:
        """log: is told when a line cannot be written."""
        self._path = directory / "audit.log"
        self._wall_ns = wall_ns
        self._log = log

    def write(self, origin: str, user: str, act: Act, outcome: str) -> None:
        """Add a line. origin: the address from which it came; user: whom the command says it runs as."""
        line = {
            "at_ms": self._wall_ns() // 1_000_000,
            "from": origin,
            "user": _short(user),
            "act": act.act,
            "target": act.target,
            **({"facts": act.facts} if act.facts else {}),
            "outcome": _short(outcome),
        }
        try:
            self._roll()
            with open(self._path, "a", encoding="utf-8", opener=private_opener) as file:
                file.write(json.dumps(line) + "\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            self._log(
                f"the audit log cannot be written ({reason(error)}); "
                f"{act.act} {act.target} by {user} {origin}"
            )

    def _roll(self) -> None:
        try:
            if self._path.stat().st_size >= MAX_BYTES:
                self._path.replace(self._path.with_name("audit.log.1"))
        except FileNotFoundError:
            pass


def this_user() -> str:
    """Return the name of the user who runs this process, "" if it has none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""
