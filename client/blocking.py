"""The blocking client: ``with connect(url, ...) as connection``. Any thread may use it.

The session lives in an event loop in one daemon thread. A caller puts what it sends into a queue, and wakes
the loop only if the queue was empty: with many small notifications the wake-up is most of the cost.
"""

import asyncio
import concurrent.futures
import contextlib
import functools
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Final, Self, TypeVar, cast, overload

from ..agents.envelope import ReplyTo
from ..agents.ids import AgentId
from ..agents.notification import Notification
from .agent_operations import BlockingAgents
from .aio import AsyncioLoop, AsyncioPort
from .arguments import SendArguments, reply_types, request_arguments, send_arguments
from .blocking_listener import ListenerThread
from .connection_base import (
    NOT_ACKNOWLEDGED,
    NOT_ALL_ACKNOWLEDGED,
    NOTHING_RECEIVED,
    ConnectionBase,
    new_driver,
    not_answered,
    timed_out,
)
from .driver import Driver
from .errors import ConnectionClosed, NotCreated, QuorateClientError, ReactionError, RequestTimeout
from .events import SessionSettings
from .frames import note_size
from .lifecycle import Operation, failure
from .listener import EndCallback
from .local.port import port_of
from .local.session import LocalSession
from .pending import Received, ReplyTypes
from .time_limits import time_limit

__all__ = ["Connection", "connect"]

CANCEL_POLL_S: Final = 0.1
"""The time after which an opening notices that it is given up."""

N = TypeVar("N", bound=Notification)
T = TypeVar("T")

_Answer = tuple["Future[Notification]", ReplyTypes]
_Command = tuple[AgentId | str, str, bytes, int, "Future[None] | None", _Answer | None]


class _TimeLimit:
    """The time that an operation has, from now on. Raises as `time_limit` does."""

    def __init__(self, timeout_s: float | None):
        self._timeout_s = time_limit(timeout_s)
        self._end = None if timeout_s is None else time.monotonic() + timeout_s

    def left_s(self) -> float | None:
        """Return the seconds left, 0 if the time is over; None without a limit."""
        return None if self._end is None else max(0.0, self._end - time.monotonic())

    def wait(self, future: "Future[T]", what: str) -> T:
        """Return the outcome of a future. Raises `RequestTimeout`; `what` says what has not happened."""
        try:
            return future.result(self.left_s())
        except TimeoutError as error:
            if isinstance(error, QuorateClientError):
                raise
            raise timed_out(what, self._timeout_s) from None


_NO_LIMIT: Final = _TimeLimit(None)


