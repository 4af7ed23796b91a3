"""The HA channel: one replica's side of the replication protocol, without clock, randomness or IO."""

from collections.abc import Sequence

from .events import Output
from .log import Log
from .messages import Message
from .settings import Settings
from .view import View


class Channel:
    """One replica of a cluster.

    Call one input, then `take()` and act on the output; call `tick` when `deadline` is reached. Times are
    monotonic seconds. No input raises because of what a peer did.
    """

    def __init__(
        self,
        me: int,
        members: Sequence[int],
        *,
        incarnation: int,
        cluster: str,
        expected: int,
        settings: Settings | None = None,
        log: Log | None = None,
    ) -> None:
        """A replica that has not started.

        me: its replica id. members: the configured replica ids, in order. incarnation: a number no other
        life of this replica uses. cluster: hash of the configuration; replicas with another one are strangers.
        expected: how many empty replicas found the cluster. log: a durable one, or None for memory.
        Raises ValueError when these contradict each other.
        """
        raise NotImplementedError

    @property
    def role(self) -> str:
        """One of: joining, slave, master, changing, blocked, stopped."""
        raise NotImplementedError

    @property
    def view(self) -> View | None:
        """The last view this replica took part in, None before the first."""
        raise NotImplementedError

    @property
    def master(self) -> int | None:
        """Replica id of the master of the active view, as far as this replica knows."""
        raise NotImplementedError

    @property
    def members(self) -> tuple[int, ...]:
        """Replica ids of the members of the view, master first."""
        raise NotImplementedError

    @property
    def commit(self) -> int:
        """Index of the last committed entry known here."""
        raise NotImplementedError

    @property
    def last(self) -> int:
        """Index of the last entry in the log."""
        raise NotImplementedError

    @property
    def applied(self) -> int:
        """Index of the last entry handed out as an event."""
        raise NotImplementedError

    @property
    def can_submit(self) -> bool:
        """Whether `submit` would take a payload now."""
        raise NotImplementedError

    @property
    def deadline(self) -> float | None:
        """When to call `tick` next, None for never. Read it after each `take`."""
        raise NotImplementedError

    def start(self, now: float) -> None:
        """Begin. Call once, before anything else."""

    def tick(self, now: float) -> None:
        """Time passed."""

    def connected(self, now: float, peer: int, incarnation: int) -> None:
        """There is a connection with this life of a peer; it replaces an earlier one."""

    def disconnected(self, now: float, peer: int) -> None:
        """The connection with a peer is gone; try to make another one at once."""

    def receive(self, now: float, peer: int, message: Message) -> None:
        """A message arrived on the connection with a peer."""

    def submit(self, now: float, stamp_ns: int, payload: bytes) -> int:
        """Append a payload; returns its index. It is Delivered here once committed, or never if this master loses its view.

        Raises NotMaster, WindowFull, PayloadTooLarge.
        """
        raise NotImplementedError

    def tell(self, peer: int, data: bytes) -> None:
        """Send an application message to a replica: unordered, lost when there is no connection."""

    def snapshot_ready(self, now: float, token: int, index: int, chunks: Sequence[bytes]) -> None:
        """The answer to ProvideSnapshot: the state after entry `index`."""

    def snapshot_installed(self, now: float, index: int) -> None:
        """The answer to InstallSnapshot."""

    def persisted(self, now: float, token: int) -> None:
        """Everything in `Output.persist` up to the output with this token is durable."""

    def leave(self, now: float) -> None:
        """Stop in order: `Stopped` follows, soon."""

    def take(self) -> Output:
        """What the inputs since the last call produced."""
        raise NotImplementedError
