"""The lines that `quorate start` prints, read back by a supervisor. Pure."""

import re
from typing import Literal

import attrs

__all__ = ["MAX_LINE_CHARS", "OutputEvent", "ReplicaOutput", "cut"]

MAX_LINE_CHARS = 2000

_READY = re.compile(r"\S+ (?P<role>master|slave|witness|daemon), (?:no )?network.*")
_WAITING = re.compile(r"(?:joining|changing|blocked|witness|master): .*")


def cut(line: str) -> str:
    """Remove the end of a line, and what is longer than MAX_LINE_CHARS."""
    return line.rstrip()[:MAX_LINE_CHARS]


@attrs.frozen
class OutputEvent:
    """The meaning of one line.

    "ready": the replica has a role for the first time; "role": it has another role; "settled": it has its
    role again, after it waited for something; "output": any other line.
    """

    kind: Literal["ready", "role", "settled", "output"]
    text: str


class ReplicaOutput:
    """Reads the standard output of one process and keeps the role of its replica."""

    def __init__(self, name: str) -> None:
        """`name` stands in front of the lines, for example ``s0.1``."""
        self.role = ""
        """master, slave, witness or daemon; "" before the replica is ready."""
        self._name = name
        self._waiting = False
        """The replica has printed what it waits for, and no role since."""

    def read(self, line: str, *, stopping: bool = False) -> OutputEvent | None:
        """Read a line; return its meaning, None if it is not worth showing.

        `stopping`: the process was asked to stop. Then a line about waiting for other replicas is dropped:
        they were stopped as well.
        """
        text = cut(line)
        match = _READY.fullmatch(text)
        if match is None:
            return self._other(text.removeprefix(f"{self._name} "), stopping)
        before, self.role = self.role, match["role"]
        waited, self._waiting = self._waiting, False
        if not before:
            return OutputEvent("ready", f"ready, {text.partition(' ')[2]}")
        if before != self.role:
            return OutputEvent("role", f"{before} -> {self.role}")
        return OutputEvent("settled", f"{self.role} again") if waited else None

    def _other(self, text: str, stopping: bool) -> OutputEvent | None:
        if _WAITING.fullmatch(text) is not None:
            self._waiting = True
            if stopping:
                return None
        return OutputEvent("output", text)
