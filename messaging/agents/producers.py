"""The producers of a destination: their credit, and what they are still to be told."""

from collections.abc import Iterable
from typing import Final

import attrs

from ...agents import FIRST_CONNECTION_STAMP, AgentId, Pack
from .protocol import Confirmed

__all__ = ["Producer", "Producers", "key_of"]

CREDIT_MESSAGES: Final = 1000
"""How many messages a producer may send without a confirmation."""
CREDIT_BYTES: Final = 4 * 1024 * 1024
MAX_DUPLICATE_IDS: Final = 20_000
"""Duplicate ids that are remembered, the latest."""


def key_of(connection: AgentId, number: int) -> str:
    """Return the key of a producer or consumer: its connection, and the client's number of it."""
    return f"{connection}/{number}"


@attrs.define
class Producer:
    """A producer of a client."""

    connection: AgentId
    number: int
    upto: int = 0
    """The number of its last message that was taken or rejected."""
    size_bytes: int = 0
    """The bytes of its messages so far."""
    credit_messages: int = 0
    credit_bytes: int = 0
    subject: str = ""
    """The topic of a tree to which it publishes."""
    peer: bool = False
    """It is another member of the clustered topic."""

    @property
    def travelled(self) -> bool:
        """Whether its messages come from another destination: an agent of a server publishes."""
        return self.connection.stamp < FIRST_CONNECTION_STAMP


@attrs.define
class Producers:
    """The open producers of a destination."""

    open: dict[str, Producer] = attrs.field(factory=dict[str, Producer])
    unconfirmed: dict[str, None] = attrs.field(factory=dict[str, None])
    """Producers that are to be told how far their messages are taken."""
    blocked: dict[str, None] = attrs.field(factory=dict[str, None])
    """Producers without credit."""
    duplicates: dict[str, None] = attrs.field(factory=dict[str, None])
    """Duplicate ids of the latest messages that had one."""

    def add(self, key: str, producer: Producer, *, has_room: bool) -> None:
        """Add a producer, with credit if the destination has room."""
        self.open[key] = producer
        self._grant(key, producer, has_room=has_room)

    def remove(self, key: str) -> Producer | None:
        """Remove a producer, and return it."""
        self.unconfirmed.pop(key, None)
        self.blocked.pop(key, None)
        return self.open.pop(key, None)

    def handled(self, key: str, upto: int, size_bytes: int) -> None:
        """Count messages of a producer that were taken or rejected; it is to be told."""
        producer = self.open[key]
        producer.upto = upto
        producer.size_bytes += size_bytes
        self.unconfirmed[key] = None

    def _grant(self, key: str, producer: Producer, *, has_room: bool) -> bool:
        """Give a producer the credit that there is now. Return whether it has more than before."""
        before = producer.credit_messages, producer.credit_bytes
        if has_room:
            producer.credit_messages = producer.upto + CREDIT_MESSAGES
            producer.credit_bytes = producer.size_bytes + CREDIT_BYTES
            self.blocked.pop(key, None)
        else:
            self.blocked[key] = None
        return (producer.credit_messages, producer.credit_bytes) != before

    def confirm(self, *, has_room: bool) -> list[tuple[AgentId, Confirmed]]:
        """Return what producers are to be told, with their credit."""
        for key in self.unconfirmed:
            self._grant(key, self.open[key], has_room=has_room)
        if self.blocked and has_room:
            for key in list(self.blocked):
                if self._grant(key, self.open[key], has_room=True):
                    self.unconfirmed[key] = None
        told = [self.open[key] for key in self.unconfirmed]
        self.unconfirmed.clear()
        return [
            (each.connection, Confirmed(each.number, each.upto, each.credit_messages, each.credit_bytes))
            for each in told
        ]

    def fresh(self, pack: Pack, places: Iterable[int]) -> list[int]:
        """Return the places of messages whose duplicate id is new, and remember those ids."""
        found: list[int] = []
        for index in places:
            identity = pack.value("duplicate", index)
            if identity is not None:
                if str(identity) in self.duplicates:
                    continue
                self.duplicates[str(identity)] = None
                if len(self.duplicates) > MAX_DUPLICATE_IDS:
                    del self.duplicates[next(iter(self.duplicates))]
            found.append(index)
        return found
