"""Causal order among the servers of a domain: what a server must deliver before a notification.

Each server of a domain keeps a matrix clock: how many notifications each server has sent to each other one,
as far as it knows (Raynal, Schiper, Toueg: The causal ordering abstraction and a simple way to implement it,
1991). A notification carries those cells that its sender has learnt since the last one to the same receiver,
which is possible because links are FIFO (the updates of ScalAgent's A3: Laumay, Bruneton, de Palma,
Krakowiak: Preserving causality in a scalable message-oriented middleware, 2001). The receiver delivers it
once it has delivered everything that was sent to it according to these cells, and holds it back until then.

The state is part of the engine's: every replica of a server holds back the same notifications. It has at most
a cell for each pair of servers of the domain.

Counts belong to one life of their sender, whatever life the receiver is in. What an earlier life of a server
has sent and this one does not hold is lost with that life, so nobody waits for it.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

import attrs
import msgspec

from ..agents import Note

__all__ = [
    "MAX_HELD",
    "MAX_HELD_BYTES",
    "Awaited",
    "CausalDomain",
    "CausalState",
    "PeerState",
    "Sent",
    "StampedNote",
    "replaced",
    "stamped",
    "unstamped",
]

MAX_HELD: Final = 65_536
"""Notifications of one other server that may be held back. A sender has fewer of them unacknowledged."""
MAX_HELD_BYTES: Final = 64 * 1024 * 1024
"""Bytes of payloads of one other server that may be held back."""


class Sent(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A cell of the clock: a life of `source` has sent `count` notifications to `target`, or more."""

    source: int
    target: int
    birth: int
    """The life of the source; 0 for the one that has sent the notification with this cell."""
    count: int


class StampedNote(Note, array_like=True, frozen=True, gc=False):
    """A notification on a link of a domain with causal order."""

    count: int = 0
    """Counts what this life of the sender has sent to the receiver, from 1; 0 for one without a place."""
    past: tuple[Sent, ...] = ()
    """What was sent before it, as far as an earlier notification on the same link did not say so."""


def stamped(note: Note, count: int, past: Sequence[Sent]) -> StampedNote:
    """Return a notification with its place in the causal order."""
    return StampedNote(
        note.to, note.sender, note.type, note.payload, note.request, note.cause, count, tuple(past)
    )


def unstamped(note: Note) -> Note:
    """Return a notification without its place in the causal order."""
    return Note(note.to, note.sender, note.type, note.payload, note.request, note.cause)


def replaced(before: Sequence[StampedNote], after: Sequence[Note]) -> list[StampedNote]:
    """Return the notifications `after`, those that are not in `before` with the places of these."""
    return [
        new if isinstance(new, StampedNote) else stamped(new, old.count, old.past)
        for old, new in zip(before, after, strict=True)
    ]


class PeerState(msgspec.Struct, array_like=True, frozen=True):
    """The exchange with one server, as a snapshot holds it."""

    server: int
    sent: int
    sent_revision: int
    acknowledged: list[Sent]
    delivered: int
    held: list[StampedNote]


class CausalState(msgspec.Struct, array_like=True, frozen=True):
    """The clock of a domain, as a snapshot holds it."""

    revision: int
    cells: list[tuple[int, int, int, int, int, int]]
    """(source, target, birth, count, revision, via), in the order of their revisions."""
    peers: list[PeerState]


@attrs.frozen
class Awaited:
    """What the first notification that is held back waits for."""

    source: int
    """The server whose notification is to come first."""
    birth: int
    count: int


@attrs.frozen
class _Cell:
    birth: int
    count: int
    revision: int
    via: int
    """The server from which this was learnt; this server itself for what it has sent."""


@attrs.define(eq=False)
class _Peer:
    """The exchange with one other server of the domain."""

    server: int
    sent: int = 0
    """The notifications sent to it in this life."""
    sent_revision: int = 0
    """The revision of the clock that the last notification to it carried; 0: it knows nothing of it."""
    acknowledged: dict[int, Sent] = attrs.field(factory=dict[int, Sent])
    """By source, the cells for this receiver that acknowledged notifications have carried."""
    delivered: int = 0
    """The count of the last notification of its present life that was delivered here."""
    held: deque[StampedNote] = attrs.field(factory=deque[StampedNote])
    """Its notifications that are held back, those of its present life only."""
    held_bytes: int = 0
    awaited: Awaited | None = None


