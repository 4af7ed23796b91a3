"""The log tail of a transfer: committed entries sent beside a state, at both ends. A leaf, pure.

While a large state is transferred, the master orders more entries. If it kept them all for the learner, its
memory would grow. So the learner gets them as they are committed, holds them, and appends them to its log in
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
    """The entries of the log tail that the master has sent. Times are those of `now`, in seconds."""

    def __init__(self, now: float, token: int, window: int, start: int) -> None:
        """window: messages on their way. start: the state is that after this entry."""
        self.acked = start
        """The last entry that the learner has."""
        self.acked_bytes = 0
        """Payload bytes of all that it was given and has."""
        self.moved = now
        """When it last took some, or was sent again what it lacks."""
        self._token = token
        self._window = window
        self._start = start
        self._sent = start
        """The last entry sent and not taken for lost."""
        self._most = start
        """The last entry that was ever given."""
        self._under_way: deque[int] = deque()
        """The last entry of each message."""

    def __len__(self) -> int:
        """How many entries the learner was given, and has."""
        return self.acked - self._start

    @property
    def waits(self) -> bool:
        """Whether messages are in flight."""
        return bool(self._under_way)

    def wants(self, upto: int) -> bool:
        """Whether something is to be sent of the entries up to `upto`."""
        return self._sent < upto and len(self._under_way) < self._window

    def due(self, now: float, log: Log, upto: int, part_bytes: int) -> Iterator[TailEntries]:
        """Return the messages to send now, with committed entries up to `upto`."""
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
        """The learner has everything up to `index`; says whether that is news."""
        if not self.acked < index <= self._most:
            return False
        self.acked_bytes += sum(len(log.get(each).payload) for each in range(self.acked + 1, index + 1))
        self.acked, self.moved = index, now
        # It may have more than what was sent again after its answers were lost.
        self._sent = max(self._sent, index)
        while self._under_way and self._under_way[0] <= index:
            self._under_way.popleft()
        return True

    def again(self, now: float) -> None:
        """Take what was sent and not acknowledged for lost."""
        self.moved = now
        self._under_way.clear()
        self._sent = self.acked


@attrs.define(eq=False)
class TailReceiver:
    """The entries of the log tail that the learner holds outside its log."""

    window: int
    """Messages that may arrive before they are acknowledged; twice as many at most."""
    base: Tag | None = None
    """The entry after which the first one came."""
    last: int = 0
    """The last one."""
    acked: int = 0
    """Index up to which the master has an acknowledgement."""
    size_bytes: int = 0
    """Payload bytes held."""
    _batches: deque[tuple[Entry, ...]] = attrs.field(factory=deque[tuple[Entry, ...]])
    _unacked: int = 0
    """Messages that have arrived since the last acknowledgement."""

    def __bool__(self) -> bool:
        return bool(self._batches)

    def __len__(self) -> int:
        """How many entries there are."""
        return self.last - self._batches[0][0].index + 1 if self._batches else 0

    def add(self, message: TailEntries) -> None:
        """A message arrived; one that does not follow, or for which there is no room, comes again."""
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
        """Note that everything held is acknowledged to the master."""
        self.acked, self._unacked = self.last, 0

    def pop(self, part_bytes: int) -> tuple[Entry, ...]:
        """Return the next entries, up to `part_bytes` but at least one message. There must be some."""
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
