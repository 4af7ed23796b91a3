"""A message that a consumer has received."""

from collections.abc import Callable
from functools import cached_property
from typing import Any, Protocol

from ...agents import ColumnValue, Pack
from ..agents.protocol import DEFAULT_PRIORITY, PROPERTY_PREFIX, Settlement
from .bodies import Body, decode_body
from .destinations import Destination, Topic, address_of

__all__ = ["Message", "Settler"]


class Settler(Protocol):
    """The consumer of a message, which settles it."""

    destination: Destination

    def settle(self, message: "Message", settlement: Settlement, delay_ms: int = 0) -> Any:
        """Settle one message. Raises what the acknowledge mode does not allow."""
        ...


class Message:
    """A message, and what belongs to it. The body is decoded when it is asked for."""

    def __init__(self, settler: Settler, pack: Pack, index: int, number: int) -> None:
        self._settler = settler
        self._pack = pack
        self._index = index
        self.number = number
        """The number that the destination has given to it."""
        self.settled = False
        """Whether this session has settled it."""

    def _value(self, column: str) -> ColumnValue:
        return self._pack.value(column, self._index)

    @property
    def data(self) -> bytes:
        """The body as bytes, as it was sent."""
        return self._pack.body(self._index)

    @property
    def encoding(self) -> str | None:
        """How the body is encoded, see `bodies`; None for bytes."""
        return _text(self._value("encoding"))

    @cached_property
    def body(self) -> Body:
        """The body: bytes, text, a dict, a list or a notification. Raises ValueError if it cannot be read."""
        return decode_body(self._value("encoding"), self.data)

    @cached_property
    def properties(self) -> dict[str, ColumnValue]:
        """The properties that the sender has given to it."""
        found: dict[str, ColumnValue] = {}
        for column in self._pack.columns:
            if column.startswith(PROPERTY_PREFIX):
                value = self._value(column)
                if value is not None:
                    found[column.removeprefix(PROPERTY_PREFIX)] = value
        return found

    @property
    def destination(self) -> Destination:
        """The queue or topic to which it was sent; of a tree of topics the one to which it was published."""
        subject = _text(self._value("subject"))
        return self._settler.destination if subject is None else Topic(subject)

    @property
    def id(self) -> str:
        """An identifier that no other message has."""
        return f"ID:{self._value('id')}/{self._value('serial')}"

    @property
    def priority(self) -> int:
        """0 to 9; 9 is delivered first."""
        return _number(self._value("priority"), DEFAULT_PRIORITY)

    @property
    def timestamp_s(self) -> float:
        """When the destination took it, in seconds since 1970."""
        return _number(self._value("time"), 0) / 1000

    @property
    def expires_s(self) -> float | None:
        """When it expires, in seconds since 1970; None: never."""
        expires_ms = _number(self._value("expires"), 0)
        return expires_ms / 1000 if expires_ms else None

    @property
    def delivery_count(self) -> int:
        """1 at the first delivery, one more after each time that it came back seen."""
        return 1 + _number(self._value("deliveries"), 0)

    @property
    def redelivered(self) -> bool:
        """Whether an application may have seen it before."""
        return self.delivery_count > 1

    @property
    def correlation_id(self) -> str | None:
        """What the sender has set, to match an answer with its request."""
        return _text(self._value("correlation"))

    @property
    def type(self) -> str | None:
        """What the sender has set."""
        return _text(self._value("type"))

    @property
    def group(self) -> str | None:
        """The group to which it belongs."""
        return _text(self._value("group"))

    @property
    def reply_to(self) -> Destination | None:
        """Where the sender wants an answer."""
        address = _text(self._value("reply"))
        return None if address is None else address_of(address)

    @property
    def persistent(self) -> bool:
        """Whether the sender has waited until the destination had it."""
        return self._value("mode") != "NON_PERSISTENT"

    def kept(self, column: str) -> str | None:
        """Return what a service for foreign clients has kept in a column of its own."""
        return _text(self._value(column))

    @property
    def dead_reason(self) -> str | None:
        """In a dead message queue: why it is here."""
        return _text(self._value("dead_reason"))

    @property
    def dead_origin(self) -> str | None:
        """In a dead message queue: the destination that it comes from, as ``queue:orders``."""
        return _text(self._value("dead_origin"))

    def ack(self) -> Any:
        """Accept it: it is done with.

        With Ack.INDIVIDUAL this message; with Ack.CLIENT all that the session has received so far.
        """
        return self._settler.settle(self, Settlement.ACCEPTED)

    def reject(self, *, requeue: bool = False, delay_s: float = 0) -> Any:
        """Refuse it: it goes to the dead message queue, or, with `requeue`, back to its place.

        delay_s: with `requeue`, the least time until it is delivered again. With Ack.INDIVIDUAL only.
        """
        settlement = Settlement.RETURNED if requeue else Settlement.REJECTED
        return self._settler.settle(self, settlement, round(delay_s * 1000))

    def __repr__(self) -> str:
        again = ", redelivered" if self.redelivered else ""
        return f"<Message {self.number} of {self.destination}, {len(self.data)} bytes{again}>"


Handler = Callable[[Message], Any]


def _number(value: ColumnValue, default: int) -> int:
    return value if isinstance(value, int) else default


def _text(value: ColumnValue) -> str | None:
    return value if isinstance(value, str) else None
