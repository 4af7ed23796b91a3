"""The blocking face of messaging: ``with Session(connection) as session``."""

import concurrent.futures
import contextlib
import functools
import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Final, Self, TypeVar, cast

from ...agents import Pack
from ...client import Connection, QuorateClientError, RequestTimeout
from ...client.pending import Waiter
from ...client.time_limits import time_limit
from ..agents.protocol import Settlement
from .bodies import Body
from .consumer import ConsumerCore, ConsumerOptions
from .destinations import Destination, Queue, Topic, named
from .errors import MessagingError, SessionClosed
from .message import Message
from .producer import ProducerCore
from .session_base import Ack, Browser, MessageOptions, SessionBase, check_text

__all__ = ["Consumer", "Producer", "Session"]

T = TypeVar("T")
_log: Final = logging.getLogger("quorate.messaging")


class Session(SessionBase):
    """A session of a blocking connection, for one thread at a time.

    ack: when a received message counts as done with. transacted: what is sent and received takes effect with
    `commit`, all or nothing. client_id: names the owner of durable subscriptions. Leaving the ``with`` block
    closes the session; a transaction that was not committed is rolled back.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        ack: Ack = Ack.AUTO,
        transacted: bool = False,
        client_id: str = "",
        timeout: float | None = 30.0,
    ) -> None:
        """Open a session. `timeout`: seconds that each of its requests waits for the destination."""
        super().__init__(connection, ack, transacted, check_text("client_id", client_id))
        self._timeout_s = time_limit(timeout)

    def producer(self, destination: Destination | str) -> "Producer":
        """Return the producer for a destination; a text names a queue. Raises NoSuchDestination."""
        return Producer(self, self._producer(named(destination)))

    def _producer(self, destination: Destination) -> ProducerCore:
        self._check_open()
        core = self._producers.get(destination.address)
        if core is None or core.error is not None:
            core = ProducerCore(self._hub, destination)
            self._wait(core.open, f"{destination} has not answered")
            self._producers[destination.address] = core
        return core

    def send(self, destination: Destination | str, body: Body, **options: Any) -> None:
        """Send one message: see `Producer.send`."""
        self.producer(destination).send(body, **options)

    def consumer(
        self, destination: Destination | str, *, timeout_s: float | None = None, **options: Any
    ) -> "Consumer":
        """Open a consumer of a destination; a text names a queue.

        timeout_s: an iteration over the consumer ends when no message has come for so long; None: never.
        options: see `ConsumerOptions`: selector, window, durable, shared, no_local, exclusive.
        Raises NoSuchDestination, InvalidSelector, InUse, NotAllowed or MessagingError.
        """
        self._check_open()
        place = named(destination)
        asked = ConsumerOptions(client_id=self._client_id, **options)
        consumer = Consumer(self, place, asked, time_limit(timeout_s))
        self._consumers.append(consumer.core)
        return consumer

    def browse(self, queue: Destination | str) -> Iterator["Message"]:
        """Yield copies of the messages of a queue that no consumer has, in the order of their arrival.

        They stay where they are. Messages that come or go meanwhile may be missing. Raises NoSuchDestination.
        """
        self._check_open()
        place = named(queue)
        settler = Browser(place)
        after = 0
        while True:
            pack: Pack = self._wait(
                functools.partial(self._browse, place, after), f"{place} has not answered"
            )
            numbers = pack.column("number")
            for index, number in enumerate(numbers):
                assert isinstance(number, int)
                after = number
                yield Message(settler, pack, index, number)
            if not numbers:
                return

    def temporary_queue(self, server: str = "") -> Queue:
        """Make a queue that lives as long as the connection, which alone consumes from it.

        server: where it is made; the server of the connection unless given.
        """
        return cast("Queue", self._temporary(Queue, server))

    def temporary_topic(self, server: str = "") -> Topic:
        """Make a topic that lives as long as the connection, which alone consumes from it."""
        return cast("Topic", self._temporary(Topic, server))

    def _temporary(self, kind: Any, server: str) -> Any:
        self._check_open()
        return self._wait(
            functools.partial(self._make_temporary, kind, server), "no temporary destination was made"
        )

    def delete_temporary(self, destination: Destination) -> None:
        """Delete a temporary destination of this connection, with its messages."""
        self._check_open()
        self._hub.run(lambda: self._delete_temporary(destination))

    def request(
        self, destination: Destination | str, body: Body, *, timeout: float | None = None, **options: Any
    ) -> Message:
        """Send a message, and return the answer: see `reply`. options: see `MessageOptions`.

        Raises RequestTimeout if none comes in time, and what `Producer.send` raises.
        """
        self._check_open()
        if self._transacted:
            raise MessagingError("a transacted session sends with its commit, and gets no answer before")
        producer = self._producer(named(destination))
        if self._answers is None or self._answers.error is not None:
            queue = self.temporary_queue()
            self._wait(functools.partial(self._open_answers, queue), f"{queue} has not answered")
        asked = self._request_options(options)
        start = functools.partial(self._ask_by_message, producer, body, asked)
        try:
            return cast("Message", self._wait(start, f"{producer.destination}: no answer has come", timeout))
        finally:
            self._hub.run(lambda: self._forget_request(asked))

    def reply(self, message: Message, body: Body, **options: Any) -> None:
        """Send the answer to a message of `request`. Raises ValueError if the message wants none."""
        chosen = self._reply_options(message, options)
        assert message.reply_to is not None
        self.send(message.reply_to, body, **chosen)

    def recover(self) -> None:
        """Have all messages delivered again that the session has received and not settled."""
        self._check_open()
        self._wait(self._recover, "the messages were not returned")

    def commit(self, timeout: float | None = None) -> None:
        """Make all that was sent and received since the last commit take effect, at all destinations or none.

        Raises TransactionRolledBack if a destination has refused; nothing has happened then, and the messages
        are delivered again.
        """
        self._check_transacted()
        self._wait(self._commit, "the transaction was not committed", timeout)

    def rollback(self) -> None:
        """Give up all that was sent and received since the last commit."""
        self._check_transacted()
        self._wait(self._rollback, "the transaction was not rolled back")

    def acknowledge(self) -> None:
        """With Ack.CLIENT and Ack.DUPS_OK: accept all that the session has received so far."""
        self._check_open()
        if not self._transacted:
            self._accept_all()

    def sync(self, timeout: float | None = None) -> None:
        """Wait until the server has all messages and acknowledgements so far."""
        limit_s = self._timeout_s if timeout is None else time_limit(timeout)
        for core in list(self._producers.values()):
            self._wait(core.drain, f"{core.destination} has not confirmed all messages", limit_s)
        self._wait(self._hub.acknowledged, "the server has not acknowledged all", limit_s)

    def unsubscribe(self, topic: Topic | str, name: str) -> None:
        """End a durable subscription of this session's client id. Raises NoSuchSubscription or InUse."""
        self._check_open()
        place = Topic(topic) if isinstance(topic, str) else topic
        self._wait(lambda done: self._unsubscribe(place, name, done), f"{place} has not answered")

    def close(self) -> None:
        """Close the session: what was received and not settled is delivered again, to somebody."""
        if self._closed:
            return
        if self._transacted:
            with contextlib.suppress(QuorateClientError):
                self._wait(self._rollback, "the transaction was not rolled back")
        elif self._ack is Ack.DUPS_OK:
            self._accept_all()
        self._closed = True
        for consumer in self._consumers:
            self._forget_turn(consumer)
        for core in self._producers.values():
            with contextlib.suppress(QuorateClientError):
                self._wait(core.drain, "not all messages were confirmed")
        for endpoint in self._endpoints():
            with contextlib.suppress(QuorateClientError):
                self._wait(endpoint.close, f"{endpoint.destination} has not answered")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _wait(self, start: Callable[[Waiter], None], what: str, timeout_s: float | None = None) -> Any:
        """Run a function in the loop with a future, and return the future's outcome."""
        future: Future[Any] = Future()
        limit_s = self._timeout_s if timeout_s is None else timeout_s
        self._start(lambda: start(future), future)
        return outcome(future, limit_s, what)

    def _start(self, job: Callable[[], None], future: "Future[Any]") -> None:
        def run() -> None:
            try:
                job()
            except (QuorateClientError, TypeError, ValueError) as error:
                if not future.done():
                    future.set_exception(error)

        try:
            self._hub.run(run)
        except RuntimeError:
            # The loop ends with the connection.
            future.set_exception(self._hub.extension.reason())


