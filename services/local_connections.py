"""The service that clients in the process of the master connect to. Every replica has it, without an XML.

Source: HA Joram specification, section 5.2. The protocol is that of `TcpProxyService`, over a connection
inside of the process. A connection is never reopened: it ends when this replica is master no longer.
"""

from typing import Any, ClassVar, Final, Protocol, cast

import attrs
from twisted.python.failure import Failure

from ..agents.builtin import CreateFailed
from ..agents.envelope import Note
from ..agents.ids import connection_manager
from ..agents.manager import DEFAULT_MAX_CONNECTIONS, LOCAL_USER, Open
from ..agents.notification import decode
from ..client.frames import DEFAULT_MAX_FRAME, VERSION, ByeCode, Hello
from ..client.local.link import LinkEnd
from ..client.local.server import LocalListener
from .base import ServiceContext
from .client_connection import ClientConnection
from .client_connections import UNKNOWN, ClientConnections
from .local_transport import LocalTransport
from .manager import create_manager, note_from_service

__all__ = ["LocalConnections"]

IDLE_TIMEOUT_S: Final = 60.0
"""Silence after which a connection expires: its event loop has ended, or stands still."""


@attrs.frozen
class _Settings:
    """The settings of the service, from the properties of the configuration."""

    max_frame: int
    max_connections: int
    idle_timeout_s: float = IDLE_TIMEOUT_S


class LocalContext(ServiceContext, Protocol):
    """The server as this service sees it."""

    def listen_local(self, listener: LocalListener | None) -> None:
        """Have connections of clients in this process passed to `listener`; None: to nobody."""
        ...


class LocalConnections(ClientConnections):
    """Connections of the clients in this process."""

    gauge: ClassVar = "local_connections"

    def __init__(self) -> None:
        super().__init__()
        self._has_manager = False

    def init(self, ctx: ServiceContext, args: str, first_time: bool) -> None:  # noqa: ARG002
        """Accept clients of this process."""
        max_frame = ctx.setting("max_frame", str(DEFAULT_MAX_FRAME))
        max_connections = ctx.setting("max_connections", str(DEFAULT_MAX_CONNECTIONS))
        self.begin(ctx, _Settings(int(max_frame), int(max_connections)))
        cast("LocalContext", ctx).listen_local(self.accept)

    def stop(self) -> None:
        """End all connections: another replica may be master now."""
        cast("LocalContext", self.ctx).listen_local(None)
        self.disconnect_all()

    def accept(self, end: LinkEnd) -> None:
        """Serve a new connection."""
        connection = self.build_connection()
        transport = LocalTransport(end, connection, self.ctx.reactor)
        cast("Any", connection).makeConnection(transport)

    def open_connection(self, link: ClientConnection, hello: Hello) -> None:
        """Open the connection of a client. Its user is what it says, or nobody."""
        if hello.version < 1:
            link.send_bye(ByeCode.VERSION, f"this server speaks version {VERSION} of the protocol")
        elif hello.connection is not None:
            link.send_bye(ByeCode.EXPIRED, UNKNOWN)
        elif self._has_manager:
            self._open(link, hello.user)
        else:
            create_manager(self.ctx).addCallback(self._created, link, hello.user).addErrback(
                self._failed, link
            )

    def _created(self, reply: Note, link: ClientConnection, user: str) -> None:
        if reply.type == CreateFailed.type_name:
            link.send_bye(ByeCode.UNAVAILABLE, decode(CreateFailed, reply.payload).reason)
            return
        self._has_manager = True
        if not link.closed:
            self._open(link, user)

    def _open(self, link: ClientConnection, user: str) -> None:
        name = f"{LOCAL_USER} {user}" if user else LOCAL_USER
        settings = self.settings
        request = Open(
            name, settings.idle_timeout_s, settings.max_connections, local=True, administrator=True
        )
        note = note_from_service(self.ctx, connection_manager(self.ctx.server_id), request)
        self._request(link, note, lambda reply: self._opened(link, reply))

    def _failed(self, failure: Failure, link: ClientConnection) -> None:
        if not self._stopped:
            self.log(f"a client in this process cannot be served: {failure.getErrorMessage()}")
        link.send_bye(ByeCode.UNAVAILABLE, "this replica cannot open a connection at the moment")
