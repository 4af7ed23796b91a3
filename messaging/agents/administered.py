"""What administrators and programs may ask a destination: what it has, what waits, and to drop it."""

import attrs

from ...agents import FIRST_FREE_STAMP, Context, Notification, Pack, reacts
from .consuming import Consuming
from .destination_base import count_of, described
from .links import LinkState
from .protocol import Browse, Browsed, Reason
from .ranges import Range
from .settings import Kind
from .subscription import Subscription
from .transactions import AskVote, Commitment, Moved, Staged, transaction_key

__all__ = [
    "Administered",
    "DeliveryPaused",
    "Describe",
    "Described",
    "Move",
    "MoveIn",
    "PauseDelivery",
    "Purge",
    "Purged",
    "SubscriptionState",
]

BROWSED_MESSAGES = 500
BROWSED_BYTES = 256 * 1024
"""One answer to `Browse` has at most so much, but always one message if there is one."""
MOVED_MESSAGES = 1000
"""Messages that one `Move` moves at most."""
FORGOTTEN = frozenset(("dead_reason", "dead_origin", "dead_time", "dead_hops", "duplicate", "expires", "due"))
"""Columns that a message does not keep when it is moved."""
PURGED_MESSAGES = 10_000
"""Messages that one `Purge` drops at most."""


@attrs.frozen
class Describe(Notification, name="quorate.message.describe"):
    """Request for the state of a destination. Answered with `Described`."""


@attrs.frozen
class SubscriptionState:
    """A subscription in `Described`."""

    name: str
    client_id: str
    selector: str
    durable: bool
    shared: bool
    waiting: int
    """Messages that no consumer has."""
    in_hand: int
    """Messages that consumers have, or that are in transactions."""
    consumers: int
    pattern: str = ""
    """Of a tree: the topics whose messages it gets."""


@attrs.frozen
class Described(Notification, name="quorate.message.described"):
    """Answer to `Describe`. Of many subscriptions it has the first 1000."""

    kind: str
    title: str
    depth: int
    """Messages that are not done with."""
    size_bytes: int
    consumers: int
    producers: int
    blocked: int
    """Producers that wait for room."""
    transactions: int
    """Transactions that are not over."""
    received: int
    delivered: int
    accepted: int
    dead: int
    subscriptions: list[SubscriptionState]
    paused: bool = False
    replaced: int = 0
    links: list[LinkState] = attrs.field(factory=list[LinkState])
    """The ways to destinations of other servers."""


@attrs.frozen
class Purge(Notification, name="quorate.message.purge"):
    """Order of an administrator to drop messages that no consumer has. Answered with `Purged`."""


@attrs.frozen
class Purged(Notification, name="quorate.message.purged"):
    """Answer to `Purge`: so many were dropped now, and so many are left. Ask again until none is."""

    dropped: int
    left: int


@attrs.frozen
class PauseDelivery(Notification, name="quorate.message.pause-delivery"):
    """Order of an administrator: give nothing to consumers, or go on. Answered with `DeliveryPaused`."""

    paused: bool


@attrs.frozen
class DeliveryPaused(Notification, name="quorate.message.delivery-paused"):
    """Answer to `PauseDelivery`."""

    paused: bool
    waiting: int
    """Messages that no consumer has."""


@attrs.frozen
class Move(Notification, name="quorate.message.move"):
    """Order of an administrator to move messages that no consumer has to another queue, the oldest first.

    Answered with `Moved`, which may have moved fewer; ask again until it is none. Or with `Refused`.
    """

    to: str
    """The address of the other queue."""
    most: int


@attrs.frozen
class MoveIn(Notification, name="quorate.message.move-in"):
    """Messages that another queue moves here, in a transaction of its own."""

    transaction: int
    pack: Pack


