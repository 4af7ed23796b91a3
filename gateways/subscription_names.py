"""Where a durable subscription is, for clients that name it without its topic.

It is an agent: all replicas have it, and a new master finds it as it was.
"""

from typing import Final

import attrs

from ..agents import Agent, Context, Notification, reacts

__all__ = [
    "NAMES",
    "FindSubscription",
    "ForgetSubscription",
    "NameSubscription",
    "SubscriptionFound",
    "SubscriptionNames",
]

NAMES: Final = "quorate.subscription-names"
"""The name of the agent."""
MAX_NAMES: Final = 100_000


@attrs.frozen
class NameSubscription(Notification, name="quorate.message.name-subscription"):
    """Request to remember where a subscription is. Answered with where it was until now."""

    client_id: str
    subscription: str
    address: str
    """Of the topic."""


@attrs.frozen
class FindSubscription(Notification, name="quorate.message.find-subscription"):
    """Request for the topic of a subscription."""

    client_id: str
    subscription: str


@attrs.frozen
class SubscriptionFound(Notification, name="quorate.message.subscription-found"):
    """Answer to both."""

    address: str
    """Of the topic; empty: there is no such subscription."""
    refusal: str = ""
    """Why nothing was remembered."""


@attrs.frozen
class ForgetSubscription(Notification, name="quorate.message.forget-subscription"):
    """Order to forget a subscription that has ended."""

    client_id: str
    subscription: str


@attrs.define
class SubscriptionNames(Agent, name="quorate.message.subscription-names"):
    """Remembers topics by client and name of the subscription."""

    topics: dict[str, str] = attrs.field(factory=dict[str, str])

    @reacts
    def name(self, ctx: Context, note: NameSubscription) -> None:
        """Remember a subscription."""
        key = _key(note.client_id, note.subscription)
        before = self.topics.get(key, "")
        if not before and len(self.topics) >= MAX_NAMES:
            refusal = f"the server has {MAX_NAMES} durable subscriptions of foreign clients; end some"
            ctx.send(ctx.reply_to, SubscriptionFound("", refusal))
            return
        self.topics[key] = note.address
        ctx.send(ctx.reply_to, SubscriptionFound(before))

    @reacts
    def find(self, ctx: Context, note: FindSubscription) -> None:
        """Tell where a subscription is."""
        ctx.send(
            ctx.reply_to, SubscriptionFound(self.topics.get(_key(note.client_id, note.subscription), ""))
        )

    @reacts
    def forget(self, ctx: Context, note: ForgetSubscription) -> None:
        """Forget a subscription."""
        del ctx
        self.topics.pop(_key(note.client_id, note.subscription), None)


def _key(client_id: str, name: str) -> str:
    return f"{len(client_id)} {client_id} {name}"
