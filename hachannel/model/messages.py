"""The messages between replicas, and their bytes (msgpack arrays that start with the type's number).

Two replicas share one connection, and its handshake names both: each sends its replica id and its
incarnation. So no message names its sender.
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
    """One entry of the log. Its tag is (view, index)."""

    view: ViewNumber
    index: int
    stamp_ns: int
    """The master's clock when the entry was submitted, in nanoseconds."""
    payload: bytes
    kind: int = PAYLOAD
    source: Source | None = None
    """Source of a forwarded payload; None for one that the master submitted."""


class Data(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=1):
    """Master to slaves: the next entry. The entry's view number is that of the present view."""

    entry: Entry
    commit: int
    trim: int
    stable: int
    """All members hold the entries up to this index."""


class Ack(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=2):
    """Slave to master: the sender holds the log of `view` up to `index`."""

    view: ViewNumber
    index: int


class Repair(msgspec.Struct, array_like=True, frozen=True, tag=3):
    """Slave to master: send the entries after `index` (again)."""

    view: ViewNumber
    index: int


class Heartbeat(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=4):
    """Every replica to every other one, periodically: the sender's view and the state of its log."""

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
    """The sender knows that the cluster exists: see `ReplicaState.founded`."""
    exit: bool
    """The sender does not follow the master of `view`: it suspects it, or has promised another view."""
    commit: int
    last: int
    """Index of the last entry; in a heartbeat of the master, of the last one sent to the receiver."""
    applied: int
    trim: int
    stable: int
    mark: float | None = None
    """Clock of a master that asks to prolong its lease. Voters return it; only the master compares it."""
    lineage: Voter | None = None
    """Lineage of `view`."""
    newest: ViewNumber = NO_VIEW
    """The highest view that the sender knows to be active: `exit` refers to it, or to a later one."""
    unfit: bool = False
    """The state of the sender's application is wrong: see `Channel.disqualify`."""
    writing: bool = False
    """The sender takes part in a view change, and its disk is slow to confirm what it has to answer."""


class Prepare(msgspec.Struct, array_like=True, frozen=True, tag=5):
    """Proposer to voters: promise to ignore every view below `number`, and answer with your view and log."""

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
    unfit: bool = False
    """The state of the sender's application is wrong: it must be no member."""


class Refuse(msgspec.Struct, array_like=True, frozen=True, tag=7):
    """Voter to proposer: it has promised `promised`, which is above the proposed `number`."""

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
    """The entry before the missing part; the receiver is known to have it."""
    offset: int
    """Number of entries of the missing part that earlier messages carried."""
    entries: tuple[Entry, ...]
    complete: bool


class Accept(msgspec.Struct, array_like=True, frozen=True, tag=11):
    """Member to proposer: it has the log of the view, and has accepted no later view."""

    number: ViewNumber


class Record(msgspec.Struct, array_like=True, frozen=True, tag=12):
    """Proposer to the voters that are no members of the view, once all members have accepted it."""

    view: View


class Recorded(msgspec.Struct, array_like=True, frozen=True, tag=13):
    """The answer to Record."""

    number: ViewNumber


class Found(msgspec.Struct, array_like=True, frozen=True, tag=42):
    """Proposer to members, before it makes a first view active: from now on the view may become active."""

    number: ViewNumber


class Founded(msgspec.Struct, array_like=True, frozen=True, tag=43):
    """The answer to Found: the member has recorded it, on its disk if it has one."""

    number: ViewNumber


class Activate(msgspec.Struct, array_like=True, frozen=True, tag=14):
    """Proposer to members: the view is active, and the whole log that it started from is committed."""

    number: ViewNumber


class Yield(msgspec.Struct, array_like=True, frozen=True, tag=15):
    """Proposer to the first member: propose a view with a number above `number` instead of me."""

    number: ViewNumber
    reason: str


class Exit(msgspec.Struct, array_like=True, frozen=True, tag=16):
    """Voter to voters: the master of `view` is suspected. leaving: the master itself sends it, and leaves."""

    view: ViewNumber
    leaving: bool
    reason: str


class Join(msgspec.Struct, array_like=True, frozen=True, tag=17):
    """A replica outside the active view to every other one: it wants to become a member."""

    cluster: str
    empty: bool
    """The sender holds nothing and knows of no cluster, so it may found one."""
    commit: Tag
    """The last entry that the sender knows to be committed."""
    token: int
    """Token of the transfer that the sender receives; 0 if there is none."""
    chunks: int
    """Number of chunks of that transfer that the sender has."""
    marker: bytes
    """Marker of a state received in part, in the application's encoding."""
    fresh: bool
    """The sender needs the whole state: what it has is lost or useless."""
    refused: int
    """Token of the last transfer whose state the sender could not use; 0 if there is none."""
    birth: bytes = b""
    """Hash of the replicas in its configuration: replicas whose hashes differ found no cluster together."""
    bound: bool = False
    """A grant still forbids the sender to promise a view of the master that it has heard of."""


