"""A replica of this process, as collocated clients and threads see it."""

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future

from ...agents.ids import AgentId
from ...agents.notification import Notification
from .link import LinkEnd
from .thread_queue import ThreadQueue

__all__ = ["DirectSend", "LocalListener", "LocalOffer", "LocalServer"]


class DirectSend(enum.Enum):
    """The outcome of `LocalServer.direct_send_to`."""

    COMMITTED = "committed"
    """The cluster has the notification, and the agent has reacted if it is on this server."""
    DROPPED = "dropped"
    """Nothing was sent: the replica is not the master."""
    UNKNOWN = "unknown"
    """The replica lost the mastership meanwhile: the notification may or may not be committed."""


class LocalOffer(ABC):
    """A collocated client that wants to open a connection. The server calls it in the server's thread."""

    @property
    @abstractmethod
    def waiting(self) -> bool:
        """False if the client has given up."""

    @abstractmethod
    def accepted(self) -> LinkEnd | None:
        """Return the server's end of a connection; None if the client has given up."""

    @abstractmethod
    def refused(self, reason: str) -> None:
        """Report that no connection will be opened. `reason` is a sentence."""


LocalListener = Callable[[LinkEnd], None]
"""Serves the server's end of a new connection. Called in the server's thread, while the replica is master."""


class LocalServer(ABC):
    """A replica that runs in this process. `quorate.local_server` returns it. Any thread may use it."""

    server_name: str
    """Name of the server, as in the configuration."""
    server_id: int
    """Identifier of the server."""
    replica: int
    """Identifier of this replica in its cluster; 0 for a plain server."""
    name: str
    """The name in a URL after ``local:``; ``s0/1`` for a replica of a cluster, ``s1`` for a plain server."""

    @property
    @abstractmethod
    def role(self) -> str:
        """The role at this moment: joining, slave, master, changing, blocked or stopped."""

    @property
    @abstractmethod
    def is_master(self) -> bool:
        """Whether the replica serves as master at this moment."""

    @property
    @abstractmethod
    def in_server_thread(self) -> bool:
        """Whether the caller runs in the thread of the server, where nothing may block."""

    @abstractmethod
    def direct_send_to(self, agent: AgentId | str, notification: Notification) -> "Future[DirectSend]":
        """Send a notification to an agent, if this replica is the master; drop it on a slave.

        The future gives the outcome. It fails with `UnknownAgentError`, `ReactionError` or
        `UnhandledTypeError` if the notification is committed and failed on this server. The sender that the
        agent sees is ``outside(server)``; what the agent answers is dropped.
        Raises TypeError or ValueError if the address or the notification cannot be sent, `Unavailable` if too
        many notifications wait for their outcome or the replica has stopped.
        Source: HA Joram specification, section 4.3.1.
        """

    @abstractmethod
    def queue(self, name: str) -> ThreadQueue:
        """Return the queue that agents put notifications into by ``ctx.put(name, ...)``.

        All callers get the same queue; each item is for one of them. Raises ValueError for a name that is
        empty or longer than 255 characters.
        """

    @abstractmethod
    def open_link(self, offer: LocalOffer) -> None:
        """Accept the offer as soon as this replica is master; refuse it when the replica stops."""

    @abstractmethod
    def schedule(self, function: Callable[[], None]) -> None:
        """Call a function soon in the thread of the server."""
