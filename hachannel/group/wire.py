"""The bytes of a group: packs, the head of a snapshot, and the hello of a connection. Pure."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from ..model.errors import ProtocolError
from ..model.settings import Settings

__all__ = [
    "MAX_HELLO_BYTES",
    "REFUSAL",
    "EndsRow",
    "Head",
    "Hello",
    "Shared",
    "decode_head",
    "decode_pack",
    "decode_part",
    "encode_head",
    "encode_hello",
    "encode_pack",
    "encode_parts",
    "encode_refusal",
    "name_digest",
    "parse_hello",
    "shared_of",
]

MAGIC: Final = "quorate"
VERSION: Final = 4
PURPOSE: Final = "group"
REFUSED: Final = "refused"
REFUSAL: Final = "refused: "
"""With this begins what is said of a refusal; the reason that the other side gave follows."""
MAX_HELLO_BYTES = 4096
CHUNK_BYTES = 1024 * 1024
"""A part of a snapshot holds chunks of at most so many bytes in all, and up to CHUNK_HEAD_BYTES for each."""
CHUNK_HEAD_BYTES = 5

_T = TypeVar("_T")

EndsRow: TypeAlias = tuple[int, int, int, list[tuple[int, int]]]
"""Of one member: replica, incarnation, boot, (number, index of the last message) of its latest packs."""


class Head(msgspec.Struct, array_like=True, frozen=True):
    """The first chunk of a snapshot: what the group itself must know."""

    version: int
    position: int
    ends: list[EndsRow]


class Shared(msgspec.Struct, frozen=True):
    """The settings that every member must have alike, by their names in `Settings`."""

    mode: str
    min_copies: int
    """As `mode`, it says when a message is safe: that must not depend on who is the master."""
    max_payload_bytes: int
    """With `part_bytes` it says how long a frame may be: a longer one breaks the connection each time."""
    part_bytes: int


class Hello(msgspec.Struct, frozen=True):
    """The first frame of either side of a connection."""

    replica: int
    incarnation: int
    group: str
    """The digest of its name."""
    ids: tuple[int, ...]
    """The members that may ever join."""
    shared: Shared
    calls: bool = False
    """The connection only asks the other side to dial."""
    process: str = ""
    """See `process.this_process`."""
    knows: int = 0
    """The incarnation in which the other side was connected last, 0 if it was not."""
    nonce: str = ""
    """What no other life has, should two be given one incarnation."""
    knows_nonce: str = ""
    """That of the other side when it was connected last."""

    @property
    def fields(self) -> Mapping[str, Any]:
        """As the transport wants them."""
        return msgspec.structs.asdict(self)


def shared_of(settings: Settings) -> Shared:
    """What of the settings every member must have alike."""
    return msgspec.convert(settings, Shared, from_attributes=True)


def name_digest(name: str) -> str:
    """What is said of the name of a group to whoever may be a stranger."""
    return blake2b(name.encode(), digest_size=8).hexdigest()


_encoder = msgspec.msgpack.Encoder()
_many: msgspec.msgpack.Decoder[list[bytes]] = msgspec.msgpack.Decoder(list[bytes])
_head: msgspec.msgpack.Decoder[Head] = msgspec.msgpack.Decoder(Head)
_hello: msgspec.msgpack.Decoder[tuple[str, int, str, dict[str, Any]]] = msgspec.msgpack.Decoder(
    tuple[str, int, str, dict[str, Any]]
)


def _decode(decoder: "msgspec.msgpack.Decoder[_T]", data: bytes, what: str) -> _T:
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ProtocolError(f"not {what}: {error}") from None


def encode_pack(payloads: list[bytes]) -> bytes:
    """The payload of an entry. The bytes of the messages are copied unchanged."""
    return _encoder.encode(payloads)


def decode_pack(data: bytes) -> list[bytes]:
    """The messages of an entry. Raises ProtocolError."""
    return _decode(_many, data, "a pack of messages")


def encode_head(position: int, ends: Sequence[EndsRow]) -> bytes:
    """The first chunk of a snapshot."""
    return _encoder.encode(Head(VERSION, position, list(ends)))


def decode_head(data: bytes) -> Head:
    """The first chunk of a snapshot. Raises ProtocolError, also for another version."""
    head = _decode(_head, data, "the state of a group")
    if head.version != VERSION:
        raise ProtocolError(f"the state of a group is of version {head.version}, not {VERSION}")
    return head


def encode_parts(chunks: deque[bytes]) -> Iterator[bytes]:
    """The other parts of a snapshot: a trip goes by for every few parts, so small chunks share one.

    Each is made when it is asked for, and its chunks are taken away: all at once they would take as much
    memory again, and seconds.
    `decode_part` gives the chunks back as they were, but those above CHUNK_BYTES, which are cut.
    """
    gathered: list[bytes] = []
    size = 0
    while chunks:
        chunk = chunks.popleft()
        for start in range(0, len(chunk) or 1, CHUNK_BYTES):
            piece = chunk[start : start + CHUNK_BYTES]
            if gathered and size + len(piece) > CHUNK_BYTES:
                yield _encoder.encode(gathered)
                gathered, size = [], 0
            gathered.append(piece)
            size += len(piece) + CHUNK_HEAD_BYTES
    if gathered:
        yield _encoder.encode(gathered)


def decode_part(data: bytes) -> list[bytes]:
    """The chunks in a part of a snapshot. Raises ProtocolError."""
    return _decode(_many, data, "a part of the state of a group")


def encode_hello(hello: Hello) -> bytes:
    """The first frame of a side."""
    return _encoder.encode([MAGIC, VERSION, PURPOSE, hello])


def encode_refusal(reason: str) -> bytes:
    """The frame that tells the other side why it is not let in."""
    return _encoder.encode([MAGIC, VERSION, REFUSED, {"reason": reason}])


def parse_hello(frame: bytes) -> Hello:
    """Read the first frame of the other side. Raises ProtocolError, also with the reason of a refusal."""
    if len(frame) > MAX_HELLO_BYTES:
        raise ProtocolError(f"the first frame has {len(frame)} bytes, a hello has at most {MAX_HELLO_BYTES}")
    magic, version, purpose, fields = _decode(_hello, frame, "the hello of a group")
    if magic != MAGIC or version != VERSION or purpose not in (PURPOSE, REFUSED):
        raise ProtocolError("the other side is no member of a group of this version")
    if purpose == REFUSED:
        raise ProtocolError(f"{REFUSAL}{str(fields.get('reason'))[:500]}")
    try:
        return msgspec.convert(fields, Hello)
    except msgspec.ValidationError as error:
        raise ProtocolError(f"not the hello of a group: {error}") from None