def outcome(future: "Future[T]", limit_s: float | None, what: str) -> T:
    """Return the outcome of a future. Raises RequestTimeout; `what` says what has not happened."""
    try:
        return future.result(limit_s)
    except concurrent.futures.TimeoutError as error:
        if isinstance(error, QuorateClientError):
            raise
        raise RequestTimeout(f"{what} within {limit_s:g} s") from None


class Producer:
    """Sends messages to one destination."""

    def __init__(self, session: Session, core: ProducerCore) -> None:
        self._session = session
        self._core = core

    @property
    def destination(self) -> Destination:
        """Where the messages go."""
        return self._core.destination

    def send(self, body: Body, *, timeout: float | None = None, **options: Any) -> None:
        """Send a message, and wait until the destination has it.

        body: bytes, text, a dict, a list or a notification. options: see `MessageOptions`. In a transacted
        session, or with ``persistent=False``, it does not wait.
        Raises DestinationFull, MessageTooLarge or MessageRefused, and TypeError or ValueError, naming the
        argument. After RequestTimeout the message may still arrive.
        """
        asked = MessageOptions(**options)
        if not asked.persistent or self._session.transacted:
            self._queue(body, asked, None, timeout)
            return
        done: Future[None] = Future()
        self._queue(body, asked, done, timeout)
        outcome(done, self._limit_s(timeout), f"{self.destination} has not confirmed the message")

    def send_nowait(self, body: Body, *, timeout: float | None = None, **options: Any) -> None:
        """Send a message without waiting for the confirmation; it waits while too much is unsent.

        A message that the destination has refused is reported by the next call, or by `flush`.
        """
        self._queue(body, MessageOptions(**options), None, timeout)

    def flush(self, timeout: float | None = None) -> None:
        """Wait until the destination has all messages so far. Raises what it has refused."""
        core = self._core
        self._session._wait(core.drain, f"{self.destination} has not confirmed all messages", timeout)  # pyright: ignore[reportPrivateUsage]
        if core.failed is not None:
            failed, core.failed = core.failed, None
            raise failed

    def _queue(
        self, body: Body, options: MessageOptions, waiter: "Future[None] | None", timeout: float | None
    ) -> None:
        session = self._session
        session._check_open()  # pyright: ignore[reportPrivateUsage]
        outgoing = session._outgoing(self.destination, body, options, waiter)  # pyright: ignore[reportPrivateUsage]
        try:
            if self._core.full:
                what = f"{self.destination} gives no credit: it is full, or away; the message was not sent"
                session._wait(self._core.wait_for_room, what, timeout)  # pyright: ignore[reportPrivateUsage]
            self._core.send(outgoing)
        except BaseException as error:
            session._not_sent(outgoing, error)  # pyright: ignore[reportPrivateUsage]
            raise

    def _limit_s(self, timeout: float | None) -> float | None:
        return self._session._timeout_s if timeout is None else time_limit(timeout)  # pyright: ignore[reportPrivateUsage]