class CausalDomain:
    """The clock of one domain at one of its servers, and what is held back there."""

    def __init__(self, server: int, members: Collection[int], birth_of: Callable[[int], int]) -> None:
        """`birth_of` returns the present life of another server as this one knows it, 0 before they met."""
        self.members = frozenset(members) - {server}
        """The other servers of the domain."""
        self._server = server
        self._birth_of = birth_of
        self._revision = 0
        self._cells: dict[tuple[int, int], _Cell] = {}
        """By source and target, in the order of the last change."""
        self._peers: dict[int, _Peer] = {}
        self._ready: deque[int] = deque()
        """Servers whose first held notification is to be looked at."""

    # What is sent

    def stamp(self, target: int, note: Note) -> StampedNote:
        """Return the next notification to a server, with its place in the causal order."""
        peer = self._peer(target)
        past: list[Sent] = []
        known, whole = peer.sent_revision, not peer.sent_revision
        for (source, receiver), cell in reversed(self._cells.items()):
            if cell.revision <= known:
                break
            if not whole and cell.via == target:
                continue
            if source == target and cell.birth == self._birth_of(target):
                continue  # It knows what it has sent itself.
            if source != self._server or receiver != target:
                past.append(Sent(source, receiver, cell.birth, cell.count))
        peer.sent += 1
        self._learn((self._server, target), 0, peer.sent, self._server)
        peer.sent_revision = self._revision
        return stamped(note, peer.sent, past)

    def acknowledged(self, target: int, notes: Iterable[Note]) -> None:
        """Note that a server has delivered these notifications: its next life must wait for the same."""
        cells = self._peer(target).acknowledged
        for note in notes:
            if isinstance(note, StampedNote):
                _merge(cells, note.past, target)

    def settled(self, target: int, waiting: Iterable[Note]) -> int:
        """Return the count up to which lives of a server have acknowledged; `waiting` is not yet."""
        for note in waiting:
            if isinstance(note, StampedNote) and note.count:
                return note.count - 1
        return self._peer(target).sent

    def begins_anew(self, server: int, waiting: deque[Note]) -> int:
        """Begin with a life of a server that has lost its state; return how many held ones were dropped.

        `waiting`: what it has not acknowledged. The first of these carries from now on everything that was
        known to the life before, and all of the clock that concerns other receivers.
        """
        peer = self._peer(server)
        dropped = len(peer.held)
        peer.held.clear()
        peer.held_bytes = peer.delivered = peer.sent_revision = 0
        peer.awaited = None
        for at, note in enumerate(waiting):
            if isinstance(note, StampedNote):
                cells = dict(peer.acknowledged)
                _merge(cells, note.past, server)
                past = [
                    Sent(source, target, cell.birth, cell.count)
                    for (source, target), cell in self._cells.items()
                    if target != server
                ]
                waiting[at] = stamped(note, note.count, [*cells.values(), *past])
                break
        return dropped

    # What arrives

    def room(self, server: int, notes: Sequence[Note]) -> int:
        """Return how many of these notifications may be held back in the worst case."""
        peer = self._peer(server)
        count, size_bytes = len(peer.held), peer.held_bytes
        for at, note in enumerate(notes):
            size_bytes += len(note.payload)
            if count + at >= MAX_HELD or (size_bytes > MAX_HELD_BYTES and count + at):
                return at
        return len(notes)

    def hold(self, server: int, settled: int, notes: Iterable[Note]) -> None:
        """Take notifications from a server, in order; lives of this one have acknowledged up to `settled`."""
        peer = self._peer(server)
        for note in notes:
            peer.held.append(note if isinstance(note, StampedNote) else stamped(note, 0, ()))
            peer.held_bytes += len(note.payload)
        if settled > peer.delivered:
            peer.delivered = settled
            self.changed(server)
        if peer.awaited is None:
            self._ready.append(server)

    def changed(self, server: int) -> None:
        """Look again at what waits for a server: something of it was delivered, or it began another life."""
        for other in sorted(self._peers):
            awaited = self._peers[other].awaited
            if awaited is not None and awaited.source == server:
                self._peers[other].awaited = None
                self._ready.append(other)

    def next(self) -> tuple[int, Note] | None:
        """Remove and return the next notification that may be delivered, and its neighbour; None for none."""
        while self._ready:
            server = self._ready[0]
            peer = self._peers[server]
            if peer.awaited is None and peer.held:
                peer.awaited = self._earlier(peer.held[0])
                if peer.awaited is None:
                    return server, self._deliver(peer)
            self._ready.popleft()
        return None

    def _earlier(self, note: StampedNote) -> Awaited | None:
        """Return what is still to be delivered before a notification."""
        for cell in note.past:
            if cell.target == self._server and cell.source in self.members:
                birth = self._birth_of(cell.source)
                if birth < cell.birth or (
                    birth == cell.birth and self._peer(cell.source).delivered < cell.count
                ):
                    return Awaited(cell.source, cell.birth, cell.count)
        return None

    def _deliver(self, peer: _Peer) -> Note:
        note = peer.held.popleft()
        peer.held_bytes -= len(note.payload)
        if note.count:
            peer.delivered = note.count
        for cell in note.past:
            source = cell.source
            if self._server in (source, cell.target) or not self._concerns(cell):
                continue
            birth = cell.birth or self._birth_of(peer.server)
            known = self._cells.get((source, cell.target))
            if known is None or (known.birth, known.count) < (birth, cell.count):
                self._learn((source, cell.target), birth, cell.count, peer.server)
        self.changed(peer.server)
        return unstamped(note)

    def _concerns(self, cell: Sent) -> bool:
        return cell.source in self.members and cell.target in self.members

    def _learn(self, pair: tuple[int, int], birth: int, count: int, via: int) -> None:
        self._revision += 1
        self._cells.pop(pair, None)
        self._cells[pair] = _Cell(birth, count, self._revision, via)

    def _peer(self, server: int) -> _Peer:
        peer = self._peers.get(server)
        if peer is None:
            peer = self._peers[server] = _Peer(server)
        return peer

    # Queries

    def held(self, server: int) -> int:
        """Return how many notifications of a server are held back."""
        peer = self._peers.get(server)
        return 0 if peer is None else len(peer.held)

    def awaited(self, server: int) -> Awaited | None:
        """Return what the first held notification of a server waits for; None if nothing is held back."""
        peer = self._peers.get(server)
        return None if peer is None or not peer.held else peer.awaited

    # Snapshots

    def state(self) -> CausalState:
        """Return the form for a snapshot."""
        return CausalState(
            self._revision,
            [
                (source, target, cell.birth, cell.count, cell.revision, cell.via)
                for (source, target), cell in self._cells.items()
            ],
            [
                PeerState(
                    peer.server,
                    peer.sent,
                    peer.sent_revision,
                    sorted(peer.acknowledged.values(), key=lambda cell: cell.source),
                    peer.delivered,
                    list(peer.held),
                )
                for _, peer in sorted(self._peers.items())
            ],
        )

    def load(self, state: CausalState) -> None:
        """Take over the clock of a snapshot, as far as it concerns the servers that are in the domain now."""
        everyone = self.members | {self._server}
        self._revision = state.revision
        for source, target, birth, count, revision, via in state.cells:
            if source in everyone and target in everyone:
                self._cells[source, target] = _Cell(birth, count, revision, via)
        for each in state.peers:
            if each.server not in self.members:
                continue
            peer = self._peers[each.server] = _Peer(
                each.server, each.sent, each.sent_revision, delivered=each.delivered, held=deque(each.held)
            )
            peer.acknowledged = {cell.source: cell for cell in each.acknowledged}
            peer.held_bytes = sum(len(note.payload) for note in each.held)
        for server in sorted(self._peers):
            peer = self._peers[server]
            if peer.held:
                peer.awaited = self._earlier(peer.held[0])
                if peer.awaited is None:
                    self._ready.append(server)

    def facts(self) -> tuple[object, ...]:
        """Return the facts that must be the same on all replicas, for the digest."""
        state = self.state()
        peers = [(each.server, each.sent, each.delivered, len(each.held)) for each in state.peers]
        return (state.revision, state.cells, peers)


def _merge(cells: dict[int, Sent], past: Iterable[Sent], target: int) -> None:
    """Keep the latest of the cells for one receiver, by source."""
    for cell in past:
        known = cells.get(cell.source)
        if cell.target == target and (known is None or (known.birth, known.count) < (cell.birth, cell.count)):
            cells[cell.source] = cell
