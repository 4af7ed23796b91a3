"""The asyncio client: ``async with aconnect(url, ...) as connection``."""

import asyncio
import contextlib
import errno
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from types import TracebackType
from typing import Any, Final, TypeVar, cast, overload

from ..agents.envelope import ReplyTo
from ..agents.ids import AgentId
from ..agents.notification import Notification
from ..tls.sockets import client_context, tls_reason
from .agent_operations import AsyncAgents
from .aio_listener import ListenerTask
from .arguments import SendArguments, reply_types, request_arguments, send_arguments
from .connection_base import (
    NOT_ACKNOWLEDGED,
    NOT_ALL_ACKNOWLEDGED,
    NOTHING_RECEIVED,
    AsyncIteration,
    new_driver,
    not_answered,
    timed_out,
)
from .driver import CLOSE_GRACE_S, Driver, PortUser
from .errors import QuorateClientError
from .events import SessionSettings
from .listener import EndCallback
from .local.port import port_of
from .pending import Received, ReplyTypes, Waiter, received
from .time_limits import time_limit
from .url import Endpoint

__all__ = ["AsyncConnection", "AsyncioLoop", "AsyncioPort", "aconnect"]

N = TypeVar("N", bound=Notification)

WRITE_BYTES: Final = 64 * 1024
"""With this many bytes queued, ``send_nowait`` writes at once instead of in the next turn of the loop."""
ENVELOPE_BYTES: Final = 64
"""About the bytes of a notification in a frame besides its payload."""


def reason_of(error: BaseException) -> str:
    """Return in a few words why a TCP connection failed."""
    if isinstance(error, OSError) and (tls := tls_reason(error)):
        return tls
    text = str(error) or type(error).__name__
    if isinstance(error, ConnectionRefusedError) or f"Errno {errno.ECONNREFUSED}]" in text:
        return "connection refused"
    return text


class _Link(asyncio.Protocol):
    """One TCP connection. It reports to the driver until it is dropped."""

    def __init__(self, driver: PortUser):
        self.driver: PortUser | None = driver
        self.transport: asyncio.Transport | None = None
        self._abortion: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self.driver is not None:
            self.driver.received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._abortion is not None:
            self._abortion.cancel()
        driver, self.driver = self.driver, None
        if driver is not None:
            driver.lost("the replica closed the connection" if exc is None else reason_of(exc))

    def pause_writing(self) -> None:
        if self.driver is not None:
            self.driver.pause()

    def resume_writing(self) -> None:
        if self.driver is not None:
            self.driver.resume()

    def drop(self) -> None:
        """Close without reporting."""
        self.driver = None
        if self.transport is not None:
            # What was written last, a Close frame, still has to leave, unless the server does not read.
            self.transport.close()
            self._abortion = asyncio.get_running_loop().call_later(CLOSE_GRACE_S, self.transport.abort)


