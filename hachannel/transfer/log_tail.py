"""The log tail of a transfer: committed entries sent beside a state, at both ends. A leaf, pure.

While a large state is transferred, the master appends more entries. If it kept them all for the learner, its
log would grow. So the learner receives them as they are committed, holds them, and appends them to its log in
steps once the state is installed.
"""

from collections import deque
from collections.abc import Iterator

import attrs

from ..model.log import ENTRY_BYTES, Log
from ..model.messages import Entry, TailEntries
from ..model.view import Tag

__all__ = ["TailReceiver", "TailSender"]


class TailSender:
    """The entries of the log tail that the master has sent. Times are those of `now`, in seconds.

    Its length is the number of entries that the learner has.
    """

    def __init__(self, now: float, token: int, window: int, start: int) -> None:
        """window: messages that may be in flight. start: the entry that the state follows."""
        self.acked = start
        """Index of the last entry that the learner has."""
        self.acked_bytes = 0
        """Payload bytes of the entries that the learner has."""
        self.moved = now
        """Time when the learner last acknowledged entries, or when entries were sent again."""
        self._token = token
        self._window = window
        self._start = start
        self._sent = start
        """Index of the last entry sent; entries that seem lost do not count."""
        self._most = start
        """Index of the last entry that was ever sent."""
        self._under_way: deque[int] = deque()
        """Index of the last entry of each message in flight."""

    def __len__(self) -> int:
        """Return the number of entries that the learner has."""
        return self.acked - self._start

    @property
    def waits(self) -> bool:
        """Whether messages are in flight."""
        return bool(self._under_way)

    def wants(self, upto: int) -> bool:
        """Return whether entries up to `upto` can be sent now."""
        return self._sent < upto and len(self._under_way) < self._window

    def due(self, now: float, log: Log, upto: int, part_bytes: int) -> Iterator[TailEntries]:
        """Yield the messages to send now, with committed entries up to `upto`."""
        while self.wants(upto):
            if not self._under_way:
                self.moved = now
            base = log.tag(self._sent)
            entries = tuple(log.slice(self._sent, upto, part_bytes))
            self._sent = entries[-1].index
            self._most = max(self._most, self._sent)
            self._under_way.append(self._sent)
            yield TailEntries(self._token, self._start, base, entries)

    def ack(self, now: float, log: Log, index: int) -> bool:
        """Note that the learner has the entries up to `index`. Return whether that is new."""
        if not self.acked < index <= self._most:
            return False
        self.acked_bytes += sum(len(log.get(each).payload) for each in range(self.acked + 1, index + 1))
        self.acked, self.moved = index, now
        # If its answers were lost, the learner may have more than what was sent again.
        self._sent = max(self._sent, index)
        while self._under_way and self._under_way[0] <= index:
            self._under_way.popleft()
        return True

    def again(self, now: float) -> None:
        """Consider all messages lost that were sent and not acknowledged."""
        self.moved = now
        self._under_way.clear()
        self._sent = self.acked


@attrs.define(eq=False)
class TailReceiver:
    """The entries of the log tail that the learner holds outside its log. Its length is their number."""

    window: int
    """Half the number of messages that may be held without being acknowledged."""
    base: Tag | None = None
    """The entry before the first one received; None before that."""
    last: int = 0
    """Index of the last entry held."""
    acked: int = 0
    """Index of the last entry acknowledged to the master."""
    size_bytes: int = 0
    """Payload bytes held."""
    _batches: deque[tuple[Entry, ...]] = attrs.field(factory=deque[tuple[Entry, ...]])
    _unacked: int = 0
    """Number of messages received since the last acknowledgement."""

    def __bool__(self) -> bool:
        return bool(self._batches)

    def __len__(self) -> int:
        """Return the number of entries held."""
        return self.last - self._batches[0][0].index + 1 if self._batches else 0

    def add(self, message: TailEntries) -> None:
        """Add a message that arrived. One out of order or without room is ignored, and sent again."""
        at, entries = message.base.at, message.entries
        if self.base is None:
            if at != message.start or at < 0:
                return
            self.base, self.last, self.acked = message.base, at, at
        known = self.last - at
        if not 0 <= known < len(entries) or self._unacked >= 2 * self.window:
            return
        entries = entries[known:]
        if any(entry.index != self.last + place for place, entry in enumerate(entries, 1)):
            return
        self._batches.append(entries)
        self._unacked += 1
        self.last += len(entries)
        self.size_bytes += sum([len(entry.payload) for entry in entries])

    def ack(self) -> None:
        """Count all entries held as acknowledged."""
        self.acked, self._unacked = self.last, 0

    def pop(self, part_bytes: int) -> tuple[Entry, ...]:
        """Remove and return the next entries, at least one message and then up to `part_bytes`."""
        taken: list[Entry] = []
        room = part_bytes
        while self._batches:
            entries = self._batches[0]
            size = sum([len(entry.payload) for entry in entries])
            room -= size + ENTRY_BYTES * len(entries)
            if taken and room < 0:
                break
            taken += self._batches.popleft()
            self.size_bytes -= size
        return tuple(taken)
