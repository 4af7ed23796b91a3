"""Received notifications: their numbers, and when the client acknowledges them. No I/O, no clock.

An acknowledgement of its own costs the server a reaction. So it is delayed until something else is sent, a
time is over, or many notifications were received.
"""

from collections.abc import Sequence

from .errors import ProtocolError
from .events import SessionSettings
from .frames import ServerNote

__all__ = ["DelayedAck"]


class DelayedAck:
    """Drops notifications received before, and holds the time when the new ones have to be acknowledged."""

    def __init__(self, settings: SessionSettings):
        self.last_seq = 0
        """Number of the last notification received."""
        self.deadline: float | None = None
        """When to acknowledge at the latest; None if all is acknowledged."""
        self._settings = settings
        self._notes = 0
        self._bytes = 0

    def accept(
        self, now: float, first_seq: int, notes: Sequence[ServerNote]
    ) -> tuple[Sequence[ServerNote], int]:
        """Return those of `notes`, numbered from `first_seq`, that are new, and the bytes of their payloads.

        Raises ProtocolError if a notification before them is missing.
        """
        known = self.last_seq + 1 - first_seq
        if known < 0:
            raise ProtocolError(f"notification {self.last_seq + 1} from the server is missing")
        fresh = notes[known:] if known else notes
        if not fresh:
            return fresh, 0
        settings = self._settings
        size_bytes = sum([len(note.payload) for note in fresh])
        self.last_seq += len(fresh)
        self._notes += len(fresh)
        self._bytes += size_bytes
        if self._notes >= settings.ack_notes or self._bytes >= settings.ack_bytes:
            self.deadline = now
        elif self.deadline is None:
            self.deadline = now + settings.ack_delay_s
        return fresh, size_bytes

    def due(self, now: float) -> bool:
        """Return whether to acknowledge now, even if there is nothing else to send."""
        return self.deadline is not None and now >= self.deadline

    def acknowledge(self) -> int:
        """Return the number to acknowledge with what is sent now. Nothing is due until more is received."""
        self._notes = self._bytes = 0
        self.deadline = None
        return self.last_seq