class AsyncioPort:
    """Clock, timer and TCP client of the running asyncio loop."""

    def __init__(self, driver: PortUser):
        self._driver = driver
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._link: _Link | None = None
        self._tls = None if driver.tls is None else client_context(driver.tls)

    def seconds(self) -> float:
        """Return the clock of the loop."""
        return self._loop.time()

    def arm(self, deadline: float | None) -> None:
        """Set the timer to `deadline`, or stop it."""
        if self._timer is not None:
            if deadline == self._timer.when():
                return
            self._timer.cancel()
            self._timer = None
        if deadline is not None:
            self._timer = self._loop.call_at(deadline, self._fire)

    def _fire(self) -> None:
        self._timer = None
        self._driver.tick()

    def connect(self, endpoint: Endpoint) -> None:
        """Open a TCP connection in a task."""
        self._task = self._loop.create_task(self._attempt(endpoint))

    async def _attempt(self, endpoint: Endpoint) -> None:
        host, port = endpoint
        link = _Link(self._driver)
        try:
            await self._loop.create_connection(lambda: link, host, port, ssl=self._tls)
        except (OSError, UnicodeError) as error:
            self._task = None
            self._driver.attempt_failed(reason_of(error))
            return
        self._task = None
        self._link = link
        self._driver.connected()

    def disconnect(self) -> None:
        """Drop the attempt or the connection."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
        if self._link is not None:
            self._link.drop()
            self._link = None

    def write(self, data: bytes) -> None:
        """Write on the connection. If it has broken, pause the driver until another one is open."""
        transport = None if self._link is None else self._link.transport
        if transport is None or transport.is_closing():
            self._driver.pause()
        else:
            transport.write(data)


def _expire(future: "asyncio.Future[Any]", error: QuorateClientError) -> None:
    if not future.done():
        future.set_exception(error)


class AsyncioLoop:
    """An asyncio loop, for extensions of a connection."""

    def __init__(self, loop: asyncio.AbstractEventLoop, posted: Callable[[int], None] | None = None):
        self._loop = loop
        self._posted = posted

    def schedule(self, function: Callable[[], None]) -> None:
        """Call a function in the loop, from any thread."""
        self._loop.call_soon_threadsafe(function)

    def soon(self, function: Callable[[], None]) -> None:
        """Call a function in the next turn of the loop."""
        self._loop.call_soon(function)

    def later(self, delay_s: float, function: Callable[[], None]) -> asyncio.TimerHandle:
        """Call a function in the loop after a time."""
        return self._loop.call_later(delay_s, function)

    def waiter(self, timeout_s: float | None, what: str) -> "tuple[Waiter, asyncio.Future[Any]]":
        """Return a future twice: as a waiter with a time limit, and to be awaited."""
        future: asyncio.Future[Any] = self._loop.create_future()
        if timeout_s is not None:
            timer = self._loop.call_later(timeout_s, _expire, future, timed_out(what, timeout_s))
            future.add_done_callback(lambda _: timer.cancel())
        return future, future

    def posted(self, size_bytes: int) -> None:
        """Count a notification that was queued beside those of the program."""
        if self._posted is not None:
            self._posted(size_bytes)


class AsyncConnection(AsyncAgents, AsyncIteration):
    """A connection for asyncio. Make it with `aconnect`; use it in the loop that made it.

    `ConnectionBase` describes what all its operations have in common: time limits and errors.
    """

    def __init__(self, driver: Driver, request_timeout_s: float | None):
        super().__init__(driver, request_timeout_s)
        self._loop = asyncio.get_running_loop()
        self._scheduled = False
        self._queued_bytes = 0
        self._room: asyncio.Event = asyncio.Event()
        self._listener: ListenerTask | None = None
        self._pending.on_acknowledged = self._make_room
        self._pending.on_ended = self._make_room

    async def send(
        self, to: AgentId | ReplyTo | str, notification: Notification, *, timeout: float | None = None
    ) -> None:
        """Send a notification, and return when the cluster has it, whatever fails meanwhile."""
        arguments = send_arguments(to, notification)
        async with _limit(timeout, NOT_ACKNOWLEDGED):
            seq = await self._post(arguments)
            waiter = self._loop.create_future()
            self._pending.expect_ack(seq, waiter)
            await waiter

    async def send_nowait(self, to: AgentId | ReplyTo | str, notification: Notification) -> None:
        """Send a notification without waiting for the acknowledgement. Waits while the window is full."""
        await self._post(send_arguments(to, notification))

    async def flush(self, *, timeout: float | None = None) -> None:
        """Wait until the cluster has everything sent so far."""
        time_limit(timeout)
        if not self._all_acknowledged():
            waiter = self._loop.create_future()
            self._pending.expect_ack(self._session.outbox.last_seq, waiter)
            async with _limit(timeout, NOT_ALL_ACKNOWLEDGED):
                await waiter

    @overload
    async def request(
        self,
        to: AgentId | str,
        notification: Notification,
        *,
        reply: type[N],
        timeout: float | None = None,
    ) -> N: ...
    @overload
    async def request(
        self,
        to: AgentId | str,
        notification: Notification,
        *,
        reply: ReplyTypes | None = None,
        timeout: float | None = None,
    ) -> Notification: ...
    async def request(
        self,
        to: AgentId | str,
        notification: Notification,
        *,
        reply: type[Notification] | ReplyTypes | None = None,
        timeout: float | None = None,
    ) -> Notification:
        """Send a notification and return the agent's answer to it, which has one of the classes `reply`."""
        limit_s, types = self._request_limit_s(timeout), reply_types(reply)
        number = self._next_request()
        arguments = request_arguments(to, notification, number)
        waiter = self._loop.create_future()
        self._pending.expect_reply(number, waiter, types)
        try:
            async with _limit(limit_s, not_answered(to)):
                await self._post(arguments)
                return cast("Notification", await waiter)
        finally:
            self._pending.cancel_reply(number)
            if waiter.done() and not waiter.cancelled():
                waiter.exception()

    async def receive(self, *, timeout: float | None = None) -> Received:
        """Return the next notification that answers no request."""
        time_limit(timeout)
        self._check_no_listener()
        waiter = self._loop.create_future()
        self._pending.hold(waiter, 1)
        try:
            async with _limit(timeout, NOTHING_RECEIVED):
                held = await waiter
        except BaseException:
            self._pending.cancel_receive(waiter)
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                # It came in the same turn of the loop in which the wait ended.
                self._pending.put_back(waiter.result())
            raise
        self._driver.release(held)
        return received(held[0])

    def listen(
        self, callback: Callable[[Received], Awaitable[object] | None], ended: EndCallback | None = None
    ) -> None:
        """Call `callback` with each notification that answers no request, and with those that wait already.

        It is a function or a coroutine function, runs in the loop, gets one notification at a time, in order,
        and may use the connection. The server sends no more than the inbox holds until it is done. If it
        raises, the exception is logged to the logger ``quorate.client`` and the next notification follows.
        `ended` is called once when the connection has ended: with None if this program has closed it, else
        with the error. Not after `stop_listening`.
        Raises TypeError for what cannot be called, RuntimeError if there is a listener or no inbox.
        """
        self._begin_listening(callback, ended)
        self._listener = ListenerTask(self._driver, callback, ended)

    async def stop_listening(self, *, timeout: float | None = None) -> None:
        """Stop to call the listener, and wait until its present call is done.

        Further notifications wait for ``receive`` or the next listener. Called by the listener itself, it
        does not wait. Raises RequestTimeout if the call takes longer than `timeout` seconds.
        """
        limit_s = time_limit(timeout)
        if self._listener is not None:
            async with _limit(limit_s, "the listener has not returned"):
                await self._listener.stop()
            self._listener, self._listens = None, False

    async def close(self, *, timeout: float | None = 5.0) -> None:
        """Flush, for at most `timeout` seconds, and close for good. 0 closes without flushing.

        A listener gets no more notifications, and has `timeout` seconds to return from its present call.
        """
        time_limit(timeout)
        if not self._pending.ended and timeout != 0:
            with contextlib.suppress(QuorateClientError):
                await self.flush(timeout=timeout)
        self._driver.close()
        waiter = self._loop.create_future()
        self._pending.expect_end(waiter)
        await waiter
        if self._listener is not None:
            await self._listener.join(timeout)

    async def __aenter__(self) -> "AsyncConnection":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close(timeout=5.0 if kind is None else 0)

    async def _post(self, arguments: SendArguments) -> int:
        session = self._session
        while session.full and not session.ended:
            self._flush()
            if session.full and not session.ended:
                self._room.clear()
                await self._room.wait()
        seq = self._queue(arguments)
        self._queued_bytes += len(arguments[2]) + ENVELOPE_BYTES
        if self._queued_bytes >= WRITE_BYTES:
            self._flush()
        elif not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._flush)
        return seq

    def _flush(self) -> None:
        self._scheduled = False
        self._queued_bytes = 0
        self._driver.step()

    def _make_room(self, _: object) -> None:
        self._room.set()

    def _loop_port(self) -> "AsyncioLoop":
        return AsyncioLoop(self._loop)


