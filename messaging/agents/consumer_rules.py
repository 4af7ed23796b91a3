"""Which consumers a destination takes, and to which subscription they belong."""

from ...agents import AgentId
from .protocol import OpenConsumer
from .settings import Kind
from .subscription import Subscription, compiled
from .topic_tree import pattern_flaw

__all__ = ["conflict", "durable_key", "flaw_of", "is_other", "new_subscription", "subscription_key"]


def flaw_of(kind: str, title: str, note: OpenConsumer, *, tree: bool) -> str:
    """Return why the options of a consumer do not fit the destination, "" if they do."""
    if note.window < 0 or note.window_bytes < 1:
        return f"a window of {note.window} messages and {note.window_bytes} bytes is none"
    topic = kind == Kind.TOPIC
    if note.pattern:
        if not tree:
            return f"{kind} {title} is no tree of topics, so nothing in it matches {note.pattern}"
        if text := pattern_flaw(title, note.pattern):
            return text
    if not topic and (note.subscription or note.durable or note.shared or note.no_local):
        return f"{title} is a queue: subscriptions, durable, shared and no_local are for topics"
    if topic and note.exclusive:
        return f"{title} is a topic: exclusive is for queues"
    if (note.durable or note.shared) and not note.subscription:
        return "a durable or shared subscription needs a name"
    if note.durable and not note.shared and not note.client_id:
        return "a durable subscription that is not shared needs the client id of the session"
    return ""


def durable_key(client_id: str, name: str) -> str:
    """Return the key of a durable subscription."""
    return f"durable {client_id}/{name}"


def subscription_key(consumer: str, note: OpenConsumer) -> str:
    """Return the key of the subscription of a topic to which a consumer belongs."""
    if not note.subscription:
        return f"consumer {consumer}"
    if note.durable:
        return durable_key(note.client_id, note.subscription)
    return f"shared {note.client_id}/{note.subscription}"


def new_subscription(note: OpenConsumer, connection: AgentId) -> Subscription:
    """Return the subscription of a topic that a first consumer makes."""
    selector = compiled(note.selector)
    return Subscription(
        note.subscription,
        note.client_id,
        "" if selector is None else selector.text,
        note.durable,
        note.shared,
        connection if note.no_local else None,
        pattern=note.pattern,
    )


def conflict(known: Subscription, wanted: Subscription, title: str) -> str:
    """Return why a consumer cannot join a subscription that others have open, "" if it can."""
    if not known.consumers:
        return ""
    if not (known.shared and wanted.shared):
        who = f"subscription {known.name or 'of this consumer'} of {title} has a consumer already"
        return f"{who}; close it, or share the subscription from both"
    if (known.selector, known.pattern) != (wanted.selector, wanted.pattern):
        return f"subscription {known.name} of {title} is in use with another selector or other topics"
    return ""


def is_other(known: Subscription, wanted: Subscription) -> bool:
    """Return whether a subscription is another one under the same name, which begins anew."""
    return (known.selector, known.pattern, known.shared, known.without is None) != (
        wanted.selector,
        wanted.pattern,
        wanted.shared,
        wanted.without is None,
    )
