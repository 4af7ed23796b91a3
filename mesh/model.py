"""What a mesh keeps and sends: topics, streams, subscriptions, and the records of streams. Pure.

Every daemon appends records to streams of its own, one for each topic and each life of the daemon, numbered
1, 2, ... The stream of the topic `DIRECTORY` holds the records that create and delete topics and
subscriptions. A daemon has a new life with each start, so that one that is started with an old copy of its
disk never gives a number of a stream twice.
"""

from typing import Final, NamedTuple, TypeAlias

import attrs
import msgspec

__all__ = [
    "DIRECTORY",
    "MAX_BODY",
    "Claim",
    "Create",
    "Data",
    "Delete",
    "DirectoryRecord",
    "Dot",
    "MemberChange",
    "MemberState",
    "MeshLimits",
    "Message",
    "Moved",
    "Origin",
    "Position",
    "Record",
    "Retire",
    "Start",
    "Stream",
    "Subscribe",
    "Subscription",
    "Topic",
    "TopicOptions",
    "Uid",
    "Unsubscribe",
    "decode_record",
    "encode_record",
    "is_plain",
]


MAX_BODY: Final = 1024 * 1024
"""The longest message, in bytes."""


class Uid(NamedTuple):
    """One creation of a topic: the position of its record, after the stamp that orders creations."""

    stamp: int
    daemon: int
    life: int
    number: int


class Origin(NamedTuple):
    """A daemon in one of its lives."""

    daemon: int
    life: int


class Dot(NamedTuple):
    """A persistent subscription: the position of its record in the directory's streams."""

    daemon: int
    life: int
    number: int


DIRECTORY: Final = Uid(0, 0, 0, 0)
"""The topic of the directory. It is there from the beginning."""


class Stream(NamedTuple):
    """The records that one life of a daemon has appended to a topic."""

    topic: Uid
    daemon: int
    life: int

    @property
    def origin(self) -> Origin:
        """Whose records these are."""
        return Origin(self.daemon, self.life)


class Position(NamedTuple):
    """A record: its stream, and its number there."""

    stream: Stream
    number: int


class TopicOptions(msgspec.Struct, array_like=True, frozen=True):
    """The options of a topic."""

    topic_bytes: int = 0
    """Bytes of messages that a daemon keeps for slow subscribers; 0: as the servers are configured."""
    on_full: str = "refuse"
    """``refuse``: publishers are refused when that is reached. ``end``: the slowest subscription ends."""


class Data(msgspec.Struct, array_like=True, frozen=True, tag=0, gc=False):
    """A message."""

    publisher: str
    number: int
    """The number that the publisher gave it: 1, 2, ... in each topic."""
    body: bytes
    at_ms: int
    """When the daemon took it, in milliseconds since 1970, by its own clock."""


class Moved(msgspec.Struct, array_like=True, frozen=True, tag=9, gc=False):
    """A message whose publisher had its one before taken elsewhere: by another daemon, or in another life."""

    publisher: str
    number: int
    body: bytes
    at_ms: int
    after: Position
    """The publisher's message before this one."""


class Start(msgspec.Struct, array_like=True, frozen=True, tag=1):
    """The messages of this stream that follow are due to these persistent subscriptions."""

    dots: tuple[Dot, ...]


class Create(msgspec.Struct, array_like=True, frozen=True, tag=2):
    """A topic is created. Its `Uid` is the position of this record."""

    stamp: int
    name: str
    options: TopicOptions


class Delete(msgspec.Struct, array_like=True, frozen=True, tag=3):
    """Topics are deleted, with the subscriptions that the deleting daemon knew."""

    stamp: int
    uids: tuple[Uid, ...]
    dots: tuple[Dot, ...]


class Subscribe(msgspec.Struct, array_like=True, frozen=True, tag=4):
    """A persistent subscription begins. Its `Dot` is the position of this record."""

    stamp: int
    topic: str
    name: str
    user: str
    token: str
    """Chosen by the subscriber: of two subscriptions with one token, the answer to one was lost."""


class Claim(msgspec.Struct, array_like=True, frozen=True, tag=5):
    """A subscriber shows a subscription whose own record has not arrived at this daemon."""

    stamp: int
    dot: Dot
    topic: str
    name: str
    user: str
    token: str


class Unsubscribe(msgspec.Struct, array_like=True, frozen=True, tag=6):
    """Persistent subscriptions end."""

    stamp: int
    dots: tuple[Dot, ...]


class MemberChange(msgspec.Struct, array_like=True, frozen=True, tag=7):
    """A daemon is added to the mesh, or forgotten. Of two changes the one with the higher stamp holds."""

    stamp: int
    daemon: int
    present: bool
    address: str = ""
    """Where it listens for other daemons, host:port, if it was added."""


class Retire(msgspec.Struct, array_like=True, frozen=True, tag=8):
    """All streams of this daemon up to a life are complete and collected at every daemon."""

    stamp: int
    life: int
    finals: tuple[tuple[int, int], ...]
    """(life, last number) of its directory streams among them. A daemon that does not include them, since its
    disk was lost meanwhile, cannot take this record: it needs the state of another daemon."""


Message: TypeAlias = Data | Moved
DirectoryRecord: TypeAlias = Create | Delete | Subscribe | Claim | Unsubscribe | MemberChange | Retire
Record: TypeAlias = Data | Moved | Start | DirectoryRecord

_encode = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[Record] = msgspec.msgpack.Decoder(Record)


def encode_record(record: Record) -> bytes:
    """Encode a record, as it is stored and sent."""
    return _encode(record)


def is_plain(data: bytes) -> bool:
    """Return whether an encoded record is a `Data`, without decoding it."""
    # After the header of the array comes the tag.
    return data[1] == 0


def decode_record(data: bytes) -> Record:
    """Decode a record. Raises msgspec.DecodeError."""
    return _decoder.decode(data)


class Topic(msgspec.Struct, array_like=True, frozen=True):
    """A creation of a topic, as the directory has it."""

    name: str
    options: TopicOptions


class MemberState(msgspec.Struct, array_like=True, frozen=True, order=True):
    """Whether a daemon belongs to the mesh, and the record that says so."""

    stamp: int
    by: int
    present: bool
    address: str = ""


class Subscription(msgspec.Struct, array_like=True, frozen=True):
    """A persistent subscription, as the directory has it."""

    topic: str
    name: str
    user: str
    token: str


@attrs.frozen
class MeshLimits:
    """Limits and times of a daemon. Times in seconds."""

    gossip_s: float = 0.2
    """The period at which daemons tell each other what changed."""
    retry_s: float = 2.0
    """The time after which records that were asked for and have not come are asked for again."""
    copies: int = 1
    """Disks that must have a message before its publisher gets the acknowledgement."""
    topic_bytes: int = 1 << 30
    chunk_bytes: int = 256 * 1024
    """Records are asked for in parts of about this size."""
    wants: int = 8
    """Most parts that are asked for at a time from one daemon."""
    repair_share: float = 0.3
    """The share of the time in which records are fetched while clients are busy."""
    push_bytes: int = 4 * 1024 * 1024
    """Records that a daemon sends to another one before it has heard that earlier ones are on its disk."""
    window_bytes: int = 1024 * 1024
    """Messages that a subscriber gets before it has acknowledged earlier ones."""
    publishers: int = 100_000
    """Publishers whose last number a daemon keeps; that of the one longest silent is dropped first."""
    topics: int = 10_000
    subscriptions: int = 200_000
    body_bytes: int = MAX_BODY
    """Longest message."""
