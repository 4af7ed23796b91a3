"""A client of a simulated cluster: the session and the wire of a real one, on virtual time."""

import random
from collections.abc import Callable, Coroutine
from typing import Any, Generic, Protocol, TypeVar, cast, overload

from twisted.internet.defer import Deferred

from ...agents import AgentId, Notification, ReplyTo
from ...client import QuorateClientError, Received, SessionSettings
from ...client.driver import Driver
from ...client.pending import PendingRequests, ReplyTypes
from ...client.session import Session
from ...client.twisted import TwistedConnection, TwistedPort
from ...client.url import Endpoint, parse_url
from .memory_network import MemoryNet, MemoryReactor

__all__ = ["PendingReply", "SimulatedClient"]

T = TypeVar("T")
N = TypeVar("N", bound=Notification)

LIMIT_S = 60.0
"""Virtual seconds that a call takes at most, unless it is given a timeout."""


class Waits(Protocol):
    """The part of a simulated cluster that lets time pass."""

    def run_until(self, condition: Callable[[], bool], limit_s: float = ...) -> None:
        """Let virtual time pass until a condition holds."""
        ...


class _Result(Generic[T]):
    """What a Deferred fires with."""

    def __init__(self, deferred: "Deferred[T]") -> None:
        self.done = False
        self._value: T | None = None
        self._error: BaseException | None = None
        deferred.addCallbacks(self._fired, self._failed)

    def _fired(self, value: T) -> None:
        self.done, self._value = True, value

    def _failed(self, failure: Any) -> None:
        self.done, self._error = True, failure.value

    def get(self) -> T:
        """Return the value, or raise the error."""
        if self._error is not None:
            raise self._error
        return cast("T", self._value)


class PendingReply(Generic[T]):
    """A request that was sent, and whose answer may come while the test does something else."""

    def __init__(self, cluster: Waits, deferred: "Deferred[T]") -> None:
        self._cluster = cluster
        self._result = _Result(deferred)

    @property
    def done(self) -> bool:
        """Whether the answer has come, or the request has failed."""
        return self._result.done

    def result(self) -> T:
        """Let time pass until the answer comes, and return it. Raises what the request raises."""
        self._cluster.run_until(lambda: self._result.done, 2 * LIMIT_S)
        return self._result.get()


class _Port(TwistedPort):
    """The port of a session on the network in memory, where host names are the names of machines."""

    def open_tcp(self, endpoint: Endpoint, factory: Any) -> "Deferred[Any]":
        """Open a connection to a machine."""
        reactor: Any = self._reactor
        attempt: Deferred[Any] = Deferred()
        reactor.connectTCP(endpoint[0], endpoint[1], _Attempt(reactor, factory, attempt))
        return attempt


class _Attempt:
    """The factory of one attempt to connect."""

    def __init__(self, reactor: MemoryReactor, factory: Any, attempt: "Deferred[Any]") -> None:
        self._reactor = reactor
        self._factory = factory
        self._attempt = attempt

    def buildProtocol(self, address: Any) -> Any:  # noqa: N802
        """Return the protocol, unless the attempt was cancelled."""
        if self._attempt.called:
            return None
        protocol = self._factory.buildProtocol(address)
        # The protocol gets its transport first.
        self._reactor.callLater(0, self._connected, protocol)
        return protocol

    def _connected(self, protocol: Any) -> None:
        if self._attempt.called:
            protocol.drop()
        else:
            self._attempt.callback(protocol)

    def clientConnectionFailed(self, connector: object, reason: Any) -> None:  # noqa: N802
        """Report that nobody answered."""
        del connector
        if not self._attempt.called:
            self._attempt.errback(reason)


