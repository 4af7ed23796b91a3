"""Client connections of a service: their routes, opening and flow, whatever carries their bytes.

Source: HA Joram specification, sections 5.1.2 to 5.1.6. Frames are in `quorate.client.frames`; the connection
context is the state of a proxy agent (`quorate.agents.proxy`). What a client sends is checked once and posted
to the proxy as it is; nothing is acknowledged here, only by the proxy, once committed.
"""

from collections.abc import Callable
from typing import Any, ClassVar, Final, Protocol, cast

import msgspec
from twisted.python.failure import Failure

from ..agents.congestion import CONGESTION_TOPIC, Congested, Uncongested
from ..agents.envelope import Note
from ..agents.ids import AgentId, outside
from ..agents.manager import Opened, OpenRefused
from ..agents.notification import decode
from ..agents.presence import ClientMoved, ClientSuspected, HomeDrained
from ..agents.proxy import (
    CLIENT_INPUT,
    CLIENT_TOPIC,
    ClientDenied,
    ClientEnd,
    ClientInput,
    ClientOutput,
    CloseConnection,
    Reopened,
    ReopenRefused,
)
from ..client.frames import VERSION, ByeCode, Hello, Ping, StreamAck, Welcome
from .base import Service, ServiceContext
from .client_connection import ClientConnection
from .manager import note_from_service

__all__ = ["SILENT", "UNKNOWN", "WINDOW", "ClientConnections", "ConnectionSettings"]

REQUEST_TIMEOUT_S: Final = 5.0
"""Time for the connection manager or a proxy to answer."""
LOG_LINES: Final = 10
LOG_PERIOD_S: Final = 10.0
"""At most `LOG_LINES` lines about misbehaving clients are logged in this time."""
WINDOW: Final = 16384
"""Unacknowledged notifications that a client may have."""
UNKNOWN: Final = "this server knows no such connection"
ELSEWHERE: Final = "the connection was opened again elsewhere"
SILENT: Final = "it was closed, or was silent for longer than the server waits for a client"


class ConnectionSettings(Protocol):
    """The settings of a service with client connections."""

    @property
    def idle_timeout_s(self) -> float:
        """Silence after which a connection expires."""
        ...

    @property
    def max_frame(self) -> int:
        """Largest frame, in bytes."""
        ...

    @property
    def max_connections(self) -> int:
        """Client connections of the server."""
        ...


class StreamServer(Protocol):
    """The service that sends streams to the clients that follow them."""

    def opened(self, link: ClientConnection) -> None:
        """Note that a client has connected."""
        ...

    def closed(self, link: ClientConnection) -> None:
        """Note that the TCP connection of a client has ended."""
        ...

    def vanished(self, link: ClientConnection) -> None:
        """Note that the TCP connection of a client had ended when its proxy learned of it."""
        ...

    def acknowledged(self, link: ClientConnection, ack: StreamAck) -> None:
        """Note how far a client has the streams that it follows."""
        ...

    def suspected(self, link: ClientConnection) -> None:
        """Note that a client is suspected, by whomever, though its TCP connection is open."""
        ...


