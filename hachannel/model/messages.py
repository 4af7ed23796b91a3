"""The messages between replicas, and their bytes (msgpack arrays that start with the type's number).

A message is sent on the one connection between two replicas, whose handshake told the replica id and the
incarnation of both; so no message names its sender.
"""

from typing import Final, TypeAlias

import msgspec

from ..codec.buffers import Body, gather
from .errors import ProtocolError
from .submitters import Rows, Source
from .view import NO_VIEW, Seat, Tag, View, ViewNumber, Voter

PAYLOAD: Final = 0
RECONFIG: Final = 1


class Entry(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One entry of the log. (view, index) is its tag."""

    view: ViewNumber
    index: int
    stamp_ns: int
    """The master's clock reading when it was submitted."""
    payload: bytes
    kind: int = PAYLOAD
    source: Source | None = None
    """Source of a forwarded payload; None for one that the master submitted."""


class Data(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=1):
    """Master to slaves: the next entry. Its view number is the view's."""

    entry: Entry
    commit: int
    trim: int
    stable: int
    """All members hold everything up to here."""


class Ack(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=2):
    """Slave to master: this replica holds everything up to `index`, of this view."""

    view: ViewNumber
    index: int


class Repair(msgspec.Struct, array_like=True, frozen=True, tag=3):
    """Slave to master: send the entries after `index` (again)."""

    view: ViewNumber
    index: int


class Heartbeat(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=4):
    """Everybody to everybody, periodically: where the sender stands."""

    view: ViewNumber
    """The last view the sender accepted."""
    promised: ViewNumber
    active: bool
    """The sender takes part in `view` and knows that it is active."""
    member: bool
    """The sender is a member of `view`."""
    master: bool
    """The sender is the master of `view` and has not promised another one."""
    founded: bool
    """The sender knows that the cluster exists: see `State.founded`."""
    exit: bool
    """The sender does not follow the master of `view`: it suspects it, or has promised another view."""
    commit: int
    last: int
    """The end of the log; of a master to a slave, as far as it was sent."""
    applied: int
    trim: int
    stable: int
    mark: float | None = None
    """The clock of a master that wants its lease prolonged; for nobody but itself to compare."""
    lineage: Voter | None = None
    """View number of `view`."""
    newest: ViewNumber = NO_VIEW
    """The highest view that the sender knows to be active: `exit` is said of it, or of a later one."""


class Prepare(msgspec.Struct, array_like=True, frozen=True, tag=5):
    """Proposer to voters: promise to ignore every view below `number`, and tell what you have."""

    number: ViewNumber
    reason: str


class Promise(msgspec.Struct, array_like=True, frozen=True, tag=6):
    """The answer to Prepare."""

    number: ViewNumber
    accepted: View | None
    active: bool
    """The sender knows that `accepted` was active."""
    last: Tag
    commit: int
    leaving: bool
    foreseen: bool = False
    """The sender has answered Found for `accepted`, or sent it."""


class Refuse(msgspec.Struct, array_like=True, frozen=True, tag=7):
    """The sender has promised `promised`, which is above the number asked for."""

    number: ViewNumber
    promised: ViewNumber


class Fetch(msgspec.Struct, array_like=True, frozen=True, tag=8):
    """Proposer to the voter with the longest log: send its entries after `index`."""

    number: ViewNumber
    index: int


class Suffix(msgspec.Struct, array_like=True, frozen=True, tag=9):
    """The answer to Fetch: entries after `index`, possibly not all of them."""

    number: ViewNumber
    index: int
    entries: tuple[Entry, ...]


class NewView(msgspec.Struct, array_like=True, frozen=True, tag=10):
    """Proposer to members: a part of the log the view starts from. The last part makes it complete."""

    view: View
    base: Tag
    """Where the missing part begins; the receiver is known to have this entry."""
    offset: int
    """How many entries of the missing part were sent in earlier messages."""
    entries: tuple[Entry, ...]
    complete: bool


class Accept(msgspec.Struct, array_like=True, frozen=True, tag=11):
    """Member to proposer: its log is the log of the view, and the view is the last one it accepted."""

    number: ViewNumber


class Record(msgspec.Struct, array_like=True, frozen=True, tag=12):
    """Proposer to voters that are no members, once all members accepted."""

    view: View


class Recorded(msgspec.Struct, array_like=True, frozen=True, tag=13):
    """The answer to Record."""

    number: ViewNumber


class Found(msgspec.Struct, array_like=True, frozen=True, tag=42):
    """Proposer to members, before it makes a first view active: it may be at any moment from now on."""

    number: ViewNumber


class Founded(msgspec.Struct, array_like=True, frozen=True, tag=43):
    """The answer to Found: the member will not forget it."""

    number: ViewNumber


class Activate(msgspec.Struct, array_like=True, frozen=True, tag=14):
    """Proposer to members: the view is active, the whole log it started from is committed."""

    number: ViewNumber


class Yield(msgspec.Struct, array_like=True, frozen=True, tag=15):
    """Proposer to the first member: propose yourself, above `number`."""

    number: ViewNumber
    reason: str


class Exit(msgspec.Struct, array_like=True, frozen=True, tag=16):
    """Voter to voters: the master of `view` is suspected. `leaving`: it says so of itself."""

    view: ViewNumber
    leaving: bool
    reason: str


class Join(msgspec.Struct, array_like=True, frozen=True, tag=17):
    """A replica outside the active view to everybody: let me in."""

    cluster: str
    empty: bool
    """The sender holds nothing and knows of no cluster, so it may found one."""
    commit: Tag
    """Its committed prefix ends here."""
    token: int
    """The transfer it is receiving, 0 when none."""
    chunks: int
    """How many pieces of that transfer's state it has taken."""
    marker: bytes
    """Marker of a state received in part, in the application's encoding."""
    fresh: bool
    """The sender needs the whole state: what it has is lost or useless."""
    refused: int
    """The last transfer whose state it could not use, 0 when none."""
    birth: bytes = b""
    """Hash of the replicas it is configured with: only those who agree found a cluster."""
    bound: bool = False
    """A grant forbids it as yet to promise a view of the master that it has heard of."""


class Chunk(msgspec.Struct, array_like=True, frozen=True, tag=18):
    """Master to learner: a piece of the state. Numbered; one or more make up a part of the application's."""

    token: int
    number: int
    data: bytes
    more: bool
    """The next piece belongs to the same part."""
    at: Tag | None
    """With the last piece: the whole is the state after this entry."""
    origins: Rows = ()
    """With the last piece: who had submitted how much after the entry `at`."""


class ChunkAck(msgspec.Struct, array_like=True, frozen=True, tag=19):
    """Learner to master: it has taken the first `chunks` pieces; `installed` once the whole is its state."""

    token: int
    chunks: int
    installed: bool
    ahead: int = 0
    """Index up to which the learner has entries after the state (`Ahead`); with `installed`, in its log."""


class Ahead(msgspec.Struct, array_like=True, frozen=True, tag=44):
    """Master to learner, beside the state: committed entries after it."""

    token: int
    start: int
    """The state will be that after this entry."""
    base: Tag
    """The entry before the first of `entries`."""
    entries: tuple[Entry, ...]


class CatchUp(msgspec.Struct, array_like=True, frozen=True, tag=20):
    """Master to learner: entries after the snapshot."""

    token: int
    view: ViewNumber
    base: Tag
    """The entry before the first of `entries`."""
    entries: tuple[Entry, ...]
    commit: int


class CaughtUp(msgspec.Struct, array_like=True, frozen=True, tag=21):
    """Learner to master: how far it has come. Never counted as an Ack."""

    token: int
    index: int
    commit: int
    """Commit index of the learner: everything above must be sent to it when it becomes a member."""
    reset: bool
    """The learner cannot append the last message: start again after `index`."""
    bound_s: float = 0.0
    """For so many seconds a grant to somebody else still forbids it to promise a view of this master."""


class Tell(msgspec.Struct, array_like=True, frozen=True, tag=22):
    """An application message, unordered and unreliable."""

    data: bytes


class Commit(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=23):
    """Master to slaves, when no Data follows soon: what is committed, and where the log ends."""

    view: ViewNumber
    commit: int
    last: int
    stable: int
    """All members hold everything up to here."""


class Forward(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=24):
    """Member to master: put this into the order. It is known by the sender and these two numbers."""

    boot: int
    """Which process of the sender's life."""
    oseq: int
    """Its number for it, from 1 without gaps."""
    payload: bytes


class Forwarded(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=25):
    """Master to member: it has everything up to `oseq`, in the log or held."""

    view: ViewNumber
    boot: int
    oseq: int
    gap: bool = True
    """It has something beyond the next one: what came after `oseq` was lost. Else that may be under way."""


class Grant(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=30):
    """Voter to master: from your mark on, for so many seconds, I take part in nobody else's view."""

    mark: float
    for_s: float


class Release(msgspec.Struct, array_like=True, frozen=True, tag=31):
    """A master that makes room for another one, to all: what was granted to my marks up to this is over."""

    mark: float


class Unlisted(msgspec.Struct, array_like=True, frozen=True, tag=40):
    """Master to a replica that wants in: as of the active view `view`, you are none of the cluster's."""

    view: ViewNumber


class Seats(msgspec.Struct, array_like=True, frozen=True, tag=41):
    """Member of an active view to a replica that just connected: who belongs to the cluster."""

    view: ViewNumber
    seats: tuple[Seat, ...]


class Reconfig(msgspec.Struct, array_like=True, frozen=True, tag=0):
    """The payload of an entry of kind RECONFIG: one voter comes or goes with the next view."""

    add: bool
    replica: int
    incarnation: int


class Admit(msgspec.Struct, array_like=True, frozen=True, tag=1):
    """The payload of an entry of kind RECONFIG: a replica belongs to the cluster, or has moved."""

    replica: int
    data: bytes
    witness: bool = False
    """The replica votes and holds no log."""


class Dismiss(msgspec.Struct, array_like=True, frozen=True, tag=2):
    """The payload of an entry of kind RECONFIG: a replica belongs no more, nor does its voter, if any."""

    replica: int


Change: TypeAlias = Reconfig | Admit | Dismiss


Message: TypeAlias = (
    Data
    | Ack
    | Repair
    | Heartbeat
    | Prepare
    | Promise
    | Refuse
    | Fetch
    | Suffix
    | NewView
    | Accept
    | Record
    | Recorded
    | Found
    | Founded
    | Activate
    | Yield
    | Exit
    | Join
    | Chunk
    | ChunkAck
    | Ahead
    | CatchUp
    | CaughtUp
    | Tell
    | Commit
    | Forward
    | Forwarded
    | Unlisted
    | Seats
    | Grant
    | Release
)

CARRIERS: Final[dict[type, str]] = {
    Data: "entry",
    Suffix: "entries",
    NewView: "entries",
    Chunk: "data",
    Ahead: "entries",
    CatchUp: "entries",
    Tell: "data",
    Forward: "payload",
}
"""The messages with payloads, and the field that has them."""

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)
_reconfig_decoder: "msgspec.msgpack.Decoder[Change]" = msgspec.msgpack.Decoder(Change)


def encode_message(message: Message) -> bytes:
    """The bytes of a message. Payload bytes inside are copied once, unchanged."""
    return _encoder.encode(message)


def encode_body(message: Message) -> Body:
    """Encode a message in parts: long payloads are not copied."""
    carrying = CARRIERS.get(type(message))
    return _encoder.encode(message) if carrying is None else gather(message, carrying)


def decode_message(data: bytes) -> Message:
    """The message in `data`. Raises ProtocolError with one sentence when there is none."""
    try:
        return _decoder.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ProtocolError(f"not a channel message: {error}") from None


def encode_reconfig(change: Change) -> bytes:
    """The payload of a RECONFIG entry."""
    return _encoder.encode(change)


def decode_reconfig(payload: bytes) -> Change:
    """Decode the payload of a RECONFIG entry. Raises ProtocolError."""
    try:
        return _reconfig_decoder.decode(payload)
    except (msgspec.MsgspecError, ValueError) as error:
        raise ProtocolError(f"not a configuration change: {error}") from None
