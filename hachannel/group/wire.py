"""The formats of a group: packs, the parts of a state, and the hello of a connection. Pure."""

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
"""Beginning of the error for a refused connection; the reason of the other side follows."""
MAX_HELLO_BYTES = 4096
CHUNK_BYTES = 1024 * 1024
"""Largest size of one part of a state, in bytes, with CHUNK_HEAD_BYTES for each of its chunks."""
CHUNK_HEAD_BYTES = 5

_T = TypeVar("_T")

EndsRow: TypeAlias = tuple[int, int, int, list[tuple[int, int]]]
"""One member: replica, incarnation, boot, (number, index of the last message) of its latest packs."""


class Head(msgspec.Struct, array_like=True, frozen=True):
    """The first part of a state: the facts that the group itself needs."""

    version: int
    position: int
    ends: list[EndsRow]


class Shared(msgspec.Struct, frozen=True):
    """The settings that must be equal on all members, by their names in `Settings`."""

    mode: str
    min_copies: int
    """With `mode` it defines when a message is committed, which must not depend on the master."""
    max_payload_bytes: int
    """With `part_bytes` it bounds a frame: a longer one would break the connection each time."""
    part_bytes: int


class Hello(msgspec.Struct, frozen=True):
    """The first frame of either side of a connection."""

    replica: int
    incarnation: int
    group: str
    """The digest of the group's name."""
    ids: tuple[int, ...]
    """The members that may ever join."""
    shared: Shared
    calls: bool = False
    """The connection only asks the other side to dial."""
    process: str = ""
    """Description of the process, see `process_liveness.this_process`."""
    knows: int = 0
    """The incarnation of the other side that was connected last; 0 if none was."""
    nonce: str = ""
    """A unique text of this life, in case two lives get the same incarnation."""
    knows_nonce: str = ""
    """The nonce of the other side that was connected last."""

    @property
    def fields(self) -> Mapping[str, Any]:
        """The fields by name, for the transport."""
        return msgspec.structs.asdict(self)


def shared_of(settings: Settings) -> Shared:
    """Return the part of the settings that must be the same on every member."""
    return msgspec.convert(settings, Shared, from_attributes=True)


def name_digest(name: str) -> str:
    """Return a digest that stands for the name of a group on the wire, where strangers may read it."""
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
    """Encode messages as the payload of one entry."""
    return _encoder.encode(payloads)


def decode_pack(data: bytes) -> list[bytes]:
    """Return the messages of an entry. Raises ProtocolError."""
    return _decode(_many, data, "a pack of messages")


def encode_head(position: int, ends: Sequence[EndsRow]) -> bytes:
    """Encode the first part of a state."""
    return _encoder.encode(Head(VERSION, position, list(ends)))


def decode_head(data: bytes) -> Head:
    """Decode the first part of a state. Raises ProtocolError, also for another version."""
    head = _decode(_head, data, "the state of a group")
    if head.version != VERSION:
        raise ProtocolError(f"the state of a group is of version {head.version}, not {VERSION}")
    return head


def encode_parts(chunks: deque[bytes]) -> Iterator[bytes]:
    """Yield the other parts of a state. Small chunks share a part, since every few parts cost a round trip.

    Each part is made when it is needed, and its chunks are removed from `chunks`: all parts at once would
    double the memory, and take seconds. `decode_part` returns the same chunks, except that those above
    CHUNK_BYTES are cut.
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
    """Return the chunks in a part of a state. Raises ProtocolError."""
    return _decode(_many, data, "a part of the state of a group")


def encode_hello(hello: Hello) -> bytes:
    """Encode a hello as the first frame of a side."""
    return _encoder.encode([MAGIC, VERSION, PURPOSE, hello])


def encode_refusal(reason: str) -> bytes:
    """Encode the frame that tells the other side why it is refused."""
    return _encoder.encode([MAGIC, VERSION, REFUSED, {"reason": reason}])


def parse_hello(frame: bytes) -> Hello:
    """Read the first frame of the other side. Raises ProtocolError, also if that is a refusal."""
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
