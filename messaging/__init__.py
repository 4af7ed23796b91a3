"""Messaging: queues and topics on replicated agents, with the words and rules of Jakarta Messaging.

`Session` is a session of a blocking connection. docs/messaging.md is the guide.
"""

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
