"""Numbered, persistent exchange of notifications with other servers."""

from collections import deque
from collections.abc import Sequence

import attrs
import msgspec

from ..agents import Note

__all__ = ["Link", "LinkState"]


class LinkState(msgspec.Struct, array_like=True, frozen=True):
    """A link, as a snapshot holds it."""

    server: int
    received: int
    first_seq: int
    waiting: list[Note]


@attrs.define(eq=False)
class Link:
    """What this server has sent to, and received from, one other server.

    Both directions number notifications from 1 without gap, so that each is taken once and in order,
    however often it is sent (HA Joram specification, 4.2).
    """

    server: int
    received: int = 0
    """The number of the last notification taken from the other server."""
    first_seq: int = 1
    """The number of the first waiting notification."""
    waiting: deque[Note] = attrs.field(factory=deque[Note])
    """Sent, not yet acknowledged."""

    def push(self, note: Note) -> int:
        """Add a notification to send. Returns its number."""
        self.waiting.append(note)
        return self.first_seq + len(self.waiting) - 1

    def acknowledge(self, upto: int) -> int:
        """Forget what the other server holds. Returns how many notifications that were."""
        last = self.first_seq + len(self.waiting) - 1
        dropped = 0
        while self.first_seq <= min(upto, last):
            self.waiting.popleft()
            self.first_seq += 1
            dropped += 1
        return dropped

    def accept(self, first_seq: int, notes: Sequence[Note]) -> Sequence[Note]:
        """Which of these, numbered from `first_seq`, are new. What lies beyond a gap is not taken."""
        if first_seq > self.received + 1:
            return ()
        new = notes[self.received + 1 - first_seq :]
        self.received += len(new)
        return new

    def state(self) -> LinkState:
        """For a snapshot."""
        return LinkState(self.server, self.received, self.first_seq, list(self.waiting))

    @classmethod
    def load(cls, state: LinkState) -> "Link":
        """From a snapshot."""
        return cls(state.server, state.received, state.first_seq, deque(state.waiting))
