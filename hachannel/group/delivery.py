"""Delivery of the channel's events to the application, in short time slices."""

import math
from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from twisted.internet.defer import Deferred

from ..model.errors import ProtocolError
from ..model.events import Deliver, Event, Stable
from .application import Application, Messages
from .context import MemberContext
from .handler import GroupError, GroupFailed, NotInGroup

__all__ = ["Delivery", "StableWaits"]

T = TypeVar("T")

MAX_UNDELIVERED = 512
"""Entries that may wait for the handler; with more, delivery goes on and reads from no socket meanwhile."""


class StableWaits(Generic[T]):
    """Tickets of entries that are delivered here, but that some member of the view may lack."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, T, int]] = deque()
        """(entry, ticket, index of the message)."""

    def add(self, entry: int, ticket: T, index: int) -> None:
        """Keep a ticket until all members hold its entry. Entries never decrease."""
        self._waiting.append((entry, ticket, index))

    def reached(self, upto: int) -> Iterator[tuple[T, int]]:
        """Remove the tickets of entries up to `upto` one by one, and yield each as (ticket, index)."""
        while self._waiting and self._waiting[0][0] <= upto:
            _, ticket, index = self._waiting.popleft()
            yield ticket, index

    def drop(self) -> list[tuple[T, int]]:
        """Remove all tickets and return them as (ticket, index)."""
        dropped, self._waiting = self._waiting, deque()
        return [(ticket, index) for _, ticket, index in dropped]


class Delivery:
    """The events of the channel that wait for the application, and the Deferreds that wait for messages."""

    def __init__(
        self,
        context: MemberContext,
        application: Application,
        on_event: Callable[[Event], None],
        fail: Callable[[GroupError], None],
    ) -> None:
        """on_event: handles an event that concerns no message. fail: stops this member."""
        self.events: deque[Event | Messages] = deque()
        """Events to deliver, oldest first; `Messages` are the rest of an entry."""
        self.applied = 0
        """The last entry of the channel that was delivered, at least in part."""
        self.awaited = 0
        """The last entry of another member, which waits to learn that it is committed; 0 if none does."""
        self.is_master = False
        """This member is the master of the view that the handler got last."""
        self._me = context.me
        self._channel = context.channel
        self._order = context.order
        self._now = context.now
        self._log = context.log
        self._application = application
        self._on_event = on_event
        self._fail = fail
        self._unstable: StableWaits[Deferred[int]] = StableWaits()
        self._stopped = False

    def run(self, until: float) -> bool:
        """Deliver until the time `until`. Return False if that has passed, even if no event is left."""
        events = self.events
        while events and not self._stopped:
            event = events.popleft()
            slice_end = until if len(events) < MAX_UNDELIVERED else math.inf
            if isinstance(event, Deliver):
                self._deliver_entry(event, slice_end)
            elif isinstance(event, Messages):
                self._deliver_messages(*event, slice_end)
            elif isinstance(event, Stable):
                self._on_stable(event.index)
            else:
                self._on_event(event)
            if self._now() > until and len(events) < MAX_UNDELIVERED:
                return False
        return True

    def _deliver_entry(self, event: Deliver, until: float) -> None:
        self.applied = event.index
        source = event.source
        if source is None:
            self._log(f"entry {event.index} was left out: no member has sent it")
            return
        if self.is_master and source.replica != self._me:
            self.awaited = event.index
        try:
            first, payloads = self._order.deliver(source, event.payload)
        except ProtocolError as error:
            self._log(f"entry {event.index} was left out: {error}")
            return
        except GroupFailed as error:
            self._fail(error)
            return
        self._deliver_messages(first, source.replica, payloads, until)

    def _deliver_messages(self, first: int, origin: int, payloads: list[bytes], until: float) -> None:
        rest = self._application.deliver(first, origin, payloads, until)
        if rest is not None:
            self.events.appendleft(rest)
        elif origin == self._me:
            self._fire_delivered()

    def _fire_delivered(self) -> None:
        """Fire the Deferreds of this member's messages that are delivered."""
        for done, index in self._order.delivered():
            if not done.called:
                done.callback(index)

    def installed(self, index: int) -> None:
        """Record that a state was installed; it contains all entries up to `index`."""
        self.applied = index
        # Some of this member's messages may be part of the state.
        self._fire_delivered()

    def until_stable(self, index: int) -> "int | Deferred[int]":
        """Return the index of a message just delivered, or a Deferred of it if some member may lack it.

        The entry or the state that was applied last contains the message.
        """
        if self.applied <= self._channel.stable:
            return index
        done: Deferred[int] = Deferred()
        self._unstable.add(self.applied, done, index)
        return done

    def _on_stable(self, upto: int) -> None:
        """Fire the Deferreds of entries that all members hold."""
        for done, index in self._unstable.reached(upto):
            if not done.called:
                done.callback(index)

    def stop(self) -> None:
        """Stop delivering; all Deferreds that still wait fail."""
        self._stopped = True
        self.events.clear()
        for done in self._order.drop():
            if not done.called:
                done.errback(NotInGroup("this member stopped before it saw the message committed"))
        for done, index in self._unstable.drop():
            if not done.called:
                done.errback(NotInGroup(f"this member stopped before all members had message {index}"))
