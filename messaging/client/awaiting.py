"""The face of messaging for coroutines of asyncio and Twisted: ``async with AsyncSession(connection)``."""

import contextlib
import functools
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from types import TracebackType
from typing import Any, Final, Self, cast

from ...agents import Pack
from ...client import QuorateClientError, RequestTimeout
from ...client.connection_base import AsyncIteration, ConnectionBase
from ...client.pending import Waiter
from ...client.time_limits import time_limit
from ..agents.protocol import Settlement
from .bodies import Body
from .consumer import ConsumerCore, ConsumerOptions
from .destinations import Destination, Queue, Topic, named
from .errors import MessagingError, SessionClosed
from .message import Message
from .producer import Outgoing, ProducerCore
from .session_base import Ack, Browser, MessageOptions, SessionBase, check_text

__all__ = ["AsyncConsumer", "AsyncProducer", "AsyncSession"]

_log: Final = logging.getLogger("quorate.messaging")


class _Settled:
    """What `Message.ack` returns: awaiting it waits until the server has the acknowledgement."""

    def __init__(self, session: "AsyncSession") -> None:
        self._session = session

    def __await__(self) -> Generator[Any, Any, None]:
        return self._session.sync().__await__()


class AsyncSession(SessionBase):
    """A session of a connection of asyncio or Twisted.

    The arguments are those of `Session`. All methods are coroutines of the connection's loop; under Twisted
    give them to ``Deferred.fromCoroutine``, or await them in a coroutine that was given to it.
    """

    def __init__(
        self,
        connection: AsyncIteration,
        *,
        ack: Ack = Ack.AUTO,
        transacted: bool = False,
        client_id: str = "",
        timeout: float | None = 30.0,
    ) -> None:
        """Open a session. `timeout`: seconds that each of its requests waits for the destination."""
        if isinstance(connection, ConnectionBase) and not isinstance(connection, AsyncIteration):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError("the connection is a blocking one; give it to quorate.messaging.Session")
        super().__init__(connection, ack, transacted, check_text("client_id", client_id))
        self._timeout_s = time_limit(timeout)

    def producer(self, destination: Destination | str) -> "AsyncProducer":
        """Return a producer, which is opened by its first message; a text names a queue."""
        self._check_open()
        return AsyncProducer(self, named(destination))

    async def send(self, destination: Destination | str, body: Body, **options: Any) -> None:
        """Send one message: see `AsyncProducer.send`."""
        await self.producer(destination).send(body, **options)

    def consumer(
        self, destination: Destination | str, *, timeout_s: float | None = None, **options: Any
    ) -> "AsyncConsumer":
        """Return a consumer, which is opened by its first use: ``async with``, ``async for`` or `receive`.

        timeout_s: an iteration ends when no message has come for so long; None: never.
        options: see `ConsumerOptions`: selector, window, durable, shared, no_local, exclusive.
        """
        self._check_open()
        asked = ConsumerOptions(client_id=self._client_id, **options)
        return AsyncConsumer(self, named(destination), asked, time_limit(timeout_s))

    async def browse(self, queue: Destination | str) -> AsyncIterator[Message]:
        """Yield copies of the messages of a queue that no consumer has, in the order of their arrival."""
        self._check_open()
        place = named(queue)
        settler, after = Browser(place), 0
        while True:
            start = functools.partial(self._browse, place, after)
            pack: Pack = await self._wait(start, f"{place} has not answered")
            numbers = pack.column("number")
            for index, number in enumerate(numbers):
                assert isinstance(number, int)
                after = number
                yield Message(settler, pack, index, number)
            if not numbers:
                return

    async def recover(self) -> None:
        """Have all messages delivered again that the session has received and not settled."""
        self._check_open()
        await self._wait(self._recover, "the messages were not returned")

    async def commit(self, *, timeout: float | None = None) -> None:
        """Make all that was sent and received since the last commit take effect, at all destinations or none.

        Raises TransactionRolledBack: see `Session.commit`.
        """
        self._check_transacted()
        await self._wait(self._commit, "the transaction was not committed", timeout)

    async def rollback(self) -> None:
        """Give up all that was sent and received since the last commit."""
        self._check_transacted()
        await self._wait(self._rollback, "the transaction was not rolled back")

    def acknowledge(self) -> None:
        """With Ack.CLIENT and Ack.DUPS_OK: accept all that the session has received so far."""
        self._check_open()
        if not self._transacted:
            self._accept_all()

    async def sync(self, *, timeout: float | None = None) -> None:
        """Wait until the server has all messages and acknowledgements so far."""
        for core in list(self._producers.values()):
            await self._wait(core.drain, f"{core.destination} has not confirmed all messages", timeout)
        await self._wait(self._hub.acknowledged, "the server has not acknowledged all", timeout)

    async def temporary_queue(self, server: str = "") -> Queue:
        """Make a queue that lives as long as the connection: see `Session.temporary_queue`."""
        return cast("Queue", await self._temporary(Queue, server))

    async def temporary_topic(self, server: str = "") -> Topic:
        """Make a topic that lives as long as the connection: see `Session.temporary_topic`."""
        return cast("Topic", await self._temporary(Topic, server))

    async def _temporary(self, kind: Any, server: str) -> Any:
        self._check_open()
        start = functools.partial(self._make_temporary, kind, server)
        return await self._wait(start, "no temporary destination was made")

    def delete_temporary(self, destination: Destination) -> None:
        """Delete a temporary destination of this connection, with its messages."""
        self._check_open()
        self._delete_temporary(destination)

    async def request(
        self, destination: Destination | str, body: Body, *, timeout: float | None = None, **options: Any
    ) -> Message:
        """Send a message, and return the answer: see `Session.request`."""
        self._check_open()
        if self._transacted:
            raise MessagingError("a transacted session sends with its commit, and gets no answer before")
        producer = await self.open_producer(named(destination))
        if self._answers is None or self._answers.error is not None:
            queue = await self.temporary_queue()
            await self._wait(functools.partial(self._open_answers, queue), f"{queue} has not answered")
        asked = self._request_options(options)
        start = functools.partial(self._ask_by_message, producer, body, asked)
        what = f"{producer.destination}: no answer has come"
        try:
            return cast("Message", await self._wait(start, what, timeout))
        finally:
            self._forget_request(asked)

    async def reply(self, message: Message, body: Body, **options: Any) -> None:
        """Send the answer to a message of `request`: see `Session.reply`."""
        chosen = self._reply_options(message, options)
        assert message.reply_to is not None
        await self.send(message.reply_to, body, **chosen)

    async def unsubscribe(self, topic: Topic | str, name: str) -> None:
        """End a durable subscription of this session's client id. Raises NoSuchSubscription or InUse."""
        self._check_open()
        place = Topic(topic) if isinstance(topic, str) else topic
        await self._wait(lambda done: self._unsubscribe(place, name, done), f"{place} has not answered")

    async def close(self) -> None:
        """Close the session: what was received and not settled is delivered again, to somebody."""
        if self._closed:
            return
        if self._transacted:
            with contextlib.suppress(QuorateClientError):
                await self._wait(self._rollback, "the transaction was not rolled back")
        elif self._ack is Ack.DUPS_OK:
            self._accept_all()
        self._closed = True
        for consumer in self._consumers:
            self._forget_turn(consumer)
        for core in self._producers.values():
            with contextlib.suppress(QuorateClientError):
                await self._wait(core.drain, "not all messages were confirmed")
        for endpoint in self._endpoints():
            with contextlib.suppress(QuorateClientError):
                await self._wait(endpoint.close, f"{endpoint.destination} has not answered")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def open_producer(self, destination: Destination) -> ProducerCore:
        """Return the producer of the session for a destination, opened. Raises NoSuchDestination."""
        self._check_open()
        core = self._producers.get(destination.address)
        if core is None or core.error is not None:
            core = self._producers[destination.address] = ProducerCore(self._hub, destination)
            await self._wait(core.open, f"{destination} has not answered")
        return core

    async def _wait(self, start: Callable[[Waiter], None], what: str, timeout_s: float | None = None) -> Any:
        """Call a function with a waiter, and return the waiter's outcome."""
        limit_s = self._timeout_s if timeout_s is None else time_limit(timeout_s)
        waiter, awaitable = self._hub.extension.waiter(limit_s, what)
        # What the program has asked for before goes first.
        self._hub.flush()
        start(waiter)
        return await awaitable


