"""Structs in msgpack, in parts for a write that gathers them: long payloads are not copied. A leaf, pure."""

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import msgspec

from .checksum import crc32

__all__ = ["LONG_BYTES", "Body", "crc_of", "gather", "parts_of"]

LONG_BYTES: Final = 32 * 1024
"""Payloads of this length or more are not copied: joining costs more than another part of a write."""
MOST_CARRIERS: Final = 64
"""With more payloads in one struct, copying all costs less than handling each: most are short."""

Body: TypeAlias = bytes | list[bytes]
"""Bytes that belong together, as a whole or in parts."""

_encoder = msgspec.msgpack.Encoder()


def parts_of(body: Body) -> list[bytes]:
    """Return the parts of a body; a body in one piece is one part."""
    return body if isinstance(body, list) else [body]


class Parts(list[bytes]):
    """Parts that are not changed any more."""

    crc: int | None = None
    """Their checksum, once it was asked for: what goes to several peers is summed once."""


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
    """The msgpack of a struct (`array_like`); each long payload in it is a part by itself, not copied.

    carrying: the field with payloads. It is bytes, or a struct with a field `payload`, or several such.
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
    """One struct, cut before and behind every long payload."""

    def __init__(self, value: msgspec.Struct, carrying: str) -> None:
        self.parts = Parts()
        self._short = bytearray()
        self._struct(value, carrying)
        self._cut()

    def _struct(self, value: msgspec.Struct, carrying: str) -> None:
        """An array of the fields, behind the tag if there is one."""
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
        """The head of an array."""
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
