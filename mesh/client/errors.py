"""Errors of a client of a mesh. Each says in one sentence what happened and what to do."""

from ...client.errors import NotPermitted, QuorateClientError
from ..frames import Refused

__all__ = [
    "MeshError",
    "NoTopic",
    "PublishTimeout",
    "SubscriptionEnded",
    "SubscriptionTakenOver",
    "TopicExists",
    "TopicFull",
    "refusal",
]


class MeshError(QuorateClientError):
    """Base of the errors of a mesh; itself: a daemon has refused a request, the text says why."""


class NoTopic(MeshError, LookupError):
    """The daemon knows no topic of that name: it was deleted, or its creation has not arrived there."""


class TopicExists(MeshError):
    """There is a topic of that name already."""


class TopicFull(MeshError):
    """The topic holds as many bytes as it may for a slow subscriber. The message is not published."""


class SubscriptionEnded(MeshError):
    """The subscription has ended: here, elsewhere, or with its topic."""


class SubscriptionTakenOver(SubscriptionEnded):
    """Another client has attached the same subscription; it goes on there."""


class PublishTimeout(MeshError, TimeoutError):
    """No daemon has acknowledged the messages in time. They stay, and are sent until one does."""


_CLASSES: dict[str, type[QuorateClientError]] = {
    "no topic": NoTopic,
    "full": TopicFull,
    "rights": NotPermitted,
    "ended": SubscriptionEnded,
    "taken over": SubscriptionTakenOver,
    "exists": TopicExists,
}


def refusal(frame: Refused) -> QuorateClientError:
    """Return the error of a refusal."""
    return _CLASSES.get(frame.code, MeshError)(frame.text)
