"""The Twisted client: ``connection = yield tconnect(reactor, url, ...)``, with Deferreds."""

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar, cast

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.endpoints import HostnameEndpoint
from twisted.internet.protocol import Factory, connectionDone
from twisted.internet.protocol import Protocol as TwistedProtocol
from twisted.python.failure import Failure

from ..agents.envelope import ReplyTo
from ..agents.ids import AgentId
from ..agents.notification import Notification
from ..tls import TlsFiles
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
from .extension import Cancellable
from .listener import EndCallback
from .local.port import port_of
from .pending import Received, ReplyTypes, Waiter
from .time_limits import time_limit
from .twisted_agents import TwistedAgents
from .twisted_listener import ReactorListener
from .url import Endpoint

__all__ = ["TwistedConnection", "tconnect"]

T = TypeVar("T")


class _Call(Protocol):
    """The part of a delayed call that is used here."""

    def cancel(self) -> None: ...
    def active(self) -> bool: ...


class _Reactor(Protocol):
    """The part of the reactor that is used here."""

    def seconds(self) -> float: ...
    def callLater(self, delay: float, function: Any, *args: Any) -> _Call: ...  # noqa: N802


class _Tcp(Protocol):
    """The part of a transport that is used here."""

    def write(self, data: bytes) -> None: ...
    def loseConnection(self) -> None: ...  # noqa: N802
    def abortConnection(self) -> None: ...  # noqa: N802
    def registerProducer(self, producer: object, streaming: bool) -> None: ...  # noqa: N802
    def unregisterProducer(self) -> None: ...  # noqa: N802
    def setTcpNoDelay(self, enabled: bool) -> None: ...  # noqa: N802


class _Waiter(Generic[T]):
    """A Deferred in the shape of a future, with a time limit."""

    def __init__(self, reactor: _Reactor, timeout_s: float | None, what: str):
        timeout_s = time_limit(timeout_s)
        self.deferred: Deferred[T] = Deferred(self._cancelled)
        self._over = False
        self._call: _Call | None = None
        if timeout_s is not None:
            self._call = reactor.callLater(timeout_s, self.set_exception, timed_out(what, timeout_s))

    def done(self) -> bool:
        return self._over

    def set_result(self, result: T) -> None:
        if self._finish():
            self.deferred.callback(result)

    def set_exception(self, exception: BaseException) -> None:
        if self._finish():
            self.deferred.errback(cast("Any", Failure)(exception))

    def _cancelled(self, _: object) -> None:
        self._finish()

    def _finish(self) -> bool:
        first, self._over = not self._over, True
        if self._call is not None and self._call.active():
            self._call.cancel()
        return first


