"""The base class of services, and the context through which a service uses its server.

A service is named in ``a3servers.xml``. Its ``init`` is called when its replica becomes master and its
``stop`` when the replica is no longer master or the server ends. It sees the server through the
`ServiceContext` only, so it can be tested with a small double.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol, TypeVar

import attrs
import msgspec
from twisted.internet.defer import Deferred

from ..agents.agent import Agent
from ..agents.envelope import Note, ReplyTo
from ..agents.ids import Address, AgentId
from ..agents.notification import Notification
from ..hachannel.transport.ports import ReactorPort

S = TypeVar("S", bound="Service")

EmissionCallback = Callable[[AgentId, msgspec.Struct], None]

NO_STATE: Final[Mapping[str, Any]] = {}
ASK_TIMEOUT_S: Final = 30.0
"""Seconds that `ServiceContext.ask` and `ServiceContext.create` wait for an answer, unless they are told."""
MAX_THREADS: Final = 64
"""Functions that one service may have called in threads at a time: see `ServiceContext.in_thread`."""


class ServiceError(Exception):
    """A service cannot start or work as it is configured. The text is one sentence for the administrator."""


class NotMaster(Exception):
    """This replica is not, or no longer, the master: the server did not get what the service sent."""


class ServiceContext(Protocol):
    """The server as a service sees it. Everything is called in the reactor thread."""

    @property
    def server_id(self) -> int:
        """Identifier of the server (of the cluster, for a replicated one)."""
        ...

    @property
    def server_name(self) -> str:
        """Name of the server."""
        ...

    @property
    def replica(self) -> int:
        """Identifier of this replica inside the cluster; 0 in a plain server."""
        ...

    @property
    def host(self) -> str:
        """Host name of this replica, as in the configuration."""
        ...

    @property
    def homes(self) -> bool:
        """Whether clients connect to every replica of the view (``mode="group"``), not to the master only."""
        ...

    @property
    def local_context(self) -> bool:
        """Whether what groups have for a client is at its home only (``context="local"``)."""
        ...

    @property
    def directory(self) -> Path:
        """A directory of this replica for files of services. It need not exist yet."""
        ...

    def follow_views(self, callback: "ViewCallback") -> None:
        """Call `callback` with the present view of the replicas, if there is one, and with each later one."""
        ...

    @property
    def peers(self) -> Sequence[tuple[int, str, str]]:
        """(replica id, host, arguments of this same service there) of every replica, this one included."""
        ...

    @property
    def reactor(self) -> ReactorPort:
        """The reactor. Its delayed calls wait while the replica may not serve.

        A process that was stopped for a while finds calls due when it continues, but by then another replica
        may serve.
        """
        ...

    @property
    def client_reactor(self) -> ReactorPort:
        """The reactor for ports of clients: what it accepts speaks TLS if the replica has certificates."""
        ...

    @property
    def accepting(self) -> bool:
        """Whether the server accepts input. While it does not, a service stops reading from its clients.

        It accepts input for other servers however much waits for them: see `agents.congestion`.
        """
        ...

    def when_accepting(self, callback: Callable[[], None]) -> None:
        """Call `callback` once, as soon as `accepting` is true; now if it is."""
        ...

    def setting(self, name: str, default: str = "") -> str:
        """Return the value of a ``<property>`` of the replica, else of its server or the configuration."""
        ...

    def sibling(self, service: type[S]) -> S | None:
        """Return the service of that class which runs in this replica, or None.

        Services start in the order of their declaration, each after the one before it has started.
        """
        ...

    def siblings(self, service: type[S]) -> list[S]:
        """Return all services of that class and its subclasses which run, or start, in this replica."""
        ...

    def log(self, line: str) -> None:
        """Write one line to the log of the server."""
        ...

    def count(self, metric: str, n: int = 1) -> None:
        """Add to a counter that ``quorate status`` shows."""
        ...

    def gauge(self, metric: str, value: float) -> None:
        """Set a value that ``quorate status`` shows."""
        ...

    def status(self, line: str) -> None:
        """Set the line that ``quorate status`` shows for this service while it runs; "" for none."""
        ...

    def send(self, to: Address | ReplyTo, notification: Notification) -> None:
        """Send a notification to an agent: an id, a name, a name on another server (``alice@s1``), or the
        `ReplyTo` of a request that the service answers.

        Nothing is reported, neither a failure of the agent nor the end of this replica's mastership, with
        which what is not committed is lost: `submit` and `ask` report that.
        Raises TypeError or ValueError for a notification or an address that cannot be sent.
        """
        ...

    def submit(self, to: Address, notification: Notification) -> "Deferred[None]":
        """Send a notification; the Deferred fires once it is committed, so that no failure can lose it.

        It fails with `NotMaster` if this replica stops being master before it knows that, with
        `ReactionError` or `UnknownAgentError` if the agent is on this server and failed, or is not there.
        Raises as `send` does.
        """
        ...

    def ask(
        self,
        to: Address,
        notification: Notification,
        timeout_s: float = ASK_TIMEOUT_S,
        reply: type[Notification] | tuple[type[Notification], ...] | None = None,
    ) -> "Deferred[Notification]":
        """Send a notification; the Deferred fires with the agent's answer, decoded.

        `reply`: the class, or the classes, that the answer may have; None: any that this process has defined.
        It fails with `ReactionError`, `UnhandledTypeError`, `UnknownAgentError` or `UnexpectedReply`, with
        TimeoutError if no answer came in time, and with `NotMaster`. Raises as `send` does.
        """
        ...

    def create(
        self,
        cls: type[Agent],
        *,
        name: str | None = None,
        stamp: int | None = None,
        state: Mapping[str, Any] = NO_STATE,
    ) -> "Deferred[AgentId]":
        """Have an agent, made once: the Deferred fires with its id, whether it is new or was there already.

        The agent is known by its `name`, by its `stamp`, or by both. A stamp is one of those that are
        reserved for services, `FIRST_SERVICE_STAMP` to 1024; the id is then the same in every life of the
        server. `state` holds arguments of the constructor, and is used only when the agent is made.
        It fails with AgentError if the name or the id belongs to an agent of another class, or the class
        cannot be loaded, with TimeoutError and with `NotMaster`. Raises AgentError, TypeError or ValueError
        for a class, state, name or stamp that cannot be used. Source: HA Joram specification, 4.6.1.
        """
        ...

    def receive(self, name: str, callback: Callable[[AgentId, Any], Any]) -> "Deferred[AgentId]":
        """Receive what agents and clients send to `name`, which becomes the name of an agent: an inbox.

        `callback` gets the sender and the notification (`Opaque` if this process does not know its type), one
        after the other, in order. It may be ``async def`` or return a Deferred; the next one waits for that.
        The notification that it returns is the answer; None is none. What it raises is logged, and answered
        with an `ExceptionNotification`. The inbox is replicated and keeps each notification until it is
        handled, so the next master's service gets it again, and each is answered at most once. More than
        10,000 notifications, or 16 MiB, are refused to their senders.
        The Deferred fires with the id of the inbox, or fails as that of `create` does.
        """
        ...

    def in_thread(self, function: Callable[..., Any], *args: Any) -> "Deferred[Any]":
        """Call a function that blocks in a thread of its own; the Deferred fires with what it returns.

        It fires in the reactor thread. Cancelling it abandons the thread, which nothing can stop. The
        function must not use the context: nothing here is safe for other threads. Fails with `ServiceError`
        if `MAX_THREADS` threads of this service run already.
        """
        ...

    def post(self, notes: list[Note]) -> None:
        """Put notifications into the next batch, in the order of the calls.

        There is no answer. What is not committed is lost if the master fails.
        """
        ...

    def request(self, note: Note, timeout_s: float) -> "Deferred[Note]":
        """Send a notification and wait for its reply, undecoded; `ask` decodes it.

        The sender must be ``outside(server)``; the context sets the request token. The Deferred fails with
        ``TimeoutError`` when no reply came, with any other exception when this replica stopped being master.
        """
        ...

    def subscribe(self, topic: str, callback: EmissionCallback) -> None:
        """Call `callback` with (agent, message) for every emission of built-in agents on a topic.

        The calls come in order, and only when the emission is committed. Only the master gets them.
        """
        ...


@attrs.frozen
class ServerView:
    """The replicas of a server that hold its state at present."""

    number: tuple[int, ...]
    """Later views have greater numbers."""
    members: tuple[int, ...]
    """Identifiers of the replicas, that of the master first."""


ViewCallback = Callable[[ServerView], None]


class Role(StrEnum):
    """The role of a replica, as the callback of `Service.on_replica` gets it."""

    JOINING = "joining"
    """It has no state yet: it waits for the others, or receives the state of one of them."""
    MASTER = "master"
    """It serves: its services are about to start, or run."""
    SLAVE = "slave"
    """It follows a master."""
    CHANGING = "changing"
    """A new view is being formed, or this replica leads and may not serve yet."""
    BLOCKED = "blocked"
    """It cannot go on: too few replicas are left or reachable."""
    STOPPED = "stopped"
    """It has stopped. No other role follows."""


@attrs.frozen
class ReplicaInfo:
    """The replica that `Service.on_replica` is called for."""

    server_id: int
    """Identifier of its server."""
    server_name: str
    replica: int
    """Identifier of the replica inside the cluster; 0 in a plain server."""
    args: str
    """The arguments of the service at this replica, as in the configuration."""
    reactor: ReactorPort
    """The reactor. Unlike that of `ServiceContext`, its delayed calls come whatever the role is."""
    log: Callable[[str], None]
    """Writes one line to the log of the replica."""


RoleCallback = Callable[[Role], None]


class Service:
    """Base class of services. The classes named in the XML derive from it and take no argument.

    A service object lives from the call of `init` to that of `stop`: on the master only, unless `scope` says
    otherwise.
    """

    scope: ClassVar[str] = "master"
    """``"replica"``: in a server with ``mode="group"`` the service runs on every replica of the view, and
    keeps running when the master changes. What it posts is ordered once, and after what it posted before."""

    @classmethod
    def on_replica(cls, replica: ReplicaInfo) -> RoleCallback | None:  # noqa: ARG003
        """Return a callback for the roles of a replica; None, unless a subclass overrides it, for none.

        Called once on every replica, slaves included, when it starts; not on witnesses. The callback then
        gets each role of the replica, in order, in the reactor thread, from ``JOINING`` to ``STOPPED``. The
        services of a master are initialized after the callback with ``MASTER``. When the role is lost they
        are stopped after the callback with the next role; when the replica is stopped in order, before it.
        What either raises is logged and counted (``service_errors``), and changes nothing else.
        """
        return None

    @classmethod
    def class_flaw(cls) -> str:
        """Return why no object of this class can serve, as one sentence; "" if nothing is known.

        `quorate check` and the start of a replica ask for it. Must not read or change anything but the class.
        """
        if cls.init is Service.init:
            return f"{cls.__name__} has no method init(self, ctx, args, first_time), which starts a service"
        try:
            inspect.signature(cls).bind()
        except (TypeError, ValueError):
            return f"{cls.__name__} cannot be made: a service takes no argument, and its args come with init"
        return ""

    def init(self, ctx: ServiceContext, args: str, first_time: bool) -> Awaitable[None] | None:
        """Start. May be ``async def``, or return a Deferred: later services start when it is done.

        ``first_time`` is true if nothing was ever committed in the life of the cluster. What the service
        posts before it returns is part of the first entry. If the first master fails before that entry is
        committed, ``first_time`` is true for the next master, too.
        Raises `ServiceError` (or fails the Deferred with it) when the service cannot run.
        """
        raise NotImplementedError

    def stop(self) -> Awaitable[None] | None:
        """Stop and free everything; the same object is never started again. May be ``async def``."""
        return None
