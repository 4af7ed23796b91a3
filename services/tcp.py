"""The service that clients connect to. It listens on the master only: a slave refuses the TCP connection.

Source: HA Joram specification, sections 5.1.2 to 5.1.6. Frames are in `quorate.client.frames`; the connection
context is the state of a proxy agent (`quorate.agents.proxy`). What a client sends is checked once and posted
to the proxy as it is; nothing is acknowledged here, only by the proxy, once committed.
"""

from collections.abc import Callable
from typing import Any, Final, cast

import attrs
import msgspec
from twisted.internet.defer import Deferred
from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import Factory
from twisted.python.failure import Failure

from ..agents.congestion import CONGESTION_TOPIC, Congested, Uncongested
from ..agents.envelope import Note
from ..agents.ids import FIRST_CONNECTION_STAMP, AgentId, connection_manager, outside
from ..agents.manager import DEFAULT_MAX_CONNECTIONS, Open, Opened, OpenRefused
from ..agents.notification import decode
from ..agents.proxy import (
    CLIENT_INPUT,
    CLIENT_TOPIC,
    ClientEnd,
    ClientInput,
    ClientOutput,
    CloseConnection,
    Reopen,
    Reopened,
    ReopenRefused,
)
from ..client.frames import DEFAULT_MAX_FRAME, VERSION, ByeCode, Hello, Ping, Welcome
from ..hachannel.transport.addresses import listening_interface
from ..hachannel.transport.direct_write import DirectWriteReactor
from ..hachannel.transport.ports import ListeningPort
from .base import Service, ServiceContext, ServiceError
from .client_connection import ClientConnection
from .failed_logins import FailedLogins
from .manager import ConnectionManager, note_from_service

__all__ = ["ProxySettings", "TcpProxyService"]

REQUEST_TIMEOUT_S: Final = 5.0
"""Time for the connection manager or a proxy to answer."""
LOG_LINES: Final = 10
LOG_PERIOD_S: Final = 10.0
"""At most `LOG_LINES` lines about misbehaving clients are logged in this time."""
WINDOW: Final = 16384
"""Unacknowledged notifications that a client may have."""
UNKNOWN: Final = "this server knows no such connection"
SILENT: Final = "it was closed, or was silent for longer than the server waits for a client"


@attrs.frozen
class ProxySettings:
    """The settings of the service, from its arguments and the properties of the configuration."""

    port: int
    idle_timeout_s: float = 60.0
    """Second argument of the service: silence after which a connection expires."""
    max_frame: int = DEFAULT_MAX_FRAME
    """Property ``max_frame``: bytes."""
    max_connections: int = DEFAULT_MAX_CONNECTIONS
    """Property ``max_connections``: client connections, with or without a TCP connection at present."""
    interface: str = ""
    """Property ``client_interface``: the address to listen on; all of them by default, but the loopback
    if the host of the replica is a name or an address of it."""

    @classmethod
    def read(cls, args: str, ctx: ServiceContext) -> "ProxySettings":
        """Read the settings. Raises ServiceError."""
        words = args.split()
        if not 1 <= len(words) <= 2:
            raise ServiceError(
                'TcpProxyService takes a port and perhaps an idle timeout in seconds; write args="2560 60"'
            )
        port = _number("the port of TcpProxyService", words[0], 0, 65535)
        idle = _number("the idle timeout of TcpProxyService", words[1], 1, 10**7) if words[1:] else 60
        max_frame = ctx.setting("max_frame", str(DEFAULT_MAX_FRAME))
        max_connections = ctx.setting("max_connections", str(DEFAULT_MAX_CONNECTIONS))
        return cls(
            int(port),
            float(idle),
            int(_number("property max_frame", max_frame, 4096, 1 << 22)),
            int(_number("property max_connections", max_connections, 1, 10**6)),
            ctx.setting("client_interface", listening_interface(ctx.host)),
        )


def _number(what: str, text: str, low: int, high: int) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not low <= value <= high:
        raise ServiceError(f"{what} must be a number from {low} to {high}, not {text!r}")
    return value