class SimulatedClient:
    """A client on a machine of its own. Make it with `SimulatedCluster.client`.

    Its calls are those of `quorate.Connection`, and raise the same errors. A call lets virtual time pass
    until it is complete. All `timeout` are virtual seconds.
    """

    def __init__(
        self, cluster: Waits, net: MemoryNet, name: str, url: str, seed: str, settings: SessionSettings
    ) -> None:
        self.name = name
        """The machine of the client, for `SimulatedCluster.partition`."""
        self._cluster = cluster
        reactor: Any = net.machine(name)
        session = Session(parse_url(url), "root", "root", random.Random(seed).random, settings)
        driver = Driver(session, PendingRequests(settings.inbox_notes))
        self._connection = TwistedConnection(reactor, driver, LIMIT_S)
        opened: Deferred[str] = Deferred()
        driver.pending.expect_open(_Waiter(opened))
        driver.start(_Port(reactor, driver))
        self._wait(opened)

    def send(
        self, to: AgentId | ReplyTo | str, notification: Notification, *, timeout: float = LIMIT_S
    ) -> None:
        """Send a notification, and return when the cluster has it."""
        self._wait(self._connection.send(to, notification, timeout=timeout))

    def send_nowait(self, to: AgentId | ReplyTo | str, notification: Notification) -> None:
        """Send a notification. No time passes; it leaves with the next call that lets time pass."""
        sent: Deferred[None] = self._connection.send_nowait(to, notification)
        result = _Result(sent)
        if result.done:
            result.get()

    def flush(self, *, timeout: float = LIMIT_S) -> None:
        """Return when the cluster has everything sent so far."""
        self._wait(self._connection.flush(timeout=timeout))

    @overload
    def request(
        self, to: AgentId | str, notification: Notification, *, reply: type[N], timeout: float = LIMIT_S
    ) -> N: ...
    @overload
    def request(
        self,
        to: AgentId | str,
        notification: Notification,
        *,
        reply: ReplyTypes | None = None,
        timeout: float = LIMIT_S,
    ) -> Notification: ...
    def request(
        self,
        to: AgentId | str,
        notification: Notification,
        *,
        reply: type[Notification] | ReplyTypes | None = None,
        timeout: float = LIMIT_S,
    ) -> Notification:
        """Send a notification and return the agent's answer."""
        answer: Deferred[Notification] = self._connection.request(
            to, notification, reply=reply, timeout=timeout
        )
        return self._wait(answer)

    def begin_request(
        self,
        to: AgentId | str,
        notification: Notification,
        *,
        reply: type[Notification] | ReplyTypes | None = None,
        timeout: float = LIMIT_S,
    ) -> PendingReply[Notification]:
        """Send a notification, and return at once what will have the answer. No time passes."""
        deferred = self._connection.request(to, notification, reply=reply, timeout=timeout)
        return PendingReply(self._cluster, deferred)

    def receive(self, *, timeout: float = LIMIT_S) -> Received:
        """Return the next notification that answers no request."""
        return self._wait(self._connection.receive(timeout=timeout))

    def listen(
        self,
        callback: Callable[[Received], object],
        ended: Callable[[QuorateClientError | None], None] | None = None,
    ) -> None:
        """Have `callback` called with each notification that answers no request, while virtual time passes.

        It runs on the clock of the cluster, so it must not call this client: these calls let time pass.
        """
        self._connection.listen(callback, ended)

    def stop_listening(self) -> None:
        """Stop to call the listener; further notifications wait for `receive`."""
        self._wait(self._connection.stop_listening())

    def close(self) -> None:
        """Send what is left, and close the connection."""
        self._wait(self._connection.close())

    @property
    def reconnections(self) -> int:
        """Number of times that the connection was opened again."""
        return self._connection.reconnections

    @property
    def unacknowledged(self) -> int:
        """Number of notifications that the cluster has not acknowledged."""
        return self._connection.unacknowledged

    @property
    def is_open(self) -> bool:
        """Whether the connection is open at this moment."""
        return self._connection.is_open

    @property
    def connection(self) -> TwistedConnection:
        """The connection itself, on virtual time, for sessions of `quorate.messaging` and code of your own.

        Give coroutines that use it to `run` or `begin`.
        """
        return self._connection

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Let virtual time pass until a coroutine has ended, and return its result or raise its error."""
        return self._wait(Deferred.fromCoroutine(coroutine))

    def begin(self, coroutine: Coroutine[Any, Any, T]) -> PendingReply[T]:
        """Begin a coroutine, and return at once what will have its result. It goes on while time passes."""
        return PendingReply(self._cluster, Deferred.fromCoroutine(coroutine))

    def _wait(self, deferred: "Deferred[T]") -> T:
        result = _Result(deferred)
        # The timeout of the call ends it before.
        self._cluster.run_until(lambda: result.done, 10 * LIMIT_S)
        return result.get()


class _Waiter:
    """A Deferred in the shape of a future."""

    def __init__(self, deferred: "Deferred[str]") -> None:
        self._deferred = deferred

    def done(self) -> bool:
        return bool(self._deferred.called)

    def set_result(self, result: str) -> None:
        self._deferred.callback(result)

    def set_exception(self, exception: BaseException) -> None:
        self._deferred.errback(cast("Any", exception))
