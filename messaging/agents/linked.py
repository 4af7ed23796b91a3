"""A destination together with those of other servers: forwarding, clustered queues and clustered topics."""

import attrs

from ...agents import FIRST_CONNECTION_STAMP, ColumnValue, Context, Notification, UnknownAgent, reacts
from .administered import Administered
from .destination_base import count_of, described
from .links import RETRY_S, Link, LinkState, Pull
from .protocol import (
    CloseConsumer,
    Confirmed,
    ConsumerClosed,
    ConsumerOpened,
    Deliver,
    Flow,
    OpenConsumer,
    OpenProducer,
    ProducerOpened,
    Publish,
    Reason,
    Refused,
    Rejected,
    Settle,
    Settlement,
)
from .ranges import Range, flat
from .settings import Kind
from .subscription import Consumer, Subscription
from .topic_tree import REST

__all__ = ["Linked"]

MAX_HOPS = 8
"""How often a message is forwarded from one destination to the next."""


@attrs.frozen
class Retry(Notification, name="quorate.message.retry"):
    """A destination's timer: look again for others that did not exist."""


@attrs.define
class Linked(Administered):
    """A destination for other destinations.

    Here it is their client: it has producers, called links, and consumers, called pulls.
    """

    links: dict[str, Link] = attrs.field(factory=dict[str, Link])
    """By the addresses of the other destinations."""
    pulls: dict[str, Pull] = attrs.field(factory=dict[str, Pull])
    """By selector and address of the other member."""
    numbers: int = 0
    """Producers and consumers at other destinations so far."""
    retrying: bool = False
    """A timer is set to look again for others."""

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        topic = self.kind == Kind.TOPIC
        members = self.settings.peers if topic else ()
        for title in (*members, *([self.settings.forward] if self.settings.forward else [])):
            target = f"{self.kind}:{title}"
            if target not in self.links:
                link = Link(target, f"link {target}" if topic else "", title in members)
                self.links[target] = link
                if topic:
                    pattern = f"{self.title}.{REST}" if self.settings.tree else ""
                    own = Subscription(title, durable=True, member=link.member, pattern=pattern)
                    self.subscriptions[link.place] = own
                consumer = Consumer(None, 0, "", 0, 0)
                self.subscriptions[link.place].join(link.consumer, consumer, exclusive=False)

    def _link_states(self) -> list[LinkState]:
        forwards = [
            LinkState(each.target, "forwards", each.moved, each.unconfirmed, each.problem)
            for each in self.links.values()
        ]
        fetches = [
            LinkState(each.peer, "fetches", each.moved, each.window, each.problem)
            for each in self.pulls.values()
        ]
        return forwards + fetches

    # What goes to others

    def _prepare_links(self, ctx: Context) -> None:
        """Open links for which something waits, and set how much each may carry."""
        for link in self.links.values():
            subscription = self.subscriptions[link.place]
            if not link.number and not link.problem and subscription.waiting:
                self.numbers += 1
                link.opening(self.numbers)
                problem = self._ask(ctx, link.target, OpenProducer(link.number, peer=link.member))
                if problem:
                    link.closed(problem)
            consumer = subscription.consumers[link.consumer]
            consumer.number = link.number
            consumer.window = consumer.unsettled.count + link.room
            consumer.window_bytes = consumer.unsettled_bytes + max(link.credit_bytes - link.sent_bytes, 0)

    def _forward(self, ctx: Context, number: int, ranges: list[Range]) -> None:
        """Send messages on their way, which a link has got from its subscription."""
        link = self._link(number)
        assert link is not None
        subscription = self.subscriptions[link.place]
        for first, pack in list(self.log.read(ranges)):
            count = len(pack)
            hops = [each + 1 if isinstance(each, int) else 1 for each in pack.column("hops")]
            over = max(hops) > MAX_HOPS and not link.member
            if over and count > 1:
                self._forward(ctx, number, [(each, each + 1) for each in range(first, first + count)])
                continue
            if over:
                consumer = subscription.consumers[link.consumer]
                lost = subscription.settled(self.log, consumer, [(first, first + count)])
                self._kill(ctx, subscription, lost, Reason.TOO_MANY_HOPS)
                continue
            sent = described(subscription, first, pack).without("number")
            sent = sent.with_columns(hops=list[ColumnValue](hops))
            serial = link.sending([(first, first + count)], len(sent.data))
            self.delivered += count
            ctx.send(link.target, Publish(link.number, serial, sent))

    def _ask(self, ctx: Context, address: str, request: Notification) -> str:
        """Send a request. Return why that cannot be, "" if it can: the configuration may lack the server."""
        try:
            ctx.send(address, request)
        except ValueError as error:
            self._retry(ctx)
            return str(error)
        return ""

    def _link(self, number: int) -> Link | None:
        return next((each for each in self.links.values() if each.number == number), None)

    @reacts
    def producer_opened(self, ctx: Context, note: ProducerOpened) -> None:
        """Learn that a link may send."""
        self._check_answer(ctx)
        link = self._link(note.producer)
        if link is not None:
            link.opened(note.credit_messages, note.credit_bytes)
            self._later(ctx)

    @reacts
    def confirmed(self, ctx: Context, note: Confirmed) -> None:
        """Learn that another destination has messages, and how many more it takes."""
        self._check_answer(ctx)
        link = self._link(note.producer)
        if link is not None:
            link.credit_messages, link.credit_bytes = note.credit_messages, note.credit_bytes
            subscription, taken = self._carried(link, link.confirmed(note.upto))
            moved = count_of(taken)
            link.moved += moved
            self.accepted += moved
            self._done(subscription, taken)
            self._later(ctx)

    @reacts
    def rejected(self, ctx: Context, note: Rejected) -> None:
        """Learn that another destination does not take messages: they are dead, unless the link had ended."""
        self._check_answer(ctx)
        link = self._link(note.producer)
        if link is None:
            return
        if note.reason == Reason.NOT_OPEN:
            self._link_failed(ctx, link, "")
            return
        subscription, lost = self._carried(link, link.taken_out(note.first, note.first + note.count))
        reason = Reason(note.reason) if note.reason in list(Reason) else Reason.REJECTED
        self._kill(ctx, subscription, lost, reason)
        self._later(ctx)

    def _carried(self, link: Link, ranges: list[Range]) -> tuple[Subscription, list[Range]]:
        """Take messages from the consumer of a link. Return its subscription, and what it had."""
        subscription = self.subscriptions[link.place]
        return subscription, subscription.settled(self.log, subscription.consumers[link.consumer], ranges)

    def _link_failed(self, ctx: Context, link: Link, problem: str) -> None:
        """End the producer of a link: what it carried returns to its place. A problem makes it wait."""
        subscription, back = self._carried(link, link.closed(problem))
        self._give_back(ctx, subscription, back, seen=False)
        self._later(ctx)

    # What comes from others

    def _fetch(self, ctx: Context) -> None:
        """Tell the other members of a clustered queue how many messages the consumers here have room for."""
        if self.kind != Kind.QUEUE or not self.settings.peers:
            return
        rooms: dict[str, int] = {}
        for each in self.subscriptions[""].consumers.values():
            if each.connection is not None and not each.peer:
                rooms[each.selector] = rooms.get(each.selector, 0) + each.room * (not self.paused)
        for selector in rooms:
            for title in self.settings.peers:
                address = f"{self.kind}:{title}"
                key = f"{address} {selector}"
                if key not in self.pulls:
                    self.pulls[key] = Pull(address, selector)
        for key, pull in list(self.pulls.items()):
            room = rooms.get(pull.selector)
            if pull.number:
                if room is not None and (wanted := pull.wanted(room)) is not None:
                    # Before what is settled: so the other member does not fill the room of before.
                    pull.window = wanted
                    ctx.send(pull.peer, Flow(pull.number, wanted))
                if pull.taken:
                    ctx.send(pull.peer, Settle(pull.number, Settlement.ACCEPTED, pull.taken))
                    pull.taken = []
                if room is None:
                    ctx.send(pull.peer, CloseConsumer(pull.number))
            elif room and not pull.problem:
                self.numbers += 1
                pull.number, pull.window = self.numbers, pull.wanted(room) or 0
                request = OpenConsumer(pull.number, pull.selector, pull.window, peer=True)
                if problem := self._ask(ctx, pull.peer, request):
                    pull.ended(problem)
            if room is None:
                # What is still under way is not taken: the other member keeps it.
                del self.pulls[key]

    def _pull(self, number: int) -> Pull | None:
        return next((each for each in self.pulls.values() if each.number == number), None)

    @reacts
    def deliver(self, ctx: Context, note: Deliver) -> None:
        """Take messages of another member of a clustered queue."""
        self._check_answer(ctx)
        pull = self._pull(note.consumer)
        if pull is None:
            return
        numbers = [(number, number + 1) for number in note.pack.column("number") if isinstance(number, int)]
        pull.taken += flat(numbers)
        pull.moved += len(numbers)
        self._take(ctx, note.pack.without("number"), travelled=True)
        self._later(ctx)

    @reacts
    def consumer_state(self, ctx: Context, note: ConsumerOpened | ConsumerClosed) -> None:
        """Learn what has become of a consumer at another member."""
        self._check_answer(ctx)
        pull = self._pull(note.consumer)
        if pull is not None and isinstance(note, ConsumerClosed):
            pull.ended("")
            self._later(ctx)
        elif pull is not None:
            pull.open = True

    # Failures

    @reacts
    def refused(self, ctx: Context, note: Refused) -> None:
        """Learn that another destination refuses what this one has asked for."""
        self._check_answer(ctx)
        ctx.log(f"{self.kind} {self.title}: another destination refuses: {note.text}")
        for link in self.links.values():
            if link.number and not link.open:
                self._link_failed(ctx, link, note.text)
        for pull in self.pulls.values():
            if pull.number and not pull.open:
                pull.ended(note.text)
        self._retry(ctx)

    def _lacking(self, ctx: Context, note: UnknownAgent) -> bool:
        """Learn that there is no such destination. Return whether it is one of those that belong here."""
        problem = f"there is no {note.agent.replace(':', ' ', 1)}"
        link = self.links.get(note.agent)
        if link is not None and link.number:
            self._link_failed(ctx, link, problem)
        pulls = [each for each in self.pulls.values() if each.peer == note.agent]
        for pull in pulls:
            pull.ended(problem)
        if link is None and not pulls:
            return False
        self._retry(ctx)
        return True

    def _retry(self, ctx: Context) -> None:
        if not self.retrying:
            self.retrying = True
            ctx.timer(RETRY_S, Retry())

    @reacts
    def retry(self, ctx: Context, _: Retry) -> None:
        """Look again for others that did not exist."""
        self.retrying = False
        for link in self.links.values():
            link.problem = ""
        for pull in self.pulls.values():
            pull.problem = ""
        self._later(ctx)

    @staticmethod
    def _check_answer(ctx: Context) -> None:
        if ctx.sender.stamp >= FIRST_CONNECTION_STAMP:
            raise PermissionError("only destinations answer destinations")
