"""The inbox window: how many notifications that answer no request a client takes. No I/O, no clock.

The server sends no more of them than the client has named, so a program that does not call ``receive`` for a
while loses none of them, and needs bounded memory. Answers to requests have no window: nothing that waits for
the program may delay them.
"""

from .events import SessionSettings
from .frames import ServerNote

__all__ = ["InboxWindow"]


class InboxWindow:
    """Counts what the program has received, and computes what the client takes and when to name it anew.

    All numbers count from the first notification of the connection.
    """

    def __init__(self, settings: SessionSettings):
        self._limit_notes = settings.inbox_notes
        self._limit_bytes = settings.inbox_bytes
        self._notes = 0
        self._bytes = 0
        # The first input names the whole inbox. A server sends less than that before it has an input.
        self._named_notes = settings.inbox_notes
        self._named_bytes = settings.inbox_bytes

    def received(self, note: ServerNote) -> None:
        """Count a notification that has left the inbox. An answer that came too late does not count."""
        if not note.request:
            self._notes += 1
            self._bytes += len(note.payload)

    @property
    def due(self) -> bool:
        """Whether half the inbox has become free since the server was told."""
        return self._limit_notes > 0 and (
            2 * (self._notes + self._limit_notes - self._named_notes) >= self._limit_notes
            or 2 * (self._bytes + self._limit_bytes - self._named_bytes) >= self._limit_bytes
        )

    def name(self) -> tuple[int, int]:
        """Return how many notifications, and how many bytes of payloads, to name to the server now.

        (0, 0) if there is no limit.
        """
        if not self._limit_notes:
            return 0, 0
        self._named_notes = self._notes + self._limit_notes
        self._named_bytes = self._bytes + self._limit_bytes
        return self._named_notes, self._named_bytes

    def reopened(self) -> None:
        """Name the window again: the server may not have what was named last on the lost connection."""
        if self._notes:
            self._named_notes = self._named_bytes = 0
