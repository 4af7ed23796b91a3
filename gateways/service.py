"""What the services that foreign clients connect to have in common: a port, users, and their links."""

from typing import Any, ClassVar, Final

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import Factory

from ..hachannel.transport.addresses import listening_interface
from ..hachannel.transport.ports import ListeningPort
from ..services.base import Service, ServiceContext, ServiceError
from ..services.failed_logins import FailedLogins
from ..services.listening import listen
from ..services.manager import ConnectionManager
from ..tls.layer import proven_user
from .link import GatewayLink

__all__ = ["GatewayService"]

MAX_CONNECTIONS: Final = 10_000


class _Listener(Factory):
    noisy = False

    def __init__(self, service: "GatewayService") -> None:
        self._service = service
        self.without_tls = service.tls_needed

    def buildProtocol(self, addr: IAddress | None) -> GatewayLink[Any] | None:  # noqa: N802, ARG002
        return self._service.new_link()


class GatewayService(Service):
    """A service that runs on the master, after a ConnectionManager, whose users may log in.

    Its argument is the port that clients connect to.
    """

    port_example: ClassVar[str] = ""
    tls_needed: ClassVar[bytes] = b""
    """What a client is told that speaks plain text where TLS is required."""

    def __init__(self) -> None:
        self.links: set[GatewayLink[Any]] = set()
        self._port: ListeningPort | None = None
        self._users: ConnectionManager | None = None
        self._failed_logins = FailedLogins()
        self._stopped = False

    def make_link(self, ctx: ServiceContext) -> GatewayLink[Any]:
        """Return the protocol of a new connection."""
        raise NotImplementedError

    def init(self, ctx: ServiceContext, args: str, first_time: bool) -> None:  # noqa: ARG002
        """Listen. Raises ServiceError: wrong arguments, no ConnectionManager, port taken."""
        self._ctx = ctx
        name = type(self).__name__
        words = args.split()
        if len(words) != 1 or not words[0].isdigit() or not 0 <= int(words[0]) < 65536:
            raise ServiceError(f'{name} takes a port; write args="{self.port_example}"')
        self._users = ctx.sibling(ConnectionManager)
        if self._users is None:
            raise ServiceError(f"{name} needs the users of a ConnectionManager; declare that before it")
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

    def new_link(self) -> GatewayLink[Any] | None:
        """Return the protocol of a new connection; None if there are too many."""
        if len(self.links) >= MAX_CONNECTIONS:
            self._ctx.count("refused_connections")
            return None
        return self.make_link(self._ctx)

    def log_in(self, link: GatewayLink[Any], user: str, password: str) -> None:
        """Check the password or the certificate of a client, after a pause if many wrong ones came."""
        wait_s = self._failed_logins.wait_s(self._ctx.reactor.seconds(), link.host, user)
        if wait_s is None:
            link.end("too many wrong passwords came from this address; try again later")
        elif wait_s:
            self._ctx.reactor.callLater(wait_s, self._check, link, user, password)
        else:
            self._check(link, user, password)

    def _check(self, link: GatewayLink[Any], user: str, password: str) -> None:
        assert self._users is not None
        proven = proven_user(link.transport)
        if proven and not password and user in ("", proven):
            link.admit(proven, self._users.grants(proven))
            return
        self._users.verify(user, password).addCallback(self._verified, link, user)

    def _verified(self, right: bool | None, link: GatewayLink[Any], user: str) -> None:
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