@contextlib.asynccontextmanager
async def _limit(timeout: float | None, what: str) -> AsyncGenerator[None, None]:
    """Raise `RequestTimeout` after `timeout` seconds; None sets no limit."""
    timeout = time_limit(timeout)
    if timeout is None:
        yield
        return
    try:
        async with asyncio.timeout(timeout):
            yield
    except TimeoutError as error:
        if isinstance(error, QuorateClientError):
            raise
        raise timed_out(what, timeout) from None


class _Opening:
    """The result of `aconnect`: an awaitable, and an asynchronous context manager."""

    def __init__(self, driver: Driver, request_timeout_s: float | None):
        self._driver = driver
        self._request_timeout_s = request_timeout_s
        self._connection: AsyncConnection | None = None

    async def _open(self) -> AsyncConnection:
        driver = self._driver
        connection = AsyncConnection(driver, self._request_timeout_s)
        waiter = asyncio.get_running_loop().create_future()
        driver.pending.expect_open(waiter)
        driver.start(port_of(driver, AsyncioPort(driver), asyncio.get_running_loop().call_soon_threadsafe))
        try:
            await waiter
        except BaseException:
            driver.session.abort()
            driver.step()
            raise
        self._connection = connection
        return connection

    def __await__(self) -> Generator[Any, None, AsyncConnection]:
        return self._open().__await__()

    async def __aenter__(self) -> AsyncConnection:
        return await self._open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._connection is not None:
            await self._connection.__aexit__(kind, error, trace)


def aconnect(
    url: str,
    *,
    user: str | None = None,
    password: str | None = None,
    timeout: float | None = None,
    request_timeout: float | None = 30.0,
    reconnect_timeout: float = 120.0,
    settings: SessionSettings | None = None,
) -> _Opening:
    """Open a connection in asyncio: ``async with aconnect(...) as c`` or ``c = await aconnect(...)``.

    The arguments and errors are those of `quorate.connect`, without `cancel`: a task that opens a connection
    can be cancelled.
    """
    driver = new_driver(url, user, password, timeout, reconnect_timeout, settings)
    return _Opening(driver, time_limit(request_timeout, "request_timeout"))
