"""Frames between daemons: a message, or a part of a long one. Pure.

The first byte of a frame says what it is: the whole of a message, a part with more to follow, or the last
part. A Snap of a large mesh is longer than a frame may be.
"""

from typing import Final

import msgspec

from .messages import MeshMessage, decode_message, encode_message

__all__ = ["PeerFrames", "cut"]

PART_BYTES: Final = 1024 * 1024
MAX_MESSAGE_BYTES: Final = 1024 * 1024 * 1024
_WHOLE, _MORE, _LAST = b"\x00", b"\x01", b"\x02"


def cut(message: MeshMessage) -> list[bytes]:
    """Return the frames of a message."""
    data = encode_message(message)
    if len(data) <= PART_BYTES:
        return [_WHOLE + data]
    parts = [data[at : at + PART_BYTES] for at in range(0, len(data), PART_BYTES)]
    return [*(_MORE + part for part in parts[:-1]), _LAST + parts[-1]]


class PeerFrames:
    """Joins the frames of one connection to messages."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def receive(self, frames: list[bytes]) -> list[MeshMessage]:
        """Return the messages that are complete. Raises ValueError for what is none."""
        found: list[MeshMessage] = []
        for frame in frames:
            kind, body = frame[:1], frame[1:]
            if kind != _WHOLE:
                self._size += len(body)
                if kind not in (_MORE, _LAST) or self._size > MAX_MESSAGE_BYTES:
                    raise ValueError("a frame is neither a message nor a part of one")
                self._parts.append(body)
                if kind == _MORE:
                    continue
                body = b"".join(self._parts)
                self._parts.clear()
                self._size = 0
            try:
                found.append(decode_message(body))
            except (msgspec.MsgspecError, ValueError, RecursionError) as error:
                raise ValueError(f"a message cannot be read: {error}") from None
        return found
