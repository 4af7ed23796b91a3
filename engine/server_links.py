"""Numbered, persistent exchange of notifications with other servers."""

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice

import attrs
import msgspec

from ..agents import Note
from .causal_order import Awaited, CausalDomain, CausalState, PeerState, StampedNote, stamped, unstamped

SENT_BYTES = 96
"""Bytes that are counted for each cell of a clock that a waiting notification carries."""

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
    stamps: list[StampedNote] = []
    """In a domain with causal order the notifications at the end of `waiting`, with their places in it."""


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
        self.size_bytes += _size(note)
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
            self.size_bytes -= _size(self.waiting.popleft())
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
        waiting = list(self.waiting)
        stamps = [note for note in waiting if isinstance(note, StampedNote)]
        if stamps:
            # The notes without their places are those that a link of another domain would have.
            waiting = [unstamped(note) for note in waiting]
        return LinkState(self.server, self.peer_birth, self.received, self.first_seq, waiting, stamps)

    @classmethod
    def load(cls, state: LinkState) -> "Link":
        """Make a link from its form in a snapshot."""
        plain = len(state.waiting) - len(state.stamps)
        waiting = deque([*state.waiting[:plain], *state.stamps])
        size_bytes = sum([_size(note) for note in waiting])
        return cls(state.server, state.peer_birth, state.received, state.first_seq, waiting, size_bytes)


def _size(note: Note) -> int:
    size = len(note.payload)
    return size + SENT_BYTES * len(note.past) if type(note) is StampedNote else size


class Links:
    """The links of a server, by the other server's id, and the clocks of its domains with causal order."""

    def __init__(
        self,
        states: Iterable[LinkState] = (),
        clocks: Iterable[CausalState] = (),
        *,
        server: int = 0,
        causal: Sequence[Collection[int]] = (),
    ) -> None:
        """`causal`: for each domain of this `server` with causal order, its servers."""
        self._links = {state.server: Link.load(state) for state in states}
        self._domains = [CausalDomain(server, members, self._birth_of) for members in causal]
        self._domain_of = {member: domain for domain in self._domains for member in domain.members}
        self._released: list[PeerState] = []
        """What was held back of servers that share no domain with causal order any more."""
        for state in clocks:
            known = {each.server for each in state.peers}
            for domain in self._domains:
                if domain.members & known:
                    domain.load(state)
            self._released += [
                each for each in state.peers if each.held and each.server not in self._domain_of
            ]
        for link in self._links.values():
            if link.server not in self._domain_of and any(type(note) is StampedNote for note in link.waiting):
                link.waiting = deque(map(unstamped, link.waiting))
                link.size_bytes = sum(map(_size, link.waiting))
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

    def _birth_of(self, server: int) -> int:
        link = self._links.get(server)
        return 0 if link is None else link.peer_birth

    def push(self, link: Link, note: Note) -> tuple[int, Note]:
        """Append a notification to send. Return its number, and the notification as it is sent."""
        self.backlog += 1
        if self._domain_of:
            domain = self._domain_of.get(link.server)
            if domain is not None:
                note = domain.stamp(link.server, note)
        return link.push(note), note

    def acknowledge(self, server: int, birth: int, upto: int) -> None:
        """Remove the notifications that another server holds, as `Link.acknowledge` does."""
        link = self[server]
        domain = self._domain_of.get(server)
        if domain is not None and birth == link.peer_birth:
            domain.acknowledged(server, islice(link.waiting, max(0, upto - link.first_seq + 1)))
        self.backlog -= link.acknowledge(birth, upto)

    def meet(self, server: int, birth: int) -> tuple[bool, int]:
        """Record the present life of another server.

        Return whether it is not the one known so far, and how many notifications of its former life were
        held back, which are dropped.
        """
        link = self[server]
        former = link.peer_birth
        if not link.meet(birth):
            return False, 0
        dropped, domain = 0, self._domain_of.get(server)
        if domain is not None:
            if former:
                dropped = domain.begins_anew(server, link.waiting)
                link.size_bytes = sum(map(_size, link.waiting))
            domain.changed(server)
        return True, dropped

    # Causal order

    def hold(self, link: Link, first_seq: int, settled: int, notes: Sequence[Note]) -> bool:
        """Accept notifications in a domain with causal order: `deliverable` returns them in their turn.

        `settled`: the count up to which lives of this server have acknowledged, see `CausalDomain.settled`.
        Return False if there were more of them than may be held back: the rest must be sent again.
        """
        domain = self._domain_of.get(link.server)
        if domain is None:
            self._released.append(PeerState(link.server, 0, 0, [], 0, []))
            self._released[-1].held.extend(_with_places(link.accept(first_seq, notes)))
            return True
        begin = max(0, link.received + 1 - first_seq)
        room = domain.room(link.server, notes[begin:])
        domain.hold(link.server, settled, link.accept(first_seq, notes[: begin + room]))
        return begin + room >= len(notes)

    def deliverable(self) -> Iterator[tuple[int, Note]]:
        """Remove and return (neighbour, notification) of what is held back and may be delivered, in order.

        What happens between two of them counts.
        """
        while self._released:
            held = self._released[0].held
            while held:
                yield self._released[0].server, unstamped(held.pop(0))
            self._released.pop(0)
        for domain in self._domains:
            while (found := domain.next()) is not None:
                yield found

    @property
    def holds_back(self) -> bool:
        """Whether a call of `deliverable` can return anything."""
        return bool(self._domains or self._released)

    def delivered(self, server: int) -> int:
        """Return the number up to which the notifications of a server are delivered, not held back."""
        link, domain = self.peek(server), self._domain_of.get(server)
        return link.received if domain is None else link.received - domain.held(server)

    def awaited(self, server: int) -> tuple[int, Awaited | None]:
        """Return how many notifications of a server are held back, and what the first one waits for."""
        domain = self._domain_of.get(server)
        return (0, None) if domain is None else (domain.held(server), domain.awaited(server))

    def settled(self, server: int) -> int:
        """Return the count up to which lives of a server have acknowledged, for `hold` there."""
        domain = self._domain_of.get(server)
        return 0 if domain is None else domain.settled(server, self.peek(server).waiting)

    def clocks(self) -> list[CausalState]:
        """Return the clocks in the form for a snapshot."""
        found = [domain.state() for domain in self._domains]
        return [*found, CausalState(0, [], self._released)] if self._released else found

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

    def causal_facts(self) -> list[object]:
        """Return the facts of the clocks that must be the same on all replicas, for the digest."""
        return [domain.facts() for domain in self._domains]


def _with_places(notes: Iterable[Note]) -> list[StampedNote]:
    return [note if isinstance(note, StampedNote) else stamped(note, 0, ()) for note in notes]
