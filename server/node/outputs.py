"""The output of a node, and its settings."""

import attrs

from ...engine import Capture, Effects, Reaction, StagedPart
from ...hachannel import LogRecord, Message, Seat
from .batching import BatchLimits

__all__ = ["NodeSettings", "Output", "RoleChange"]


@attrs.frozen
class NodeSettings:
    """Limits of a node. All replicas of a server must have the same `digest_every`."""

    limits: BatchLimits = attrs.field(factory=BatchLimits)
    eager_entries: int = 4
    """While fewer entries are in flight, input is submitted at once; else a batch is filled first.

    If only one might be in flight, input that comes during its sync would wait for that sync and its own."""
    digest_every: int = 256
    """Replicas compare digests after every entry whose index is a multiple of this; 0: never."""
    unsettled_s: float = 1.5
    """A master that cannot commit for this many seconds stops its services: another replica may run them.
    For a moment after the loss of a slave this is normal, and the clients need not notice."""


@attrs.frozen
class RoleChange:
    """The order to start the networks and services of this replica, or to stop them."""

    master: bool
    """Start them; else stop them."""
    first_time: bool
    """With `master`: no entry was ever committed in the life of the cluster."""
    reason: str
    """Why, in words for the log."""


# Two for each entry: a plain constructor takes a third of the time of one that attrs writes.
@attrs.define(init=False)
class Output:
    """What the driver has to do, in the order of the fields."""

    messages: list[tuple[int, Message]]
    """(replica, message) to send at once: the channel keeps back what depends on a record."""
    staged: list[StagedPart]
    """Agents of an incoming state, to be kept beside the present ones, before `persist`."""
    loaded: bool
    """Agents have been loaded that stay in memory."""
    persist: list[LogRecord]
    """Records to make durable."""
    token: int
    """For `Node.persisted`, once `persist` is durable; 0 when the node does not wait for that."""
    installed: Capture | None
    """The whole state, just replaced: to be made durable with `persist`, atomically. With `Capture.staged`,
    what was staged replaces the agents on the disk."""
    effects: list[Effects]
    """Effects of entries applied as master: committed, to be acted on."""
    trace: list[Reaction]
    """Reactions of this replica, whatever its role."""
    roles: list[RoleChange]
    """Networks and services to start or stop."""
    committed: list[int]
    """Tokens of `Node.post` whose notifications were applied."""
    lines: list[str]
    """Lines for the log."""
    seats: tuple[Seat, ...] | None
    """The replicas of the cluster, if they have changed; see the channel's output."""
    rejoin: str
    """Not empty: this node has ended, and why; a new incarnation gets the state from the others."""
    stopped: str
    """Not empty: this node has ended, and why."""
    failed: bool
    """With `stopped`: it ended in error, and a new incarnation would, too."""

    def __init__(self) -> None:
        self.messages = []
        self.staged = []
        self.loaded = False
        self.persist = []
        self.token = 0
        self.installed = None
        self.effects = []
        self.trace = []
        self.roles = []
        self.committed = []
        self.lines = []
        self.seats = None
        self.rejoin = ""
        self.stopped = ""
        self.failed = False
