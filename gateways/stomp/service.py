"""The service that STOMP clients connect to."""

from typing import Any, Final

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import Factory, connectionDone
from twisted.internet.protocol import Protocol as TwistedProtocol
from twisted.python.failure import Failure

from ...agents.rights import Grant, allows, needed_right
from ...client.frames import DEFAULT_MAX_FRAME
from ...client.twisted import TwistedConnection, tconnect
from ...hachannel.transport.addresses import host_port, listening_interface, unmapped
from ...hachannel.transport.ports import DelayedCallPort, ListeningPort
from ...messaging.agents.protocol import Settlement
from ...messaging.client.destinations import Destination, Topic
from ...messaging.client.errors import TransactionRolledBack
from ...messaging.client.message import Message
from ...services.base import Service, ServiceContext, ServiceError
from ...services.failed_logins import FailedLogins
from ...services.listening import listen
from ...services.manager import ConnectionManager
from ...tls.layer import proven_user
from ..session import GatewaySession, Pushing
from .frames import MAX_BODY_BYTES, Frame, encode_frame
from .messages import columns_of, consumer_options, headers_of, parse_destination
from .requests import Close, Commit, LogIn, Publish, Request, Rollback, Settle, Subscribe, Sync, Unsubscribe
from .session import StompSession

__all__ = ["StompService"]

MAX_CONNECTIONS: Final = 10_000
MAX_WAITING: Final = 1000
MAX_WAITING_BYTES: Final = 4 * 1024 * 1024
"""Requests of a client that are not done, beyond which nothing more is read from it."""
CLOSE_S: Final = 5.0
"""Time for a client to read the last bytes."""
PUBLISHING: Final = "quorate.message.open-producer"
CONSUMING: Final = "quorate.message.open-consumer"
TLS_NEEDED: Final = encode_frame(Frame("ERROR", {"message": "this server speaks TLS"}), "1.2")


class _Listener(Factory):
    noisy = False
    without_tls = TLS_NEEDED

    def __init__(self, service: "StompService") -> None:
        self._service = service

    def buildProtocol(self, addr: IAddress | None) -> "StompLink | None":  # noqa: N802, ARG002
        return self._service.new_link()


