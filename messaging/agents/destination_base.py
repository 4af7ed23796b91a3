"""What the parts of a destination share: its state, and what becomes of messages."""

from collections.abc import Iterable

import attrs

from ...agents import FIRST_CONNECTION_STAMP, Agent, AgentId, ColumnValue, Context, Notification, Pack, Rows
from ...agents.proxy import WatchConnection
from .arrivals import dated, keys_of, latest_of, runs_of
from .dead_letters import dead_letters
from .message_log import MessageLog, Share, Stored
from .producers import Producers
from .protocol import Reason, Refused
from .ranges import Range
from .settings import DestinationSettings, FullPolicy, Kind
from .subscription import Run, Subscription, compiled
from .topic_tree import matcher
from .transactions import Commitment, Staged

__all__ = ["DestinationBase", "Dispatch", "count_of", "described"]


@attrs.frozen
class Dispatch(Notification, name="quorate.message.dispatch"):
    """A destination's notification to itself: what the rest of the turn has brought is handled together."""


@attrs.define
class DestinationBase(Agent):
    """The state of a destination. `Destination` is the agent; its parts derive from each other."""

    kind: str
    """One of `Kind`."""
    title: str
    """Its name for people: ``orders``."""
    settings: DestinationSettings = attrs.field(factory=DestinationSettings)
    packs: Rows[int, Pack] = attrs.field(factory=Rows[int, Pack])
    shares: Rows[int, Share] = attrs.field(factory=Rows[int, Share])
    stored: Stored = attrs.field(factory=Stored)
    last: int = 0
    """The number of the last message."""
    subscriptions: dict[str, Subscription] = attrs.field(factory=dict[str, Subscription])
    """By their keys; a queue has one, under the key ""."""
    places: dict[str, str] = attrs.field(factory=dict[str, str])
    """By consumer: the key of its subscription."""
    producers: Producers = attrs.field(factory=Producers)
    connections: dict[AgentId, int] = attrs.field(factory=dict[AgentId, int])
    """Clients with producers or consumers here, and how many."""
    staged: dict[str, Staged] = attrs.field(factory=dict[str, Staged])
    """Transactions that are not over."""
    commitments: dict[str, Commitment] = attrs.field(factory=dict[str, Commitment])
    """Transactions that this destination was asked to commit, and that are not decided."""
    dispatch_ns: int = 0
    """The time of the entry for which a `Dispatch` is on its way, 0 if none is."""
    wake_ms: int = 0
    """When the timer fires, 0 without a timer."""
    timer: int = 0
    received: int = 0
    """Messages that were taken, in all."""
    delivered: int = 0
    """Messages that were given to consumers, in all, with those that were given again."""
    accepted: int = 0
    """Messages that were accepted, in all, by each subscription."""
    dead: int = 0
    """Messages that went to the dead message queue or were dropped, in all."""
    paused: bool = False
    """An administrator has stopped the delivery to consumers."""
    moves: int = 0
    """How often messages were moved from here to another queue."""
    replaced: int = 0
    """Messages of a last-value queue that a later one has replaced, in all."""
    keys: dict[str, int] = attrs.field(factory=dict[str, int])
    """Of a last-value queue: the latest message of each key, as long as it is not done with."""

    def __attrs_post_init__(self) -> None:
        if self.kind not in list(Kind):
            raise ValueError(f"kind is {self.kind!r}; give {', '.join(Kind)}")
        flaw = self.settings.flaw(self.kind)
        if flaw:
            raise ValueError(flaw)
        if self.kind == Kind.QUEUE and not self.subscriptions:
            self.subscriptions[""] = Subscription(durable=True, shared=True)

    # Messages

    @property
    def log(self) -> MessageLog:
        """The messages: rows beside the state, so that a backlog costs nothing but what is touched."""
        return MessageLog(self.packs, self.shares, self.stored)

    @property
    def depth(self) -> int:
        """How many messages are not done with: of a topic, with those that only some subscriptions need."""
        queue = self.subscriptions.get("") if self.kind == Kind.QUEUE else None
        return self.log.messages if queue is None else queue.pending

    def _take(self, ctx: Context, pack: Pack, *, travelled: bool = False, peer: bool = False) -> None:
        """Store messages, for all subscriptions to which they belong.

        travelled: they come from another destination, with their times and how often they were delivered.
        peer: from another member of the clustered topic.
        """
        now_ms = ctx.now_ns // 1_000_000
        self.received += len(pack)
        if self.settings.last_value and "key" in pack.columns:
            latest = latest_of(pack)
            self.replaced += len(pack) - len(latest)
            pack = pack.take(latest) if len(latest) < len(pack) else pack
        if not (travelled and "time" in pack.columns):
            pack = dated(pack, now_ms)
        first = self.last + 1
        if travelled and "deliveries" in pack.columns:
            pack = self._returned_before(first, pack)
        self.last += len(pack)
        runs = runs_of(pack, first)
        admitted = [
            (each, self._belonging(each, pack, first, runs))
            for each in self.subscriptions.values()
            if not (peer and each.member)
        ]
        left = sum([run.end - run.first for _, mine in admitted for run in mine])
        if not left:
            return
        self.log.append(first, pack, left)
        for subscription, mine in admitted:
            subscription.admit(self.log, mine, now_ms, grouped="group" in pack.columns)
        if self.settings.last_value:
            self._replace(first, pack)
        if self.settings.full == FullPolicy.DROP_OLDEST:
            self._make_room()

    def _returned_before(self, first: int, pack: Pack) -> Pack:
        """Note how often messages were delivered by another queue, and return the pack without it."""
        queue = self.subscriptions.get("")
        for number, deliveries in enumerate(pack.column("deliveries"), first):
            if queue is not None and isinstance(deliveries, int):
                queue.returns[number] = deliveries
        return pack.without("deliveries")

    def _replace(self, first: int, pack: Pack) -> None:
        """Drop what these messages, the first of which has the number `first`, replace."""
        for number, key in keys_of(first, pack):
            former = self.keys.get(key, number)
            self.keys[key] = max(former, number)
            if former != number:
                self._drop_replaced(min(former, number))

    def _drop_replaced(self, number: int) -> None:
        """Drop a message unless a consumer has it."""
        for subscription in self.subscriptions.values():
            found = subscription.remove(self.log, number, number + 1)
            self.replaced += count_of(found)
            self._done(subscription, found)

    def _belonging(self, subscription: Subscription, pack: Pack, first: int, runs: list[Run]) -> list[Run]:
        """Return which of the messages that arrive belong to a subscription."""
        without = subscription.without
        if without is not None and str(pack.columns.get("id", "")).startswith(f"{without}/"):
            return []
        chosen: list[int] | None = None
        if self.settings.tree:
            matches = matcher(subscription.pattern or self.title)
            subject = pack.columns.get("subject")
            if not isinstance(subject, list):
                if not matches(str(subject or self.title)):
                    return []
            else:
                chosen = [index for index, each in enumerate(subject) if matches(str(each or self.title))]
        selector = compiled(subscription.selector)
        if selector is not None:
            selected = selector.select(pack)
            chosen = selected if chosen is None else sorted({*chosen} & {*selected})
        if chosen is None:
            return runs
        return [
            run._replace(first=first + index, end=first + index + 1)
            for run in runs
            for index in chosen
            if run.first <= first + index < run.end
        ]

    def _done(self, subscription: Subscription, ranges: list[Range]) -> None:
        """A subscription is done with these messages."""
        subscription.forget(ranges)
        if self.keys:
            for first, pack in self.log.read(ranges):
                for number, key in keys_of(first, pack):
                    if self.keys.get(key) == number:
                        del self.keys[key]
        self.log.done(ranges)

    def _kill(self, ctx: Context, subscription: Subscription, ranges: list[Range], reason: Reason) -> None:
        """Move messages to the dead message queue, or drop them if there is none."""
        self.dead += count_of(ranges)
        if self.settings.dead_queue:
            for number, pack in self.log.read(ranges):
                self._bury(ctx, described(subscription, number, pack), reason)
        self._done(subscription, ranges)

    def _bury(self, ctx: Context, pack: Pack, reason: Reason) -> None:
        """Send messages to the dead message queue, but those that were in too many of them."""
        queue = self.settings.dead_queue
        letters = dead_letters(pack, reason, f"{self.kind}:{self.title}", ctx.now_ns // 1_000_000)
        if queue and letters is not None:
            ctx.send(f"{Kind.QUEUE.value}:{queue}", letters)

    def _give_back(
        self,
        ctx: Context,
        subscription: Subscription,
        ranges: list[Range],
        *,
        seen: bool,
        delay_ms: int = 0,
    ) -> None:
        now_ms = ctx.now_ns // 1_000_000
        back = subscription.give_back(self.log, ranges, self.settings, now_ms, seen=seen, delay_ms=delay_ms)
        for numbers, reason in (
            (back.undeliverable, Reason.UNDELIVERABLE),
            (back.expired, Reason.EXPIRED),
        ):
            if numbers:
                self._kill(ctx, subscription, [(each, each + 1) for each in numbers], reason)
        if self.settings.last_value:
            # What has come back may have been replaced meanwhile.
            for first, pack in list(self.log.read(ranges)):
                self._replace(first, pack)

    # Limits

    def _has_room(self) -> bool:
        return self.settings.full != FullPolicy.BLOCK or not self._full()

    def _full(self) -> bool:
        settings = self.settings
        return (0 < settings.max_messages <= self.depth) or (0 < settings.max_bytes <= self.log.size_bytes)

    def _fullness(self) -> str:
        return f"{self.kind} {self.title} is full: it has {self.depth} messages, {self.log.size_bytes} bytes"

    def _make_room(self) -> None:
        """Drop the oldest messages that no consumer has, until the destination is within its limits."""
        for subscription in self.subscriptions.values():
            while (excess := self._excess()) > 0:
                found = [
                    each
                    for first, end in subscription.oldest(excess)
                    for each in subscription.remove(self.log, first, end)
                ]
                if not found:
                    break
                self.dead += count_of(found)
                self._done(subscription, found)

    def _excess(self) -> int:
        """Return about how many messages there are above the limits."""
        settings, depth, size_bytes = self.settings, self.depth, self.log.size_bytes
        over = depth - settings.max_messages if settings.max_messages else 0
        if settings.max_bytes and size_bytes > settings.max_bytes:
            over = max(over, round((size_bytes - settings.max_bytes) / size_bytes * depth), 1)
        return over

    # Subscriptions and clients

    def _leave_subscription(self, place: str) -> None:
        """End a subscription that is not durable, when nobody needs it any more."""
        subscription = self.subscriptions[place]
        locked = any(place in staged.locked for staged in self.staged.values())
        if not (subscription.durable or subscription.consumers or locked):
            self._end_subscription(place)

    def _end_subscription(self, place: str) -> None:
        """End a subscription without consumers, with all its messages."""
        subscription = self.subscriptions.pop(place)
        left = [*subscription.delayed, *subscription.groups.waiting]
        for ready in subscription.ready.values():
            left += ready
        self._done(subscription, left)

    def _attach(self, ctx: Context) -> None:
        """Count a producer or consumer of a client, and learn when its connection ends."""
        client = ctx.sender
        if client not in self.connections and client.stamp >= FIRST_CONNECTION_STAMP:
            ctx.send(client, WatchConnection())
        self.connections[client] = self.connections.get(client, 0) + 1

    def _detach(self, client: AgentId) -> None:
        left = self.connections.get(client, 0) - 1
        if left > 0:
            self.connections[client] = left
        else:
            self.connections.pop(client, None)

    def _refuse(self, ctx: Context, reason: Reason, text: str) -> None:
        ctx.send(ctx.reply_to, Refused(reason.value, text))

    def _later(self, ctx: Context) -> None:
        """Deliver and confirm at the end of the turn: what comes in one input is handled together."""
        # A turn that was stopped loses the notification: a later entry sends another.
        if self.dispatch_ns != ctx.now_ns:
            self.dispatch_ns = ctx.now_ns
            ctx.send(ctx.agent, Dispatch())


def described(subscription: Subscription, number: int, pack: Pack) -> Pack:
    """Return a stored pack with the columns of a delivery; `number` is that of its first message."""
    numbers: list[ColumnValue] = list(range(number, number + len(pack)))
    returns = subscription.returns
    deliveries = [returns.get(each) for each in range(number, number + len(pack))] if returns else []
    if not any(deliveries):
        return pack.with_columns(number=numbers)
    return pack.with_columns(number=numbers, deliveries=list[ColumnValue](deliveries))


def count_of(ranges: Iterable[Range]) -> int:
    """Return how many numbers there are in ranges."""
    return sum([end - first for first, end in ranges])
