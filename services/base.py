"""The base class of services, and the context through which a service uses its server.

A service is named in ``a3servers.xml``. Its ``init`` is called when its replica becomes master and its
``stop`` when the replica is no longer master or the server ends. It sees the server through the
`ServiceContext` only, so it can be tested with a small double.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

import msgspec
from twisted.internet.defer import Deferred

from ..agents.envelope import Note
from ..agents.ids import AgentId
from ..hachannel.transport.ports import ReactorPort

S = TypeVar("S", bound="Service")

EmissionCallback = Callable[[AgentId, msgspec.Struct], None]


class ServiceError(Exception):
    """A service cannot start or work as it is configured. The text is one sentence for the administrator."""


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

    def log(self, line: str) -> None:
        """Write one line to the log of the server."""
        ...

    def count(self, metric: str, n: int = 1) -> None:
        """Add to a counter that ``quorate status`` shows."""
        ...

    def gauge(self, metric: str, value: float) -> None:
        """Set a value that ``quorate status`` shows."""
        ...

    def post(self, notes: list[Note]) -> None:
        """Put notifications into the next batch, in the order of the calls.

        There is no answer. What is not committed is lost if the master fails.
        """
        ...

    def request(self, note: Note, timeout_s: float) -> "Deferred[Note]":
        """Send a notification and wait for its reply.

        The sender must be ``outside(server)``; the context sets the request token. The Deferred fails with
        ``TimeoutError`` when no reply came, with any other exception when this replica stopped being master.
        """
        ...

    def subscribe(self, topic: str, callback: EmissionCallback) -> None:
        """Call `callback` with (agent, message) for every emission of built-in agents on a topic.

        The calls come in order, and only when the emission is committed. Only the master gets them.
        """
        ...


class Service:
    """Base class of services. The classes named in the XML derive from it and take no argument."""

    def init(self, ctx: ServiceContext, args: str, first_time: bool) -> "Deferred[None] | None":
        """Start.

        ``first_time`` is true if nothing was ever committed in the life of the cluster. What the service
        posts before it returns is part of the first entry. If the first master fails before that entry is
        committed, ``first_time`` is true for the next master, too.
        Raises `ServiceError` (or fails the Deferred with it) when the service cannot run.
        """
        raise NotImplementedError

    def stop(self) -> "Deferred[None] | None":
        """Stop and free everything; the same object is never started again."""
        return None
