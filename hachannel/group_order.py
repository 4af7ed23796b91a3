"""The messages of a group: gathered into packs on their way in, numbered on their way out. Pure.

Messages of one member are numbered in the order in which it sent them; those numbers make every pack count
once. The index of a message is its place among all messages of the group.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar

import attrs

from .errors import PayloadTooLarge
from .group_types import MAX_PACKS_IN_FLIGHT, GroupLimits, QueueFull
from .group_wire import decode_head, decode_pack, encode_head, encode_pack

__all__ = ["Delivery", "Order", "Packed"]

T = TypeVar("T")


class Packed(NamedTuple):
    """A pack of this member: its first and last message, and its bytes."""

    first: int
    last: int
    body: bytes


class Delivery(NamedTuple):
    """Messages in their final order: the index of the first one, who sent them, and they."""

    first: int
    origin: int
    payloads: list[bytes]


@attrs.define
class _Seen:
    """What was delivered of one member."""

    incarnation: int
    last: int
    ends: deque[tuple[int, int]]
    """(last message, its index) of the latest packs: for a member that learns of them from a snapshot."""


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
        self._seen: dict[int, _Seen] = {}
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._packed = 0
        """Number of the last message that is in a pack."""
        self._tickets: deque[tuple[int, T]] = deque()

    # In

    def __bool__(self) -> bool:
        """Whether messages wait for a pack."""
        return bool(self._waiting)

    @property
    def accepting(self) -> bool:
        """False when more than half of what may wait does."""
        limits = self._limits
        return (
            2 * len(self._waiting) <= limits.queue_messages and 2 * self._waiting_bytes <= limits.queue_bytes
        )

    def put(self, payloads: Sequence[bytes], ticket: T) -> None:
        """Take messages; the ticket comes back with the last one. Raises QueueFull, PayloadTooLarge."""
        limits, waiting = self._limits, self._waiting
        longest = len(payloads[0]) if len(payloads) == 1 else max(map(len, payloads))
        if longest > self._max_payload_bytes:
            raise PayloadTooLarge(
                f"a message of {longest} bytes is above {self._max_payload_bytes}: split it, or raise "
                "max_payload_bytes on every member"
            )
        size = longest if len(payloads) == 1 else sum(map(len, payloads))
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

    def pack(self) -> Packed:
        """Make a pack of what waits, as far as the limits go. Call only when something waits."""
        limits, waiting = self._limits, self._waiting
        if len(waiting) <= limits.pack_messages and self._waiting_bytes <= limits.pack_bytes:
            payloads = list(waiting)
            waiting.clear()
            self._waiting_bytes = 0
        else:
            payloads = list[bytes]()
            size = 0
            while waiting and len(payloads) < limits.pack_messages:
                size += len(waiting[0])
                if payloads and size > limits.pack_bytes:
                    size -= len(waiting[0])
                    break
                payloads.append(waiting.popleft())
            self._waiting_bytes -= size
        first = self._packed + 1
        self._packed += len(payloads)
        return Packed(first, self._packed, encode_pack((self._me, self._incarnation, first, payloads)))

    def drop(self) -> list[T]:
        """Forget everything of this member; return the tickets nobody will hear of."""
        tickets = [ticket for _, ticket in self._tickets]
        self._tickets.clear()
        self._waiting.clear()
        self._waiting_bytes = 0
        return tickets

    # Out

    def deliver(self, body: bytes) -> Delivery | None:
        """Number the messages of an entry; None when they were delivered before, or skip some.

        Raises ProtocolError when the entry is no pack.
        """
        origin, incarnation, first, payloads = decode_pack(body)
        seen = self._seen.get(origin)
        if seen is None or incarnation > seen.incarnation:
            if first != 1:
                return None
            seen = self._seen[origin] = _Seen(incarnation, 0, deque(maxlen=MAX_PACKS_IN_FLIGHT))
        elif incarnation != seen.incarnation or first != seen.last + 1:
            return None
        index = self.position + 1
        self.position += len(payloads)
        seen.last += len(payloads)
        seen.ends.append((seen.last, self.position))
        return Delivery(index, origin, payloads)

    def confirmed(self) -> int:
        """Number of the last message of this member that was delivered."""
        incarnation, last = self.seen(self._me)
        return last if incarnation == self._incarnation else 0

    def seen(self, origin: int) -> tuple[int, int]:
        """(incarnation, last message delivered) of a member; (0, 0) for one never heard of."""
        seen = self._seen.get(origin)
        return (0, 0) if seen is None else (seen.incarnation, seen.last)

    def ripe(self) -> Iterable[tuple[T, int]]:
        """Hand back the tickets whose messages are delivered, with the index of the last of these."""
        seen = self._seen.get(self._me)
        tickets = self._tickets
        if seen is None or seen.incarnation != self._incarnation or not tickets:
            return
        for last, index in tuple(seen.ends):
            while tickets and tickets[0][0] <= last:
                number, ticket = tickets.popleft()
                yield ticket, index - (last - number)

    # Snapshots

    def head(self) -> bytes:
        """What a member that joins must know, for the first chunk of a snapshot."""
        rows = [(origin, seen.incarnation, seen.last, list(seen.ends)) for origin, seen in self._seen.items()]
        return encode_head(self.position, rows)

    def restore(self, head: bytes) -> None:
        """Take over from a snapshot. Raises ProtocolError."""
        known = decode_head(head)
        self.position = known.position
        self._seen = {
            origin: _Seen(incarnation, last, deque(ends, maxlen=MAX_PACKS_IN_FLIGHT))
            for origin, incarnation, last, ends in known.seen
        }
