"""Messaging for the connections of foreign clients: producers by name, consumers that push, any transactions.

One session is one client. It runs in the loop of its connection, and keeps to what a foreign protocol needs:
outcomes are told to functions, and one connection has several transactions at a time.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final

from ..agents import ColumnValue, Pack
from ..client.connection_base import ConnectionBase
from ..client.frames import DEFAULT_MAX_FRAME
from ..messaging.agents.administered import Describe, Described
from ..messaging.agents.protocol import (
    DEFAULT_WINDOW_BYTES,
    Browse,
    Browsed,
    Flow,
    Refused,
    Settlement,
)
from ..messaging.client.consumer import ConsumerCore, ConsumerOptions
from ..messaging.client.destinations import Destination, Queue, Topic
from ..messaging.client.errors import MessageTooLarge, MessagingError
from ..messaging.client.message import Message
from ..messaging.client.producer import Outgoing, ProducerCore
from ..messaging.client.replies import Reply
from ..messaging.client.session_base import Ack, SessionBase

__all__ = ["Done", "GatewaySession", "Pushing"]

OVERHEAD: Final = 16
"""Bytes of a column besides its name and its value."""
ENVELOPE: Final = 2048
"""Bytes of the frame around a message."""
FEW: Final = 16
"""Credit of a client below which the window of its consumer follows it exactly."""
MAX_WINDOW: Final = 50_000
"""Messages that a client may have unsettled, whatever credit it gives."""
_BEYOND: Final = 2**62
"""A number that no message has."""
MAX_PRODUCERS: Final = 100
"""Destinations to which a client sends, beyond which producers are closed that have nothing to send."""

Done = Callable[[BaseException | None], None]
"""Is told how something has ended: None for well."""


class _Outcome:
    """A waiter that tells a function."""

    def __init__(self, done: Done) -> None:
        self._done = done
        self._over = False

    def done(self) -> bool:
        return self._over

    def set_result(self, result: Any, /) -> None:
        del result
        self._end(None)

    def set_exception(self, exception: BaseException, /) -> None:
        self._end(exception)

    def _end(self, error: BaseException | None) -> None:
        if not self._over:
            self._over = True
            self._done(error)


class _Made(_Outcome):
    """A waiter that tells a function its result."""

    def __init__(self, made: Callable[[Any], None], failed: Done) -> None:
        super().__init__(failed)
        self._made = made

    def set_result(self, result: Any, /) -> None:
        if not self._over:
            self._over = True
            self._made(result)


def _ignore(_: BaseException | None) -> None:
    pass


class Pushing:
    """A consumer that calls a function with each message, while it may; both settler and receiver."""

    def __init__(
        self,
        session: "GatewaySession",
        destination: Destination,
        deliver: Callable[[Message], bool | None],
        ended: Callable[[BaseException], None],
        credit: int | None = None,
    ) -> None:
        """deliver: returns False if the client does not want the message now. ended: is called when the
        destination ends the consumer. credit: see `give`; None: any number.
        """
        self.destination = destination
        self._session = session
        self.durable: tuple[str, str] | None = None
        """The client and the name of its durable subscription."""
        self._credit = credit
        self._window = 0
        self._window_bytes = 0
        self._outstanding = 0
        """Messages that were delivered, and are not settled."""
        self._outstanding_bytes = 0.0
        """Bytes of their bodies, as far as messages are of one size."""
        self._deliver = deliver
        self._ended = ended
        self._paused = False
        self._waiting = False
        self._closed = False
        self._running = False
        self._opened = False
        self.core = session.new_consumer(destination, self)

    def pause(self) -> None:
        """Deliver nothing: the client does not read."""
        self._paused = True

    def resume(self) -> None:
        """Deliver again."""
        self._paused = False
        self._next()

    def opened(self, error: BaseException | None) -> None:
        """Begin to deliver, once the consumer is open."""
        if error is None:
            self._opened = True
            self._fit()
            self._next()

    def give(self, credit: int) -> None:
        """Deliver so many messages from now on, then wait for the next call."""
        self._credit = credit
        if not credit and self._waiting:
            self._waiting = False
            self.core.cancel_receive(self)
        self._fit()
        self._next()

    def settled(self, count: int) -> None:
        """Learn that the client has settled messages."""
        left = max(0, self._outstanding - count)
        self._outstanding_bytes *= left / (self._outstanding or 1)
        self._outstanding = left
        if self._credit is not None and self._credit < FEW:
            self._fit()

    def _fit(self) -> None:
        """Have the destination send as many as the client can take: others may want the rest.

        What the client has and does not settle must not keep the rest away that it wants: only what is under
        way to it is bounded in bytes.
        """
        if self._credit is not None and self._opened:
            window = min(self._outstanding + self._credit, MAX_WINDOW)
            window_bytes = DEFAULT_WINDOW_BYTES
            while window_bytes < 2 * self._outstanding_bytes:
                window_bytes *= 2
            if (window, window_bytes) != (self._window, self._window_bytes):
                self._window, self._window_bytes = window, window_bytes
                self._session.resize(self, window, window_bytes)

    def drain(self, done: Done) -> None:
        """Tell `done` when no message waits for the credit that there is: it is used up, or none is left."""

        def again(error: BaseException | None) -> None:
            if error is None:
                self._session.probe(self, done)
            else:
                done(error)

        # A destination delivers in the turn after the one in which it learns of a window.
        self._session.probe(self, again)

    def close(self, done: Done) -> None:
        """Close the consumer. What is not settled returns to the destination."""
        self._closed = True
        self.core.close(_Outcome(done))

    def _next(self) -> None:
        """Deliver what has come, and wait for more."""
        if self._running:
            return
        self._running = True
        try:
            while not (self._paused or self._waiting or self._closed or self._credit == 0):
                if self.core.buffer:
                    self._take(self.core.buffer.popleft())
                else:
                    self._waiting = True
                    self.core.receive(self)
        finally:
            self._running = False

    def _take(self, message: Message) -> None:
        if self._deliver(message) is False:
            self._credit = 0
            self.core.buffer.appendleft(message)
            return
        self.core.saw(message.number)
        if self._credit is not None:
            self._credit -= 1
            self._outstanding += 1
            self._outstanding_bytes += len(message.data)
            if 2 * self._outstanding_bytes > self._window_bytes:
                self._fit()

    # As the receiver of the core

    def done(self) -> bool:
        """Return whether nothing is waited for."""
        return not self._waiting

    def set_result(self, message: Message, /) -> None:
        """Take a message."""
        self._waiting = False
        self._take(message)
        self._next()

    def set_exception(self, error: BaseException, /) -> None:
        """Take the end of the consumer."""
        self._waiting = False
        closed, self._closed = self._closed, True
        if not closed:
            self._ended(error)

    def settle(self, message: Message, settlement: Settlement, delay_ms: int = 0) -> None:
        """Messages are settled by their numbers."""
        del settlement, delay_ms
        raise MessagingError(f"{message!r} is settled by its number")


class GatewaySession(SessionBase):
    """The messaging of one foreign client."""

    def __init__(self, connection: ConnectionBase, max_frame: int = DEFAULT_MAX_FRAME) -> None:
        """max_frame: bytes of the largest frame of the connection."""
        super().__init__(connection, Ack.INDIVIDUAL)
        self._max_bytes = max_frame - ENVELOPE
        self._recent: OrderedDict[str, ProducerCore] = OrderedDict()
        """Producers by address, the one that was used last at the end."""
        self._numbers: dict[str, int] = {}
        """Of open transactions."""

    def run(self, job: Callable[[], None]) -> None:
        """Call a function in the loop soon. May be called in any thread.

        Raises RuntimeError, or does nothing, if the loop has ended with the connection.
        """
        self._hub.run(job)

    def on_end(self, ended: Callable[[Exception], None]) -> None:
        """Have a function called with the reason when the connection has ended. To be called in the loop."""
        extension = self._hub.extension
        extension.on_end(lambda: ended(extension.reason()))

    def new_consumer(self, destination: Destination, settler: Pushing) -> ConsumerCore:
        """Return a consumer that is not open."""
        core = ConsumerCore(self._hub, destination, settler)
        self._consumers.append(core)
        return core

    def publish(
        self,
        destination: Destination,
        data: bytes,
        columns: Mapping[str, ColumnValue],
        transaction: str,
        done: Done,
    ) -> None:
        """Send a message. `done` is told when the destination has it."""
        size = len(data) + sum(OVERHEAD + len(f"{name}{value}".encode()) for name, value in columns.items())
        if size > self._max_bytes:
            text = f"the message has {size} bytes with its headers; {self._max_bytes} are allowed"
            done(MessageTooLarge(text))
            return
        try:
            producer = self._producer(destination)
            producer.send(Outgoing(data, dict(columns), _Outcome(done), self._number(transaction)))
        except Exception as error:
            done(error)

    def _producer(self, destination: Destination, done: Done = _ignore) -> ProducerCore:
        address = destination.address
        found = self._known(destination)
        if found is not None:
            self._recent.move_to_end(address)
            return found
        made = self._recent[address] = self._producers[address] = ProducerCore(self._hub, destination)
        made.open(_Outcome(done))
        if len(self._recent) > MAX_PRODUCERS:
            self._close_idle()
        return made

    def _known(self, destination: Destination) -> ProducerCore | None:
        found = self._recent.get(destination.address)
        return found if found is not None and found.error is None else None

    def _close_idle(self) -> None:
        for address, producer in list(self._recent.items())[:-1]:
            if producer.idle:
                del self._recent[address], self._producers[address]
                producer.close(_Outcome(_ignore))
                return

    def subscribe(self, pushing: Pushing, options: ConsumerOptions, done: Done) -> None:
        """Open a consumer."""

        def opened(error: BaseException | None) -> None:
            done(error)
            pushing.opened(error)

        pushing.core.open(options, _Outcome(opened))

    def unsubscribe(self, pushing: Pushing, done: Done) -> None:
        """Close a consumer."""
        if pushing.core in self._consumers and not pushing.core.sent_parts:
            self._consumers.remove(pushing.core)
        pushing.close(done)

    def end_durable(self, topic: Topic, name: str, client_id: str, done: Done) -> None:
        """End a durable subscription."""
        self._unsubscribe(topic, name, _Outcome(done), client_id)

    def prepare(self, destination: Destination, done: Done) -> None:
        """Tell `done` whether messages can be sent to a destination."""
        if self._known(destination) is not None:
            done(None)
            return
        try:
            self._producer(destination, done)
        except Exception as error:
            done(error)

    def make_temporary(
        self, kind: type[Queue] | type[Topic], made: Callable[[Destination], None], failed: Done
    ) -> None:
        """Make a destination that lives until `delete_temporary`, or until the connection ends."""
        self._make_temporary(kind, "", _Made(made, failed))

    def delete_temporary(self, destination: Destination) -> None:
        """Delete a destination that `make_temporary` has made."""
        self._delete_temporary(destination)

    def resize(self, pushing: "Pushing", window: int, window_bytes: int) -> None:
        """Let a consumer have so many messages, and bytes of bodies, unsettled."""
        core = pushing.core
        if core.error is None and not self._hub.extension.ended:
            self._hub.extension.post(core.address, Flow(core.number, window, window_bytes))

    def probe(self, pushing: "Pushing", done: Done) -> None:
        """Tell `done` when all has come that the destination had for a consumer when this was called."""

        def answered(_: object) -> None:
            done(None)

        reply = Reply(answered, done, pushing.destination)
        request = Browse(_BEYOND)
        self._hub.extension.request(pushing.core.address, request, reply, (Browsed, Refused))

    def describe(self, destination: Destination, read: Callable[[Described], None], failed: Done) -> None:
        """Ask a destination for its counts."""
        reply = Reply(_Made(read, failed).set_result, failed, destination)
        self._hub.extension.request(destination.address, Describe(), reply, (Described,))

    def browse(self, queue: Destination, after: int, read: Callable[[Pack], None], failed: Done) -> None:
        """Read a page of copies of messages: those with numbers above `after`."""
        self._browse(queue, after, _Made(read, failed))

    def settle(
        self, pushing: Pushing, numbers: tuple[int, ...], settlement: Settlement, transaction: str
    ) -> None:
        """Settle messages: see `sync`. What an ended consumer had is settled by nobody."""
        if pushing.core.error is None:
            for number in numbers:
                pushing.core.settle(number, settlement, self._number(transaction))
            pushing.settled(len(numbers))

    def sync(self, done: Done) -> None:
        """Tell `done` when the server has all that was settled so far."""
        self._hub.acknowledged(_Outcome(done))

    def _number(self, transaction: str) -> int:
        if not transaction:
            return 0
        number = self._numbers.get(transaction)
        if number is None:
            number = self._numbers[transaction] = next(self._hub.transactions)
        return number

    def commit(self, transaction: str, done: Done) -> None:
        """Make all of a transaction take effect."""
        number = self._numbers.pop(transaction, None)
        if number is None:
            done(None)
            return
        self._commit_number(number, done)

    def _commit_number(self, number: int, done: Done) -> None:
        self._hub.flush()
        waiting = [each for each in self._recent.values() if each.error is None and not each.all_sent]
        if waiting:
            waiting[0].when_sent(lambda: self._commit_number(number, done))
            return
        parts = self._participants(number)
        self._send_commit(number, parts, _Outcome(done))

    def rollback(self, transaction: str, done: Done) -> None:
        """Give a transaction up."""
        number = self._numbers.pop(transaction, None)
        if number is not None:
            for producer in self._recent.values():
                producer.discard(number)
            self._hub.flush()
            self._end_transaction(number, self._participants(number))
        done(None)
