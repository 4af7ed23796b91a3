"""The messages of a group: gathered into packs on their way in, numbered on their way out. Pure.

A pack is what the channel orders, once and after the earlier packs of its member. The index of a message is
its place among all messages of the group.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

import attrs

from ..model.errors import PayloadTooLarge
from ..model.submitters import Source
from .handler import MAX_PACKS_IN_FLIGHT, GroupFailed, GroupLimits, QueueFull
from .wire import decode_head, decode_pack, encode_head, encode_pack

__all__ = ["Order"]

T = TypeVar("T")

MESSAGE_BYTES = 5
"""What a message takes in a pack besides its bytes, at most."""


@attrs.define
class _Ends:
    """The latest packs of one member: for one that learns from a snapshot what became of its own."""

    incarnation: int
    boot: int
    ends: deque[tuple[int, int]]
    """(number of the pack, index of its last message)."""


class _Pack(NamedTuple, Generic[T]):
    """A pack on its way."""

    number: int
    last: int
    """Number of its last message."""
    tickets: Sequence[tuple[int, T]]
    """(number of its last message, ticket)."""


class Order(Generic[T]):
    """One member's messages and tickets, and the place of every message of the group.

    A ticket is what the caller wants back, with the index, when its messages are delivered.
    """

    def __init__(self, me: int, incarnation: int, limits: GroupLimits, max_payload_bytes: int) -> None:
        self.position = 0
        """Index of the last message delivered."""
        self._me = me
        self._incarnation = incarnation
        self._limits = limits
        self._max_payload_bytes = max_payload_bytes
        self._ends: dict[int, _Ends] = {}
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._packed = 0
        """Number of the last message that is in a pack."""
        self._tickets: deque[tuple[int, T]] = deque()
        """(number of its last message, ticket) of messages that wait for a pack."""
        self._packs = 0
        """Packs made."""
        self._flight: deque[_Pack[T]] = deque()
        """Packs not delivered."""
        self._ripe: list[tuple[int, _Pack[T]]] = []
        """(index of its last message, pack) of those that are."""

    # In

    def __bool__(self) -> bool:
        """Whether messages wait for a pack."""
        return bool(self._waiting)

    @property
    def in_flight(self) -> int:
        """How many packs of this member are not delivered yet."""
        return len(self._flight)

    @property
    def accepting(self) -> bool:
        """False when more than half of what may wait does."""
        limits = self._limits
        return (
            2 * len(self._waiting) <= limits.queue_messages and 2 * self._waiting_bytes <= limits.queue_bytes
        )

    def put(self, payloads: Sequence[bytes], ticket: T) -> None:
        """Take messages; the ticket comes back with the last one.

        Raises QueueFull, PayloadTooLarge, and TypeError for what is not bytes.
        """
        limits, waiting = self._limits, self._waiting
        if len(payloads) == 1 and type(payloads[0]) is bytes:
            size = longest = len(payloads[0])
        else:
            if set(map(type, payloads)) != {bytes}:
                payloads = [_frozen(payload) for payload in payloads]
            sizes = [len(payload) for payload in payloads]
            size, longest = sum(sizes), max(sizes)
        if longest > self._max_payload_bytes:
            raise PayloadTooLarge(
                f"a message of {longest} bytes is above {self._max_payload_bytes}: split it, or raise "
                "max_payload_bytes on every member"
            )
        if len(payloads) > limits.queue_messages or size > limits.queue_bytes:
            raise QueueFull(
                f"{len(payloads)} messages of {size} bytes are more than may ever wait: give fewer at once, "
                "or raise queue_messages and queue_bytes"
            )
        if (
            len(waiting) + len(payloads) > limits.queue_messages
            or self._waiting_bytes + size > limits.queue_bytes
        ):
            raise QueueFull(
                f"{len(waiting)} messages of {self._waiting_bytes} bytes wait already: wait for earlier ones"
            )
        waiting.extend(payloads)
        self._waiting_bytes += size
        self._tickets.append((self._packed + len(waiting), ticket))

    def pack(self) -> bytes:
        """Make the next pack of what waits, as far as the limits go. Call only when something waits."""
        limits, waiting, tickets = self._limits, self._waiting, self._tickets
        if len(waiting) <= limits.pack_messages and self._fits(self._waiting_bytes, len(waiting)):
            payloads = list(waiting)
            waiting.clear()
            self._waiting_bytes = 0
        else:
            payloads = list[bytes]()
            size = 0
            while waiting and len(payloads) < limits.pack_messages:
                size += len(waiting[0])
                if payloads and not self._fits(size, len(payloads) + 1):
                    size -= len(waiting[0])
                    break
                payloads.append(waiting.popleft())
            self._waiting_bytes -= size
        last = self._packed = self._packed + len(payloads)
        self._packs += 1
        mine: Sequence[tuple[int, T]] = tickets
        if waiting:
            mine = []
            while tickets and tickets[0][0] <= last:
                mine.append(tickets.popleft())
        else:
            self._tickets = deque()
        self._flight.append(_Pack(self._packs, last, mine))
        return encode_pack(payloads)

    def _fits(self, size: int, count: int) -> bool:
        """Whether so many messages of so many bytes together may go in one entry."""
        return size <= self._limits.pack_bytes and size + MESSAGE_BYTES * count <= self._max_payload_bytes

    def drop(self) -> list[T]:
        """Forget everything of this member; return the tickets nobody will hear of."""
        # Packs that are ripe, too: their messages were perhaps not handed out.
        packs = [*(pack for _, pack in self._ripe), *self._flight]
        tickets = [ticket for pack in packs for _, ticket in pack.tickets]
        tickets += [ticket for _, ticket in self._tickets]
        self._ripe.clear()
        self._flight.clear()
        self._tickets.clear()
        self._waiting.clear()
        self._waiting_bytes = 0
        return tickets

    # Out

    def deliver(self, source: Source, body: bytes) -> tuple[int, list[bytes]]:
        """Number the messages of an entry: return the index of the first one, and they.

        Raises ProtocolError when the entry is no pack, GroupFailed if another life has sent it as this one.
        """
        payloads = decode_pack(body)
        index = self.position + 1
        self.position += len(payloads)
        replica, incarnation, boot, number = source
        known = self._ends.get(replica)
        if known is None or known.incarnation != incarnation or known.boot != boot:
            known = self._ends[replica] = _Ends(incarnation, boot, deque(maxlen=MAX_PACKS_IN_FLIGHT))
        known.ends.append((number, self.position))
        if replica == self._me and incarnation == self._incarnation:
            self._confirm(number, self.position)
        return index, payloads

    def _confirm(self, pack: int, index: int) -> None:
        """A pack of this member, whose last message has that index, is delivered."""
        flight = self._flight
        if pack > self._packs:
            raise GroupFailed(
                f"an earlier life of member {self._me}, with the same incarnation {self._incarnation}, has "
                "sent messages: give every life a higher incarnation, or none"
            )
        while flight and flight[0].number <= pack:
            self._ripe.append((index, flight.popleft()))

    def ripe(self) -> Iterator[tuple[T, int]]:
        """Hand back the tickets whose messages are delivered, with the index of the last of these."""
        ripe, self._ripe = self._ripe, []
        for index, pack in ripe:
            above = index - pack.last
            for number, ticket in pack.tickets:
                yield ticket, number + above

    # Snapshots

    def head(self) -> bytes:
        """What a member that joins must know, for the first chunk of a snapshot."""
        rows = [
            (replica, known.incarnation, known.boot, list(known.ends))
            for replica, known in self._ends.items()
        ]
        return encode_head(self.position, rows)

    def restore(self, head: bytes) -> None:
        """Take over from a snapshot. Raises ProtocolError, and GroupFailed if another life is in it."""
        known = decode_head(head)
        self.position = known.position
        self._ends = {
            replica: _Ends(incarnation, boot, deque(ends, maxlen=MAX_PACKS_IN_FLIGHT))
            for replica, incarnation, boot, ends in known.ends
        }
        mine = self._ends.get(self._me)
        if mine is not None and mine.incarnation == self._incarnation:
            for number, index in mine.ends:
                self._confirm(number, index)


def _frozen(payload: object) -> bytes:
    """A message that nobody changes any more; whatever is not bytes would be refused by every receiver."""
    if isinstance(payload, bytes | bytearray | memoryview):
        return bytes(payload)
    raise TypeError(f"a message is bytes, not {type(payload).__name__}: encode it first")
