"""Output of the channel: one batch of records, messages and events for each step."""

from typing import TypeAlias

import attrs
import msgspec

from .log import LogRecord
from .messages import Message
from .submitters import Source
from .view import Seat, ViewNumber


class Deliver(msgspec.Struct, frozen=True, gc=False):
    """A committed entry. Every replica gets the same entries in the same order."""

    index: int
    """Greater than that of the entry before; the channel itself used the indices that are missing."""
    stamp_ns: int
    """The master's clock in nanoseconds, as given to `Channel.submit`; for a forwarded payload, what the
    master's `Channel.stamp_forwarded` has set, else 0."""
    payload: bytes
    source: Source | None = None
    """Source of a forwarded payload; None for one that the master submitted."""


@attrs.frozen
class ViewEvent:
    """A view is active. Every member gets this after the entry `index` and before `index` + 1."""

    index: int
    view: ViewNumber
    master: int
    """Replica id of the master."""
    members: tuple[int, ...]
    """Replica ids of the members, master first, the youngest last."""
    first_time: bool
    """At most one view in the life of a cluster has this set, before any entry was committed."""
    reason: str
    """Why the view changed."""


@attrs.frozen
class Stable:
    """All members of the view hold the entries up to `index`.

    Only in mode MAJORITY: in mode ALL every delivered entry is held by all members.
    """

    index: int


@attrs.frozen
class LeaseChanged:
    """This replica, the master, now holds the lease, or no longer holds it.

    Only with the lease may it do what two replicas must never do at the same time: serve clients, run
    services. The lease comes after the event of a view, and is lost without one; `Channel.holds_lease` tells
    whether it is held at present. When it is lost, end those things, then call `Channel.lease_ended`.
    """

    held: bool


@attrs.frozen
class ProvideSnapshot:
    """Another replica needs the state. Answer, at once or later, with one of these and this token:

    `Channel.snapshot_ready`: the whole state, as of one entry. `Channel.part_ready`: its first part; the
    channel asks for the other parts one by one. `Channel.part_failed`: the state is not available now.
    """

    token: int
    index: int
    """The entries up to this index were delivered before: the state must not be older."""
    have: int
    """The other replica has the whole state after this entry; 0 if it has no usable state."""
    marker: bytes
    """Marker that the learner's application gave to `Channel.part_installed` in an earlier transfer."""


@attrs.frozen
class ProvidePart:
    """Another replica needs the next part: answer with `Channel.part_ready` or `Channel.part_failed`."""

    token: int
    index: int
    """The entries up to this index were delivered before: the state must not be older."""


@attrs.frozen
class InstallPart:
    """Store a part of the state of another replica, then call `Channel.part_installed` or `part_refused`.

    The last part replaces the whole state. Until then this replica must keep the state that it has: another
    transfer may begin, or the state may no longer be needed.
    """

    token: int
    number: int
    """From 0 in each transfer, without gaps."""
    data: bytes
    index: int | None
    """None if more parts follow. In the last part: the entry after which the whole is the state."""
    forwarded: int = 0
    """In the last part: the state contains what this replica forwarded up to this number; none of that will
    be delivered."""


@attrs.frozen
class DirectReceived:
    """An application message of `Channel.send_direct` from another replica. Unordered, and it may be lost."""

    peer: int
    data: bytes


@attrs.frozen
class Stopped:
    """This replica has left the cluster, or cannot go on. No event follows."""

    reason: str
    failed: bool = False
    """The replica failed instead of leaving; the reason says what an administrator has to do."""


Event: TypeAlias = (
    Deliver
    | ViewEvent
    | LeaseChanged
    | Stable
    | ProvideSnapshot
    | ProvidePart
    | InstallPart
    | DirectReceived
    | Stopped
)


class Output:
    """The result of one step. Write `persist` and send `messages`, then act on `events`, in order.

    Writing and sending may overlap: a message that depends on a record is kept back until that is durable.
    """

    __slots__ = ("events", "messages", "notes", "persist", "seats", "token")

    def __init__(self) -> None:
        self.persist: list[LogRecord] = []
        """Records to make durable; then call `Channel.persisted(now, token)`. Messages that depend on them
        are kept back until then. Empty if the log is not durable."""
        self.token = 0
        """Token for `Channel.persisted`; 0 when there is nothing to persist."""
        self.messages: list[tuple[int, Message]] = []
        """(replica id, message). A message to several replicas is one object, to be encoded once."""
        self.events: list[Event] = []
        self.notes: list[str] = []
        """Lines for the log: every transition, with its reason."""
        self.seats: tuple[Seat, ...] | None = None
        """The new set of replicas to connect to, this one included; None if it has not changed. An open
        connection to any other replica is kept until it breaks."""

    def __bool__(self) -> bool:
        return bool(self.messages or self.events or self.persist or self.notes or self.seats is not None)