class AsyncProducer:
    """Sends messages to one destination."""

    def __init__(self, session: AsyncSession, destination: Destination) -> None:
        self._session = session
        self.destination = destination

    async def send(self, body: Body, *, timeout: float | None = None, **options: Any) -> None:
        """Send a message, and return when the destination has it: see `Producer.send`."""
        session = self._session
        asked = MessageOptions(**options)
        if not asked.persistent or session.transacted:
            await self._queue(body, asked, None, timeout)
            return
        limit_s = session._timeout_s if timeout is None else time_limit(timeout)  # pyright: ignore[reportPrivateUsage]
        what = f"{self.destination} has not confirmed the message"
        waiter, awaitable = session._hub.extension.waiter(limit_s, what)  # pyright: ignore[reportPrivateUsage]
        try:
            outgoing = await self._queue(body, asked, waiter, timeout)
        except Exception as error:
            # Otherwise its timer would report, later and to nobody, that the message was not confirmed.
            if not waiter.done():
                waiter.set_exception(error)
            await awaitable
            raise
        try:
            await awaitable
        except BaseException as error:
            session._not_sent(outgoing, error)  # pyright: ignore[reportPrivateUsage]
            raise

    async def send_nowait(self, body: Body, *, timeout: float | None = None, **options: Any) -> None:
        """Send a message without waiting for the confirmation: see `Producer.send_nowait`."""
        await self._queue(body, MessageOptions(**options), None, timeout)

    async def flush(self, *, timeout: float | None = None) -> None:
        """Wait until the destination has all messages so far. Raises what it has refused."""
        core = await self._session.open_producer(self.destination)
        what = f"{self.destination} has not confirmed all messages"
        await self._session._wait(core.drain, what, timeout)  # pyright: ignore[reportPrivateUsage]
        if core.failed is not None:
            failed, core.failed = core.failed, None
            raise failed

    async def _queue(
        self, body: Body, options: MessageOptions, waiter: Waiter | None, timeout: float | None
    ) -> Outgoing:
        session = self._session
        outgoing = session._outgoing(self.destination, body, options, waiter)  # pyright: ignore[reportPrivateUsage]
        try:
            core = await session.open_producer(self.destination)
            if core.full:
                what = f"{self.destination} gives no credit: it is full, or away; the message was not sent"
                await session._wait(core.wait_for_room, what, timeout)  # pyright: ignore[reportPrivateUsage]
            core.send(outgoing)
        except BaseException as error:
            session._not_sent(outgoing, error)  # pyright: ignore[reportPrivateUsage]
            raise
        return outgoing


