"""Frames between a client of a mesh and a daemon, and their encoding. Pure.

The framing, the first frame of a client and the answers `Welcome` and `Bye` are those of docs/protocol.md;
the magic word of the first frame is another one. A connection holds no state that outlives it: a publisher's
numbers and a subscriber's cursor make a client that connects elsewhere go on exactly once.
"""

import struct
from typing import Any, Final, TypeAlias

import msgspec

from ..client.frames import Bye, Hello, Ping, Pong, Welcome
from .model import Dot, Position, Stream, TopicOptions

__all__ = [
    "MAGIC",
    "MAX_CLIENT_FRAME",
    "MAX_SERVER_FRAME",
    "Acknowledge",
    "Answer",
    "Ask",
    "Attach",
    "Attached",
    "ClientFrame",
    "Cursor",
    "Deliver",
    "Detach",
    "Ended",
    "Publish",
    "Published",
    "Refused",
    "ServerFrame",
    "decode_client_frame",
    "decode_server_frame",
    "encode_frame",
]

MAGIC: Final = "quorate-mesh"
MAX_CLIENT_FRAME: Final = 4 * 1024 * 1024
"""Largest body of a frame of a client, in bytes."""
MAX_SERVER_FRAME: Final = 64 * 1024 * 1024
"""Largest body of a frame of a daemon, in bytes."""


class Cursor(msgspec.Struct, array_like=True):
    """Where a persistent subscription is: what its subscriber has acknowledged."""

    topic: str
    name: str
    token: str
    """Chosen by the subscriber that made the cursor."""
    dots: list[Dot]
    """The subscriptions of that name that the daemon had when it was attached without a cursor."""
    positions: dict[Stream, int] = {}
    """By stream: the number up to which everything was acknowledged."""
    publishers: dict[str, int] = {}
    """By publisher: the number of its last message."""


class Publish(msgspec.Struct, array_like=True, frozen=True, tag=20):
    """Messages with consecutive numbers of a publisher. Answered by `Published` or `Refused`."""

    request: int
    topic: str
    publisher: str
    first: int
    """The number of the first message. Numbers are never used twice, but some may be left out."""
    previous: int
    """The number of the publisher's message before it that was not refused; 0: there is none."""
    bodies: list[bytes]
    acknowledged: int = 0
    """The number of the publisher's last acknowledged message of this topic; 0: there is none."""
    after: Position | None = None
    """Where that message is."""


class Attach(msgspec.Struct, array_like=True, frozen=True, tag=21):
    """Receive messages of a topic. Answered by `Attached` or `Refused`."""

    request: int
    consumer: int
    """A number that the client chooses for what it attaches."""
    topic: str
    name: str = ""
    """Name of the persistent subscription; "" for a temporary one."""
    token: str = ""
    """Chosen by the subscriber, for a new persistent subscription."""
    cursor: Cursor | None = None
    window_bytes: int = 0
    """Messages that may be under way before earlier ones are acknowledged; 0: as the daemon likes."""
    changed_from: list[Dot] = []
    """Subscriptions that end in the same step."""


class Acknowledge(msgspec.Struct, array_like=True, frozen=True, tag=22):
    """Everything up to these positions is done with. Not answered."""

    consumer: int
    positions: list[tuple[Stream, int]]


class Detach(msgspec.Struct, array_like=True, frozen=True, tag=23):
    """Receive no more. A persistent subscription stays, unless it is ended. Answered by `Answer`."""

    request: int
    consumer: int
    end: bool = False
    """End the subscription."""


class Ask(msgspec.Struct, array_like=True, frozen=True, tag=24):
    """A question or a command. Answered by `Answer` or `Refused`."""

    request: int
    what: str
    """``topics``, ``create``, ``delete``, ``subscriptions``, ``unsubscribe``, ``status``."""
    topic: str = ""
    options: TopicOptions | None = None
    name: str = ""


class Published(msgspec.Struct, array_like=True, frozen=True, tag=30):
    """All messages of the request are on the disk of the daemon, and of as many others as is configured."""

    request: int
    position: Position
    """That of the last one, for `Publish.after`."""


class Attached(msgspec.Struct, array_like=True, frozen=True, tag=31):
    """The client receives messages from now on."""

    request: int
    consumer: int
    dots: list[Dot]
    """The persistent subscriptions, for the cursor; none if it is temporary."""


class Deliver(msgspec.Struct, array_like=True, frozen=True, tag=32):
    """Records of a stream, each encoded as daemons store it."""

    consumer: int
    stream: Stream
    records: list[tuple[int, bytes]]
    seen: int = 0
    """Messages up to this number may have been delivered before."""
    missed: int = 0
    """Messages that a temporary subscriber has missed in this stream since the delivery before."""


class Ended(msgspec.Struct, array_like=True, frozen=True, tag=33):
    """The client receives nothing more for this consumer."""

    consumer: int
    code: str
    text: str


class Answer(msgspec.Struct, array_like=True, frozen=True, tag=34):
    """The answer to a question, or the end of a command."""

    request: int
    result: Any = None


class Refused(msgspec.Struct, array_like=True, frozen=True, tag=35):
    """A request was not carried out."""

    request: int
    code: str
    """``no topic``, ``full``, ``rights``, ``limit``, ``ended``, ``wrong``, ``forgotten``, ``exists``, ``gap``
    or ``order lost``.

    ``gap``: earlier messages of the publisher were refused, so that these would come before them.
    ``order lost``: the publisher's message before is lost, or may come later; it goes on under another
    identifier."""
    text: str
    """One sentence for people."""


ClientFrame: TypeAlias = Hello | Ping | Publish | Attach | Acknowledge | Detach | Ask
ServerFrame: TypeAlias = Welcome | Bye | Pong | Published | Attached | Deliver | Ended | Answer | Refused

_encoder: Final = msgspec.msgpack.Encoder()
_LENGTH: Final = struct.Struct(">I")
_client: Final[msgspec.msgpack.Decoder[ClientFrame]] = msgspec.msgpack.Decoder(ClientFrame)
_server: Final[msgspec.msgpack.Decoder[ServerFrame]] = msgspec.msgpack.Decoder(ServerFrame)


def encode_frame(frame: ClientFrame | ServerFrame) -> bytes:
    """Encode a frame, length included."""
    buffer = bytearray(4)
    _encoder.encode_into(frame, buffer, 4)
    _LENGTH.pack_into(buffer, 0, len(buffer) - 4)
    return bytes(buffer)


def decode_client_frame(body: bytes) -> ClientFrame:
    """Decode the body of a frame of a client. Raises msgspec.DecodeError."""
    return _client.decode(body)


def decode_server_frame(body: bytes) -> ServerFrame:
    """Decode the body of a frame of a daemon. Raises msgspec.DecodeError."""
    return _server.decode(body)