class Connection(BlockingAgents, ConnectionBase):
    """A blocking connection, for any number of threads. Make it with `connect`.

    `ConnectionBase` describes what all its operations have in common: time limits and errors.
    """

    def __init__(self, driver: Driver, request_timeout_s: float | None):
        super().__init__(driver, request_timeout_s)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="quorate-client", daemon=True)
        # Guards the attributes below. Callers wait on it while the window is full.
        self._room = threading.Condition()
        self._commands: deque[_Command] = deque()
        self._woken = False
        self._waiting = 0
        self._submitted = 0
        self._submitted_bytes = 0
        self._ended = False
        self._stopped = False
        self._listener: ListenerThread | None = None
        self._pending.on_acknowledged = self._acknowledged
        self._pending.on_ended = self._end

    @property
    def unacknowledged(self) -> int:
        """Number of notifications that the cluster has not acknowledged."""
        return self._submitted - self._session.outbox.acked

    def send(
        self, to: AgentId | ReplyTo | str, notification: Notification, *, timeout: float | None = None
    ) -> None:
        """Send a notification, and return when the cluster has it, whatever fails meanwhile."""
        limit = self._limit(timeout)
        done: Future[None] = Future()
        self._submit(send_arguments(to, notification), done, limit)
        limit.wait(done, NOT_ACKNOWLEDGED)

    def send_nowait(
        self, to: AgentId | ReplyTo | str, notification: Notification, *, timeout: float | None = None
    ) -> None:
        """Send a notification without waiting for the acknowledgement. Waits while the window is full.

        If the window stays full for `timeout` seconds, nothing was sent.
        """
        limit = _NO_LIMIT if timeout is None else _TimeLimit(timeout)
        self._submit(send_arguments(to, notification), None, limit)

    def flush(self, timeout: float | None = None) -> None:
        """Wait until the cluster has everything sent so far by any thread."""
        limit = self._limit(timeout)
        done: Future[None] = Future()

        def expect() -> None:
            self._drain()
            if self._all_acknowledged():
                done.set_result(None)
            else:
                self._pending.expect_ack(self._session.outbox.last_seq, done)

        self._call(expect, done)
        limit.wait(done, NOT_ALL_ACKNOWLEDGED)

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
        """Send a notification and return the agent's answer to it, which has one of the classes `reply`."""
        limit = self._limit(self._request_limit_s(timeout))
        types = reply_types(reply)
        answer: Future[Notification] = Future()
        with self._room:
            number = self._next_request()
        arguments = request_arguments(to, notification, number)
        try:
            self._submit(arguments, None, limit, (answer, types))
            return limit.wait(answer, not_answered(to))
        except BaseException:
            self._call(lambda: self._pending.cancel_reply(number), None)
            raise

    def _requests_all(self, operations: Sequence[Operation[T]], timeout: float | None) -> list[T | Exception]:
        limit = self._limit(self._request_limit_s(timeout))
        answers: list[Future[Notification]] = []
        numbers: list[int] = []
        results: list[T | Exception] = []
        try:
            for operation in operations:
                answer: Future[Notification] = Future()
                with self._room:
                    number = self._next_request()
                arguments = request_arguments(operation.to, operation.ask, number)
                self._submit(arguments, None, limit, (answer, operation.replies))
                answers.append(answer)
                numbers.append(number)
            for operation, answer in zip(operations, answers, strict=True):
                try:
                    results.append(operation.result(limit.wait(answer, not_answered(operation.to))))
                except ReactionError as error:
                    results.append(failure(error))
                except NotCreated as error:
                    results.append(error)
        except BaseException:
            for each in numbers[len(results) :]:
                self._call(functools.partial(self._pending.cancel_reply, each), None)
            raise
        return results

    def receive(self, timeout: float | None = None) -> Received:
        """Return the next notification that answers no request."""
        limit = self._limit(timeout)
        self._check_no_listener()
        note: Future[Received] = Future()
        self._call(lambda: self._driver.receive(note), note)
        try:
            return limit.wait(note, NOTHING_RECEIVED)
        except BaseException:
            # Only the loop knows whether the notification came before the time was over.
            cancelled: Future[None] = Future()
            self._call(lambda: self._cancel_receive(note, cancelled), cancelled)
            with contextlib.suppress(QuorateClientError):
                cancelled.result()
            if note.done() and note.exception() is None:
                return note.result()
            raise

    def listen(self, callback: Callable[[Received], object], ended: EndCallback | None = None) -> None:
        """Call `callback` with each notification that answers no request, and with those that wait already.

        It is called in a thread of its own, with one notification at a time, in order, and may use the
        connection. The server sends no more than the inbox holds until it has returned. If it raises, the
        exception is logged to the logger ``quorate.client`` and the next notification follows.
        `ended` is called once, in the same thread, when the connection has ended: with None if this program
        has closed it, else with the error. Not after `stop_listening`.
        Raises TypeError for what cannot be called, RuntimeError if there is a listener or no inbox.
        """
        self._begin_listening(callback, ended)
        listener = self._listener = ListenerThread(self._driver, self._call, callback, ended)
        listener.start()

    def stop_listening(self, timeout: float | None = None) -> None:
        """Stop to call the listener, and wait until its present call has returned.

        Further notifications wait for ``receive`` or the next listener. Called by the listener itself, it
        does not wait. Raises RequestTimeout if the call takes longer than `timeout` seconds.
        """
        limit_s = time_limit(timeout)
        listener = self._listener
        if listener is not None:
            if not listener.stop(limit_s):
                raise timed_out("the listener has not returned", limit_s)
            self._listener, self._listens = None, False

    def __iter__(self) -> Iterator[Received]:
        """Return notifications that answer no request, until this program closes the connection."""
        while True:
            try:
                note = self.receive()
            except ConnectionClosed:
                if self._pending.closed_in_order:
                    return
                raise
            yield note

    def close(self, timeout: float | None = 5.0) -> None:
        """Flush, for at most `timeout` seconds, and close for good. 0 closes without flushing.

        A listener gets no more notifications, and has `timeout` seconds to return from its present call.
        """
        time_limit(timeout)
        self._check_thread()
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
        if self._listener is not None:
            self._listener.join(timeout)
        self._stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(5.0 if kind is None else 0)

    def _abandon(self, error: QuorateClientError) -> None:
        super()._abandon(error)
        # A thread that does not exist in this process may hold the lock.
        self._room = threading.Condition()
        self._commands.clear()
        self._listener = None
        self._ended = self._stopped = True

    # In the callers' threads.

    def _check_thread(self) -> None:
        """Raise RuntimeError if the caller would stop the server that it waits for."""
        session = self._session
        if isinstance(session, LocalSession) and session.server.in_server_thread:
            raise RuntimeError(
                "a blocking connection with the server of this process cannot be used in the server's own "
                "thread, which would wait for itself; use quorate.client.twisted.tconnect there, or a thread"
            )

    def _limit(self, timeout: float | None) -> _TimeLimit:
        """Return the time limit of an operation that blocks. Raises RuntimeError as `_check_thread` does."""
        self._check_thread()
        return _TimeLimit(timeout)

    def _submit(
        self,
        arguments: SendArguments,
        done: "Future[None] | None",
        limit: "_TimeLimit",
        answer: _Answer | None = None,
    ) -> None:
        address, type_name, payload, request = arguments
        self._session.check_size(address, type_name, payload)
        with self._room:
            if self._full():
                self._check_thread()
                self._wait_for_room(limit)
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

    def _wait_for_room(self, limit: "_TimeLimit") -> None:
        self._waiting += 1
        try:
            while self._full() and not self._ended:
                left_s = limit.left_s()
                if left_s == 0.0:
                    raise RequestTimeout(
                        f"the window of {self._session.window} unacknowledged notifications stayed full; "
                        "nothing was sent"
                    )
                self._room.wait(left_s)
        finally:
            self._waiting -= 1

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

    def open(self, cancel: threading.Event | None = None) -> None:
        """Connect; used by `connect`. Raises what `connect` raises."""
        try:
            self._check_thread()
        except RuntimeError:
            self._loop.close()
            raise
        self._thread.start()
        opened: Future[str] = Future()

        async def begin() -> None:
            self._pending.expect_open(opened)
            driver = self._driver
            driver.start(port_of(driver, AsyncioPort(driver), self._loop.call_soon_threadsafe))

        asyncio.run_coroutine_threadsafe(begin(), self._loop)
        try:
            while cancel is not None and not opened.done():
                if cancel.is_set():
                    raise ConnectionClosed("the connection was not opened: the caller has given up")
                concurrent.futures.wait([opened], CANCEL_POLL_S)
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
                # Before the request is sent: its answer may be read in this same turn of the loop.
                self._pending.expect_reply(request, *answer)
            try:
                seq = self._session.send(to, type_name, payload, request)
            except QuorateClientError as error:
                if done is not None:
                    done.set_exception(error)
                if answer is not None:
                    self._pending.cancel_reply(request)
                    if not answer[0].done():
                        answer[0].set_exception(error)
                continue
            if done is not None:
                self._pending.expect_ack(seq, done)

    def _loop_port(self) -> AsyncioLoop:
        return AsyncioLoop(self._loop, self._posted)

    def _posted(self, size_bytes: int) -> None:
        """Count a notification that an extension has queued: the window is one for both."""
        with self._room:
            self._submitted += 1
            self._submitted_bytes += size_bytes

    def _acknowledged(self, _: int) -> None:
        if self._waiting:
            with self._room:
                self._room.notify_all()

    def _end(self, _: QuorateClientError) -> None:
        with self._room:
            self._ended = True
            self._room.notify_all()

    def _cancel_receive(self, note: "Future[Received]", cancelled: "Future[None]") -> None:
        self._pending.cancel_receive(cast("Any", note))
        cancelled.set_result(None)


