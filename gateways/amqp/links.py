"""The links of an AMQP connection as this side sees them, and the transactions of its client. No I/O."""

from typing import Any, Final

import attrs

from ...messaging.agents.protocol import Settlement
from ...messaging.client.destinations import Destination
from .engine import Delivery, symbol

__all__ = ["SETTLEMENTS", "TRANSACTIONAL", "Consuming", "Producing", "Transaction", "settlement_of"]

DECLARED: Final = 0x33
TRANSACTIONAL: Final = 0x34
"""States of a delivery that only transactions have."""
SETTLEMENTS: Final[dict[Any, Settlement]] = {
    Delivery.ACCEPTED: Settlement.ACCEPTED,
    symbol("amqp:accepted:list"): Settlement.ACCEPTED,
    Delivery.REJECTED: Settlement.REJECTED,
    symbol("amqp:rejected:list"): Settlement.REJECTED,
    Delivery.RELEASED: Settlement.RELEASED,
    symbol("amqp:released:list"): Settlement.RELEASED,
}
"""By the outcomes that need no look at their fields, as numbers and as names."""


@attrs.define(eq=False)
class Producing:
    """A link on which a client sends."""

    link: Any
    destination: Destination | None = None
    """None: each message says where it goes."""
    coordinates: bool = False
    """It begins and ends transactions."""
    temporary: Destination | None = None
    """What ends with it."""
    unanswered: int = 0
    """Messages that are not settled."""


@attrs.define(eq=False)
class Consuming:
    """A link on which a client receives."""

    link: Any
    name: str
    """Of the consumer, in requests."""
    browses: bool = False
    settled: bool = False
    """The client wants messages that are settled when they are sent."""
    durable: bool = False
    client_id: str = ""
    looked_up: str = ""
    """The client has only asked for a durable subscription of this name."""
    temporary: Destination | None = None
    opened: bool = False
    draining: bool = False
    given: int = 0
    """How many messages the service may still deliver."""
    unsettled: dict[int, Any] = attrs.field(factory=dict[int, Any])
    """By the numbers of the destination."""
    tags: int = 0


@attrs.define(eq=False)
class Transaction:
    """An open transaction."""

    refused: str = ""
    """Why it cannot be committed."""
    deliveries: list[tuple[Consuming, int]] = attrs.field(factory=list["tuple[Consuming, int]"])
    """Messages that it has accepted, and that the client has not settled."""


def settlement_of(state: Any, disposition: Any) -> Settlement | None:
    """Return what becomes of a message by the outcome that its receiver has given, None if that is not final.

    disposition: with ``failed`` and ``undeliverable``, for the outcome ``modified``.
    """
    if state == Delivery.MODIFIED:
        if disposition.undeliverable:
            return Settlement.REJECTED
        return Settlement.RETURNED if disposition.failed else Settlement.RELEASED
    return SETTLEMENTS.get(state)