class _Link(TwistedProtocol):
    """One TCP connection. It reports to the driver until it is dropped."""

    def __init__(self, driver: PortUser, reactor: _Reactor):
        self._driver: PortUser | None = driver
        self._reactor = reactor
        self._abortion: _Call | None = None

    @property
    def _tcp(self) -> _Tcp:
        return cast("_Tcp", self.transport)  # pyright: ignore[reportUnknownMemberType]

    def connectionMade(self) -> None:  # noqa: N802
        """Register for the transport's flow control."""
        self._tcp.setTcpNoDelay(True)
        self._tcp.registerProducer(self, True)

    def dataReceived(self, data: bytes) -> None:  # noqa: N802
        """Pass received bytes to the driver."""
        if self._driver is not None:
            self._driver.received(data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:  # noqa: N802
        """Report the loss, unless the connection was dropped on this side."""
        if self._abortion is not None and self._abortion.active():
            self._abortion.cancel()
        driver, self._driver = self._driver, None
        if driver is not None:
            driver.lost(reason.getErrorMessage())

    def pauseProducing(self) -> None:  # noqa: N802
        """Pause the driver: the buffer of the transport is full."""
        if self._driver is not None:
            self._driver.pause()

    def resumeProducing(self) -> None:  # noqa: N802
        """Resume the driver: the buffer of the transport has room."""
        if self._driver is not None:
            self._driver.resume()

    def stopProducing(self) -> None:  # noqa: N802
        """Do nothing: connectionLost reports the end of the transport."""

    def write(self, data: bytes) -> None:
        """Write on the connection."""
        self._tcp.write(data)

    def drop(self) -> None:
        """Close without reporting."""
        self._driver = None
        self._tcp.unregisterProducer()
        self._tcp.loseConnection()
        # A server that does not read would keep the connection for ever.
        self._abortion = self._reactor.callLater(CLOSE_GRACE_S, self._tcp.abortConnection)


class TwistedPort:
    """Clock, timer and TCP client of a reactor."""

    def __init__(self, reactor: _Reactor, driver: PortUser):
        self._reactor = reactor
        self._driver = driver
        self._timer: _Call | None = None
        self._armed: float | None = None
        self._attempt: Deferred[Any] | None = None
        self._link: _Link | None = None
        self._tls: Any = None
        """The context of OpenSSL, made for the first connection."""

    def seconds(self) -> float:
        """Return the clock of the reactor."""
        return self._reactor.seconds()

    def arm(self, deadline: float | None) -> None:
        """Have the driver called at `deadline`, and not at an earlier one."""
        if self._timer is not None:
            if deadline == self._armed:
                return
            self._timer.cancel()
            self._timer = None
        self._armed = deadline
        if deadline is not None:
            self._timer = self._reactor.callLater(max(0.0, deadline - self.seconds()), self._fire)

    def _fire(self) -> None:
        self._timer = None
        self._driver.tick()

    def connect(self, endpoint: Endpoint) -> None:
        """Open a TCP connection, and report to the driver."""
        link = _Link(self._driver, self._reactor)
        factory = cast("Any", Factory.forProtocol(cast("Any", lambda: link)))
        factory.noisy = False
        attempt = self.open_tcp(endpoint, factory)
        self._attempt = attempt

        def connected(_: object) -> None:
            self._attempt = None
            self._link = link
            self._driver.connected()

        def failed(failure: Failure) -> None:
            # A cancelled attempt fails as well, and is not reported.
            if self._attempt is attempt:
                self._attempt = None
                self._driver.attempt_failed(failure.getErrorMessage())

        attempt.addCallbacks(connected, failed)

    def open_tcp(self, endpoint: Endpoint, factory: Any) -> "Deferred[Any]":
        """Open a TCP connection with the protocol of a factory. A simulated client opens another one."""
        host, port = endpoint
        if self._driver.tls is not None:
            factory = self._secured(self._driver.tls, host, factory)
        return HostnameEndpoint(cast("Any", self._reactor), host, port).connect(factory)

    def _secured(self, files: TlsFiles, host: str, factory: Any) -> Any:
        from ..tls.openssl import Dialing, TlsFactory, new_context

        if self._tls is None:
            self._tls = new_context(files)
        return TlsFactory(Dialing(self._tls, host), factory, self._reactor)

    def disconnect(self) -> None:
        """Drop the connection or the attempt."""
        attempt, self._attempt = self._attempt, None
        if attempt is not None:
            attempt.cancel()
        link, self._link = self._link, None
        if link is not None:
            link.drop()

    def write(self, data: bytes) -> None:
        """Write on the connection, if there is one."""
        if self._link is not None:
            self._link.write(data)


class _ReactorLoop:
    """The reactor, for extensions of a connection."""

    def __init__(self, reactor: _Reactor):
        self._reactor = reactor

    def schedule(self, function: Callable[[], None]) -> None:
        """Call a function soon. A Twisted connection is used in the reactor's thread only."""
        self._reactor.callLater(0, function)

    soon = schedule

    def later(self, delay_s: float, function: Callable[[], None]) -> Cancellable:
        """Call a function after a time."""
        return _Delayed(self._reactor.callLater(delay_s, function))

    def waiter(self, timeout_s: float | None, what: str) -> "tuple[Waiter, Deferred[Any]]":
        """Return a waiter with a time limit, and its Deferred."""
        waiter: _Waiter[Any] = _Waiter(self._reactor, timeout_s, what)
        return waiter, waiter.deferred

    def posted(self, size_bytes: int) -> None:
        """Do nothing: the session counts what is queued."""


class _Delayed:
    """A delayed call that may be cancelled after it was made."""

    def __init__(self, call: _Call):
        self._call = call

    def cancel(self) -> None:
        if self._call.active():
            self._call.cancel()


class TwistedConnection(TwistedAgents, AsyncIteration):
    """A connection for Twisted. Make it with `tconnect`; use it in the reactor's thread.

    `ConnectionBase` describes what all its operations have in common: time limits and errors. The errors come
    through the Deferreds.
    """

    def __init__(self, reactor: _Reactor, driver: Driver, request_timeout_s: float | None):
        super().__init__(driver, request_timeout_s)
        self._reactor = reactor
        self._scheduled = False
        self._room: list[_Waiter[None]] = []
        self._listener: ReactorListener | None = None
        self._pending.on_acknowledged = self._make_room
        self._pending.on_ended = self._make_room

    def _loop_port(self) -> _ReactorLoop:
        return _ReactorLoop(self._reactor)

    @property
    def full(self) -> bool:
        """Whether the window is full: wait for the Deferred of ``send_nowait`` before sending more."""
        return self._session.full

    def send(
        self, to: AgentId | ReplyTo | str, notification: Notification, *, timeout: float | None = None
    ) -> "Deferred[None]":
        """Send a notification. The Deferred fires when the cluster has it, whatever fails meanwhile."""
        try:
            arguments = send_arguments(to, notification)
            waiter = self._wait(timeout, NOT_ACKNOWLEDGED)
        except (TypeError, ValueError) as error:
            return fail(error)
        try:
            self._pending.expect_ack(self._post(arguments), waiter)
        except QuorateClientError as error:
            waiter.set_exception(error)
        return waiter.deferred

    def send_nowait(self, to: AgentId | ReplyTo | str, notification: Notification) -> "Deferred[None]":
        """Send a notification. The Deferred fires when the window has room for the next one.

        The notification is queued even if the window is full: a caller that does not wait fills the memory.
        """
        try:
            self._post(send_arguments(to, notification))
        except (QuorateClientError, TypeError, ValueError) as error:
            return fail(error)
        if not self._session.full:
            return succeed(None)
        waiter = self._wait(None, "")
        self._room.append(waiter)
        return waiter.deferred

    def flush(self, *, timeout: float | None = None) -> "Deferred[None]":
        """Return a Deferred that fires when the cluster has everything sent so far."""
        try:
            waiter = self._wait(timeout, NOT_ALL_ACKNOWLEDGED)
        except (TypeError, ValueError) as error:
            return fail(error)
        if self._all_acknowledged():
            waiter.set_result(None)
            return waiter.deferred
        self._pending.expect_ack(self._session.outbox.last_seq, waiter)
        return waiter.deferred

    def request(
        self,
        to: AgentId | str,
        notification: Notification,
        *,
        reply: type[Notification] | ReplyTypes | None = None,
        timeout: float | None = None,
    ) -> "Deferred[Any]":
        """Send a notification. The Deferred fires with the answer, which has one of the classes `reply`."""
        number = self._next_request()
        try:
            arguments, types = request_arguments(to, notification, number), reply_types(reply)
            waiter: _Waiter[Any] = _Waiter(self._reactor, self._request_limit_s(timeout), not_answered(to))
        except (TypeError, ValueError) as error:
            return fail(error)
        self._pending.expect_reply(number, waiter, types)
        if not waiter.done():
            try:
                self._post(arguments)
            except QuorateClientError as error:
                waiter.set_exception(error)

        def over(result: Any) -> Any:
            self._pending.cancel_reply(number)
            return result

        return waiter.deferred.addBoth(over)

    def receive(self, *, timeout: float | None = None) -> "Deferred[Received]":
        """Return a Deferred that fires with the next notification that answers no request."""
        try:
            self._check_no_listener()
            waiter: _Waiter[Received] = _Waiter(self._reactor, timeout, NOTHING_RECEIVED)
        except (TypeError, ValueError, RuntimeError) as error:
            return fail(error)
        self._driver.receive(waiter)

        def over(result: Any) -> Any:
            self._pending.cancel_receive(waiter)
            return result

        return waiter.deferred.addBoth(over)

    def listen(self, callback: Callable[[Received], object], ended: EndCallback | None = None) -> None:
        """Call `callback` with each notification that answers no request, and with those that wait already.

        It may return a Deferred or be a coroutine function, runs in the reactor's thread, gets one
        notification at a time, in order, and may use the connection. The server sends no more than the inbox
        holds until it is done. If it fails, the exception is logged to the logger ``quorate.client`` and the
        next notification follows.
        `ended` is called once when the connection has ended: with None if this program has closed it, else
        with the error. Not after `stop_listening`.
        Raises TypeError for what cannot be called, RuntimeError if there is a listener or no inbox.
        """
        self._begin_listening(callback, ended)
        self._listener = ReactorListener(self._reactor, self._driver, callback, ended)

    def stop_listening(self, *, timeout: float | None = None) -> "Deferred[None]":
        """Stop to call the listener. The Deferred fires when its present call is done.

        Further notifications wait for ``receive`` or the next listener. Called by the listener itself, it
        does not wait. The Deferred fails with RequestTimeout if the call takes longer than `timeout` seconds.
        """
        try:
            waiter = self._wait(timeout, "the listener has not returned")
        except (TypeError, ValueError) as error:
            return fail(error)

        def stopped(result: None) -> None:
            self._listener, self._listens = None, False
            return result

        if self._listener is None:
            waiter.set_result(None)
            return waiter.deferred
        self._listener.stop().addCallback(waiter.set_result)
        return waiter.deferred.addCallback(stopped)

    def close(self, *, timeout: float | None = 5.0) -> "Deferred[None]":
        """Flush, for at most `timeout` seconds, and close for good. 0 closes without flushing.

        A listener gets no more notifications; its present call may go on.
        """
        try:
            time_limit(timeout)
        except (TypeError, ValueError) as error:
            return fail(error)
        ended = self._wait(None, "")

        def finish(_: object) -> None:
            self._driver.close()
            self._pending.expect_end(ended)

        flushed = self.flush(timeout=timeout) if timeout != 0 else succeed(None)
        flushed.addBoth(finish)
        return ended.deferred

    def _wait(self, timeout: float | None, what: str) -> _Waiter[None]:
        return _Waiter(self._reactor, timeout, what)

    def _post(self, arguments: SendArguments) -> int:
        seq = self._queue(arguments)
        if not self._scheduled:
            self._scheduled = True
            self._reactor.callLater(0, self._flush)
        return seq

    def _flush(self) -> None:
        self._scheduled = False
        self._driver.step()

    def _make_room(self, _: object) -> None:
        if self._room and (self._pending.ended or not self._session.full):
            room, self._room = self._room, []
            for waiter in room:
                if self._pending.ended:
                    waiter.set_exception(self._pending.reason())
                else:
                    waiter.set_result(None)


def tconnect(
    reactor: Any,
    url: str,
    *,
    user: str | None = None,
    password: str | None = None,
    timeout: float | None = None,
    request_timeout: float | None = 30.0,
    reconnect_timeout: float = 120.0,
    settings: SessionSettings | None = None,
) -> "Deferred[TwistedConnection]":
    """Open a connection in a reactor. Cancel the Deferred to give up.

    Arguments and errors are those of `quorate.connect`, without its `cancel`. All errors come through the
    Deferred.
    """
    try:
        driver = new_driver(url, user, password, timeout, reconnect_timeout, settings)
        connection = TwistedConnection(reactor, driver, request_timeout)
    except (QuorateClientError, TypeError, ValueError) as error:
        return fail(error)
    opened: _Waiter[str] = _Waiter(reactor, None, "")
    driver.pending.expect_open(opened)
    driver.start(port_of(driver, TwistedPort(reactor, driver), lambda call: reactor.callFromThread(call)))

    def done(_: str) -> TwistedConnection:
        return connection

    def failed(failure: Failure) -> Failure:
        # A Deferred that was cancelled fails as well; a session that has ended by itself ends only once.
        driver.session.abort()
        driver.step()
        return failure

    return opened.deferred.addCallbacks(done, failed)