def connect(
    url: str,
    *,
    user: str | None = None,
    password: str | None = None,
    timeout: float | None = None,
    request_timeout: float | None = 30.0,
    reconnect_timeout: float = 120.0,
    settings: SessionSettings | None = None,
    cancel: threading.Event | None = None,
) -> Connection:
    """Open a connection to a server, whichever of its replicas is master.

    Without a master it waits, because a failover may be under way. After 3 s a warning of the logger
    ``quorate.client`` says why no replica answers.

    With a URL ``local:`` the server runs in this process: the call waits until its replica is master, and the
    connection ends when it is master no longer (docs/collocated.md).

    With TLS the URL is ``quorates://host:port,host:port?ca=FILE``. With ``&certificate=FILE&key=FILE`` the
    client has a certificate, and needs neither user nor password: it is the user that the certificate names.

    Args:
        url: the replicas, ``quorate://host:port,host:port``; in their process ``local:`` or ``local:s0/1``.
        user: name of a user of the server's ConnectionManager; with ``local:`` any name, or none.
        password: the user's password; not looked at with ``local:``.
        timeout: seconds to find the master, by default `reconnect_timeout`; with ``local:`` no limit.
        request_timeout: seconds that `Connection.request` waits if it is given no timeout; None: no limit.
        reconnect_timeout: seconds to find a master again, before the connection ends.
        settings: finer tuning; its own `timeout`, if that is not given here, and `reconnect_timeout` count.
        cancel: another thread sets this event to give the opening up.

    Raises:
        BadUrl: the URL cannot be understood.
        AuthenticationError: no such user, or another password.
        Unavailable: no replica answered, or that of this process is not master in time; the text says why.
        ProtocolError: the server is no quorate server or speaks another version.
        ConnectionClosed: `cancel` was set.
        RuntimeError: the caller runs in the thread of a server of this process, and would stop it.
    """
    driver = new_driver(url, user, password, timeout, reconnect_timeout, settings)
    connection = Connection(driver, request_timeout)
    connection.open(cancel)
    return connection
