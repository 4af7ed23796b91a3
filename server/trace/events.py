"""The events in the life of a replica that are no reactions: the views it was in, and its mastership.

They are lines of JSON in ``<incarnation>.events.jsonl`` beside the files of the trace. Every replica has its
own: they tell when each one noticed what.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final

from ...replay.schema import EVENTS_SUFFIX, Origin

__all__ = ["EventFile"]

MAX_EVENTS: Final = 10_000
"""Lines of one incarnation. A cluster that changes its view this often has other worries."""
MAX_WAITING: Final = 1_000
"""Lines that wait for the disk; further ones are left out."""


class EventFile:
    """The events of one incarnation. Not safe for use by several threads."""

    def __init__(self, directory: Path, origin: Origin, opener: Callable[[Path], BinaryIO]) -> None:
        self._path = directory / f"{origin.incarnation}{EVENTS_SUFFIX}"
        self._head = {
            "server": origin.server,
            "server_id": origin.server_id,
            "replica": origin.replica,
            "incarnation": origin.incarnation,
        }
        self._open = opener
        self._waiting: list[bytes] = []
        self._lines = 0

    @property
    def waiting(self) -> bool:
        """Whether there are lines to write."""
        return bool(self._waiting)

    def add(self, event: Mapping[str, Any]) -> None:
        """Add an event, unless there were too many."""
        if self._lines < MAX_EVENTS and len(self._waiting) < MAX_WAITING:
            self._lines += 1
            self._waiting.append(json.dumps({**self._head, **event}).encode() + b"\n")

    def take(self) -> list[bytes]:
        """Remove and return the lines to write."""
        lines, self._waiting = self._waiting, []
        return lines

    def write(self, lines: list[bytes]) -> None:
        """Append lines to the file. Raises OSError."""
        with self._open(self._path) as file:
            file.write(b"".join(lines))
