"""The notifications between clients and destinations.

A destination is an agent with a name: ``queue:orders`` or ``topic:prices.eu``. A client sends to it through
its proxy agent, whose id is the identity of the connection: it numbers its producers and consumers itself,
and a destination tells connections apart by the sender. Notifications between the two arrive exactly once and
in order, over any failure of a master, so nothing here is numbered to be sent again.

Messages travel in packs. A body is never decoded on the way. The columns of a pack say the rest; each may be
missing, which is None for all its messages:

===============  ===================================================================
``encoding``     how the client has encoded the body, text: see the client's bodies
``priority``     0 to 9, 4 if missing
``ttl``          milliseconds from the arrival after which a message expires
``delay``        milliseconds from the arrival before which it is not delivered
``group``        text: messages of a group go to one consumer, one after the other
``key``          text: the key of a last-value queue
``mode``         ``NON_PERSISTENT`` for a message whose producer does not wait
``duplicate``    text: a second message with this id is dropped
``type``         text of the application
``correlation``  text of the application
``reply``        text: the address of a destination for answers
``subject``      text: the topic of a tree of topics; the destination sets it
``.NAME``        the property NAME of the application: number, text or bool
===============  ===================================================================

A destination adds, when it delivers:

===============  ===================================================================
``number``       the number that the destination has given to the message
``id``           text: the connection of the producer, and its producer
``serial``       the number that the producer has given to the message, from 1
``time``         milliseconds since 1970 at the arrival, by the clock of the master
``deliveries``   how often it was delivered before and came back seen; missing: never
``hops``         how often it was forwarded to another destination; missing: never
===============  ===================================================================

Ranges of messages are written as flat lists: first number, count, first number, count.
"""

from enum import StrEnum
from typing import Final

import attrs

from ...agents import Notification, Pack

__all__ = [
    "DEFAULT_PRIORITY",
    "DEFAULT_WINDOW",
    "DEFAULT_WINDOW_BYTES",
    "MAX_PRIORITY",
    "PROPERTY_PREFIX",
    "Browse",
    "Browsed",
    "CloseConsumer",
    "CloseProducer",
    "Commit",
    "Committed",
    "Confirmed",
    "ConsumerClosed",
    "ConsumerOpened",
    "Deliver",
    "Flow",
    "OpenConsumer",
    "OpenProducer",
    "ProducerClosed",
    "ProducerOpened",
    "Publish",
    "Reason",
    "Refused",
    "Rejected",
    "Rollback",
    "RolledBack",
    "Settle",
    "Settlement",
    "Unsubscribe",
    "Unsubscribed",
]

DEFAULT_PRIORITY: Final = 4
MAX_PRIORITY: Final = 9
DEFAULT_WINDOW: Final = 1000
"""Messages that a consumer has at most and has not settled."""
DEFAULT_WINDOW_BYTES: Final = 1024 * 1024
PROPERTY_PREFIX: Final = "."
"""First character of the columns with properties of the application."""


class Reason(StrEnum):
    """Why a request was refused, or a message rejected or moved to the dead message queue."""

    EXPIRED = "expired"
    UNDELIVERABLE = "undeliverable"
    """It was delivered too often."""
    REJECTED = "rejected"
    """A consumer has rejected it."""
    FULL = "full"
    NOT_ALLOWED = "not-allowed"
    TOO_LARGE = "too-large"
    ADMIN_DELETED = "admin-deleted"
    DESTINATION_DELETED = "destination-deleted"
    NOT_OPEN = "not-open"
    """The producer or consumer is not open."""
    IN_USE = "in-use"
    BAD_SELECTOR = "bad-selector"
    BAD_REQUEST = "bad-request"
    NO_SUCH_SUBSCRIPTION = "no-such-subscription"
    NO_SUCH_TRANSACTION = "no-such-transaction"
    HEURISTIC = "heuristic"
    """An administrator has ended the transaction otherwise."""
    TOO_MANY_HOPS = "too-many-hops"
    """It was forwarded from one destination to the next too often."""
    IN_DOUBT = "in-doubt"
    """It belongs to a prepared transaction."""