class AsyncConsumer:
    """Receives messages of one destination. ``async for`` yields one after the other."""

    def __init__(
        self,
        session: AsyncSession,
        destination: Destination,
        options: ConsumerOptions,
        timeout_s: float | None,
    ) -> None:
        self._session = session
        self._options = options
        self._timeout_s = timeout_s
        self._turn: Message | None = None
        self._core: ConsumerCore | None = None
        self.destination = destination

    async def open(self) -> None:
        """Open the consumer, if it is not. Raises NoSuchDestination, InvalidSelector, InUse or NotAllowed."""
        await self._opened()

    async def _opened(self) -> ConsumerCore:
        if self._core is None:
            session = self._session
            session._check_open()  # pyright: ignore[reportPrivateUsage]
            core = self._core = ConsumerCore(session._hub, self.destination, self)  # pyright: ignore[reportPrivateUsage]
            what = f"{self.destination} has not answered"
            await session._wait(lambda opened: core.open(self._options, opened), what)  # pyright: ignore[reportPrivateUsage]
            session._consumers.append(core)  # pyright: ignore[reportPrivateUsage]
        return self._core

    async def receive(self, *, timeout: float | None = None) -> Message:
        """Return the next message. Raises RequestTimeout if none comes in time."""
        self._end_turn()
        core = await self._opened()
        message = await self._next(core, time_limit(timeout))
        self._session._hand_over(core, message)  # pyright: ignore[reportPrivateUsage]
        return message

    async def _next(self, core: ConsumerCore, limit_s: float | None) -> Message:
        self._session._check_open()  # pyright: ignore[reportPrivateUsage]
        if core.buffer:
            return core.buffer.popleft()
        extension = self._session._hub.extension  # pyright: ignore[reportPrivateUsage]
        waiter, awaitable = extension.waiter(limit_s, "no message was received")
        core.receive(waiter)
        message: Message = await awaitable
        return message

    async def __aiter__(self) -> AsyncIterator[Message]:
        """Yield messages until none has come for `timeout_s`, or the program has closed the session."""
        core = await self._opened()
        while True:
            try:
                message = await self._next(core, self._timeout_s)
            except (RequestTimeout, SessionClosed):
                return
            self._session._begin_turn(core, message)  # pyright: ignore[reportPrivateUsage]
            self._turn = message
            yield message
            self._end_turn()

    def _end_turn(self) -> None:
        turn, self._turn = self._turn, None
        if turn is not None and self._core is not None:
            self._session._end_turn(self._core, turn)  # pyright: ignore[reportPrivateUsage]

    async def listen(self, callback: Callable[[Message], Awaitable[object] | None]) -> None:
        """Call `callback` with each message, one after the other, until the consumer or session is closed.

        With Ack.AUTO a message whose call raises is delivered again. The exception is logged to the logger
        ``quorate.messaging``. Run it in a task of its own.
        """
        core = await self._opened()
        while True:
            try:
                message = await self._next(core, None)
            except SessionClosed:
                return
            self._session._begin_turn(core, message)  # pyright: ignore[reportPrivateUsage]
            failure: Exception | None = None
            try:
                found = callback(message)
                if found is not None:
                    await found
            except Exception as error:
                failure = error
                _log.exception("the listener of %s failed on %r", self.destination, message)
            self._session._end_turn(core, message, failure)  # pyright: ignore[reportPrivateUsage]

    def settle(self, message: Message, settlement: Settlement, delay_ms: int = 0) -> _Settled:
        """Settle a message: for `Message.ack` and `Message.reject`."""
        assert self._core is not None
        self._session._settle(self._core, message, settlement, delay_ms)  # pyright: ignore[reportPrivateUsage]
        return _Settled(self._session)

    async def close(self) -> None:
        """Close the consumer: what was received and not settled is delivered again, to somebody."""
        if self._core is not None:
            self._session._forget_turn(self._core)  # pyright: ignore[reportPrivateUsage]
            await self._session._wait(self._core.close, f"{self.destination} has not answered")  # pyright: ignore[reportPrivateUsage]

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._end_turn()
        if self._core is not None:
            self._session._forget_turn(self._core, error)  # pyright: ignore[reportPrivateUsage]
        await self.close()