class StompLink(TwistedProtocol):
    """One connection of a client: carries bytes to the protocol, and its requests to messaging."""

    transport: Any

    def __init__(self, service: "StompService", ctx: ServiceContext) -> None:
        self._service = service
        self._ctx = ctx
        self._now = ctx.reactor.seconds
        self.core = StompSession(self._now(), ctx.server_name, MAX_BODY_BYTES)
        self.peer = self.host = "?"
        self.user = ""
        self.grants: list[Grant] | None = None
        self._session: GatewaySession | None = None
        self._connection: TwistedConnection | None = None
        self._consumers: dict[str, Pushing] = {}
        self._client_id = ""
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
        for consumer in self._consumers.values():
            consumer.pause()

    def resumeProducing(self) -> None:  # noqa: N802
        """Twisted: the client reads again."""
        for consumer in list(self._consumers.values()):
            consumer.resume()

    def stopProducing(self) -> None:  # noqa: N802
        """Twisted: the connection is closing."""

    # Requests of the protocol

    def flush(self) -> None:
        """Carry out what the protocol wants, and write its bytes."""
        while requests := self.core.requests():
            self._write()
            for request in requests:
                self._carry_out(request)
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

    def _carry_out(self, request: Request) -> None:
        match request:
            case LogIn(user, password, client_id):
                self._client_id = client_id
                self._service.log_in(self, user, password)
            case Publish():
                self._publish(request)
            case Subscribe():
                self._subscribe(request)
            case Unsubscribe():
                self._unsubscribe(request)
            case Settle():
                self._settle(request)
            case Commit(token, transaction):
                self._messaging.commit(transaction, lambda error: self._end(token, error))
            case Rollback(token, transaction):
                self._messaging.rollback(transaction, lambda error: self._end(token, error))
            case Sync(token):
                self._messaging.sync(lambda error: self._end(token, error))
            case Close(reason):
                self._close(reason)

    @property
    def _messaging(self) -> GatewaySession:
        assert self._session is not None
        return self._session

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
        self._session = GatewaySession(connection, self._client_id, max_frame)
        self.core.logged_in()
        self.flush()

    def _not_admitted(self, failure: Failure) -> None:
        self.core.refused(failure.getErrorMessage())
        self.flush()

    def _end(self, token: int, error: BaseException | None, size: int = 0) -> None:
        """Tell the protocol how a request has ended."""
        self._bytes -= size
        if error is None or (isinstance(error, TransactionRolledBack) and size):
            self.core.done(token)
        else:
            self.core.failed(token, str(error) or type(error).__name__)
        self._flush_soon()

    def _flush_soon(self) -> None:
        """Flush in the next turn of the reactor, once for all that comes until then."""
        if not self._flush_due:
            self._flush_due = True
            self._ctx.reactor.callLater(0, self._flush_now)

    def _flush_now(self) -> None:
        self._flush_due = False
        self.flush()

    def _checked(self, destination: Destination, type: str, doing: str) -> None:
        """Raise PermissionError unless the user has the right."""
        right = needed_right(destination.address, type)
        if (
            self.grants is not None
            and right is not None
            and not allows(self.grants, right, destination.address)
        ):
            self._ctx.count("denied")
            self._ctx.log(f"client {self.peer}: user {self.user} was denied to {doing} {destination.address}")
            raise PermissionError(f"user {self.user} has no right to {doing} {destination.address}")

    def _publish(self, request: Publish) -> None:
        size = len(request.body)
        self._bytes += size
        try:
            destination = parse_destination(request.destination)
            self._checked(destination, PUBLISHING, "send to")
            columns = columns_of(request.headers, request.body)
        except (ValueError, PermissionError) as error:
            self._end(request.token, error, size)
            return
        self._messaging.publish(
            destination,
            request.body,
            columns,
            request.transaction,
            lambda error: self._end(request.token, error, size),
        )

    def _subscribe(self, request: Subscribe) -> None:
        name = request.subscription
        try:
            destination = parse_destination(request.destination)
            self._checked(destination, CONSUMING, "receive from")
            options = consumer_options(request.headers, self._client_id or self.user)
        except (ValueError, PermissionError) as error:
            self._end(request.token, error)
            return

        def deliver(message: Message) -> None:
            headers, body = headers_of(message)
            self.core.deliver(name, message.number, headers, body)
            self._flush_soon()

        def ended(error: BaseException) -> None:
            self.core.ended(name, str(error))
            self.flush()

        pushing = self._consumers[name] = Pushing(self._messaging, destination, deliver, ended)
        self._messaging.subscribe(pushing, options, lambda error: self._end(request.token, error))

    def _unsubscribe(self, request: Unsubscribe) -> None:
        pushing = self._consumers.pop(request.subscription, None)
        if pushing is None:
            self._end(request.token, None)
            return
        options = consumer_options(
            {"id": request.subscription, **request.headers}, self._client_id or self.user
        )

        def closed(error: BaseException | None) -> None:
            if error is None and options.durable and isinstance(pushing.destination, Topic):
                self._messaging.end_durable(
                    pushing.destination, options.durable, lambda error: self._end(request.token, error)
                )
            else:
                self._end(request.token, error)

        self._messaging.unsubscribe(pushing, closed)

    def _settle(self, request: Settle) -> None:
        pushing = self._consumers.get(request.subscription)
        settlement = Settlement.ACCEPTED
        if not request.accepted:
            settlement = Settlement.RETURNED if request.requeue else Settlement.REJECTED
        if pushing is not None:
            self._messaging.settle(pushing, request.numbers, settlement, request.transaction)
        if request.token:
            self._messaging.sync(lambda error: self._end(request.token, error))

    def _close(self, reason: str) -> None:
        if self._gone:
            return
        if reason:
            self._ctx.log(f"client {self.peer}: {reason}")
        self._write()
        self.transport.unregisterProducer()
        self.transport.loseConnection()
        self._timer = self._ctx.reactor.callLater(CLOSE_S, self.transport.abortConnection)

    def end(self, text: str) -> None:
        """Close the connection from this side, with a sentence for the client."""
        self.core.refused(text)
        self.flush()