class Chunk(msgspec.Struct, array_like=True, frozen=True, tag=18):
    """Master to learner: a numbered piece of the state. One or more chunks make up one part."""

    token: int
    number: int
    data: bytes
    more: bool
    """The next chunk belongs to the same part."""
    at: Tag | None
    """In the last chunk: the entry after which the whole is the state. None in all others."""
    submitters: Rows = ()
    """In the last chunk: table of submitters after the entry `at`."""


class ChunkAck(msgspec.Struct, array_like=True, frozen=True, tag=19):
    """Learner to master: it has the first `chunks` chunks. installed: it has replaced its whole state."""

    token: int
    chunks: int
    installed: bool
    tail: int = 0
    """Index up to which the learner has entries after the state (`TailEntries`); with `installed`, they are
    in its log."""


class TailEntries(msgspec.Struct, array_like=True, frozen=True, tag=44):
    """Master to learner, beside the state: committed entries after it."""

    token: int
    start: int
    """The entry that the state in transfer follows."""
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
    """Learner to master: the end of its log. Never counts as an Ack."""

    token: int
    index: int
    commit: int
    """Commit index of the learner: all later entries must be sent to it when it becomes a member."""
    reset: bool
    """The learner cannot append the last message: start again after `index`."""
    bound_s: float = 0.0
    """Seconds for which a grant to another replica still forbids it to promise a view of this master."""


class DirectMessage(msgspec.Struct, array_like=True, frozen=True, tag=22):
    """An application message, unordered and unreliable."""

    data: bytes


class Commit(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=23):
    """Master to slaves, when no Data follows soon: what is committed, and where the log ends."""

    view: ViewNumber
    commit: int
    last: int
    stable: int
    """All members hold the entries up to this index."""


class Forward(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=24):
    """Member to master: append this payload. The sender, `boot` and `oseq` identify it."""

    boot: int
    """Number of the process within the sender's incarnation."""
    oseq: int
    """Number that this process gave the payload, from 1 without gaps."""
    payload: bytes


class Forwarded(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=25):
    """Master to member: it has all payloads up to `oseq`, in its log or held back."""

    view: ViewNumber
    boot: int
    oseq: int
    gap: bool = True
    """The master has a payload after the next one, so the next one was lost. Else that may be in flight."""


class Grant(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=30):
    """Voter to master: for `for_s` seconds after `mark` it takes part in no view of another proposer."""

    mark: float
    for_s: float


class Release(msgspec.Struct, array_like=True, frozen=True, tag=31):
    """Master that gives up its lease, to all: grants to its marks up to `mark` have ended."""

    mark: float


class Unlisted(msgspec.Struct, array_like=True, frozen=True, tag=40):
    """Master to a replica that wants to join: in the active view `view` it does not belong to the cluster."""

    view: ViewNumber


class Seats(msgspec.Struct, array_like=True, frozen=True, tag=41):
    """Member of an active view to a replica that has just connected: the replicas of the cluster."""

    view: ViewNumber
    seats: tuple[Seat, ...]


class Reconfig(msgspec.Struct, array_like=True, frozen=True, tag=0):
    """The payload of an entry of kind RECONFIG: the next view adds or removes one voter."""

    add: bool
    replica: int
    incarnation: int


class Admit(msgspec.Struct, array_like=True, frozen=True, tag=1):
    """The payload of an entry of kind RECONFIG: a replica now belongs to the cluster, or has moved."""

    replica: int
    data: bytes
    witness: bool = False
    """The replica votes and holds no log."""


class Dismiss(msgspec.Struct, array_like=True, frozen=True, tag=2):
    """The payload of an entry of kind RECONFIG: a replica and its voter, if any, no longer belong to it."""

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
    | TailEntries
    | CatchUp
    | CaughtUp
    | DirectMessage
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
    TailEntries: "entries",
    CatchUp: "entries",
    DirectMessage: "data",
    Forward: "payload",
}
"""Messages that carry payloads, and the name of the field that has them."""

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)
_reconfig_decoder: "msgspec.msgpack.Decoder[Change]" = msgspec.msgpack.Decoder(Change)


def encode_message(message: Message) -> bytes:
    """Return the bytes of a message. Payloads inside are copied once, unchanged."""
    return _encoder.encode(message)


def encode_body(message: Message) -> Body:
    """Encode a message in parts: long payloads are not copied."""
    carrying = CARRIERS.get(type(message))
    return _encoder.encode(message) if carrying is None else gather(message, carrying)


def decode_message(data: bytes) -> Message:
    """Return the message in `data`. Raises ProtocolError with one sentence if there is none."""
    try:
        return _decoder.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ProtocolError(f"not a channel message: {error}") from None


def encode_reconfig(change: Change) -> bytes:
    """Return the payload of a RECONFIG entry."""
    return _encoder.encode(change)


def decode_reconfig(payload: bytes) -> Change:
    """Decode the payload of a RECONFIG entry. Raises ProtocolError."""
    try:
        return _reconfig_decoder.decode(payload)
    except (msgspec.MsgspecError, ValueError) as error:
        raise ProtocolError(f"not a configuration change: {error}") from None
