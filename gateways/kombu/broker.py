"""The connection of one `kombu.Connection`: blocking calls on a session, and what has come, in one line.

The session runs in the thread of the Quorate connection. `Broker` is called by the program's threads; what
its methods say of the loop is called there.
"""

import os
import socket
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final

import attrs

from ...agents import ColumnValue
from ...client import ConnectionClosed, NotPermitted, RequestTimeout, SessionSettings, connect
from ...client.connection_base import OTHER_PROCESS
from ...messaging.agents.administered import Described
from ...messaging.agents.protocol import Settlement
from ...messaging.client.blocking import outcome
from ...messaging.client.consumer import ConsumerOptions
from ...messaging.client.destinations import Destination, Queue, Topic
from ...messaging.client.errors import NoSuchDestination
from ...messaging.client.message import Message
from ..session import Done, GatewaySession, Pushing

__all__ = ["Broker", "BrokerOptions", "Place", "Source"]

MAX_OUTGOING: Final = 1000
MAX_OUTGOING_BYTES: Final = 8 * 1024 * 1024
"""With so much that no destination has confirmed, whoever sends more has to wait."""
MISSING_S: Final = 60.0
"""A name that is no queue is not asked for again for so long."""
MAX_MISSING: Final = 10_000
CLOSE_S: Final = 5.0
"""How long closing waits for what was sent, and for acknowledgements."""


@attrs.frozen(kw_only=True)
class BrokerOptions:
    """The `transport_options` of this transport. Others are those of Kombu and Celery."""

    tree: str = "kombu"
    """The tree of topics that exchanges are in."""
    request_timeout_s: float = 30.0
    """How long a call waits for the server."""
    reconnect_timeout_s: float = 120.0
    """How long a master is looked for before the connection ends."""
    confirm: bool = True
    """Whether sending a persistent message waits until its destination has it."""
    transient_ttl_s: float = 60.0
    """How long what is published to an exchange with delivery mode 1 waits for consumers that do not read."""


@attrs.frozen
class Place:
    """Where a queue gets messages from."""

    destination: Destination
    options: ConsumerOptions


class Source:
    """A consumer of one place, with as many unsettled messages as it may have. Lives in the loop."""

    def __init__(self, broker: "Broker", place: Place, arrived: "Callable[[Source, Message], None]") -> None:
        self.place = place
        self.cancelled = False
        self.unsettled = 0
        self._limit = 0
        self._broker = broker
        self._arrived = arrived
        self.pushing = Pushing(broker.session, place.destination, self._deliver, broker.failed, credit=0)

    def limit(self, unsettled: int) -> None:
        """Let so many messages be unsettled."""
        self._limit = unsettled
        self.pushing.give(max(0, unsettled - self.unsettled))

    def _deliver(self, message: Message) -> None:
        self.unsettled += 1
        self._arrived(self, message)

    def settle(self, number: int, settlement: Settlement) -> None:
        """Settle a message, and have the next one delivered."""
        self._broker.session.settle(self.pushing, (number,), settlement, "")
        self.unsettled -= 1
        if not self.cancelled:
            self.limit(self._limit)
        elif not self.unsettled:
            self.close()

    def cancel(self) -> None:
        """Get nothing any more. What the program has it may still settle; the consumer ends with the last."""
        self.cancelled = True
        self.limit(0)
        if not self.unsettled:
            self.close()

    def close(self) -> None:
        """End the consumer. What is not settled returns."""
        self._broker.session.unsubscribe(self.pushing, lambda _: None)


