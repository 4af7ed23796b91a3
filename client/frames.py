"""Frames of the client protocol and their decoding. Documented for other languages in docs/protocol.md.

A frame is a 4-byte big-endian length and a body of that many bytes: a MessagePack array whose first
element is the kind of the frame. Missing elements at the end of an array have the defaults below, and
elements that a reader does not know are ignored: that is how later versions add fields. Only in the input of
a client they are refused: it is ordered as it came, and read again by every replica.
"""

import struct
from collections.abc import Sequence
from typing import Final

import msgspec

from ..agents.client_output import ServerNote
from ..agents.ids import AgentId
from ..agents.proxy import ClientInput, ClientNote, ClientOutput
from .errors import ProtocolError

__all__ = [
    "DEFAULT_MAX_FRAME",
    "MAGIC",
    "MAX_HELLO",
    "PACK_BYTES",
    "VERSION",
    "Bye",
    "ByeCode",
    "ClientFrame",
    "ClientInput",
    "ClientNote",
    "ClientOutput",
    "Close",
    "FrameBuffer",
    "Hello",
    "Ping",
    "Pong",
    "ServerFrame",
    "ServerNote",
    "StreamAck",
    "StreamItems",
    "Welcome",
    "decode_client_frame",
    "decode_server_frame",
    "encode_frame",
    "note_size",
    "pack_outputs",
]

MAGIC: Final = "quorate-client"
VERSION: Final = 1
MAX_HELLO: Final = 4096
"""Largest first frame of a client, in bytes: a server holds no more before it has checked the password."""
DEFAULT_MAX_FRAME: Final = 1 << 20
"""Largest body of a frame, in bytes, until the Welcome frame gives the limit of the server."""
PACK_BYTES: Final = 256 * 1024
"""Notifications are packed into frames of about this size."""
NOTE_OVERHEAD: Final = 96
"""Upper bound of the bytes of one notification besides its texts and payload."""

_LENGTH = struct.Struct(">I")


class Hello(msgspec.Struct, array_like=True, frozen=True, tag=0):
    """First frame of a client: its user, and the connection that it reopens."""

    magic: str
    """Always ``quorate-client``."""
    version: int
    """The version of this protocol that the client speaks."""
    user: str
    password: str
    connection: str | None = None
    """The identifier from `Welcome`, to reopen a connection; None to open a new one."""
    out_ack: int = 0
    """Number of the last notification received on that connection."""
    attempt: int = 0
    """Grows with every hello of a client: of two on one server, the one with the higher number wins."""


class Welcome(msgspec.Struct, array_like=True, frozen=True, tag=1):
    """The connection is open, or open again."""

    version: int
    """The version of the protocol that the server uses from now on; not above the client's."""
    connection: str
    """Identifier of the connection, for the `Hello` that reopens it."""
    replicas: list[tuple[str, int]]
    """(host, port) of every replica of the server, in its order."""
    idle_timeout_s: float
    """Without any frame from the client for this long, the connection expires."""
    max_frame: int
    """Largest body of a frame that the server accepts, in bytes."""
    window: int
    """Number of notifications that the client may have unacknowledged."""
    in_ack: int = 0
    """Number of the last notification that the server has from this connection."""


class Bye(msgspec.Struct, array_like=True, frozen=True, tag=2):
    """The last frame of a server before it closes the TCP connection."""

    code: str
    """One of `ByeCode`; an unknown code counts as ``unavailable``."""
    text: str
    """One sentence for people."""


def tls_needed() -> bytes:
    """Return the answer to a client that does not speak TLS at a port that needs it."""
    text = "this server speaks TLS; write the URL as quorates://host:port?ca=FILE"
    return encode_frame(Bye(ByeCode.PROTOCOL, text))


class ByeCode:
    """Reasons of a `Bye` frame. The first six end the connection; after the others the client tries again."""

    AUTHENTICATION: Final = "authentication"
    VERSION: Final = "version"
    EXPIRED: Final = "expired"
    CLOSED: Final = "closed"
    REPLACED: Final = "replaced"
    PROTOCOL: Final = "protocol"
    FULL: Final = "full"
    UNAVAILABLE: Final = "unavailable"


