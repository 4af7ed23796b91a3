"""Dead letters: notifications that could not be delivered, the last of which are kept to be sent again."""

from collections import OrderedDict
from collections.abc import Iterable
from itertools import islice
from typing import Final

import msgspec

from ..agents import Note

__all__ = ["DeadLetter", "DeadLetters"]

MAX_KEPT: Final = 1000
"""Dead letters that are kept; the oldest makes room for a new one."""
MAX_KEPT_BYTES: Final = 4 * 1024 * 1024
"""Bytes of the payloads of kept letters."""
MAX_LETTER_BYTES: Final = 256 * 1024
"""A letter with a larger payload is kept without it, and cannot be sent again."""
_MAX_REASON: Final = 300


class DeadLetter(msgspec.Struct, array_like=True, frozen=True):
    """A notification that could not be delivered."""

    number: int
    """Counts the dead letters of the server, from 1."""
    now_ns: int
    """When it became one, in nanoseconds since 1970."""
    reason: str
    size_bytes: int
    """Size of its payload."""
    note: Note
    """The notification; its payload is empty if it was larger than `MAX_LETTER_BYTES`."""

    @property
    def whole(self) -> bool:
        """Whether it was kept with its payload."""
        return self.size_bytes == len(self.note.payload)


class DeadLetters:
    """The last dead letters of a server, oldest first. A part of the replicated state."""

    def __init__(self, letters: Iterable[DeadLetter] = ()) -> None:
        self._letters = OrderedDict((each.number, each) for each in letters)
        self._size_bytes = sum([len(each.note.payload) for each in self._letters.values()])

    def __len__(self) -> int:
        return len(self._letters)

    def add(self, number: int, now_ns: int, reason: str, note: Note) -> None:
        """Keep a letter, in place of the oldest ones if there is no room."""
        size = len(note.payload)
        if size > MAX_LETTER_BYTES:
            note = msgspec.structs.replace(note, payload=b"")
        self._letters[number] = DeadLetter(number, now_ns, reason[:_MAX_REASON], size, note)
        self._size_bytes += len(note.payload)
        while len(self._letters) > MAX_KEPT or self._size_bytes > MAX_KEPT_BYTES:
            self._size_bytes -= len(self._letters.popitem(last=False)[1].note.payload)

    def find(self, number: int) -> DeadLetter | None:
        """Return a kept letter by its number; None if it is not kept."""
        return self._letters.get(number)

    def remove(self, number: int) -> None:
        """Remove a kept letter."""
        self._size_bytes -= len(self._letters.pop(number).note.payload)

    def page(self, after: int, limit: int) -> list[DeadLetter]:
        """Return up to `limit` letters with numbers above `after`, oldest first."""
        return list(islice((each for each in self._letters.values() if each.number > after), limit))

    def state(self) -> list[DeadLetter]:
        """Return the form for a snapshot."""
        return list(self._letters.values())

    def facts(self) -> tuple[int, int, int]:
        """Return the facts that must be the same on all replicas, for the digest."""
        first = next(iter(self._letters), 0)
        return first, len(self._letters), self._size_bytes
