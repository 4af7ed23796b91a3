"""What the protocol asks of the service that carries it out. A token of 0: nobody waits for the outcome."""

from collections.abc import Mapping

import attrs

from ...agents import ColumnValue
from ...messaging.agents.protocol import Settlement
from ...messaging.agents.settings import Kind
from ...messaging.client.consumer import ConsumerOptions
from ...messaging.client.destinations import Destination
from ..requests import Close, Commit, Rollback

__all__ = [
    "Close",
    "Commit",
    "DeleteTemporary",
    "Drain",
    "EndDurable",
    "FindDurable",
    "Give",
    "LogIn",
    "MakeTemporary",
    "Open",
    "OpenProducer",
    "Publish",
    "Request",
    "Rollback",
    "Settle",
    "Subscribe",
    "Unsubscribe",
]


@attrs.frozen
class LogIn:
    """Check a user and a password, then call `logged_in` or `refused`."""

    user: str
    password: str


@attrs.frozen
class Open:
    """Take note of the name of the client. Failed if it is to be alone and another one has the name."""

    token: int
    container: str
    alone: bool


@attrs.frozen
class OpenProducer:
    """Done if messages can be sent to the destination."""

    token: int
    destination: Destination


@attrs.frozen
class MakeTemporary:
    """Make a temporary destination, and call `made`."""

    token: int
    kind: Kind


@attrs.frozen
class DeleteTemporary:
    """Delete a temporary destination."""

    destination: Destination


@attrs.frozen
class Publish:
    """Send a message. Done when the destination has it."""

    token: int
    destination: Destination
    columns: Mapping[str, ColumnValue]
    body: bytes
    transaction: str
    """The name of an open transaction; empty: none."""


@attrs.frozen
class Subscribe:
    """Open a consumer, and call `deliver` for its messages, as many as `Give` says. Done when it is open."""

    token: int
    consumer: str
    destination: Destination
    options: ConsumerOptions
    browses: bool
    """Copies of messages, which stay where they are."""


@attrs.frozen
class Give:
    """Deliver so many messages from now on."""

    consumer: str
    credit: int


@attrs.frozen
class Drain:
    """Done when nothing waits for the credit that a consumer has."""

    token: int
    consumer: str


@attrs.frozen
class Unsubscribe:
    """Close a consumer."""

    consumer: str
    ends: bool
    """A durable subscription ends with it."""


@attrs.frozen
class FindDurable:
    """Done if there is such a durable subscription."""

    token: int
    client_id: str
    name: str


@attrs.frozen
class EndDurable:
    """End a durable subscription that has no consumer."""

    token: int
    client_id: str
    name: str


@attrs.frozen
class Settle:
    """Settle messages of a consumer."""

    consumer: str
    numbers: tuple[int, ...]
    settlement: Settlement
    transaction: str


Request = (
    LogIn
    | Open
    | OpenProducer
    | MakeTemporary
    | DeleteTemporary
    | Publish
    | Subscribe
    | Give
    | Drain
    | Unsubscribe
    | FindDurable
    | EndDurable
    | Settle
    | Commit
    | Rollback
    | Close
)
