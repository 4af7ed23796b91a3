"""The built-in agent that opens client connections. Source: HA Joram specification, section 5.1.2."""

from typing import Final

import attrs

from .agent import Agent, reacts
from .balance import overloaded
from .builtin import Created, CreateFailed
from .context import Context
from .ids import FIRST_CONNECTION_STAMP, AgentId, outside
from .notification import Notification
from .permissions import Permissions
from .presence import DescribeHomes, DrainHome, HomeDrained, Homes, HomesChanged, Moved
from .proxy import CLIENT_TOPIC, CloseConnection, ConnectionEnded, MasterChanged, ProxyAgent
from .rights import Grant

__all__ = [
    "DEFAULT_MAX_CONNECTIONS",
    "LOCAL_USER",
    "CloseLocal",
    "ConnectionManagerAgent",
    "Open",
    "OpenRefused",
    "Opened",
]

LOCAL_USER: Final = "(local)"
"""First word of the user of a collocated client: no user of the network has a space in its name."""

DEFAULT_MAX_CONNECTIONS = 10_000
"""Property ``max_connections``: clients of a proxy service. The server must be able to open as many files."""


@attrs.frozen
class Open(Notification, name="quorate.connection.open"):
    """Request of the service, which has checked the password: open a connection for a user.

    Answered with `Opened` or `OpenRefused`.
    """

    user: str
    idle_timeout_s: float
    max_connections: int
    local: bool = False
    """Whether the client runs in the process of the master: the connection ends with the mastership."""
    administrator: bool = False
    """Whether the user may create and administer agents."""
    home: int | None = None
    """The replica of the client; None where clients connect to the master only."""
    attempt: int = 0
    """Number of the handshake of the client."""
    balance: str = ""
    """How clients are divided among the replicas: see `balance`."""
    grants: list[Grant] | None = None
    """The rights of the user, see `rights`; None: none are set."""


@attrs.frozen
class CloseLocal(Notification, name="quorate.connection.close-local"):
    """Order of a new master: close the connections of clients in the process of a former one."""


@attrs.frozen
class Opened(Notification, name="quorate.connection.opened"):
    """The connection is open; its identifier is that of its proxy agent."""

    connection: AgentId


@attrs.frozen
class OpenRefused(Notification, name="quorate.connection.open-refused"):
    """Answer to `Open`: there are too many connections."""

    reason: str
    elsewhere: bool = False
    """Another replica has room."""


@attrs.define
class ConnectionManagerAgent(Agent, name="quorate.connection-manager"):
    """Keeps the list of the open connections."""

    connections: dict[str, str] = attrs.field(factory=dict[str, str])
    """User of each connection, by the text of its identifier."""
    opened: int = 0
    """Number of connections opened so far."""
    local: dict[str, str] = attrs.field(factory=dict[str, str])
    """User of each connection from the process of the master, by the text of its identifier."""

    loads: dict[int, int] = attrs.field(factory=dict[int, int])
    """Number of connections by home."""
    homes: dict[str, int] = attrs.field(factory=dict[str, int])
    """Home of each connection that has one, by the text of its identifier."""
    view: list[int] = attrs.field(factory=list[int])
    live_homes: list[int] = attrs.field(factory=list[int])
    """The replicas of the last view."""
    drained: list[int] = attrs.field(factory=list[int])
    """The replicas that take no clients, as an administrator has ordered."""

    @reacts
    def open(self, ctx: Context, note: Open) -> None:
        """Create the proxy agent of a connection."""
        self._only_from_service(ctx)
        homes = [each for each in self.live_homes if each not in self.drained]
        if note.home is not None and overloaded(note.balance, note.home, self.loads, homes, note.attempt):
            ctx.send(ctx.sender, OpenRefused("this replica has more clients than the others", elsewhere=True))
            return
        if len(self.connections) + len(self.local) >= note.max_connections:
            ctx.send(ctx.sender, OpenRefused(f"the server has {note.max_connections} connections already"))
            return
        here = ctx.agent.host
        proxy = AgentId(here, here, FIRST_CONNECTION_STAMP + self.opened)
        self.opened += 1
        state = {
            "permissions": Permissions(note.user, note.administrator, note.grants),
            "idle_timeout_s": note.idle_timeout_s,
            "home": note.home,
            "attempt": note.attempt,
        }
        if note.home is not None:
            self._settle(str(proxy), note.home)
        ctx.create_at(proxy, ProxyAgent, state)
        (self.local if note.local else self.connections)[str(proxy)] = note.user
        ctx.send(proxy, MasterChanged())
        ctx.send(ctx.sender, Opened(proxy))

    @reacts
    def ended(self, ctx: Context, _: ConnectionEnded) -> None:
        """Remove a connection that its proxy has ended."""
        connection = str(ctx.sender)
        self.connections.pop(connection, None)
        self.local.pop(connection, None)
        self._settle(connection, None)

    @reacts
    def moved(self, ctx: Context, note: Moved) -> None:
        """Count a client at its new home."""
        if str(ctx.sender) in self.connections:
            self._settle(str(ctx.sender), note.home)

    @reacts
    def homes_changed(self, ctx: Context, note: HomesChanged) -> None:
        """Remember the replicas of the view."""
        self._only_from_service(ctx)
        if note.view > self.view:
            self.view, self.live_homes = note.view, note.homes

    @reacts
    def describe_homes(self, ctx: Context, _: DescribeHomes) -> None:
        """Answer with the replicas and the clients that each has."""
        ctx.send(ctx.reply_to, self._homes())

    @reacts
    def drain(self, ctx: Context, note: DrainHome) -> None:
        """Have the clients of a replica leave it, or let them use it again."""
        self._only_from_service(ctx)
        left = [each for each in self.live_homes if each not in (*self.drained, note.home)]
        if note.drained and not left:
            problem = "no other replica of the view is left that clients could use"
            ctx.send(ctx.reply_to, attrs.evolve(self._homes(), problem=problem))
            return
        self.drained = sorted({*self.drained, note.home} if note.drained else {*self.drained} - {note.home})
        ctx.emit(CLIENT_TOPIC, HomeDrained(note.home, note.drained))
        ctx.send(ctx.reply_to, self._homes())

    def _homes(self) -> Homes:
        loads = {home: load for home, load in sorted(self.loads.items()) if load}
        return Homes(self.view, self.live_homes, loads, self.drained)

    def _settle(self, connection: str, home: int | None) -> None:
        former = self.homes.pop(connection, None)
        if former is not None:
            self.loads[former] -= 1
        if home is not None:
            self.homes[connection] = home
            self.loads[home] = self.loads.get(home, 0) + 1

    @reacts
    def close_local(self, ctx: Context, _: CloseLocal) -> None:
        """Close the connections of collocated clients: the process of each is master no longer."""
        self._only_from_service(ctx)
        for connection in self.local:
            ctx.send(AgentId.parse(connection), CloseConnection())

    @reacts
    def master_changed(self, ctx: Context, note: MasterChanged) -> None:
        """Restart the idle time of every connection, so that its client can find the new master."""
        self._only_from_service(ctx)
        for connection in self.connections:
            ctx.send(AgentId.parse(connection), note)

    @reacts
    def created(self, __: Context, _: Created | CreateFailed) -> None:
        """Ignore the answers of the factory: the creation of a proxy on this server cannot fail."""

    def _only_from_service(self, ctx: Context) -> None:
        if ctx.sender != outside(ctx.agent.host):
            raise PermissionError("only the services of the server open connections")