class Settlement(StrEnum):
    """What becomes of messages that a consumer has got."""

    ACCEPTED = "accepted"
    """They are done with."""
    RELEASED = "released"
    """The application has not seen them: they return to their places, uncounted."""
    RETURNED = "returned"
    """The application has seen them: they return to their places, counted and flagged as redelivered."""
    REJECTED = "rejected"
    """They go to the dead message queue at once."""


@attrs.frozen
class Refused(Notification, name="quorate.message.refused"):
    """Answer to any request: it was not done, and nothing has changed."""

    reason: str
    """One of `Reason`."""
    text: str
    """One sentence for people."""


# Producers


@attrs.frozen
class OpenProducer(Notification, name="quorate.message.open-producer"):
    """Request to publish at this destination. Answered with `ProducerOpened` or `Refused`."""

    producer: int
    """The client's number of the producer, unique in its connection."""
    subject: str = ""
    """Of a tree of topics: the topic to which the producer publishes; empty: to that of the tree's name."""
    peer: bool = False
    """Another member of the clustered topic publishes: what comes from it does not go to further members."""


@attrs.frozen
class ProducerOpened(Notification, name="quorate.message.producer-opened"):
    """Answer to `OpenProducer`. The limits are counted as in `Confirmed`."""

    producer: int
    credit_messages: int
    credit_bytes: int
    max_message_bytes: int
    """The largest body that the destination takes."""


@attrs.frozen
class Publish(Notification, name="quorate.message.publish"):
    """Messages of a producer. Answered by `Confirmed`, which may answer several of them together."""

    producer: int
    first: int
    """The producer's number of the first message in the pack; it numbers its messages from 1, without gap."""
    pack: Pack
    transaction: int = 0
    """The client's number of the transaction that they belong to; 0: to none."""


@attrs.frozen
class Confirmed(Notification, name="quorate.message.confirmed"):
    """Notice to a producer: the destination has its messages up to `upto`, or has rejected them before.

    It may send up to message number `credit_messages`, and `credit_bytes` bytes of bodies in all since it was
    opened, without waiting for another notice.
    """

    producer: int
    upto: int
    credit_messages: int
    credit_bytes: int


@attrs.frozen
class Rejected(Notification, name="quorate.message.rejected"):
    """Notice to a producer: the destination does not take these messages. It comes before `Confirmed`."""

    producer: int
    first: int
    count: int
    reason: str
    """One of `Reason`."""
    text: str


@attrs.frozen
class CloseProducer(Notification, name="quorate.message.close-producer"):
    """Request to end a producer. Answered with `ProducerClosed`, also if there is none."""

    producer: int


@attrs.frozen
class ProducerClosed(Notification, name="quorate.message.producer-closed"):
    """Answer to `CloseProducer`."""

    producer: int


# Consumers


@attrs.frozen
class OpenConsumer(Notification, name="quorate.message.open-consumer"):
    """Request to consume from this destination. Answered with `ConsumerOpened` or `Refused`."""

    consumer: int
    """The client's number of the consumer, unique in its connection."""
    selector: str = ""
    """Only messages that match are delivered; empty: all."""
    window: int = DEFAULT_WINDOW
    """Messages that it may have unsettled; 0: none until a `Flow`."""
    window_bytes: int = DEFAULT_WINDOW_BYTES
    """Bytes of these; the last one may exceed it."""
    subscription: str = ""
    """Of a topic: the name of the subscription; empty: one of its own, which ends with the consumer."""
    client_id: str = ""
    """Of a topic: whose subscription it is. Shared ones need none."""
    durable: bool = False
    """Of a topic: the subscription stays when its consumers close."""
    shared: bool = False
    """Of a topic: several consumers may have the subscription, and share its messages."""
    no_local: bool = False
    """Of a topic: leave out what this connection has published."""
    exclusive: bool = False
    """Of a queue: while this consumer is open no other gets messages; later ones wait for their turn."""
    pattern: str = ""
    """Of a tree of topics: the topics whose messages it gets; empty: only that of the tree's name."""
    peer: bool = False
    """Another member of the clustered queue consumes: it gets what the consumers here have no room for."""