class Consumer:
    """Receives messages of one destination. Iterating over it yields one after the other."""

    def __init__(
        self, session: Session, destination: Destination, options: ConsumerOptions, timeout_s: float | None
    ) -> None:
        self._session = session
        self.destination = destination
        self._timeout_s = timeout_s
        self._turn: Message | None = None
        self._listener: threading.Thread | None = None
        self._stopping = threading.Event()
        self.core = ConsumerCore(session._hub, destination, self)  # pyright: ignore[reportPrivateUsage]
        session._wait(lambda opened: self.core.open(options, opened), f"{destination} has not answered")  # pyright: ignore[reportPrivateUsage]

    def receive(self, timeout: float | None = None) -> Message:
        """Return the next message. Raises RequestTimeout if none comes in time."""
        self._end_turn()
        message = self._next(time_limit(timeout))
        self._session._hand_over(self.core, message)  # pyright: ignore[reportPrivateUsage]
        return message

    def receive_nowait(self) -> Message | None:
        """Return the next message if one has come, otherwise None."""
        self._end_turn()
        try:
            message = self.core.buffer.popleft()
        except IndexError:
            if self.core.error is not None:
                raise self.core.error from None
            return None
        self._session._hand_over(self.core, message)  # pyright: ignore[reportPrivateUsage]
        return message

    def _next(self, limit_s: float | None) -> Message:
        session = self._session
        session._check_open()  # pyright: ignore[reportPrivateUsage]
        core = self.core
        try:
            return core.buffer.popleft()
        except IndexError:
            future: Future[Message] = Future()
        session._start(lambda: core.receive(future), future)  # pyright: ignore[reportPrivateUsage]
        try:
            return outcome(future, limit_s, "no message was received")
        except BaseException:
            # Only the loop knows whether a message came before the time was over.
            cancelled: Future[None] = Future()

            def cancel() -> None:
                core.cancel_receive(future)
                cancelled.set_result(None)

            session._start(cancel, cancelled)  # pyright: ignore[reportPrivateUsage]
            with contextlib.suppress(QuorateClientError):
                cancelled.result()
            if future.done() and future.exception() is None:
                return future.result()
            raise

    def __iter__(self) -> Iterator[Message]:
        """Yield messages until none has come for `timeout_s`, or the program has closed the session."""
        while True:
            try:
                message = self._next(self._timeout_s)
            except RequestTimeout:
                return
            except SessionClosed:
                return
            self._session._begin_turn(self.core, message)  # pyright: ignore[reportPrivateUsage]
            self._turn = message
            try:
                yield message
            except GeneratorExit:
                # The program has left the loop with break: it has handled the message. With an exception the
                # generator is closed later than the session, which returns the message.
                self._end_turn()
                raise
            self._end_turn()

    def _end_turn(self) -> None:
        turn, self._turn = self._turn, None
        if turn is not None:
            self._session._end_turn(self.core, turn)  # pyright: ignore[reportPrivateUsage]

    def listen(self, callback: Callable[[Message], object]) -> None:
        """Call `callback` with each message, in a thread of its own, one after the other.

        With Ack.AUTO a message whose call raises is delivered again. The exception is logged to the logger
        ``quorate.messaging``. Raises RuntimeError if the consumer has a listener.
        """
        if self._listener is not None:
            raise RuntimeError("the consumer has a listener; stop it before")
        self._stopping.clear()
        self._listener = threading.Thread(
            target=self._listen, args=(callback,), name="quorate-listener", daemon=True
        )
        self._listener.start()

    def stop_listening(self, timeout: float | None = None) -> None:
        """Stop to call the listener, and wait until its present call has returned."""
        limit_s = time_limit(timeout)
        listener, self._listener = self._listener, None
        if listener is None:
            return
        self._stopping.set()
        if listener is not threading.current_thread():
            listener.join(limit_s)
            if listener.is_alive():
                raise RequestTimeout(f"the listener has not returned within {limit_s:g} s")

    def _listen(self, callback: Callable[[Message], object]) -> None:
        session = self._session
        while not self._stopping.is_set():
            try:
                message = self._next(0.25)
            except RequestTimeout:
                continue
            except QuorateClientError:
                return
            session._begin_turn(self.core, message)  # pyright: ignore[reportPrivateUsage]
            failure: Exception | None = None
            try:
                callback(message)
            except Exception as error:
                failure = error
                _log.exception("the listener of %s failed on %r", self.destination, message)
            with contextlib.suppress(QuorateClientError):
                session._end_turn(self.core, message, failure)  # pyright: ignore[reportPrivateUsage]

    def settle(self, message: Message, settlement: Settlement, delay_ms: int = 0) -> None:
        """Settle a message: for `Message.ack` and `Message.reject`."""
        self._session._settle(self.core, message, settlement, delay_ms)  # pyright: ignore[reportPrivateUsage]

    def close(self) -> None:
        """Close the consumer: what was received and not settled is delivered again, to somebody."""
        self.stop_listening()
        self._session._forget_turn(self.core)  # pyright: ignore[reportPrivateUsage]
        self._session._wait(self.core.close, f"{self.destination} has not answered")  # pyright: ignore[reportPrivateUsage]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._end_turn()
        self._session._forget_turn(self.core, error)  # pyright: ignore[reportPrivateUsage]
        self.close()
