"""Numbered, persistent exchange of notifications with other servers."""

from collections import deque
from collections.abc import Iterable, Sequence

import attrs
import msgspec

from ..agents import Note

__all__ = ["Link", "LinkNumbers", "LinkState", "Links"]


@attrs.frozen
class LinkNumbers:
    """How far the exchange with the present life of another server has come."""

    peer_birth: int
    """The birth of the other server; 0 before the two have met."""
    acknowledged: int
    """The last number that the other server has acknowledged."""
    sent: int
    """The last number given to a notification for it."""
    received: int
    """The last number accepted from it."""


class LinkState(msgspec.Struct, array_like=True, frozen=True):
    """A link, as a snapshot holds it."""

    server: int
    peer_birth: int
    received: int
    first_seq: int
    waiting: list[Note]


@attrs.define(eq=False)
class Link:
    """Notifications to and from one other server in its present life.

    Both directions number notifications from 1 without gap, so that each is accepted once and in order,
    however often it is sent (HA Joram specification, 4.2). The numbers are those of one life of either
    server: a server that comes back without its state begins a new life, with another birth, and at 1.
    """

    server: int
    peer_birth: int = 0
    """The birth of the other server that the numbers belong to; 0 before the two have met."""
    received: int = 0
    """The number of the last notification accepted from the other server."""
    first_seq: int = 1
    """The number of the first waiting notification."""
    waiting: deque[Note] = attrs.field(factory=deque[Note])
    """Notifications that are not acknowledged yet."""
    size_bytes: int = 0
    """Bytes of their payloads."""

    @property
    def numbers(self) -> LinkNumbers:
        """The numbers of both directions."""
        acknowledged = self.first_seq - 1
        return LinkNumbers(self.peer_birth, acknowledged, acknowledged + len(self.waiting), self.received)

    def meet(self, birth: int) -> bool:
        """Record the birth of the other server. Return True if it is not the one known so far.

        Then the waiting notifications are numbered from 1. Those that an earlier life had acknowledged were
        lost with it.
        """
        if birth == self.peer_birth:
            return False
        self.peer_birth = birth
        self.received = 0
        self.first_seq = 1
        return True

    def push(self, note: Note) -> int:
        """Append a notification to send. Return its number."""
        self.waiting.append(note)
        self.size_bytes += len(note.payload)
        return self.first_seq + len(self.waiting) - 1

    def acknowledge(self, birth: int, upto: int) -> int:
        """Remove the notifications that the other server holds. Return how many there were.

        Numbers of another life of the other server are ignored: they mean other notifications.
        """
        if birth != self.peer_birth:
            return 0
        last = self.first_seq + len(self.waiting) - 1
        dropped = 0
        while self.first_seq <= min(upto, last):
            self.size_bytes -= len(self.waiting.popleft().payload)
            self.first_seq += 1
            dropped += 1
        return dropped

    def accept(self, first_seq: int, notes: Sequence[Note]) -> Sequence[Note]:
        """Return those of the notifications, numbered from `first_seq`, that are new; none after a gap."""
        if first_seq > self.received + 1:
            return ()
        new = notes[self.received + 1 - first_seq :]
        self.received += len(new)
        return new

    def state(self) -> LinkState:
        """Return the form for a snapshot."""
        return LinkState(self.server, self.peer_birth, self.received, self.first_seq, list(self.waiting))

    @classmethod
    def load(cls, state: LinkState) -> "Link":
        """Make a link from its form in a snapshot."""
        return cls(
            state.server,
            state.peer_birth,
            state.received,
            state.first_seq,
            deque(state.waiting),
            sum([len(note.payload) for note in state.waiting]),
        )


class Links:
    """The links of a server, by the other server's id."""

    def __init__(self, states: Iterable[LinkState] = ()) -> None:
        self._links = {state.server: Link.load(state) for state in states}
        self.backlog = sum(len(link.waiting) for link in self._links.values())
        """Notifications waiting on all links."""

    def __getitem__(self, server: int) -> Link:
        """Return the link to a server, a new one if there is none."""
        link = self._links.get(server)
        if link is None:
            link = self._links[server] = Link(server)
        return link

    def peek(self, server: int) -> Link:
        """Return the link to a server, for reading only. One that does not exist is not kept."""
        return self._links.get(server) or Link(server)

    def push(self, link: Link, note: Note) -> int:
        """Append a notification to send. Return its number."""
        self.backlog += 1
        return link.push(note)

    def acknowledge(self, server: int, birth: int, upto: int) -> None:
        """Remove the notifications that another server holds, as `Link.acknowledge` does."""
        self.backlog -= self[server].acknowledge(birth, upto)

    def servers(self) -> list[int]:
        """Return the servers that there are links to."""
        return sorted(self._links)

    def states(self) -> list[LinkState]:
        """Return the form for a snapshot."""
        return [link.state() for link in self._links.values()]

    def facts(self) -> list[tuple[int, ...]]:
        """Return the facts that must be the same on all replicas, for the digest."""
        return sorted(
            (link.server, link.peer_birth, link.received, link.first_seq, len(link.waiting))
            for link in self._links.values()
        )
