"""What goes into a node and what comes out of it."""

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
    """While fewer entries are in flight, what there is goes at once; else a batch is filled first.

    With one alone, what comes while it is synced waits for that, and then for its own sync."""
    digest_every: int = 256
    """Replicas compare digests at every so many entries; 0: never."""
    unsettled_s: float = 1.5
    """A master that can commit nothing for so long stops its services: somebody else may have them.
    Right after the loss of a slave this is normal, and the clients need not notice."""


@attrs.frozen
class RoleChange:
    """This replica is to start its networks and services, or to stop them."""

    master: bool
    first_time: bool
    """Of a master: nothing was ever committed in the life of the cluster."""
    reason: str


# There are many of these: `factory=list[int]` takes 20 times as long as a display.
@attrs.define
class Output:
    """What is to be done, in the order of the fields."""

    messages: list[tuple[int, Message]] = attrs.field(factory=lambda: [])
    """None waits for what is recorded with it: the channel keeps back what depends on a record."""
    staged: list[StagedPart] = attrs.field(factory=lambda: [])
    """Agents of a state that comes in, to be kept beside those that are there, before what follows."""
    loaded: bool = False
    """Agents have come that stay."""
    persist: list[LogRecord] = attrs.field(factory=lambda: [])
    """To be made durable."""
    token: int = 0
    """For `Node.persisted`; 0 when nobody waits for what there is to persist."""
    installed: Capture | None = None
    """The whole state, just replaced: to be durable with `persist`, in one piece. `Capture.staged`: what was
    staged takes the place of the agents that are there."""
    effects: list[Effects] = attrs.field(factory=lambda: [])
    """Of entries applied as master: committed, to be acted on."""
    trace: list[Reaction] = attrs.field(factory=lambda: [])
    """Reactions of this replica, whatever its role."""
    roles: list[RoleChange] = attrs.field(factory=lambda: [])
    committed: list[int] = attrs.field(factory=lambda: [])
    """Tokens of `post` whose notifications were applied."""
    lines: list[str] = attrs.field(factory=lambda: [])
    """For the log."""
    seats: tuple[Seat, ...] | None = None
    """The replicas to be connected with have changed; see the channel's output."""
    rejoin: str = ""
    """Not empty: this node has ended; a new incarnation gets the state from the others."""
    stopped: str = ""
    """Not empty: this node has ended, and why."""
    failed: bool = False
    """With `stopped`: it ended in error, and a new incarnation would, too."""
