"""Messaging: queues and topics on replicated agents, with the words and rules of Jakarta Messaging.

`Session` is a session of a blocking connection, `AsyncSession` one of asyncio or Twisted. The guide is
docs/messaging.md.
"""

import importlib
import typing

if typing.TYPE_CHECKING:
    from .client.awaiting import AsyncConsumer, AsyncProducer, AsyncSession
    from .client.blocking import Consumer, Producer, Session
    from .client.coordinator import CommitUnfinished, Coordinator, CoordinatorError, Recovered
    from .client.data_manager import join_transaction
    from .client.destinations import Destination, Queue, Topic
    from .client.errors import (
        ConsumerEnded,
        DestinationFull,
        HeuristicOutcome,
        InUse,
        InvalidSelector,
        MessageRefused,
        MessageTooLarge,
        MessagingError,
        NoSuchDestination,
        NoSuchSubscription,
        NoSuchTransaction,
        NotAllowed,
        SessionClosed,
        TransactionRolledBack,
    )
    from .client.message import Message
    from .client.outbox import Inbox, Outbox
    from .client.session_base import Ack, MessageOptions
    from .client.xa import AsyncXASession, XASession, Xid

__all__ = [
    "Ack",
    "AsyncConsumer",
    "AsyncProducer",
    "AsyncSession",
    "AsyncXASession",
    "CommitUnfinished",
    "Consumer",
    "ConsumerEnded",
    "Coordinator",
    "CoordinatorError",
    "Destination",
    "DestinationFull",
    "HeuristicOutcome",
    "InUse",
    "Inbox",
    "InvalidSelector",
    "Message",
    "MessageOptions",
    "MessageRefused",
    "MessageTooLarge",
    "MessagingError",
    "NoSuchDestination",
    "NoSuchSubscription",
    "NoSuchTransaction",
    "NotAllowed",
    "Outbox",
    "Producer",
    "Queue",
    "Recovered",
    "Session",
    "SessionClosed",
    "Topic",
    "TransactionRolledBack",
    "XASession",
    "Xid",
    "join_transaction",
]

_HOMES: typing.Final = {
    **dict.fromkeys(("AsyncConsumer", "AsyncProducer", "AsyncSession"), ".client.awaiting"),
    **dict.fromkeys(("Consumer", "Producer", "Session"), ".client.blocking"),
    **dict.fromkeys(
        ("CommitUnfinished", "Coordinator", "CoordinatorError", "Recovered"), ".client.coordinator"
    ),
    "join_transaction": ".client.data_manager",
    **dict.fromkeys(("Destination", "Queue", "Topic"), ".client.destinations"),
    **dict.fromkeys(
        (
            "ConsumerEnded",
            "DestinationFull",
            "HeuristicOutcome",
            "InUse",
            "InvalidSelector",
            "MessageRefused",
            "MessageTooLarge",
            "MessagingError",
            "NoSuchDestination",
            "NoSuchSubscription",
            "NoSuchTransaction",
            "NotAllowed",
            "SessionClosed",
            "TransactionRolledBack",
        ),
        ".client.errors",
    ),
    "Message": ".client.message",
    **dict.fromkeys(("Inbox", "Outbox"), ".client.outbox"),
    **dict.fromkeys(("Ack", "MessageOptions"), ".client.session_base"),
    **dict.fromkeys(("AsyncXASession", "XASession", "Xid"), ".client.xa"),
}
"""Where each name is: it is imported when it is used. Servers, which run the agents, do without sessions."""


def __getattr__(name: str) -> typing.Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(home, __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