@attrs.frozen
class ConsumerOpened(Notification, name="quorate.message.consumer-opened"):
    """Answer to `OpenConsumer`."""

    consumer: int


@attrs.frozen
class Deliver(Notification, name="quorate.message.deliver"):
    """Messages for a consumer, which settles them with `Settle`."""

    consumer: int
    pack: Pack


@attrs.frozen
class Settle(Notification, name="quorate.message.settle"):
    """What becomes of messages that a consumer has got. What it does not have any more is passed over."""

    consumer: int
    settlement: str
    """One of `Settlement`."""
    ranges: list[int]
    """Numbers of the destination: first, count, first, count."""
    transaction: int = 0
    """The client's number of the transaction that this belongs to; 0: to none. Only for accepted ones."""
    delay_ms: int = 0
    """For returned ones: deliver them again no earlier than this."""


@attrs.frozen
class Flow(Notification, name="quorate.message.flow"):
    """Change of a consumer's window. What it has got stays with it."""

    consumer: int
    window: int
    window_bytes: int = DEFAULT_WINDOW_BYTES


@attrs.frozen
class CloseConsumer(Notification, name="quorate.message.close-consumer"):
    """Request to end a consumer. Answered with `ConsumerClosed`, also if there is none."""

    consumer: int
    seen: list[int] = attrs.field(factory=list[int])
    """Ranges of the unsettled messages that the application has seen; the others return as released."""


@attrs.frozen
class ConsumerClosed(Notification, name="quorate.message.consumer-closed"):
    """Answer to `CloseConsumer`, or a notice that the destination has ended the consumer."""

    consumer: int
    reason: str = ""
    """One of `Reason`, if the destination has ended it."""
    text: str = ""


@attrs.frozen
class Unsubscribe(Notification, name="quorate.message.unsubscribe"):
    """Request to end a durable subscription. Answered with `Unsubscribed` or `Refused`."""

    subscription: str
    client_id: str = ""


@attrs.frozen
class Unsubscribed(Notification, name="quorate.message.unsubscribed"):
    """Answer to `Unsubscribe`."""


@attrs.frozen
class Browse(Notification, name="quorate.message.browse"):
    """Request for copies of messages that no consumer has. Answered with `Browsed` or `Refused`."""

    after: int = 0
    """Only messages with numbers above this one."""


@attrs.frozen
class Browsed(Notification, name="quorate.message.browsed"):
    """Answer to `Browse`: the next messages, in the order of their numbers; none: there are no more."""

    pack: Pack


# Transactions


@attrs.frozen
class Commit(Notification, name="quorate.message.commit"):
    """Request to commit what a client has sent in a transaction, at several destinations: all or nothing.

    It goes to one of them, which asks the others. Answered with `Committed` or `RolledBack`.
    """

    transaction: int
    """The client's number, unique in its connection."""
    destinations: list[str]
    """The addresses of all destinations of the transaction, the one that is asked among them."""
    parts: list[int]
    """For each of them, how many `Publish` and `Settle` of the transaction were sent to it."""


@attrs.frozen
class Committed(Notification, name="quorate.message.committed"):
    """Answer to `Commit`: everything was done."""

    transaction: int


@attrs.frozen
class RolledBack(Notification, name="quorate.message.rolled-back"):
    """Answer to `Commit`: nothing was done. The messages that it had accepted return as seen."""

    transaction: int
    reason: str
    """One of `Reason`."""
    text: str


@attrs.frozen
class Rollback(Notification, name="quorate.message.rollback"):
    """Order to give up what was sent in a transaction. The messages that it had accepted return as seen."""

    transaction: int