class Ping(msgspec.Struct, array_like=True, frozen=True, tag=5):
    """Keep-alive of a client, answered at once by `Pong`."""

    token: int
    out_ack: int = 0
    next_seq: int = 0
    """Number of the next notification, so that the server sees whether it missed any; 0: not given."""


class Pong(msgspec.Struct, array_like=True, frozen=True, tag=6):
    """The answer to a `Ping`."""

    token: int


class Close(msgspec.Struct, array_like=True, frozen=True, tag=7):
    """The client closes the connection for good; the server answers ``Bye("closed")``."""

    out_ack: int = 0


class StreamItems(msgspec.Struct, array_like=True, frozen=True, tag=8):
    """Items of a stream that the client follows, as the streams of groups are."""

    stream: AgentId
    """The agent whose stream it is."""
    pages: list[tuple[int, int, bytes]]
    """(index of the first item, number of items, the items encoded as the agent does)."""


class StreamAck(msgspec.Struct, array_like=True, frozen=True, tag=9):
    """The client follows streams, and has everything up to these items of them."""

    positions: list[tuple[AgentId, int]]


ClientFrame = Hello | ClientInput | Ping | Close | StreamAck
ServerFrame = Welcome | Bye | ClientOutput | Pong | StreamItems

_encoder = msgspec.msgpack.Encoder()
_client_decoder: msgspec.msgpack.Decoder[ClientFrame] = msgspec.msgpack.Decoder(ClientFrame)
_server_decoder: msgspec.msgpack.Decoder[ServerFrame] = msgspec.msgpack.Decoder(ServerFrame)


def encode_frame(frame: ClientFrame | ServerFrame) -> bytes:
    """Encode a frame, length included."""
    buffer = bytearray(4)
    _encoder.encode_into(frame, buffer, 4)
    _LENGTH.pack_into(buffer, 0, len(buffer) - 4)
    return bytes(buffer)


def decode_client_frame(body: bytes) -> ClientFrame:
    """Decode the body of a frame of a client. Raises `ProtocolError` with one sentence."""
    try:
        return _client_decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"the client sent a frame that cannot be understood: {error}") from None


def decode_server_frame(body: bytes) -> ServerFrame:
    """Decode the body of a frame of a server. Raises `ProtocolError` with one sentence."""
    try:
        return _server_decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"the server sent a frame that cannot be understood: {error}") from None


def note_size(to: object, type_name: str, payload: bytes) -> int:
    """Return an upper bound of the encoded size of a notification, in bytes."""
    named = 4 * len(to) if isinstance(to, str) else 0
    return NOTE_OVERHEAD + named + 4 * len(type_name) + len(payload)


def pack_outputs(in_ack: int, first_seq: int, notes: Sequence[ServerNote]) -> list[bytes]:
    """Encode consecutive notifications in as few frames as their size allows, at least one."""
    frames: list[bytes] = []
    chunk: list[ServerNote] = []
    size = 0
    for note in notes:
        more = note_size(note.sender, note.type, note.payload)
        if chunk and size + more > PACK_BYTES:
            frames.append(encode_frame(ClientOutput(in_ack, first_seq, chunk)))
            first_seq += len(chunk)
            chunk, size = [], 0
        chunk.append(note)
        size += more
    frames.append(encode_frame(ClientOutput(in_ack, first_seq, chunk)))
    return frames


class FrameBuffer:
    """Splits a stream of bytes into the bodies of frames. Holds one frame and what was read with it."""

    def __init__(self, max_frame: int):
        self.max_frame = max_frame
        self._buffer = bytearray()

    def feed(self, data: bytes) -> None:
        """Append bytes that were read from the stream."""
        self._buffer += data

    def next(self) -> bytes | None:
        """Return the body of the next whole frame, or None.

        Raises `ProtocolError` if the frame that begins is empty or larger than ``max_frame``.
        """
        buffer = self._buffer
        if len(buffer) < 4:
            return None
        (length,) = _LENGTH.unpack_from(buffer)
        if not 0 < length <= self.max_frame:
            raise ProtocolError(
                f"a frame of {length} bytes arrived where 1 to {self.max_frame} are allowed; "
                "this does not look like a quorate client connection"
            )
        if len(buffer) < 4 + length:
            return None
        with memoryview(buffer) as view:
            body = bytes(view[4 : 4 + length])
        del buffer[: 4 + length]
        return body

    def __len__(self) -> int:
        return len(self._buffer)
