"""The order of a group's messages: packs on the way to the channel, message indices on the way back. Pure.

A pack is the payload of one entry of the channel. The channel orders each pack once, and the packs of one
member in the order in which they were made. The index of a message is its position among all messages of the
group, from 1.
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
"""Largest overhead of a message in a pack, in bytes."""


@attrs.define
class _Ends:
    """The latest packs of one member. They are in a state, so that their sender learns of the delivery."""

    incarnation: int
    boot: int
    ends: deque[tuple[int, int]]
    """(number of the pack, index of its last message)."""


class _Pack(NamedTuple, Generic[T]):
    """A pack that is in flight."""

    number: int
    last: int
    """Number of its last message."""
    tickets: Sequence[tuple[int, T]]
    """(number of its last message, ticket)."""


class Order(Generic[T]):
    """The messages of one member that are not delivered yet, and the index of every message of the group.

    A ticket represents the messages of one call of `append`. `delivered` returns it, with the index of the
    last of these messages, when that message is delivered.
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
        """(number of the call's last message, ticket) of messages that wait for a pack."""
        self._packs = 0
        """Number of packs made so far."""
        self._flight: deque[_Pack[T]] = deque()
        """Packs that are not delivered, oldest first."""
        self._delivered: list[tuple[int, _Pack[T]]] = []
        """(index of its last message, pack) of each delivered pack whose tickets were not returned yet."""

    # Messages to send

    def __bool__(self) -> bool:
        """Whether messages wait for a pack."""
        return bool(self._waiting)

    @property
    def in_flight(self) -> int:
        """Number of packs of this member in flight: made, and not delivered here."""
        return len(self._flight)

    @property
    def accepting(self) -> bool:
        """Whether at most half of the queue is used, in messages and in bytes."""
        limits = self._limits
        return (
            2 * len(self._waiting) <= limits.queue_messages and 2 * self._waiting_bytes <= limits.queue_bytes
        )

    def append(self, payloads: Sequence[bytes], ticket: T) -> None:
        """Append messages to those that wait. `delivered` returns the ticket after the last one.

        Raises QueueFull, PayloadTooLarge, and TypeError for a message that is not bytes.
        """
        limits, waiting = self._limits, self._waiting
        if len(payloads) == 1 and type(payloads[0]) is bytes:
            size = longest = len(payloads[0])
        else:
            if set(map(type, payloads)) != {bytes}:
                payloads = [_as_bytes(payload) for payload in payloads]
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
        """Make the next pack of the messages that wait, within the limits. Call only when some wait."""
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
        """Return whether `count` messages of `size` bytes in all fit into one entry."""
        return size <= self._limits.pack_bytes and size + MESSAGE_BYTES * count <= self._max_payload_bytes

    def drop(self) -> list[T]:
        """Forget all messages of this member. Return the tickets that were not returned before."""
        # Delivered packs count, too: some of their messages may not have reached the handler.
        packs = [*(pack for _, pack in self._delivered), *self._flight]
        tickets = [ticket for pack in packs for _, ticket in pack.tickets]
        tickets += [ticket for _, ticket in self._tickets]
        self._delivered.clear()
        self._flight.clear()
        self._tickets.clear()
        self._waiting.clear()
        self._waiting_bytes = 0
        return tickets

    # Delivered messages

    def deliver(self, source: Source, body: bytes) -> tuple[int, list[bytes]]:
        """Number the messages of an entry. Return the index of the first message, and the messages.

        Raises ProtocolError if the entry is no pack, and GroupFailed if an earlier life of this member with
        the same incarnation sent it.
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
        """Note that packs of this member up to `pack` are delivered. index: of the last message of `pack`."""
        flight = self._flight
        if pack > self._packs:
            raise GroupFailed(
                f"an earlier life of member {self._me}, with the same incarnation {self._incarnation}, has "
                "sent messages: give every life a higher incarnation, or none"
            )
        while flight and flight[0].number <= pack:
            self._delivered.append((index, flight.popleft()))

    def delivered(self) -> Iterator[tuple[T, int]]:
        """Yield the tickets whose messages are delivered, each with the index of its last message."""
        delivered, self._delivered = self._delivered, []
        for index, pack in delivered:
            above = index - pack.last
            for number, ticket in pack.tickets:
                yield ticket, number + above

    # States

    def head(self) -> bytes:
        """Return the first part of a state: the position and the latest packs of all members."""
        rows = [
            (replica, known.incarnation, known.boot, list(known.ends))
            for replica, known in self._ends.items()
        ]
        return encode_head(self.position, rows)

    def restore(self, head: bytes) -> None:
        """Continue after a state with this first part. Raises ProtocolError and GroupFailed, as `deliver`."""
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


def _as_bytes(payload: object) -> bytes:
    """Return a message as bytes, so that the caller cannot change it later. Raises TypeError."""
    if isinstance(payload, bytes | bytearray | memoryview):
        return bytes(payload)  # pyright: ignore[reportUnknownArgumentType]
    raise TypeError(f"a message is bytes, not {type(payload).__name__}: encode it first")
