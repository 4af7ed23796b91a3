"""One connection of a foreign client: bytes go to its protocol, and requests to messaging."""

from collections.abc import Callable
from typing import Any, Final, Generic, Protocol, TypeVar

from twisted.internet.protocol import Protocol as TwistedProtocol
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure

from ..agents.rights import Grant, allows, needed_right
from ..client.frames import DEFAULT_MAX_FRAME
from ..client.twisted import TwistedConnection, tconnect
from ..hachannel.transport.addresses import host_port, unmapped
from ..hachannel.transport.ports import DelayedCallPort
from ..messaging.agents.protocol import Browse, OpenConsumer, OpenProducer
from ..messaging.client.destinations import Destination
from ..messaging.client.errors import NotAllowed, TransactionRolledBack
from ..services.base import ServiceContext
from .requests import Close, Commit, Rollback
from .session import GatewaySession

__all__ = ["BROWSING", "CONSUMING", "PUBLISHING", "GatewayLink", "GatewayProtocol", "LinkOwner"]

MAX_WAITING: Final = 1000
MAX_WAITING_BYTES: Final = 4 * 1024 * 1024
"""Requests of a client that are not done, beyond which nothing more is read from it."""
CLOSE_S: Final = 5.0
"""Time for a client to read the last bytes."""
PUBLISHING: Final = OpenProducer.type_name
CONSUMING: Final = OpenConsumer.type_name
BROWSING: Final = Browse.type_name
"""What a right is needed for: see `checked`."""


class GatewayProtocol(Protocol):
    """The side of the server in a foreign protocol, without I/O."""

    closed: bool

    @property
    def deadline(self) -> float | None:
        """When `tick` is to be called next; None: never."""
        ...

    @property
    def waiting(self) -> int:
        """How many requests are not done."""
        ...

    def requests(self) -> list[Any]:
        """Return the requests since the last call, in their order."""
        ...

    def data_to_send(self, now: float) -> bytes:
        """Return the bytes to write since the last call."""
        ...

    def received(self, now: float, data: bytes) -> None:
        """Take bytes of the client."""
        ...

    def tick(self, now: float) -> None:
        """Take note of the time."""
        ...

    def lost(self) -> None:
        """Take note that the connection is gone."""
        ...

    def logged_in(self) -> None:
        """Let the client in."""
        ...

    def refused(self, text: str) -> None:
        """Turn the client away. text: one sentence for it."""
        ...

    def done(self, token: int) -> None:
        """Take note that a request is done."""
        ...


class LinkOwner(Protocol):
    """The service of a link."""

    links: "set[Any]"

    def log_in(self, link: Any, user: str, password: str) -> None:
        """Check the password or the certificate of a client, then call `admit` or `end`."""
        ...


Core = TypeVar("Core", bound=GatewayProtocol)


