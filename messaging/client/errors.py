"""Errors of messaging. Each says in one sentence what happened and what to do."""

from typing import Final

from ...client import QuorateClientError
from ..agents.protocol import Reason, Refused

__all__ = [
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
    "refusal",
    "rejection",
]


class MessagingError(QuorateClientError):
    """Base of the errors of messaging; itself raised for a request that the server could not understand."""


class NoSuchDestination(MessagingError):
    """There is no such queue or topic."""


class NotAllowed(MessagingError):
    """The user has no right to do that."""


class InUse(MessagingError):
    """The subscription or destination is in use."""


class InvalidSelector(MessagingError, ValueError):
    """The selector cannot be understood. The text names line and column."""


class NoSuchSubscription(MessagingError):
    """There is no such durable subscription."""


class MessageRefused(MessagingError):
    """The destination has not taken the message."""


class DestinationFull(MessageRefused):
    """The destination has no room for the message."""


class MessageTooLarge(MessageRefused, ValueError):
    """The destination does not take a message of this size."""


class NoSuchTransaction(MessagingError):
    """There is no prepared transaction of that identifier."""


class HeuristicOutcome(MessagingError):
    """An administrator has ended the prepared transaction otherwise: what was promised has not happened."""


class ConsumerEnded(MessagingError):
    """The destination has ended the consumer: it was deleted, or the right to it was taken away."""


class SessionClosed(MessagingError):
    """The session, producer or consumer is closed."""


class TransactionRolledBack(MessagingError):
    """The transaction was not committed: nothing of it has happened. Its messages are delivered again."""


_ERRORS: Final[dict[str, type[MessagingError]]] = {
    Reason.NOT_ALLOWED: NotAllowed,
    Reason.IN_USE: InUse,
    Reason.BAD_SELECTOR: InvalidSelector,
    Reason.NO_SUCH_SUBSCRIPTION: NoSuchSubscription,
    Reason.NO_SUCH_TRANSACTION: NoSuchTransaction,
    Reason.HEURISTIC: HeuristicOutcome,
    Reason.FULL: DestinationFull,
    Reason.TOO_LARGE: MessageTooLarge,
}


def refusal(refused: Refused) -> MessagingError:
    """Return the error for a request that was refused."""
    return _ERRORS.get(refused.reason, MessagingError)(refused.text)


def rejection(reason: str, text: str) -> MessageRefused:
    """Return the error for a message that was rejected."""
    kind = _ERRORS.get(reason, MessageRefused)
    return kind(text) if issubclass(kind, MessageRefused) else MessageRefused(text)