class ClientConnections(Service):
    """Base class of the services that clients connect to. A subclass accepts and authenticates them.

    The class has more than 20 methods: ten are the interface `ConnectionOwner` of its connections.
    """

    gauge: ClassVar = "connections"
    """The name under which the number of connections is shown."""
    ctx: ServiceContext
    settings: ConnectionSettings

    def __init__(self) -> None:
        self.links: set[ClientConnection] = set()
        self._routes: dict[AgentId, list[ClientConnection]] = {}
        self.streams: StreamServer | None = None
        """The service for streams, if there is one."""
        self._to_flush: list[ClientConnection] = []
        self._congested: dict[AgentId, set[int]] = {}
        """By proxy agent, the servers that its client sends to and for which too much waits."""
        self._reading = True
        self._stopped = False
        self._log_since = float("-inf")
        self._log_lines = 0

    def begin(self, ctx: ServiceContext, settings: ConnectionSettings) -> None:
        """Begin to pass what proxies emit to their clients; called by ``init``."""
        self.ctx = ctx
        self.settings = settings
        ctx.subscribe(CLIENT_TOPIC, self._handle_emission)
        ctx.subscribe(CONGESTION_TOPIC, self._handle_congestion)

    def disconnect_all(self) -> None:
        """Disconnect every client, because this replica is no longer master; called by ``stop``."""
        self._stopped = True
        role = "serves clients no longer" if self.ctx.homes else "is no longer master"
        for link in list(self.links):
            link.send_bye(ByeCode.UNAVAILABLE, f"this replica {role}")

    def open_connection(self, link: ClientConnection, hello: Hello) -> None:
        """Open or reopen the connection that a client asks for."""
        raise NotImplementedError

    def home_drained(self, message: HomeDrained) -> None:
        """Process that clients are to leave a replica, or may use it again."""

    def replica_endpoints(self) -> list[tuple[str, int]]:
        """Return host and port of each replica, for clients that reconnect; none if they cannot."""
        return []

    # Connections.

    def build_connection(self) -> ClientConnection:
        """Make the protocol of a new connection."""
        return ClientConnection(self, self.ctx.reactor, self.settings)

    def connection_made(self, link: ClientConnection) -> None:
        """Record a connection. With too many, it is refused."""
        self.links.add(link)
        self.ctx.gauge(self.gauge, len(self.links))
        # Not the limit itself: a client may reconnect before the end of its former TCP connection is noticed.
        # The connection manager limits the number of proxies.
        if len(self.links) > 2 * self.settings.max_connections:
            link.send_bye(
                ByeCode.FULL, f"this server has {self.settings.max_connections} connections already"
            )

    def connection_lost(self, link: ClientConnection) -> None:
        """Forget a connection. Its connection context stays until the idle timeout."""
        self.links.discard(link)
        self._unroute(link)
        if self.streams is not None and link.proxy is not None:
            self.streams.closed(link)
        self.ctx.gauge(self.gauge, len(self.links))

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

    def _request(self, link: ClientConnection, note: Note, answered: Callable[[Note], None]) -> None:
        def failed(failure: Failure) -> None:
            error = cast("BaseException", failure.value)  # pyright: ignore[reportUnknownMemberType]
            if not isinstance(error, TimeoutError) and not self._stopped:
                self.log(f"client {link.peer}: opening failed: {error}")
            link.send_bye(ByeCode.UNAVAILABLE, "this replica cannot open a connection at the moment")

        self.ctx.request(note, REQUEST_TIMEOUT_S).addCallback(answered).addErrback(failed)

    def _opened(self, link: ClientConnection, reply: Note) -> None:
        if reply.type != Opened.type_name:
            refused = decode(OpenRefused, reply.payload) if reply.type == OpenRefused.type_name else None
            full = refused is not None and not refused.elsewhere
            reason = refused.reason if refused is not None else "it cannot open a connection"
            link.send_bye(ByeCode.FULL if full else ByeCode.UNAVAILABLE, reason)
            return
        proxy = decode(Opened, reply.payload).connection
        if link.closed:
            # The client has made another attempt meanwhile, which got another proxy.
            self.ctx.post([note_from_service(self.ctx, proxy, CloseConnection())])
            return
        link.proxy = proxy
        self._routes[proxy] = [link]
        link.open(self._welcome(proxy, self.settings.idle_timeout_s, 0), 1, [])
        self._link_opened(link)

    def _reopened(self, link: ClientConnection, proxy: AgentId, reply: Note) -> None:
        if link.closed:
            if self.streams is not None and reply.type == Reopened.type_name and reply.sender == proxy:
                self.streams.vanished(link)
            return
        if reply.type != Reopened.type_name or reply.sender != proxy:
            refused = decode(ReopenRefused, reply.payload) if reply.type == ReopenRefused.type_name else None
            if refused is not None and refused.replaced:
                link.send_bye(ByeCode.REPLACED, ELSEWHERE)
                return
            if refused is not None and refused.taken:
                link.send_bye(ByeCode.CLOSED, refused.taken)
                return
            if refused is not None and refused.home is not None:
                place = f"{self.ctx.server_name}.{refused.home}"
                link.send_bye(ByeCode.UNAVAILABLE, f"the groups of this connection are at replica {place}")
                return
            foreign = refused is not None
            if foreign:
                self.log(f"client {link.peer}: asked for the connection of another user")
            link.send_bye(ByeCode.EXPIRED, UNKNOWN if foreign else SILENT)
            return
        others = [other for other in self._routes[proxy] if other is not link and not other.closed]
        if any(other.attempt > link.attempt for other in others):
            # A later handshake of the client was processed first.
            link.send_bye(ByeCode.REPLACED, ELSEWHERE)
            return
        for former in [other for other in others if other.is_open]:
            former.send_bye(ByeCode.REPLACED, ELSEWHERE)
        reopened = decode(Reopened, reply.payload)
        self.ctx.count("reconnections")
        welcome = self._welcome(proxy, reopened.idle_timeout_s, reopened.in_ack)
        if proxy in self._congested:
            link.hold_acks()
        link.open(welcome, reopened.first_seq, reopened.notes)
        self._link_opened(link)

    def _link_opened(self, link: ClientConnection) -> None:
        if self.streams is not None:
            self.streams.opened(link)
        if not self._reading:
            link.pause_reading()

    def _welcome(self, proxy: AgentId, idle_timeout_s: float, in_ack: int) -> Welcome:
        replicas = self.replica_endpoints()
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

    def stream_acked(self, link: ClientConnection, ack: StreamAck) -> None:
        """Pass on how far a client has the streams that it follows."""
        if self.streams is not None:
            self.streams.acknowledged(link, ack)

    def close(self, link: ClientConnection) -> None:
        """Post that a client closes its connection."""
        assert link.proxy is not None
        self.ctx.post([note_from_service(self.ctx, link.proxy, CloseConnection())])

    def _handle_emission(self, proxy: AgentId, message: msgspec.Struct) -> None:
        if isinstance(message, ClientDenied):
            if proxy not in self._routes:
                return
            self.ctx.count("denied")
            self.log(f"user {message.user} of connection {proxy} was denied {message.text}")
            return
        if isinstance(message, HomeDrained):
            self.home_drained(message)
        for link in list(self._routes.get(proxy, ())):
            if isinstance(message, ClientOutput):
                link.send_output(message)
            elif isinstance(message, ClientEnd):
                link.end(message)
            elif isinstance(message, ClientMoved) and link.attempt < message.attempt:
                link.send_bye(ByeCode.REPLACED, ELSEWHERE)
            elif isinstance(message, ClientSuspected) and link.attempt == message.attempt and self.streams:
                self.streams.suspected(link)

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