@attrs.define
class Administered(Consuming):
    """A destination for administrators and browsers."""

    @reacts
    def describe(self, ctx: Context, _: Describe) -> None:
        """Answer with the state of the destination."""
        states = [
            SubscriptionState(
                each.name,
                each.client_id,
                each.selector,
                each.durable,
                each.shared,
                each.waiting,
                each.in_hand,
                len(each.consumers),
                each.pattern,
            )
            for each in list(self.subscriptions.values())[:1000]
        ]
        answer = Described(
            self.kind,
            self.title,
            self.depth,
            self.log.size_bytes,
            len(self.places),
            len(self.producers.open),
            len(self.producers.blocked),
            len(self.staged),
            self.received,
            self.delivered,
            self.accepted,
            self.dead,
            states,
            self.paused,
            self.replaced,
            self._link_states(),
        )
        ctx.send(ctx.reply_to, answer)

    def figures(self) -> dict[str, int]:
        """Return what the destination has and has done, in numbers."""
        return {
            "messages": self.depth,
            "bytes": self.log.size_bytes,
            "consumers": len(self.places),
            "producers": len(self.producers.open),
            "blocked_producers": len(self.producers.blocked),
            "subscriptions": len(self.subscriptions) if self.kind == Kind.TOPIC else 0,
            "received": self.received,
            "delivered": self.delivered,
            "accepted": self.accepted,
            "dead": self.dead,
            "paused": int(self.paused),
        }

    def _link_states(self) -> list[LinkState]:
        """Return the ways to destinations of other servers."""
        return []

    @reacts
    def purge(self, ctx: Context, _: Purge) -> None:
        """Drop messages that no consumer has: the oldest of each subscription."""
        if ctx.sender.stamp >= FIRST_FREE_STAMP:
            raise PermissionError(f"only administrators purge {self.kind} {self.title}: use `quorate queue`")
        left = PURGED_MESSAGES
        for subscription in self.subscriptions.values():
            while left > 0 and (oldest := subscription.oldest(left)):
                found = [each for first, end in oldest for each in subscription.remove(self.log, first, end)]
                left -= count_of(found)
                self._done(subscription, found)
        waiting = sum([each.waiting for each in self.subscriptions.values()])
        ctx.send(ctx.reply_to, Purged(PURGED_MESSAGES - left, waiting))
        self._later(ctx)

    @reacts
    def pause_delivery(self, ctx: Context, note: PauseDelivery) -> None:
        """Stop giving messages to consumers, or go on. Producers are not concerned."""
        self._check_administrator(ctx, "pause")
        self.paused = note.paused
        waiting = sum([each.waiting for each in self.subscriptions.values()])
        ctx.send(ctx.reply_to, DeliveryPaused(note.paused, waiting))
        self._later(ctx)

    def _check_administrator(self, ctx: Context, does: str) -> None:
        if ctx.sender.stamp >= FIRST_FREE_STAMP:
            raise PermissionError(f"only administrators {does} {self.kind} {self.title}")

    @reacts
    def move(self, ctx: Context, note: Move) -> None:
        """Move messages to another queue: all of them are there afterwards, or all of them here."""
        self._check_administrator(ctx, "move")
        subscription = self.subscriptions.get("")
        if subscription is None or not note.to.startswith(f"{Kind.QUEUE.value}:"):
            self._refuse(ctx, Reason.BAD_REQUEST, "messages are moved from one queue to another one")
            return
        if note.to == f"{self.kind}:{self.title}":
            self._refuse(ctx, Reason.BAD_REQUEST, f"queue {self.title} cannot move messages to itself")
            return
        self.moves += 1
        staged = Staged(ctx.agent, self.moves, parts=1, seen=False)
        parts: list[Pack] = []
        left, left_bytes = min(note.most, MOVED_MESSAGES), BROWSED_BYTES
        while left > 0 and left_bytes > 0 and (oldest := subscription.oldest(left)):
            found = [each for first, end in oldest for each in subscription.remove(self.log, first, end)]
            parts += [pack for _, pack in self.log.read(found)]
            staged.lock("", found)
            subscription.hold(found)
            left -= count_of(found)
            left_bytes -= sum([len(pack.data) for pack in parts[-len(found) :]])
        if not parts:
            ctx.send(ctx.reply_to, Moved(0))
            return
        pack = Pack.joined(parts)
        pack = pack.with_columns(**dict.fromkeys(FORGOTTEN & pack.columns.keys()))
        key = transaction_key(ctx.agent, self.moves)
        addresses = [f"{self.kind}:{self.title}", note.to]
        self.staged[key] = staged
        self.commitments[key] = Commitment(
            ctx.agent, self.moves, ctx.reply_to, addresses, len(addresses), moved=len(pack)
        )
        ctx.send(note.to, MoveIn(self.moves, pack))
        for address in addresses:
            ctx.send(address, AskVote(ctx.agent, self.moves, 1))

    @reacts
    def move_in(self, ctx: Context, note: MoveIn) -> None:
        """Stage messages that another queue moves here."""
        self._check_destination(ctx)
        staged = self._stage(ctx.sender, note.transaction)
        if self.kind == Kind.QUEUE:
            staged.stage(note.pack)
        else:
            staged.refuse(f"{self.title} is a topic")
        self._part(ctx, staged)

    @reacts
    def browse(self, ctx: Context, note: Browse) -> None:
        """Answer with copies of messages that wait, in the order of their numbers."""
        subscription = self.subscriptions.get("")
        if subscription is None:
            self._refuse(ctx, Reason.BAD_REQUEST, f"{self.title} is a topic: only queues can be browsed")
            return
        parts: list[Pack] = []
        number, left, left_bytes = note.after + 1, BROWSED_MESSAGES, BROWSED_BYTES
        while left > 0 and left_bytes > 0 and (found := _next_waiting(subscription, number, left)):
            for first, pack in self.log.read([found]):
                parts.append(described(subscription, first, pack))
                left_bytes -= len(pack.data)
            number = found[1]
            left -= found[1] - found[0]
        pack = Pack.joined(parts) if parts else Pack.of([])
        pack = pack.part(0, _within(pack, BROWSED_BYTES))
        ctx.send(ctx.reply_to, Browsed(pack))


def _next_waiting(subscription: Subscription, number: int, most: int) -> Range | None:
    """Return the first messages from `number` on that no consumer has, None if there are none."""
    sets = [subscription.delayed, subscription.groups.waiting, *subscription.ready.values()]
    firsts = [(first, each) for each in sets if (first := each.at_or_after(number)) is not None]
    if not firsts:
        return None
    first, ranges = min(firsts, key=lambda pair: pair[0])
    end = ranges.common(first, first + most)[0][1]
    others = [other for other, each in firsts if each is not ranges]
    return first, min([end, *others])


def _within(pack: Pack, most_bytes: int) -> int:
    """Return how many of the first messages have about so many bytes; one at least, if there is one."""
    count = 0
    for size in pack.sizes():
        most_bytes -= size
        if most_bytes < 0 and count:
            break
        count += 1
    return count