class StompService(Service):
    """Service ``StompService``; its argument is the port that clients connect to.

    It runs on the master, after a ConnectionManager, whose users may log in.
    """

    def __init__(self) -> None:
        self.links: set[StompLink] = set()
        self._port: ListeningPort | None = None
        self._users: ConnectionManager | None = None
        self._failed_logins = FailedLogins()
        self._stopped = False

    def init(self, ctx: ServiceContext, args: str, first_time: bool) -> None:  # noqa: ARG002
        """Listen. Raises ServiceError: wrong arguments, no ConnectionManager, port taken."""
        self._ctx = ctx
        words = args.split()
        if len(words) != 1 or not words[0].isdigit() or not 0 <= int(words[0]) < 65536:
            raise ServiceError('StompService takes a port; write args="61613"')
        self._users = ctx.sibling(ConnectionManager)
        if self._users is None:
            raise ServiceError("StompService needs the users of a ConnectionManager; declare that before it")
        interface = ctx.setting("client_interface", listening_interface(ctx.host))
        self._port = listen(ctx, int(words[0]), _Listener(self), interface)
        self._users.follow_changes(self._rights_changed)

    def stop(self) -> "Deferred[None] | None":
        """Stop listening, and end every client: it then looks for the new master."""
        self._stopped = True
        port, self._port = self._port, None
        for link in list(self.links):
            link.transport.abortConnection()
        return port.stopListening() if port is not None else None

    def new_link(self) -> StompLink | None:
        """Return the protocol of a new connection; None if there are too many."""
        if len(self.links) >= MAX_CONNECTIONS:
            self._ctx.count("refused_connections")
            return None
        return StompLink(self, self._ctx)

    def log_in(self, link: StompLink, user: str, password: str) -> None:
        """Check the password or the certificate of a client, after a pause if many wrong ones came."""
        wait_s = self._failed_logins.wait_s(self._ctx.reactor.seconds(), link.host, user)
        if wait_s is None:
            link.end("too many wrong passwords came from this address; try again later")
        elif wait_s:
            self._ctx.reactor.callLater(wait_s, self._check, link, user, password)
        else:
            self._check(link, user, password)

    def _check(self, link: StompLink, user: str, password: str) -> None:
        assert self._users is not None
        proven = proven_user(link.transport)
        if proven and not password and user in ("", proven):
            link.admit(proven, self._users.grants(proven))
            return
        self._users.verify(user, password).addCallback(self._verified, link, user)

    def _verified(self, right: bool | None, link: StompLink, user: str) -> None:
        assert self._users is not None
        if self._stopped or link.core.closed:
            return
        if right is None:
            link.end("too many passwords are being checked; try again")
        elif not right:
            self._failed_logins.failed(self._ctx.reactor.seconds(), link.host, user)
            self._ctx.count("authentication_failures")
            link.end("wrong user or password")
        else:
            self._failed_logins.succeeded(link.host, user)
            link.admit(user, self._users.grants(user))

    def _rights_changed(self) -> None:
        """End clients whose rights have changed, or whose user is gone."""
        assert self._users is not None
        for link in list(self.links):
            proven = bool(proven_user(link.transport))
            if link.user and self._users.outdated(link.user, link.grants, proven):
                link.end("the rights of the user have changed; connect again")