class GatewayLink(TwistedProtocol, Generic[Core]):
    """The edge of all foreign protocols. A subclass carries out the requests that only its protocol has."""

    transport: Any

    def __init__(self, service: LinkOwner, ctx: ServiceContext, core: Core) -> None:
        self._service = service
        self._ctx = ctx
        self._now: Callable[[], float] = ctx.reactor.seconds
        self.core = core
        self.peer = self.host = "?"
        self.user = ""
        self.grants: list[Grant] | None = None
        self.consumers: dict[str, Any] = {}
        self._session: GatewaySession | None = None
        self._connection: TwistedConnection | None = None
        self._bytes = 0
        """Of messages that no destination has yet."""
        self._reading = True
        self._timer: DelayedCallPort | None = None
        self._timer_at = 0.0
        self._flush_due = False
        self._gone = False

    # Twisted

    def connectionMade(self) -> None:  # noqa: N802
        """Twisted: the connection is open."""
        address = self.transport.getPeer()
        self.host = unmapped(str(getattr(address, "host", "")))
        self.peer = host_port(self.host, getattr(address, "port", "?"))
        self.transport.setTcpNoDelay(True)
        self.transport.registerProducer(self, True)
        self._service.links.add(self)
        self._arm()

    def dataReceived(self, data: bytes) -> None:  # noqa: N802
        """Twisted: bytes arrived."""
        self.core.received(self._now(), data)
        self.flush()

    def connectionLost(self, reason: Failure = connectionDone) -> None:  # noqa: N802, ARG002
        """Twisted: the connection is gone. What the client has not acknowledged returns."""
        self._gone = True
        self._service.links.discard(self)
        self.core.lost()
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close(timeout=CLOSE_S).addErrback(lambda _: None)

    def pauseProducing(self) -> None:  # noqa: N802
        """Twisted: the client does not read."""
        for consumer in self.consumers.values():
            consumer.pause()

    def resumeProducing(self) -> None:  # noqa: N802
        """Twisted: the client reads again."""
        for consumer in list(self.consumers.values()):
            consumer.resume()

    def stopProducing(self) -> None:  # noqa: N802
        """Twisted: the connection is closing."""

    # The protocol

    def carry_out(self, request: Any) -> None:
        """Carry out a request of the protocol."""
        match request:
            case Commit(token, transaction):
                self.messaging.commit(transaction, lambda error: self.ended(token, error))
            case Rollback(token, transaction):
                self.messaging.rollback(transaction, lambda error: self.ended(token, error))
            case Close(reason):
                self.close(reason)
            case _:
                raise AssertionError(request)

    def failed(self, token: int, error: BaseException) -> None:
        """Tell the protocol that a request has failed."""
        raise NotImplementedError

    def flush(self) -> None:
        """Carry out what the protocol wants, and write its bytes."""
        while requests := self.core.requests():
            self._write()
            for request in requests:
                self.carry_out(request)
        self._write()
        waits = self.core.waiting > MAX_WAITING or self._bytes > MAX_WAITING_BYTES
        if waits is self._reading and not self._gone:
            self._reading = not waits
            (self.transport.pauseProducing if waits else self.transport.resumeProducing)()
        self._arm()

    def _write(self) -> None:
        if not self._gone and (data := self.core.data_to_send(self._now())):
            self.transport.write(data)

    def _arm(self) -> None:
        """Have `_tick` called at the deadline; a call that comes earlier does no harm."""
        deadline = self.core.deadline
        if deadline is None or self._gone:
            return
        if self._timer is not None and self._timer.active():
            if self._timer_at <= deadline:
                return
            self._timer.cancel()
        self._timer_at = deadline
        self._timer = self._ctx.reactor.callLater(max(0.0, deadline - self._now()), self._tick)

    def _tick(self) -> None:
        self._timer = None
        self.core.tick(self._now())
        self.flush()

    def flush_soon(self) -> None:
        """Flush in the next turn of the reactor, once for all that comes until then."""
        if not self._flush_due:
            self._flush_due = True
            self._ctx.reactor.callLater(0, self._flush_now)

    def _flush_now(self) -> None:
        self._flush_due = False
        self.flush()

    # The user

    def admit(self, user: str, grants: list[Grant] | None) -> None:
        """Let a client in, whose password was right."""
        self.user, self.grants = user, grants
        url = f"local:{self._ctx.server_name}"
        opening = tconnect(self._ctx.reactor, url, user=user)
        opening.addCallbacks(self._admitted, self._not_admitted)

    def _admitted(self, connection: TwistedConnection) -> None:
        if self._gone or self.core.closed:
            connection.close(timeout=CLOSE_S).addErrback(lambda _: None)
            return
        self._connection = connection
        max_frame = int(self._ctx.setting("max_frame", str(DEFAULT_MAX_FRAME)))
        self._session = GatewaySession(connection, max_frame=max_frame)
        self.core.logged_in()
        self.flush()

    def _not_admitted(self, failure: Failure) -> None:
        self.end(failure.getErrorMessage())

    def checked(self, destination: Destination, type: str) -> None:
        """Raise NotAllowed unless the user may publish, or consume, as the notification's type says."""
        right = needed_right(destination.address, type)
        if self.grants is None or right is None or allows(self.grants, right, destination.address):
            return
        doing = {PUBLISHING: "send to", BROWSING: "browse"}.get(type, "receive from")
        self._ctx.count("denied")
        self._ctx.log(f"client {self.peer}: user {self.user} was denied to {doing} {destination.address}")
        raise NotAllowed(f"user {self.user} has no right to {doing} {destination.address}")

    # What all protocols ask for

    @property
    def messaging(self) -> GatewaySession:
        """The messaging of a client that was let in."""
        assert self._session is not None
        return self._session

    def ended(self, token: int, error: BaseException | None, size: int = 0) -> None:
        """Tell the protocol how a request has ended. size: bytes of a message that was published."""
        self._bytes -= size
        if error is None or (isinstance(error, TransactionRolledBack) and size):
            self.core.done(token)
        else:
            self.failed(token, error)
        self.flush_soon()

    def publish(
        self, token: int, destination: Destination, body: bytes, columns: Any, transaction: str
    ) -> None:
        """Send a message."""
        size = len(body)
        self._bytes += size
        try:
            self.checked(destination, PUBLISHING)
        except NotAllowed as error:
            self.ended(token, error, size)
            return
        self.messaging.publish(
            destination, body, columns, transaction, lambda error: self.ended(token, error, size)
        )

    def close(self, reason: str) -> None:
        """Write what is left, and close the connection. reason: for the log, if not empty."""
        if self._gone:
            return
        if reason:
            self._ctx.log(f"client {self.peer}: {reason}")
        self._write()
        self.transport.unregisterProducer()
        self.transport.loseConnection()
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = self._ctx.reactor.callLater(CLOSE_S, self.transport.abortConnection)

    def end(self, text: str) -> None:
        """Close the connection from this side, with a sentence for the client."""
        self.core.refused(text)
        self.flush()
