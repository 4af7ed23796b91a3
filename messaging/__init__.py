"""Messaging: queues and topics on replicated agents, with the words and rules of Jakarta Messaging.

`Session` is a session of a blocking connection, `AsyncSession` one of asyncio or Twisted. The guide is
docs/messaging.md.
"""

from .client.awaiting import AsyncConsumer, AsyncProducer, AsyncSession
from .client.blocking import Consumer, Producer, Session
from .client.destinations import Destination, Queue, Topic
from .client.errors import (
    ConsumerEnded,
    DestinationFull,
    InUse,
    InvalidSelector,
    MessageRefused,
    MessageTooLarge,
    MessagingError,
    NoSuchDestination,
    NoSuchSubscription,
    NotAllowed,
    SessionClosed,
    TransactionRolledBack,
)
from .client.message import Message
from .client.session_base import Ack, MessageOptions

__all__ = [
    "Ack",
    "AsyncConsumer",
    "AsyncProducer",
    "AsyncSession",
    "Consumer",
    "ConsumerEnded",
    "Destination",
    "DestinationFull",
    "InUse",
    "InvalidSelector",
    "Message",
    "MessageOptions",
    "MessageRefused",
    "MessageTooLarge",
    "MessagingError",
    "NoSuchDestination",
    "NoSuchSubscription",
    "NotAllowed",
    "Producer",
    "Queue",
    "Session",
    "SessionClosed",
    "Topic",
    "TransactionRolledBack",
]
