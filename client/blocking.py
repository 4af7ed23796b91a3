"""The blocking client: ``with connect(url, ...) as connection``. Any thread may use it.

The session lives in an event loop in one daemon thread. A caller hands over what it sends through a queue
and wakes the loop once for all that gathers there: with many small notifications that is most of the cost.
"""

import asyncio
import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self, TypeVar, cast, overload

from ..agents.envelope import ReplyTo
from ..agents.ids import AgentId
from ..agents.notification import Notification
from .aio import AsyncioPort
from .connection_base import (
    NOT_ACKNOWLEDGED,
    NOT_ALL_ACKNOWLEDGED,
    NOTHING_CAME,
    ConnectionBase,
    encoded,
    new_driver,
    no_answer,
    reply_types,
)
from .driver import Driver
from .errors import QuorateClientError, RequestTimeout
from .events import SessionSettings
from .frames import note_size
from .pending import Received, ReplyTypes

__all__ = ["Connection", "connect"]

N = TypeVar("N", bound=Notification)
T = TypeVar("T")

_Answer = tuple["Future[Notification]", ReplyTypes]
_Command = tuple[AgentId | str, str, bytes, int, "Future[None] | None", _Answer | None]


class Connection(ConnectionBase):
    """A blocking connection. Make it with `connect`."""

    def __init__(self, driver: Driver, request_timeout_s: float | None):
        super().__init__(driver, request_timeout_s)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="quorate-client", daemon=True)
        # Guards what follows; waited on while the window is full.
        self._room = threading.Condition()
        self._commands: deque[_Command] = deque()
        self._woken = False
        self._waiting = 0
        self._submitted = 0
        self._submitted_bytes = 0
        self._ended = False
        self._stopped = False
        self._pending.on_acknowledged = self._acknowledged
        self._pending.on_ended = self._end

    @property
    def unacknowledged(self) -> int:
        """Number of notifications that the cluster has not acknowledged."""
        return self._submitted - self._session.outbox.acked

    def send(
        self, to: AgentId | ReplyTo | str, notification: Notification, *, timeout: float | None = None
    ) -> None:
        """Send a notification; returns when the cluster has it, whatever fails meanwhile.

        Raises `FrameTooLarge`, `ConnectionClosed`, or `RequestTimeout` after `timeout` seconds; after the
        latter the notification may still arrive. Failures in the agent come to `receive`.
        """
        until = None if timeout is None else time.monotonic() + timeout
        done: Future[None] = Future()
        self._submit(to, notification, 0, done, until)
        self._wait(done, until, NOT_ACKNOWLEDGED)

    def send_nowait(
        self, to: AgentId | ReplyTo | str, notification: Notification, *, timeout: float | None = None
    ) -> None:
        """Send without waiting for the acknowledgement; waits only while the window is full. See `flush`.

        Raises `FrameTooLarge`, `ConnectionClosed`, or `RequestTimeout` if the window stays full: then
        nothing was sent.
        """
        self._submit(to, notification, 0, None, None if timeout is None else time.monotonic() + timeout)

    def flush(self, timeout: float | None = None) -> None:
        """Wait until the cluster has everything sent so far by any thread. Raises as `send` does."""
        done: Future[None] = Future()

        def expect() -> None:
            self._drain()
            box = self._session.outbox
            if box.acked >= box.last_seq and not self._pending.ended:
                done.set_result(None)
            else:
                self._pending.expect_ack(box.last_seq, done)

        self._call(expect, done)
        until = None if timeout is None else time.monotonic() + timeout
        self._wait(done, until, NOT_ALL_ACKNOWLEDGED)

    @overload
    def request(
        self,
        to: AgentId | str,
        notification: Notification,
        *,
        reply: type[N],
        timeout: float | None = None,
    ) -> N: ...
    @overload
    def request(
        self,
        to: AgentId | str,
        notification: Notification,
        *,
        reply: ReplyTypes | None = None,
        timeout: float | None = None,
    ) -> Notification: ...
    def request(
        self,
        to: AgentId | str,
        notification: Notification,
        *,
        reply: type[Notification] | ReplyTypes | None = None,
        timeout: float | None = None,
    ) -> Notification:
        """Send a notification and return the agent's answer to it.

        `reply` is the class, or a tuple of classes, that the answer may have; without it, any class that
        this process has defined. Raises `UnknownAgentError`, `ReactionError`, `UnhandledTypeError`,
        `UnexpectedReply`, `RequestTimeout` after `timeout` seconds, and what `send` raises.
        """
        wait = self._limit_of_request(timeout)
        until = None if wait is None else time.monotonic() + wait
        answer: Future[Notification] = Future()
        with self._room:
            self._requests += 1
            number = self._requests
        try:
            self._submit(to, notification, number, None, until, (answer, reply_types(reply)))
            return self._wait(answer, until, no_answer(to))
        except BaseException:
            self._call(lambda: self._pending.forget(number), None)
            raise

    def receive(self, timeout: float | None = None) -> Received:
        """Return the next notification that answers no request.

        Raises `RequestTimeout` after `timeout` seconds, or `ConnectionClosed`.
        """
        note: Future[Received] = Future()
        self._call(lambda: self._pending.expect_note(note), note)
        until = None if timeout is None else time.monotonic() + timeout
        try:
            return self._wait(note, until, NOTHING_CAME)
        except BaseException:
            # The loop decides whether the notification or the giving up came first.
            withdrawn: Future[None] = Future()
            self._call(lambda: self._withdraw_receiver(note, withdrawn), withdrawn)
            with contextlib.suppress(QuorateClientError):
                withdrawn.result()
            if note.done() and note.exception() is None:
                return note.result()
            raise

    def close(self, timeout: float | None = 5.0) -> None:
        """Flush, for at most `timeout` seconds, and close for good. 0 closes without flushing."""
        if not self._ended and timeout != 0:
            with contextlib.suppress(QuorateClientError):
                self.flush(timeout)
        ended: Future[None] = Future()

        def finish() -> None:
            self._drain()
            self._driver.close()
            self._pending.expect_end(ended)

        self._call(finish, ended)
        with contextlib.suppress(QuorateClientError):
            ended.result()
        self._stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(5.0 if kind is None else 0)

    # In the callers' threads.

    def _submit(
        self,
        to: AgentId | ReplyTo | str,
        notification: Notification,
        request: int,
        done: "Future[None] | None",
        until: float | None,
        answer: _Answer | None = None,
    ) -> None:
        address, type_name, payload, request = encoded(to, notification, request)
        self._session.check_size(address, type_name, payload)
        with self._room:
            if self._full():
                self._wait_for_room(until)
            if self._ended:
                raise self._pending.reason()
            self._submitted += 1
            self._submitted_bytes += note_size(address, type_name, payload)
            self._commands.append((address, type_name, payload, request, done, answer))
            if self._woken:
                return
            self._woken = True
            self._loop.call_soon_threadsafe(self._drain_and_step)

    def _full(self) -> bool:
        session = self._session
        box = session.outbox
        return (
            self._submitted - box.acked >= session.window
            or self._submitted_bytes - box.acked_bytes >= session.window_bytes
        )

    def _wait_for_room(self, until: float | None) -> None:
        self._waiting += 1
        try:
            while self._full() and not self._ended:
                left = None if until is None else until - time.monotonic()
                if left is not None and left <= 0:
                    raise RequestTimeout(
                        f"the window of {self._session.window} unacknowledged notifications stayed full; "
                        "nothing was sent"
                    )
                self._room.wait(left)
        finally:
            self._waiting -= 1

    def _wait(self, future: "Future[T]", until: float | None, what: str) -> T:
        left = None if until is None else max(0.0, until - time.monotonic())
        try:
            return future.result(left)
        except TimeoutError as error:
            if isinstance(error, QuorateClientError):
                raise
            raise RequestTimeout(f"{what} within the timeout") from None

    def _call(self, function: Callable[[], None], waiter: "Future[Any] | None") -> None:
        """Run a function in the loop; if it has been stopped, fail the waiter."""
        with self._room:
            if not self._stopped:
                self._loop.call_soon_threadsafe(function)
                return
        if waiter is not None and not waiter.done():
            waiter.set_exception(self._pending.reason())

    def _stop(self) -> None:
        with self._room:
            if self._stopped:
                return
            self._stopped = True
            self._loop.call_soon_threadsafe(self._loop.stop)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    # In the loop's thread.

    def _run(self) -> None:
        loop = self._loop
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
            pending = asyncio.all_tasks(loop)
            for task in pending:
                task.cancel()
            if pending:
                loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
        finally:
            with self._room:
                self._ended = True
                loop.close()

    def open(self) -> None:
        """Connect; used by `connect`. Raises what `connect` raises."""
        self._thread.start()
        opened: Future[str] = Future()

        async def begin() -> None:
            self._pending.expect_open(opened)
            self._driver.start(AsyncioPort(self._driver))

        asyncio.run_coroutine_threadsafe(begin(), self._loop)
        try:
            opened.result()
        except BaseException:
            self.close(0)
            raise

    def _drain_and_step(self) -> None:
        self._drain()
        self._driver.step()

    def _drain(self) -> None:
        with self._room:
            self._woken = False
        commands = self._commands
        while commands:
            to, type_name, payload, request, done, answer = commands.popleft()
            if answer is not None:
                # Here, not in a turn of its own: the answer may be read in the turn that sends the request.
                self._pending.expect_reply(request, *answer)
            try:
                seq = self._session.send(to, type_name, payload, request)
            except QuorateClientError as error:
                if done is not None:
                    done.set_exception(error)
                if answer is not None:
                    self._pending.forget(request)
                    if not answer[0].done():
                        answer[0].set_exception(error)
                continue
            if done is not None:
                self._pending.expect_ack(seq, done)

    def _acknowledged(self, _: int) -> None:
        if self._waiting:
            with self._room:
                self._room.notify_all()

    def _end(self, _: QuorateClientError) -> None:
        with self._room:
            self._ended = True
            self._room.notify_all()

    def _withdraw_receiver(self, note: "Future[Received]", withdrawn: "Future[None]") -> None:
        self._pending.forget_receiver(cast("Any", note))
        withdrawn.set_result(None)


def connect(
    url: str,
    *,
    user: str,
    password: str,
    timeout: float = 10.0,
    request_timeout: float | None = 30.0,
    reconnect_timeout: float = 120.0,
    settings: SessionSettings | None = None,
) -> Connection:
    """Open a connection to a server, whichever of its replicas is master.

    Args:
        url: the replicas, ``quorate://host:port,host:port``.
        user: name of a user of the server's ConnectionManager.
        password: the user's password.
        timeout: seconds to find the master.
        request_timeout: seconds that `Connection.request` waits unless told otherwise; None for ever.
        reconnect_timeout: seconds to find a master again, before the connection ends.
        settings: finer tuning; then `timeout` and `reconnect_timeout` are those of the settings.

    Raises:
        BadUrl: the URL cannot be understood.
        AuthenticationError: no such user, or another password.
        Unavailable: no replica answered; the text says why for each.
        ProtocolError: the server is no quorate server or speaks another version.
    """
    driver = new_driver(url, user, password, timeout, reconnect_timeout, settings)
    connection = Connection(driver, request_timeout)
    connection.open()
    return connection