class _Listener(Factory):
    """The factory of the client connections that the port accepts."""

    noisy = False

    def __init__(self, service: "TcpProxyService"):
        self._service = service

    def buildProtocol(self, addr: IAddress | None) -> ClientConnection:  # noqa: N802, ARG002
        return self._service.build_connection()


class TcpProxyService(Service):
    """Service ``TcpProxyService``; its arguments are ``port [idle timeout in seconds]``."""

    ctx: ServiceContext
    settings: ProxySettings

    def __init__(self) -> None:
        self.links: set[ClientConnection] = set()
        self._routes: dict[AgentId, list[ClientConnection]] = {}
        self._to_flush: list[ClientConnection] = []
        self._congested: dict[AgentId, set[int]] = {}
        """By proxy agent, the servers that its client sends to and for which too much waits."""
        self._port: ListeningPort | None = None
        self._users: ConnectionManager | None = None
        self._failed_logins = FailedLogins()
        self._reading = True
        self._stopped = False
        self._log_since = float("-inf")
        self._log_lines = 0

    def init(self, ctx: ServiceContext, args: str, first_time: bool) -> None:  # noqa: ARG002
        """Listen. Raises ServiceError: wrong arguments, no ConnectionManager, port taken."""
        self.ctx = ctx
        self.settings = ProxySettings.read(args, ctx)
        self._users = ctx.sibling(ConnectionManager)
        if self._users is None:
            raise ServiceError(
                "TcpProxyService needs the users of a ConnectionManager; declare that service before it"
            )
        ctx.subscribe(CLIENT_TOPIC, self._handle_emission)
        ctx.subscribe(CONGESTION_TOPIC, self._handle_congestion)
        try:
            self._port = DirectWriteReactor(ctx.reactor).listenTCP(
                self.settings.port, _Listener(self), interface=self.settings.interface
            )
        except CannotListenError as error:
            reason = getattr(error.socketError, "strerror", None) or error.socketError
            raise ServiceError(
                f"port {self.settings.port} of {ctx.host} cannot be listened on ({reason}); "
                "stop the program that uses it or change the port in the configuration"
            ) from None

    @property
    def port(self) -> int:
        """The number of the port that the service listens on."""
        assert self._port is not None
        return int(self._port.getHost().port)

    def stop(self) -> "Deferred[None] | None":
        """Stop listening, and disconnect every client: it then looks for the new master."""
        self._stopped = True
        port, self._port = self._port, None
        for link in list(self.links):
            link.send_bye(ByeCode.UNAVAILABLE, "this replica is no longer master")
        return port.stopListening() if port is not None else None

    # TCP connections.

    def build_connection(self) -> ClientConnection:
        """Make the protocol of a new TCP connection."""
        return ClientConnection(self, self.ctx.reactor, self.settings)

    def connection_made(self, link: ClientConnection) -> None:
        """Record a TCP connection. With too many, it is refused."""
        self.links.add(link)
        self.ctx.gauge("connections", len(self.links))
        # Not the limit itself: a client may reconnect before the end of its former TCP connection is noticed.
        # The connection manager limits the number of proxies.
        if len(self.links) > 2 * self.settings.max_connections:
            link.send_bye(
                ByeCode.FULL, f"this server has {self.settings.max_connections} connections already"
            )

    def connection_lost(self, link: ClientConnection) -> None:
        """Forget a TCP connection. Its connection context stays until the idle timeout."""
        self.links.discard(link)
        self._unroute(link)
        self.ctx.gauge("connections", len(self.links))

    def _unroute(self, link: ClientConnection) -> None:
        routed = self._routes.get(link.proxy) if link.proxy is not None else None
        if routed and link in routed:
            routed.remove(link)
            if not routed and link.proxy is not None:
                del self._routes[link.proxy]
                self._congested.pop(link.proxy, None)

    def protocol_violated(self, link: ClientConnection, reason: str) -> None:
        """Count and log that a client does not follow the protocol."""
        self.ctx.count("garbage")
        self.log(f"client {link.peer}: {reason}")

    def log(self, line: str) -> None:
        """Log a line about a client, unless there were too many of them lately."""
        now = self.ctx.reactor.seconds()
        if now - self._log_since >= LOG_PERIOD_S:
            self._log_since, self._log_lines = now, 0
        self._log_lines += 1
        if self._log_lines <= LOG_LINES:
            self.ctx.log(line)
        elif self._log_lines == LOG_LINES + 1:
            self.ctx.log(f"further lines about clients are left out for {LOG_PERIOD_S:g} s")

    # Opening.

    def open_connection(self, link: ClientConnection, hello: Hello) -> None:
        """Open or reopen the connection that a client asks for."""
        if hello.version < 1:
            link.send_bye(ByeCode.VERSION, f"this server speaks version {VERSION} of the protocol")
            return
        link.attempt = hello.attempt
        assert self._users is not None
        wait_s = self._failed_logins.wait_s(self.ctx.reactor.seconds(), link.host, hello.user)
        if wait_s is None:
            self.log(f"client {link.peer}: refused unread, too many wrong passwords came from its address")
            link.send_bye(
                ByeCode.UNAVAILABLE, "too many wrong passwords came from this address; try again later"
            )
        elif wait_s:
            self.ctx.reactor.callLater(wait_s, self._log_in, link, hello)
        else:
            self._log_in(link, hello)

    def _log_in(self, link: ClientConnection, hello: Hello) -> None:
        """Check the password of a client, then open or reopen its connection."""
        if link.closed or self._stopped:
            return
        assert self._users is not None
        if not self._users.check(hello.user, hello.password):
            self._failed_logins.failed(self.ctx.reactor.seconds(), link.host, hello.user)
            self.ctx.count("authentication_failures")
            self.log(f"client {link.peer}: wrong user or password")
            link.send_bye(ByeCode.AUTHENTICATION, "wrong user or password")
            return
        self._failed_logins.succeeded(link.host, hello.user)
        if hello.connection is None:
            request = Open(hello.user, self.settings.idle_timeout_s, self.settings.max_connections)
            note = note_from_service(self.ctx, connection_manager(self.ctx.server_id), request)
            self._request(link, note, lambda reply: self._opened(link, reply))
            return
        try:
            proxy = AgentId.parse(hello.connection)
        except ValueError:
            proxy = None
        if proxy is None or proxy.host != self.ctx.server_id or proxy.stamp < FIRST_CONNECTION_STAMP:
            link.send_bye(ByeCode.EXPIRED, UNKNOWN)
            return
        link.proxy = proxy
        self._routes.setdefault(proxy, []).append(link)
        reopen = Reopen(hello.user, hello.out_ack)
        note = note_from_service(self.ctx, proxy, reopen)
        self._request(link, note, lambda reply: self._reopened(link, proxy, reply))

    def _request(self, link: ClientConnection, note: Note, answered: Callable[[Note], None]) -> None:
        def failed(failure: Failure) -> None:
            error = cast("BaseException", failure.value)  # pyright: ignore[reportUnknownMemberType]
            if not isinstance(error, TimeoutError) and not self._stopped:
                self.log(f"client {link.peer}: opening failed: {error}")
            link.send_bye(ByeCode.UNAVAILABLE, "this replica cannot open a connection at the moment")

        self.ctx.request(note, REQUEST_TIMEOUT_S).addCallback(answered).addErrback(failed)

    def _opened(self, link: ClientConnection, reply: Note) -> None:
        if reply.type != Opened.type_name:
            refused = reply.type == OpenRefused.type_name
            reason = decode(OpenRefused, reply.payload).reason if refused else "it cannot open a connection"
            link.send_bye(ByeCode.FULL if refused else ByeCode.UNAVAILABLE, reason)
            return
        proxy = decode(Opened, reply.payload).connection
        if link.closed:
            # The client has made another attempt meanwhile, which got another proxy.
            self.ctx.post([note_from_service(self.ctx, proxy, CloseConnection())])
            return
        link.proxy = proxy
        self._routes[proxy] = [link]
        link.open(self._welcome(proxy, self.settings.idle_timeout_s, 0), 1, [])
        if not self._reading:
            link.pause_reading()

    def _reopened(self, link: ClientConnection, proxy: AgentId, reply: Note) -> None:
        if link.closed:
            return
        if reply.type != Reopened.type_name or reply.sender != proxy:
            foreign = reply.type == ReopenRefused.type_name
            if foreign:
                self.log(f"client {link.peer}: asked for the connection of another user")
            link.send_bye(ByeCode.EXPIRED, UNKNOWN if foreign else SILENT)
            return
        others = [other for other in self._routes[proxy] if other is not link and not other.closed]
        if any(other.attempt > link.attempt for other in others):
            # A later handshake of the client was processed first.
            link.send_bye(ByeCode.REPLACED, "the connection was opened again elsewhere")
            return
        for former in [other for other in others if other.is_open]:
            former.send_bye(ByeCode.REPLACED, "the connection was opened again elsewhere")
        reopened = decode(Reopened, reply.payload)
        self.ctx.count("reconnections")
        welcome = self._welcome(proxy, reopened.idle_timeout_s, reopened.in_ack)
        if proxy in self._congested:
            link.hold_acks()
        link.open(welcome, reopened.first_seq, reopened.notes)
        if not self._reading:
            link.pause_reading()

    def _welcome(self, proxy: AgentId, idle_timeout_s: float, in_ack: int) -> Welcome:
        replicas: list[tuple[str, int]] = []
        for _, host, args in self.ctx.peers:
            word = args.split()[:1]
            if word and word[0].isdigit():
                replicas.append((host, int(word[0])))
        return Welcome(VERSION, str(proxy), replicas, idle_timeout_s, self.settings.max_frame, WINDOW, in_ack)

    # The flow.

    def submit_inputs(self, link: ClientConnection, bodies: list[bytes]) -> None:
        """Post the bodies of input frames, checked, to the proxy of a link."""
        assert link.proxy is not None
        sender = outside(self.ctx.server_id)
        self.ctx.post([Note(link.proxy, sender, CLIENT_INPUT, body) for body in bodies])
        if self._reading and not self.ctx.accepting:
            self._reading = False
            for other in self.links:
                other.pause_reading()
            self.ctx.when_accepting(self._resume_reading)

    def _resume_reading(self) -> None:
        self._reading = True
        for link in list(self.links):
            link.resume_reading()

    def keep_alive(self, link: ClientConnection, ping: Ping) -> None:
        """Post a keep-alive of a client, with the numbers of what it has received and sent."""
        self.submit_inputs(link, [msgspec.msgpack.encode(ClientInput(ping.out_ack, ping.next_seq, []))])

    def close(self, link: ClientConnection) -> None:
        """Post that a client closes its connection."""
        assert link.proxy is not None
        self.ctx.post([note_from_service(self.ctx, link.proxy, CloseConnection())])

    def _handle_emission(self, proxy: AgentId, message: msgspec.Struct) -> None:
        for link in list(self._routes.get(proxy, ())):
            if isinstance(message, ClientOutput):
                link.send_output(message)
            elif isinstance(message, ClientEnd):
                link.end(message)

    def _handle_congestion(self, proxy: AgentId, message: msgspec.Struct) -> None:
        """Hold back the clients that send to a server for which too much waits."""
        if isinstance(message, Congested):
            if proxy in self._routes:
                self._congested.setdefault(proxy, set()).add(message.server)
                for link in self._routes[proxy]:
                    link.hold_acks()
        elif isinstance(message, Uncongested):
            for each, servers in list(self._congested.items()):
                servers.discard(message.server)
                if not servers:
                    del self._congested[each]
                    for link in self._routes.get(each, ()):
                        link.release_acks()

    def schedule_flush(self, link: ClientConnection) -> None:
        """Flush a link at the end of this turn of the reactor: all its output of the turn is one write."""
        if not self._to_flush:
            cast("Any", self.ctx.reactor).callLater(0, self._flush)
        self._to_flush.append(link)

    def _flush(self) -> None:
        links, self._to_flush = self._to_flush, []
        for link in links:
            link.flush()
