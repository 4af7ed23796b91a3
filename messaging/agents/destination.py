"""The agent of a queue or a topic."""

import attrs

from ...agents import AgentId, Context, ExceptionNotification, Notification, Pack, UnknownAgent, reacts
from ...agents.proxy import ConnectionEnded
from .administered import MoveIn
from .destination_base import Dispatch, described
from .linked import Linked
from .protocol import Deliver, Reason
from .transactions import AskVote

__all__ = ["Destination"]


@attrs.frozen
class Wake(Notification, name="quorate.message.wake"):
    """A destination's timer: messages are due or expire."""


@attrs.define
class Destination(Linked, name="quorate.destination"):
    """A queue, or a topic with its subscriptions.

    What waits is kept as ranges of numbers, so that a reaction costs what it touches.
    """

    @reacts
    def connection_ended(self, ctx: Context, _: ConnectionEnded) -> None:
        """End the producers, consumers and transactions of a client."""
        self._end_client(ctx, ctx.sender)

    @reacts
    def failed(self, ctx: Context, note: UnknownAgent | ExceptionNotification) -> None:
        """Learn that a client or a destination does not exist, or that it could not take something."""
        if isinstance(note, UnknownAgent) and note.agent.startswith("#"):
            self._end_client(ctx, AgentId.parse(note.agent))
        elif isinstance(note, UnknownAgent) and note.type == AskVote.type_name:
            waiting = [key for key, each in self.commitments.items() if note.agent in each.destinations]
            for key in waiting:
                self._voted(ctx, key, f"there is no {note.agent.replace(':', ' ', 1)}")
        elif isinstance(note, UnknownAgent):
            if not self._lacking(ctx, note) and note.type != MoveIn.type_name:
                ctx.log(f"{self.kind} {self.title}: there is no {note.agent}; what was for it is lost")
        else:
            ctx.log(f"{self.kind} {self.title}: {note.agent} failed on {note.type}: {note.message}")

    def _end_client(self, ctx: Context, client: AgentId) -> None:
        prefix = f"{client}/"
        for key in [each for each in self.places if each.startswith(prefix)]:
            self._close(ctx, key, None)
        for key in [each for each in self.producers.open if each.startswith(prefix)]:
            self._drop_producer(key)
        for key, staged in [each for each in self.staged.items() if each[1].client == client]:
            if staged.asker is None:
                del self.staged[key]
                self._finish(ctx, staged, commit=False)
            elif not staged.voted:
                # What is missing will never arrive.
                staged.refuse("the connection has ended before all of the transaction had arrived")
                self._vote(ctx, staged)
        self.connections.pop(client, None)

    @reacts
    def dispatch(self, ctx: Context, _: Dispatch) -> None:
        """Deliver what can be delivered, confirm what was taken, set the timer."""
        self.dispatch_ns = 0
        now_ms = ctx.now_ns // 1_000_000
        self._prepare_links(ctx)
        for subscription in self.subscriptions.values():
            expired = subscription.wake(self.log, now_ms)
            if expired:
                self._kill(ctx, subscription, expired, Reason.EXPIRED)
            if subscription.consumers and subscription.waiting and not self.paused:
                for consumer, ranges in subscription.dispatch(self.log):
                    if consumer.connection is None:
                        self._forward(ctx, consumer.number, ranges)
                        continue
                    parts = [described(subscription, *each) for each in self.log.read(ranges)]
                    pack = Pack.joined(parts)
                    self.delivered += len(pack)
                    ctx.send(consumer.connection, Deliver(consumer.number, pack))
        for connection, confirmed in self.producers.confirm(has_room=self._has_room()):
            ctx.send(connection, confirmed)
        self._fetch(ctx)
        self._arm(ctx)

    @reacts
    def wake(self, ctx: Context, _: Wake) -> None:
        """Make messages ready that are due, and end those that have expired."""
        self.timer = self.wake_ms = 0
        self._later(ctx)

    def _arm(self, ctx: Context) -> None:
        """Have one timer, for what is due or expires next."""
        times = [each for each in (sub.next_ms for sub in self.subscriptions.values()) if each is not None]
        next_ms = min(times, default=0)
        if next_ms == self.wake_ms:
            return
        if self.timer:
            ctx.cancel(self.timer)
            self.timer = 0
        self.wake_ms = next_ms
        if next_ms:
            self.timer = ctx.timer(max(0.001, next_ms / 1000 - ctx.now_ns / 1e9), Wake())
