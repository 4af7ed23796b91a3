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
    """Rises; indices that are missing were used by the channel itself."""
    stamp_ns: int
    """The master's clock reading, given to `Channel.submit`; 0 for what was forwarded."""
    payload: bytes
    source: Source | None = None
    """Source of a forwarded payload; None for one that the master submitted."""


@attrs.frozen
class ViewEvent:
    """A view is active. Comes after the entry `index` and before `index` + 1 on every member."""

    index: int
    view: ViewNumber
    master: int
    """Replica id of the master."""
    members: tuple[int, ...]
    """Replica ids of the members, master first, the youngest last."""
    first_time: bool
    """In the life of the cluster one view says so at most, before anything was committed."""
    reason: str
    """Why the view changed."""


@attrs.frozen
class Stable:
    """All members of the view hold everything up to `index`. Only in mode MAJORITY; in mode ALL what is
    delivered is held by all."""

    index: int


@attrs.frozen
class LeaseChanged:
    """This replica, the master, holds the lease now, or holds it no longer.

    Only with the lease may it do what no two replicas may do at a time: serve clients, run services. It comes
    after the event of a view and is lost without one; see `Channel.holds_lease` for the present moment. When
    it is held no longer: end that, then call `Channel.lease_ended`.
    """

    held: bool


@attrs.frozen
class ProvideSnapshot:
    """Another replica needs the state. Answer, soon or later, with one of these and this token:

    `Channel.snapshot_ready`: all of it, as of one entry. `Channel.part_ready`: the first part of it; the
    others are asked for one by one. `Channel.part_failed`: it cannot be had now.
    """

    token: int
    index: int
    """The entries up to here were handed out before: the state after them is not older than this index."""
    have: int
    """The other replica has the whole state after this entry; 0: it has none that is of use."""
    marker: bytes
    """Marker that the learner's application gave to `Channel.part_installed` in an earlier transfer."""


@attrs.frozen
class ProvidePart:
    """The next part may go: answer with `Channel.part_ready` or `Channel.part_failed`."""

    token: int
    index: int
    """As in `ProvideSnapshot`."""


@attrs.frozen
class InstallPart:
    """Take a part of the state of another replica: then call `Channel.part_installed`, or `part_refused`.

    With the last one all state is replaced. Until then what this replica has must stay as it is: another
    transfer may begin, or none be needed any more.
    """

    token: int
    number: int
    """From 0 in each transfer, without gap."""
    data: bytes
    index: int | None
    """None: more parts follow. Else this is the last one, and the whole is the state after that entry."""
    forwarded: int = 0
    """With the last part: what this replica forwarded is part of the state up to this number, and is not
    delivered any more."""


@attrs.frozen
class Told:
    """An application message from another replica. Unordered, and it may be lost."""

    peer: int
    data: bytes


@attrs.frozen
class Stopped:
    """This replica has left, or cannot go on: nothing follows."""

    reason: str
    failed: bool = False
    """The replica failed instead of leaving; the reason says what an administrator has to do."""


Event: TypeAlias = (
    Deliver | ViewEvent | LeaseChanged | Stable | ProvideSnapshot | ProvidePart | InstallPart | Told | Stopped
)


class Output:
    """What one step produced. Write `persist` and send `messages`, then act on `events`, in order.

    No message needs what is written with it: one that does is kept back until that is durable.
    """

    __slots__ = ("events", "messages", "notes", "persist", "seats", "token")

    def __init__(self) -> None:
        self.persist: list[LogRecord] = []
        """To be made durable; then call `Channel.persisted(now, token)`. Messages that depend on them are
        kept back until then. Empty with a log that is not durable."""
        self.token = 0
        """Token for `Channel.persisted`; 0 when there is nothing to persist."""
        self.messages: list[tuple[int, Message]] = []
        """(replica id, message). The same object for several replicas: it need be encoded only once."""
        self.events: list[Event] = []
        self.notes: list[str] = []
        """Lines for the log: every transition, with its reason."""
        self.seats: tuple[Seat, ...] | None = None
        """The replicas to be connected with have changed: from now on it is these, this one included. An open
        connection with another one is kept until it breaks."""

    def __bool__(self) -> bool:
        return bool(self.messages or self.events or self.persist or self.notes or self.seats is not None)
