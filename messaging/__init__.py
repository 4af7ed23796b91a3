"""Messaging: queues and topics on replicated agents, with the words and rules of Jakarta Messaging.

`Session` is a session of a blocking connection, `AsyncSession` one of asyncio or Twisted. The guide is
docs/messaging.md.
"""

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
