"""Frames on a byte stream: the length of the body and its CRC-32, 4 bytes big-endian each; the body. Pure.

TCP's checksum has 16 bits, and none goes with the bytes through the memory of routers and hosts. What came
damaged would be delivered as it came, by one member and not by the others.
"""

import struct
from collections.abc import Sequence

from .buffers import LONG_BYTES, Body, crc_of
from .checksum import crc32

__all__ = [
    "HEADER_BYTES",
    "MAX_FRAME_BYTES",
    "FrameDamaged",
    "FrameError",
    "FrameReader",
    "FrameTooLong",
    "frame_parts",
]

HEADER_BYTES = 8
SMALL_BYTES = 1024
"""Pieces of a frame that are smaller are joined at once: each costs more than its bytes."""
MAX_FRAME_BYTES = 16 * 1024 * 1024
"""Default limit of a body, for sides that know each other."""

_HEADER = struct.Struct(">II")


class FrameError(Exception):
    """The stream cannot be read further. The text is one sentence for the log."""


class FrameTooLong(FrameError):
    """A frame is longer than this side accepts."""


class FrameDamaged(FrameError):
    """The checksum of a frame is wrong."""


class FrameReader:
    """Cuts received bytes into frames.

    `max_bytes` is the longest body accepted and may be changed between two frames.
    Memory is bounded by one frame and one received chunk.
    """

    def __init__(self, max_bytes: int = MAX_FRAME_BYTES) -> None:
        self.max_bytes = max_bytes
        self._pieces: list[bytes | bytearray] = []
        self._have = 0
        self._need = HEADER_BYTES

    @property
    def pending(self) -> bool:
        """Some of a frame is here, and not all."""
        return self._have > 0

    def feed(self, data: bytes) -> list[bytes]:
        """Take received bytes and return the bodies that are complete now.

        Raises FrameError.
        """
        have = self._have + len(data)
        if have < self._need:
            # A long frame arrives in many chunks: joining them once keeps the cost linear.
            last = self._pieces[-1] if self._pieces else None
            if len(data) >= SMALL_BYTES:
                self._pieces.append(data)
            elif isinstance(last, bytearray):
                last += data
            else:
                self._pieces.append(bytearray(data))
            self._have = have
            return []
        bodies: list[bytes] = []
        start = 0
        if self._pieces:
            data, start = self._finish(bodies, data, have - self._need)
            have = len(data)
        self._need = HEADER_BYTES
        while (first := start + HEADER_BYTES) <= have:
            length, crc = _HEADER.unpack_from(data, start)
            if length > self.max_bytes:
                raise FrameTooLong(
                    f"A frame of {length} bytes was announced; at most {self.max_bytes} are accepted."
                )
            end = first + length
            if end > have:
                self._need = HEADER_BYTES + length
                break
            body = data[first:end]
            if crc32(body) != crc:
                raise _damaged(body)
            bodies.append(body)
            start = end
        self._have = have - start
        if self._have:
            self._pieces.append(data[start:])
        return bodies

    def _finish(self, bodies: list[bytes], data: bytes, spare: int) -> tuple[bytes, int]:
        """Add the frame that `data` ends, but for so many bytes of it; say where in what to go on."""
        pieces = self._pieces
        pieces.append(data)
        if self._need == HEADER_BYTES:
            # How long it is was not known.
            joined = b"".join(pieces)
            pieces.clear()
            return joined, 0
        # The first piece has the whole header. A long body is copied once.
        end = len(data) - spare
        body = b"".join([memoryview(pieces[0])[HEADER_BYTES:], *pieces[1:-1], memoryview(data)[:end]])
        if crc32(body) != _HEADER.unpack_from(pieces[0])[1]:
            raise _damaged(body)
        bodies.append(body)
        pieces.clear()
        return data, end


def _damaged(body: bytes) -> FrameDamaged:
    return FrameDamaged(
        f"A frame of {len(body)} bytes came damaged; if that happens again, test the memory of both "
        "machines and the network between them."
    )


def frame_parts(bodies: Sequence[Body]) -> list[bytes]:
    """Return the bytes that carry these bodies, for a write that gathers them: long parts are not copied."""
    parts: list[bytes] = []
    short: list[bytes] = []
    for body in bodies:
        if isinstance(body, bytes):
            pieces = [body]
            short.append(_HEADER.pack(len(body), crc32(body)))
        else:
            pieces = body
            short.append(_HEADER.pack(sum(map(len, body)), crc_of(body)))
        for piece in pieces:
            if len(piece) < LONG_BYTES:
                short.append(piece)
            else:
                parts.append(b"".join(short))
                parts.append(piece)
                short.clear()
    if short:
        parts.append(b"".join(short))
    return parts
