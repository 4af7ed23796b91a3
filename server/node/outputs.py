"""The output of a node, and its settings."""

from collections.abc import Sequence

import attrs

from ...agents.thread_queue import Put
from ...engine import Capture, Effects, Reaction, StagedPart
from ...hachannel import LogRecord, Message, Seat, ViewEvent
from .batching import BatchLimits

__all__ = ["HomeChange", "NodeSettings", "Output", "QueuePuts", "RoleChange"]


@attrs.frozen
class NodeSettings:
    """Limits of a node. All replicas of a server must have the same `digest_every` and `answers`."""

    limits: BatchLimits = attrs.field(factory=BatchLimits)
    eager_entries: int = 4
    """With fewer entries in flight, input is submitted at once; otherwise a batch is filled first.

    With a limit of one, input that arrives during a sync would wait for that sync and then for its own."""
    digest_every: int = 256
    """Replicas compare digests after every entry whose index is a multiple of this; 0: never."""
    answers: str = "committed"
    """"committed": the outputs of an entry leave once it is committed and applied by the master;
    "confirmed": once all members of the view have applied it, with the same outcome."""
    homes: bool = False
    """Clients connect to every replica of the view, not to the master alone."""
    unsettled_s: float = 1.5
    """Seconds after which a master that cannot commit stops its services, because another replica may run
    them. Shorter interruptions are normal after the loss of a slave, and clients need not notice them."""


@attrs.frozen
class RoleChange:
    """The order to start the networks and services of this replica, or to stop them."""

    master: bool
    """True to start them, False to stop them."""
    first_time: bool
    """True with `master` if no entry was ever committed in the life of the cluster."""
    reason: str
    """The reason, for the log."""


@attrs.frozen
class HomeChange:
    """The order to start the services for clients on this replica, or to stop them; see `home`."""

    active: bool
    first_time: bool
    """True with `active` if no entry was ever committed in the life of the cluster."""
    reason: str


@attrs.frozen
class QueuePuts:
    """The notifications that one entry puts into queues for threads."""

    entry: int
    puts: Sequence[Put]
    master: bool = False
    """Whether this replica served when it applied the entry."""
    recovered: bool = False
    """Whether the entry was applied again at a start."""


# Each entry needs two outputs, and a plain constructor takes a third of the time of one by attrs.
@attrs.define(init=False)
class Output:
    """The work for the driver, in the order of the fields."""

    messages: list[tuple[int, Message]]
    """(replica, message) to send at once: the channel holds back messages that depend on a record."""
    staged: list[StagedPart]
    """Agents of an incoming state, to be stored beside the present ones before `persist`."""
    loaded: bool
    """True if agents have been loaded, which stay in memory."""
    persist: list[LogRecord]
    """Records to make durable."""
    token: int
    """The argument of `Node.persisted` once `persist` is durable; 0 when the node does not wait for that."""
    installed: Capture | None
    """The whole state, if it was replaced: to be made durable together with `persist`, atomically. With
    `Capture.staged`, the staged agents replace those on the disk."""
    effects: list[Effects]
    """Effects of entries applied as master, or as home. They are committed, and are to be carried out."""
    homes: list[HomeChange]
    """Services for clients to start or stop on this replica."""
    puts: list[QueuePuts]
    """Notifications for the queues of this process, whatever the role of the replica."""
    state_after: int | None
    """The entry after which the state of this replica was replaced by that of another one, if it was."""
    trace: list[Reaction]
    """Reactions of this replica, whatever its role."""
    views: list[ViewEvent]
    """The views that are active from the entries before on."""
    roles: list[RoleChange]
    """Networks and services to start or stop."""
    committed: list[int]
    """Tokens of `Node.post` whose notifications were applied."""
    lines: list[str]
    """Lines for the log."""
    divergences: list[str]
    """Sentences about replicas whose state differs, for the log and for the person who started this one."""
    seats: tuple[Seat, ...] | None
    """The replicas of the cluster, if they have changed; see the channel's output."""
    switched: bool
    """True if the server uses other versions of agent classes now, which the next saved state should have."""
    stopped: str
    """The reason for which this node has ended; "" if it has not."""
    failed: bool
    """True with `stopped` if the node ended in error, and a new incarnation would, too."""

    def __init__(self) -> None:
        self.messages = []
        self.staged = []
        self.loaded = False
        self.persist = []
        self.token = 0
        self.installed = None
        self.effects = []
        self.homes = []
        self.puts = []
        self.state_after = None
        self.trace = []
        self.views = []
        self.roles = []
        self.committed = []
        self.lines = []
        self.divergences = []
        self.seats = None
        self.switched = False
        self.stopped = ""
        self.failed = False
