"""The outbox: notifications that the cluster has not acknowledged."""

from collections import deque

from .frames import ClientNote

__all__ = ["Outbox"]


class Outbox:
    """Numbers notifications from 1 and keeps each until it is acknowledged, in order."""

    def __init__(self) -> None:
        self.last_seq = 0
        """Number of the last notification appended."""
        self.last_sent = 0
        """Number of the last notification written on this TCP connection, or acknowledged."""
        self.acked = 0
        """Number of the last notification that the cluster has."""
        self.last_bytes = 0
        """Bytes of all notifications appended so far."""
        self.acked_bytes = 0
        """Bytes of all notifications acknowledged so far."""
        self._sent: deque[tuple[ClientNote, int]] = deque()
        self._unsent: deque[tuple[ClientNote, int]] = deque()

    @property
    def waiting(self) -> bool:
        """Whether notifications wait to be written."""
        return bool(self._unsent)

    def append(self, note: ClientNote, size: int) -> int:
        """Append a notification of `size` bytes and return its number."""
        self._unsent.append((note, size))
        self.last_bytes += size
        self.last_seq += 1
        return self.last_seq

    def pack(self, limit_bytes: int, limit_notes: int) -> list[ClientNote]:
        """Return the next notifications to write: as many as fit, at least one if any waits."""
        unsent, sent = self._unsent, self._sent
        notes: list[ClientNote] = []
        size = 0
        while unsent and len(notes) < limit_notes:
            size += unsent[0][1]
            if notes and size > limit_bytes:
                break
            item = unsent.popleft()
            sent.append(item)
            notes.append(item[0])
        self.last_sent += len(notes)
        return notes

    def rewind(self) -> None:
        """Begin to write again from the first notification that is not acknowledged."""
        self._unsent.extendleft(reversed(self._sent))
        self._sent.clear()
        self.last_sent = self.acked

    def acknowledge(self, seq: int) -> None:
        """Remove everything up to `seq`, which is above `acked` and not above `last_seq`."""
        for _ in range(seq - self.acked):
            self.acked_bytes += (self._sent or self._unsent).popleft()[1]
        self.acked = seq
        self.last_sent = max(self.last_sent, seq)
