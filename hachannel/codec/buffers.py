"""Structs encoded in msgpack as lists of buffers, so that long payloads are not copied. A leaf, pure."""

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import msgspec

from .checksum import crc32

__all__ = ["LONG_BYTES", "Body", "crc_of", "gather", "parts_of"]

LONG_BYTES: Final = 32 * 1024
"""A payload of at least this length is a buffer of its own: copying it would cost more."""
MOST_CARRIERS: Final = 64
"""A struct with more payloads is encoded by copying: most are short, and handling each costs more."""

Body: TypeAlias = bytes | list[bytes]
"""The bytes of one struct, whole or as a list of buffers."""

_encoder = msgspec.msgpack.Encoder()


def parts_of(body: Body) -> list[bytes]:
    """Return the parts of a body; a body in one piece is one part."""
    return body if isinstance(body, list) else [body]


class Parts(list[bytes]):
    """A list of buffers that must not change after its checksum was computed."""

    crc: int | None = None
    """The checksum once it is computed; it is computed once for several peers."""


def crc_of(body: Body) -> int:
    """Return the CRC-32 of all parts."""
    if not isinstance(body, list):
        return crc32(body)
    crc = body.crc if isinstance(body, Parts) else None
    if crc is None:
        crc = 0
        for part in body:
            crc = crc32(part, crc)
        if isinstance(body, Parts):
            body.crc = crc
    return crc


def gather(value: msgspec.Struct, carrying: str) -> Body:
    """Encode a struct (`array_like`) in msgpack; each long payload in it is a buffer of its own, not copied.

    carrying: the field with payloads. It is bytes, a struct with a field `payload`, or a sequence of such.
    """
    carried: Any = getattr(value, carrying)
    if isinstance(carried, bytes):
        long = len(carried) >= LONG_BYTES
    elif isinstance(carried, msgspec.Struct):
        long = len(carried.payload) >= LONG_BYTES  # type: ignore[attr-defined]
    else:
        long = len(carried) <= MOST_CARRIERS and any(len(each.payload) >= LONG_BYTES for each in carried)
    return _Gathered(value, carrying).parts if long else _encoder.encode(value)


class _Gathered:
    """The encoding of one struct, cut before and after each long payload."""

    def __init__(self, value: msgspec.Struct, carrying: str) -> None:
        self.parts = Parts()
        self._short = bytearray()
        self._struct(value, carrying)
        self._cut()

    def _struct(self, value: msgspec.Struct, carrying: str) -> None:
        """Append a struct: an array of its tag, if it has one, and its fields."""
        tag, fields = value.__struct_config__.tag, value.__struct_fields__
        self._array(len(fields) + (tag is not None))
        if tag is not None:
            self._whole(tag)
        for field in fields:
            if field == carrying:
                self._carried(getattr(value, field))
            else:
                self._whole(getattr(value, field))

    def _carried(self, value: bytes | msgspec.Struct | Sequence[msgspec.Struct]) -> None:
        if isinstance(value, bytes):
            self._payload(value)
        elif isinstance(value, msgspec.Struct):
            self._struct(value, "payload")
        else:
            self._array(len(value))
            for each in value:
                self._struct(each, "payload")

    def _payload(self, data: bytes) -> None:
        if len(data) < LONG_BYTES:
            self._whole(data)
            return
        if len(data) < 1 << 16:
            self._short += b"\xc5" + len(data).to_bytes(2, "big")
        else:
            self._short += b"\xc6" + len(data).to_bytes(4, "big")
        self._cut()
        self.parts.append(data)

    def _array(self, length: int) -> None:
        """Append the head of an array."""
        if length < 16:
            self._short.append(0x90 | length)
        else:
            self._short += b"\xdc" + length.to_bytes(2, "big")

    def _whole(self, value: object) -> None:
        _encoder.encode_into(value, self._short, -1)

    def _cut(self) -> None:
        if self._short:
            self.parts.append(bytes(self._short))
            self._short.clear()
