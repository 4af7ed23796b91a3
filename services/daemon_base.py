"""The base class of the service that is all of a server with ``mode="mesh"``, and its view of the server.

Such a server has no agents. Each replica runs the service from its start to its end, on its own: there is no
master. The server connects it with the other replicas, and gives it the commands of administrators.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from twisted.internet.defer import Deferred

from ..hachannel.transport.addresses import Address
from ..hachannel.transport.ports import ReactorPort
from .base import Service, ServiceContext

__all__ = ["CommandRefused", "DaemonContext", "DaemonEvent", "DaemonService"]


class CommandRefused(Exception):
    """A command of an administrator cannot be carried out. The text is one sentence for people."""


class DaemonEvent(NamedTuple):
    """An event in the trace of a daemon, about records with consecutive numbers of one stream."""

    kind: str
    """What happened: see the guide of the replay."""
    stream: str
    first: int
    last: int
    who: str = ""
    """A publisher, a subscription, a creation of a topic, or a daemon."""
    consumer: str = ""
    """An attached subscriber, or the name of a topic or subscription."""
    serial: int = 0
    """The publisher's number of the first record."""
    check: int = 0
    """The CRC-32 of the records."""


class DaemonContext(Protocol):
    """The server as a `DaemonService` sees it. Everything is called in the reactor thread."""

    @property
    def server_name(self) -> str:
        """Name of the server."""
        ...

    @property
    def replica(self) -> int:
        """Identifier of this replica inside the cluster."""
        ...

    @property
    def life(self) -> int:
        """A number that is higher at each start of this replica."""
        ...

    @property
    def host(self) -> str:
        """Host name of this replica, as in the configuration."""
        ...

    @property
    def addresses(self) -> Mapping[int, Address]:
        """Where the replicas of the configuration listen for each other, this one included."""
        ...

    @property
    def clients(self) -> Sequence[tuple[int, str, str]]:
        """(replica id, host, arguments of this service there) of every replica, this one included."""
        ...

    @property
    def users(self) -> str:
        """The arguments of this replica's ConnectionManager: users and passwords; "" if there is none."""
        ...

    @property
    def max_clients(self) -> int:
        """Connections of clients that this process has file descriptors for."""
        ...

    @property
    def directory(self) -> Path:
        """A directory of this replica for its files. It need not exist yet."""
        ...

    @property
    def reactor(self) -> ReactorPort:
        """The reactor."""
        ...

    @property
    def client_reactor(self) -> ReactorPort:
        """The reactor for ports of clients: what it accepts speaks TLS if the replica has certificates."""
        ...

    def wall_ms(self) -> int:
        """Return the wall clock, in milliseconds since 1970."""
        ...

    def setting(self, name: str, default: str = "") -> str:
        """Return the value of a ``<property>`` of the replica, else of its server or the configuration."""
        ...

    def log(self, line: str, /) -> None:
        """Write one line to the log of the server."""
        ...

    def announce(self, line: str, /) -> None:
        """Write one line to the log, and show it to the user who started the replica."""
        ...

    def count(self, metric: str, n: int = 1) -> None:
        """Add to a counter that ``quorate status`` shows."""
        ...

    @property
    def traced(self) -> bool:
        """Whether events are to be traced."""
        ...

    def trace(self, events: Sequence[DaemonEvent]) -> None:
        """Write events into the trace, in their order. What they tell of is durable."""
        ...

    def send(self, replicas: Sequence[int], frames: Sequence[bytes]) -> None:
        """Send frames to other replicas. What goes to one without connection is lost."""
        ...

    def drop(self, replica: int, reason: str) -> None:
        """Break the connection to a replica, and open a new one."""
        ...

    def follow(self, addresses: Mapping[int, Address]) -> None:
        """Connect with these replicas from now on, this one included."""
        ...

    def failed(self, sentence: str, /) -> None:
        """Stop the replica: it cannot go on."""
        ...


class DaemonService(Service):
    """Base class of services that are all of a server with ``mode="mesh"``."""

    def init(self, ctx: ServiceContext, args: str, first_time: bool) -> None:
        """Not called: `open` starts the service."""
        raise NotImplementedError("a daemon is not a service of a master")

    def open(self, ctx: DaemonContext, args: str) -> None:
        """Start. Raises `ServiceError` when the service cannot run."""
        raise NotImplementedError

    def close(self) -> "Deferred[None] | None":
        """Stop in order, and free everything."""
        raise NotImplementedError

    def peer_up(self, replica: int) -> None:
        """A connection to a replica is open. An earlier one was reported as down."""
        raise NotImplementedError

    def peer_down(self, replica: int) -> None:
        """The connection to a replica is gone."""
        raise NotImplementedError

    def peer_frames(self, replica: int, frames: list[bytes]) -> None:
        """Frames of a replica have arrived, in order. Raises ValueError for garbage: it is disconnected."""
        raise NotImplementedError

    def command(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Carry out a command of an administrator. Raises CommandRefused."""
        raise NotImplementedError

    def status(self) -> Mapping[str, Any]:
        """Return values for ``quorate status``, of types that MessagePack has."""
        raise NotImplementedError

    def status_line(self) -> str:
        """Return the line that ``quorate status`` shows for the service."""
        return ""
