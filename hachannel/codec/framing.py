"""Frames on a byte stream: length of the body, CRC-32 of the body (4 bytes each, big-endian), body. Pure.

TCP's checksum has only 16 bits, and does not protect the bytes in the memory of routers and hosts. Without a
checksum of its own, one member might deliver a damaged message while the others deliver the right one.
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
"""Smaller pieces of an incomplete frame are joined at once: keeping each apart would cost more."""
MAX_FRAME_BYTES = 16 * 1024 * 1024
"""Default limit of the length of a body."""

_HEADER = struct.Struct(">II")


class FrameError(Exception):
    """The rest of the stream cannot be read. The text is one sentence for the log."""


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
        """Whether the beginning of an incomplete frame has arrived."""
        return self._have > 0

    def feed(self, data: bytes) -> list[bytes]:
        """Add received bytes, and return the bodies that are complete now.

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
        """Append the body that `data` completes to `bodies`. spare: bytes of `data` after that frame.

        Return the data to read on, and the position in it.
        """
        pieces = self._pieces
        pieces.append(data)
        if self._need == HEADER_BYTES:
            # Only the header is complete: the length of the frame was unknown.
            joined = b"".join(pieces)
            pieces.clear()
            return joined, 0
        # The first piece contains the whole header. A long body is copied once.
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
    """Return the frames of these bodies as a list of buffers for one write; long buffers are not copied."""
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