class Broker:
    """A connection to a server, for one `kombu.Connection`."""

    def __init__(
        self,
        url: str,
        user: str | None,
        password: str | None,
        timeout_s: float | None,
        options: BrokerOptions,
    ) -> None:
        """Connect. Raises what `connect` raises."""
        self.options = options
        self._pid = os.getpid()
        self._changed = threading.Condition()
        self._ready: deque[tuple[Source, Message]] = deque()
        self._error: Exception | None = None
        self._room = threading.Condition()
        self._outgoing = self._outgoing_bytes = 0
        self._refused: BaseException | None = None
        """Why a message was not taken for which nobody waited."""
        self._missing: OrderedDict[str, float] = OrderedDict()
        """Names that are no queues, with the time at which they are asked for again. In the loop."""
        self._connection = connect(
            url,
            user=user,
            password=password,
            timeout=timeout_s,
            reconnect_timeout=options.reconnect_timeout_s,
            settings=SessionSettings(inbox_notes=0),
        )
        self._wake, self._woken = socket.socketpair()
        self._wake.setblocking(False)
        self._woken.setblocking(False)
        self._signalled = False
        self.session = GatewaySession(self._connection)
        self._call(self._watch, "the connection is not open")

    def _watch(self, done: Done) -> None:
        self.session.on_end(self.failed)
        done(None)

    # Of the program's threads

    @property
    def connected(self) -> bool:
        """Whether calls are possible: not after the connection has ended, nor in a fork of the process."""
        return self._error is None and os.getpid() == self._pid

    def fileno(self) -> int:
        """Return what becomes readable when `next` has something."""
        return self._woken.fileno()

    def next(self, timeout_s: float | None) -> tuple[Source, Message] | None:
        """Return what has come next, None if nothing does in time. Raises what has ended the connection."""
        self._check()
        with self._changed:
            if not self._changed.wait_for(lambda: self._ready or self._error, timeout_s):
                self._quiet()
                return None
            if self._error is not None:
                raise self._error
            found = self._ready.popleft()
            if not self._ready:
                self._quiet()
            return found

    def open(self, source: Source) -> None:
        """Open a consumer. Raises what the destination refuses."""
        place = source.place
        self._call(
            lambda done: self.session.subscribe(source.pushing, place.options, done),
            f"{place.destination} has not answered",
            place.destination,
        )

    def limit(self, sources: list[Source], unsettled: int) -> None:
        """Let each of these consumers have so many messages unsettled."""

        def limit() -> None:
            for source in sources:
                source.limit(unsettled)

        self._run(limit)

    def settle(self, source: Source, number: int, settlement: Settlement) -> None:
        """Settle a message that `next` has returned. Raises what has ended its consumer."""
        self._check()
        if source.pushing.core.error is not None:
            raise source.pushing.core.error
        self._run(lambda: source.settle(number, settlement))

    def cancel(self, sources: list[Source]) -> None:
        """End consumers when all is settled that the program has got from them."""
        self._check()

        def cancel(done: Done) -> None:
            gone = set(sources)
            with self._changed:
                released = [each for each in self._ready if each[0] in gone]
                self._ready = deque(each for each in self._ready if each[0] not in gone)
            for source, message in released:
                source.settle(message.number, Settlement.RELEASED)
            for source in sources:
                source.cancel()
            done(None)

        self._call(cancel, "the consumer was not cancelled")

    def close_sources(self, sources: list[Source]) -> None:
        """End consumers. What is not settled returns."""

        def close() -> None:
            for source in sources:
                source.close()

        if self.connected:
            self._run(close)

    def drain(self, source: Source) -> None:
        """Wait until all has come that a destination has for a consumer."""
        self._call(source.pushing.drain, f"{source.place.destination} has not answered")

    def end_durable(self, place: Place) -> None:
        """End the durable subscription of a place."""
        assert isinstance(place.destination, Topic)
        topic, options = place.destination, place.options
        self._call(
            lambda done: self.session.end_durable(topic, options.durable, options.client_id, done),
            f"{topic} has not answered",
        )

    def depth(self, queue: Queue) -> int:
        """Return how many messages a queue has, 0 for users that may not know. Raises NoSuchDestination."""
        found: list[int] = []

        def describe(done: Done) -> None:
            def read(described: Described) -> None:
                found.append(described.depth)
                done(None)

            self.session.describe(queue, read, done)

        try:
            self._call(describe, f"{queue} has not answered")
        except NotPermitted:
            return 0
        return found[0]

    def publish(
        self, places: list[Destination], data: bytes, columns: dict[str, ColumnValue], *, wait: bool
    ) -> None:
        """Send a message to the first of the places that there is.

        wait: until it has the message. Otherwise the next call raises why it was refused.
        """
        self._check()
        size = len(data)
        with self._room:
            room = self._room.wait_for(lambda: self._has_room(size), self.options.request_timeout_s)
            refused, self._refused = self._refused, None
            if refused is not None:
                raise refused
            if not room:
                raise RequestTimeout(f"{places[0]} is full, or away; the message was not sent")
            self._outgoing += 1
            self._outgoing_bytes += size
        waiting: Future[None] | None = Future() if wait else None

        def over(error: BaseException | None) -> None:
            with self._room:
                self._outgoing -= 1
                self._outgoing_bytes -= size
                if error is not None and waiting is None:
                    self._refused = error
                self._room.notify_all()
            if waiting is not None:
                _complete(waiting, error)

        try:
            self._run(lambda: self._send(deque(places), data, columns, over))
        except ConnectionClosed as error:
            over(None)
            raise error from None
        if waiting is not None:
            self._outcome(waiting, f"{places[0]} has not confirmed the message", places[-1])

    def _has_room(self, size: int) -> bool:
        empty = not self._outgoing
        within = self._outgoing < MAX_OUTGOING and self._outgoing_bytes + size <= MAX_OUTGOING_BYTES
        return empty or within or self._refused is not None

    def close(self) -> None:
        """End the connection, when all was confirmed or after 5 s."""
        if os.getpid() != self._pid:
            return
        with self._room:
            self._room.wait_for(lambda: not self._outgoing or not self.connected, CLOSE_S)
        self._connection.close(CLOSE_S)
        with self._changed:
            self._signalled = True
            self._wake.close()
            self._woken.close()

    def _check(self) -> None:
        if os.getpid() != self._pid:
            raise ConnectionClosed(OTHER_PROCESS)
        if self._error is not None:
            raise self._error

    def _run(self, job: Callable[[], None]) -> None:
        try:
            self.session.run(job)
        except RuntimeError:
            raise self._error or ConnectionClosed("the connection has ended") from None

    def _call(self, start: Callable[[Done], object], what: str, place: Destination | None = None) -> None:
        """Run a function in the loop, and return when it tells that it is done."""
        self._check()
        future: Future[None] = Future()

        def run() -> None:
            try:
                start(lambda error: _complete(future, error))
            except Exception as error:
                _complete(future, error)

        self._run(run)
        self._outcome(future, what, place)

    def _outcome(self, future: "Future[None]", what: str, place: Destination | None = None) -> None:
        try:
            outcome(future, self.options.request_timeout_s, what)
        except NoSuchDestination as error:
            if isinstance(place, Topic):
                raise NoSuchDestination(
                    f"there is no tree of topics {self.options.tree}, which exchanges need: declare "
                    f'<topic name="{self.options.tree}" tree="true"/> in a3servers.xml'
                ) from error
            raise

    def _quiet(self) -> None:
        """Make the descriptor unreadable. With the lock."""
        if self._signalled and self._error is None:
            self._signalled = False
            self._woken.recv(16)

    # In the loop

    def arrived(self, source: Source, message: Message) -> None:
        """Take a message for `next`."""
        with self._changed:
            self._ready.append((source, message))
            self._signal()

    def failed(self, error: BaseException) -> None:
        """Learn that the connection, or one of its consumers, has ended: the program has to connect again."""
        with self._changed:
            if self._error is None:
                self._error = error if isinstance(error, Exception) else ConnectionClosed(str(error))
            self._signal()
        with self._room:
            self._room.notify_all()

    def _signal(self) -> None:
        self._changed.notify_all()
        if not self._signalled:
            self._signalled = True
            self._wake.send(b"\0")

    def _send(
        self, places: deque[Destination], data: bytes, columns: dict[str, ColumnValue], done: Done
    ) -> None:
        place = places.popleft()
        if places and self._is_missing(place.title):
            place = places.popleft()

        def told(error: BaseException | None) -> None:
            if isinstance(error, NoSuchDestination) and places:
                self._missing[place.title] = time.monotonic() + MISSING_S
                if len(self._missing) > MAX_MISSING:
                    self._missing.popitem(last=False)
                self._send(places, data, columns, done)
            else:
                done(error)

        self.session.publish(place, data, columns, "", told)

    def _is_missing(self, title: str) -> bool:
        until = self._missing.get(title)
        if until is not None and until < time.monotonic():
            del self._missing[title]
        return title in self._missing


def _complete(future: "Future[None]", error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
