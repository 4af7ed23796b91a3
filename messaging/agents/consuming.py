"""The side of a destination that consumers see."""

import attrs

from ...agents import FIRST_CONNECTION_STAMP, AgentId, Context, Notification, reacts
from .consumer_rules import conflict, durable_key, flaw_of, is_other, new_subscription, subscription_key
from .destination_base import count_of
from .producers import key_of
from .protocol import (
    CloseConsumer,
    ConsumerClosed,
    ConsumerOpened,
    Flow,
    OpenConsumer,
    Reason,
    Settle,
    Settlement,
    Unsubscribe,
    Unsubscribed,
)
from .publishing import Publishing
from .ranges import Range, ranges_of
from .selector import SelectorError
from .settings import Kind
from .subscription import Consumer, Subscription, compiled
from .transactions import Staged

__all__ = ["Consuming"]


@attrs.frozen
class Scan(Notification, name="quorate.message.scan"):
    """A destination's timer: go on comparing messages with new selectors."""


@attrs.define
class Consuming(Publishing):
    """A destination for its consumers."""

    @reacts
    def open_consumer(self, ctx: Context, note: OpenConsumer) -> None:
        """Let a client consume."""
        key = key_of(ctx.sender, note.consumer)
        flaw = flaw_of(self.kind, self.title, note, tree=self.settings.tree)
        if key in self.places:
            self._refuse(ctx, Reason.IN_USE, f"consumer {note.consumer} of {ctx.sender} is open already")
            return
        if flaw:
            self._refuse(ctx, Reason.BAD_REQUEST, flaw)
            return
        if self.settings.owner not in (None, ctx.sender):
            text = f"{self.kind} {self.title} belongs to another connection, which alone consumes from it"
            self._refuse(ctx, Reason.NOT_ALLOWED, text)
            return
        if text := self._not_consumed(ctx, note):
            self._refuse(ctx, Reason.BAD_REQUEST, text)
            return
        try:
            selector = compiled(note.selector)
        except SelectorError as error:
            self._refuse(ctx, Reason.BAD_SELECTOR, str(error))
            return
        place = ""
        if self.kind == Kind.TOPIC:
            place = subscription_key(key, note)
            text = self._subscribe(place, new_subscription(note, ctx.sender))
            if text:
                self._refuse(ctx, Reason.IN_USE, text)
                return
            selector = None
        self._attach(ctx)
        self.places[key] = place
        ctx.send(ctx.reply_to, ConsumerOpened(note.consumer))
        text = "" if selector is None else selector.text
        consumer = Consumer(ctx.sender, note.consumer, text, note.window, note.window_bytes, peer=note.peer)
        if self.subscriptions[place].join(key, consumer, exclusive=note.exclusive):
            ctx.timer(0, Scan())
        self._later(ctx)

    def _not_consumed(self, ctx: Context, note: OpenConsumer) -> str:
        """Return why nobody consumes so here, on account of other servers; "" if it is possible."""
        if note.peer and (ctx.sender.stamp >= FIRST_CONNECTION_STAMP or not self.settings.peers):
            return f"{self.kind} {self.title} has no such member in its cluster"
        if self.kind == Kind.TOPIC:
            return ""
        if self.settings.forward:
            forward = self.settings.forward
            return f"queue {self.title} sends its messages on to {forward}; consume there"
        if note.exclusive and self.settings.peers:
            return f"queue {self.title} is clustered: no consumer can have it exclusively"
        return ""

    def _subscribe(self, place: str, wanted: Subscription) -> str:
        """Make a subscription unless there is one. Return why a consumer cannot have it, "" if it can."""
        known = self.subscriptions.get(place)
        if known is not None:
            text = conflict(known, wanted, self.title)
            if text:
                return text
            if not is_other(known, wanted):
                known.without = wanted.without
                return ""
            self._end_subscription(place)
        self.subscriptions[place] = wanted
        return ""

    @reacts
    def scan(self, ctx: Context, _: Scan) -> None:
        """Compare some more messages with new selectors."""
        going_on = [each for each in self.subscriptions.values() if each.scan(self.log)]
        if going_on:
            ctx.timer(0, Scan())
        self._later(ctx)

    @reacts
    def flow(self, ctx: Context, note: Flow) -> None:
        """Change the window of a consumer."""
        found = self._consumer(ctx.sender, note.consumer)
        if found is None and ctx.sender.stamp < FIRST_CONNECTION_STAMP:
            # Another member of a clustered queue, which this one does not know any more.
            text = f"consumer {note.consumer} is not open at {self.kind} {self.title}"
            ctx.send(ctx.sender, ConsumerClosed(note.consumer, Reason.NOT_OPEN.value, text))
        elif found is not None and note.window >= 0 and note.window_bytes > 0:
            found[1].window, found[1].window_bytes = note.window, note.window_bytes
            self._later(ctx)

    def _consumer(self, connection: AgentId, number: int) -> tuple[Subscription, Consumer] | None:
        key = key_of(connection, number)
        place = self.places.get(key)
        if place is None:
            return None
        subscription = self.subscriptions[place]
        return subscription, subscription.consumers[key]

    @reacts
    def settle(self, ctx: Context, note: Settle) -> None:
        """Do with messages what a consumer says."""
        ranges = ranges_of(note.ranges)
        staged = self._stage(ctx.sender, note.transaction) if note.transaction else None
        found = self._consumer(ctx.sender, note.consumer)
        if staged is not None:
            self._settle_later(staged, found, key_of(ctx.sender, note.consumer), note, ranges)
            self._part(ctx, staged)
        elif found is not None:
            subscription, consumer = found
            taken = subscription.settled(self.log, consumer, ranges)
            if note.settlement == Settlement.ACCEPTED:
                self.accepted += count_of(taken)
                self._done(subscription, taken)
            elif note.settlement == Settlement.REJECTED:
                self._kill(ctx, subscription, taken, Reason.REJECTED)
            else:
                seen = note.settlement != Settlement.RELEASED
                self._give_back(ctx, subscription, taken, seen=seen, delay_ms=max(0, note.delay_ms))
        self._later(ctx)

    def _settle_later(
        self,
        staged: Staged,
        found: tuple[Subscription, Consumer] | None,
        key: str,
        note: Settle,
        ranges: list[Range],
    ) -> None:
        """Lock accepted messages in a transaction, which cannot be committed if the consumer lacks one."""
        if found is None or note.settlement != Settlement.ACCEPTED:
            staged.refuse(f"consumer {note.consumer} is not open at {self.kind} {self.title}")
            return
        subscription, consumer = found
        taken = subscription.settled(self.log, consumer, ranges, keep=True)
        staged.lock(self.places[key], taken)
        if count_of(taken) < count_of(ranges):
            staged.refuse(f"consumer {note.consumer} does not have all messages that it accepts")

    @reacts
    def close_consumer(self, ctx: Context, note: CloseConsumer) -> None:
        """End a consumer: what it has not settled returns."""
        self._close(ctx, key_of(ctx.sender, note.consumer), ranges_of(note.seen))
        ctx.send(ctx.reply_to, ConsumerClosed(note.consumer))

    def _close(self, ctx: Context, key: str, seen: list[Range] | None) -> None:
        """End a consumer. `seen`: what the application has seen; None: unknown, which counts as all."""
        place = self.places.pop(key, None)
        if place is None:
            return
        subscription = self.subscriptions[place]
        consumer = subscription.leave(key)
        assert consumer is not None
        if consumer.connection is not None:
            self._detach(consumer.connection)
        if seen is None:
            seen = list(consumer.unsettled)
        known = subscription.settled(self.log, consumer, seen)
        unseen = subscription.settled(self.log, consumer, list(consumer.unsettled))
        self._give_back(ctx, subscription, unseen, seen=False)
        self._give_back(ctx, subscription, known, seen=True)
        self._leave_subscription(place)
        self._later(ctx)

    @reacts
    def unsubscribe(self, ctx: Context, note: Unsubscribe) -> None:
        """End a durable subscription."""
        place = durable_key(note.client_id, note.subscription)
        known = self.subscriptions.get(place)
        if known is None:
            text = f"{self.title} has no durable subscription {note.subscription} of {note.client_id!r}"
            self._refuse(ctx, Reason.NO_SUCH_SUBSCRIPTION, text)
        elif known.consumers:
            text = f"subscription {note.subscription} of {self.title} has a consumer; close it before"
            self._refuse(ctx, Reason.IN_USE, text)
        elif any(place in staged.locked for staged in self.staged.values()):
            text = f"messages of subscription {note.subscription} of {self.title} are in a transaction"
            self._refuse(ctx, Reason.IN_DOUBT, text)
        else:
            self._end_subscription(place)
            ctx.send(ctx.reply_to, Unsubscribed())
            self._later(ctx)
