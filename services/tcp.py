"""The service that clients connect to. It listens on the master only, and a slave refuses the TCP connection;
with ``mode="group"`` it listens on every replica of the view.

Source: HA Joram specification, sections 5.1.2 to 5.1.6. `ClientConnections` carries the connections; this
service accepts them on a port, and checks users and passwords.
"""

from typing import Final, cast

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import Factory
from twisted.python.failure import Failure

from ..agents.ids import FIRST_CONNECTION_STAMP, AgentId, connection_manager
from ..agents.manager import DEFAULT_MAX_CONNECTIONS, Open
from ..agents.presence import DescribeHomes, HomeDrained, Homes
from ..agents.proxy import Reopen
from ..client.frames import DEFAULT_MAX_FRAME, VERSION, ByeCode, Hello, tls_needed
from ..hachannel.transport.addresses import listening_interface
from ..hachannel.transport.ports import ListeningPort
from .base import ServiceContext, ServiceError
from .client_connection import ClientConnection
from .client_connections import UNKNOWN, ClientConnections
from .failed_logins import FailedLogins
from .listening import listen
from .manager import ConnectionManager, note_from_service

__all__ = ["ProxySettings", "TcpProxyService"]


DRAINED: Final = "this replica is being drained of clients; connect to another one"


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
    balance: str = "least"
    """Property ``balance``: how clients are divided among replicas that all serve them."""
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
            ctx.setting("balance", "least"),
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
    without_tls = tls_needed()

    def __init__(self, service: "TcpProxyService"):
        self._service = service

    def buildProtocol(self, addr: IAddress | None) -> ClientConnection:  # noqa: N802, ARG002
        return self._service.build_connection()


class TcpProxyService(ClientConnections):
    """Service ``TcpProxyService``; its arguments are ``port [idle timeout in seconds]``."""

    scope = "replica"

    def __init__(self) -> None:
        super().__init__()
        self._port: ListeningPort | None = None
        self._users: ConnectionManager | None = None
        self._failed_logins = FailedLogins()
        self._balance = ""
        self._drained = False
        """An administrator has ordered the clients to use other replicas."""

    def init(self, ctx: ServiceContext, args: str, first_time: bool) -> None:  # noqa: ARG002
        """Listen. Raises ServiceError: wrong arguments, no ConnectionManager, port taken."""
        settings = ProxySettings.read(args, ctx)
        self._users = ctx.sibling(ConnectionManager)
        if self._users is None:
            raise ServiceError(
                "TcpProxyService needs the users of a ConnectionManager; declare that service before it"
            )
        self.begin(ctx, settings)
        self._balance = settings.balance
        if ctx.homes:
            self._ask_drained()
        self._port = listen(ctx, settings.port, _Listener(self), settings.interface)
        self._users.follow_changes(self._rights_changed)

    def _rights_changed(self) -> None:
        """Send clients whose rights have changed, or whose user is gone, through the handshake again."""
        assert self._users is not None
        for link in list(self.links):
            if link.user and self._users.outdated(link.user, link.grants, bool(link.proven_user)):
                link.send_bye(ByeCode.UNAVAILABLE, "the rights of the user have changed; connect again")

    @property
    def port(self) -> int:
        """The number of the port that the service listens on."""
        assert self._port is not None
        return int(self._port.getHost().port)

    def stop(self) -> "Deferred[None] | None":
        """Stop listening, and disconnect every client: it then looks for the new master."""
        port, self._port = self._port, None
        self.disconnect_all()
        return port.stopListening() if port is not None else None

    def home_drained(self, message: HomeDrained) -> None:
        """Send the clients of this replica to others, or accept clients again."""
        if message.home == self._home:
            self._drained = message.drained
            for link in list(self.links) if message.drained else ():
                link.send_bye(ByeCode.UNAVAILABLE, DRAINED)

    def _ask_drained(self) -> None:
        """Learn whether clients are to use other replicas: this one has just started."""

        def answered(homes: Homes) -> None:
            self.home_drained(HomeDrained(self.ctx.replica, self.ctx.replica in homes.drained))

        asked = self.ctx.ask(connection_manager(self.ctx.server_id), DescribeHomes(), reply=Homes)

        def unknown(_: Failure) -> None:
            # Without a master no client can open a connection either.
            self.log("it is not known whether this replica is being drained of clients")

        cast("Deferred[Homes]", asked).addCallbacks(answered, unknown)

    # Opening.

    def open_connection(self, link: ClientConnection, hello: Hello) -> None:
        """Open or reopen the connection that a client asks for."""
        if hello.version < 1:
            link.send_bye(ByeCode.VERSION, f"this server speaks version {VERSION} of the protocol")
            return
        link.attempt = hello.attempt
        if self._drained:
            link.send_bye(ByeCode.UNAVAILABLE, DRAINED)
            return
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
        """Check the password or the certificate of a client, then open or reopen its connection."""
        if link.closed or self._stopped:
            return
        assert self._users is not None
        if not hello.password and hello.user and hello.user == link.proven_user:
            self._verified(True, link, hello)
            return
        self._users.verify(hello.user, hello.password).addCallback(self._verified, link, hello)

    def _verified(self, right: bool | None, link: ClientConnection, hello: Hello) -> None:
        """Open or reopen a connection, if the password is right."""
        if link.closed or self._stopped:
            return
        assert self._users is not None
        if right is None:
            link.send_bye(ByeCode.UNAVAILABLE, "too many passwords are being checked; try again")
            return
        if not right:
            self._failed_logins.failed(self.ctx.reactor.seconds(), link.host, hello.user)
            self.ctx.count("authentication_failures")
            self.log(f"client {link.peer}: wrong user or password")
            link.send_bye(ByeCode.AUTHENTICATION, "wrong user or password")
            return
        self._failed_logins.succeeded(link.host, hello.user)
        link.user, link.grants = hello.user, self._users.grants(hello.user)
        if hello.connection is None:
            request = Open(
                hello.user,
                self.settings.idle_timeout_s,
                self.settings.max_connections,
                administrator=self._users.administers(hello.user),
                home=self._home,
                attempt=link.attempt,
                balance=self._balance,
                grants=link.grants,
            )
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
        administrator = self._users.administers(hello.user)
        reopen = Reopen(
            hello.user,
            hello.out_ack,
            administrator,
            self._home,
            link.attempt,
            self.ctx.local_context,
            link.grants,
        )
        note = note_from_service(self.ctx, proxy, reopen)
        self._request(link, note, lambda reply: self._reopened(link, proxy, reply))

    @property
    def _home(self) -> int | None:
        return self.ctx.replica if self.ctx.homes else None

    def replica_endpoints(self) -> list[tuple[str, int]]:
        """Return host and port of this service on each replica."""
        replicas: list[tuple[str, int]] = []
        for _, host, args in self.ctx.peers:
            word = args.split()[:1]
            if word and word[0].isdigit():
                replicas.append((host, int(word[0])))
        return replicas
