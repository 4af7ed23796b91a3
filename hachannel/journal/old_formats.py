"""Journals of the formats before: their entries are rows of the database, with a checksum each."""

import sqlite3
import struct
import zlib
from contextlib import closing
from typing import Final

import msgspec

from ..model.messages import Entry
from ..model.submitters import Source
from ..model.view import ViewNumber
from .rows import UNREADABLE, Spoiled, checksum

__all__ = ["OLD_FORMATS", "entries_of"]

OLD_FORMATS: Final = (2, 3)
"""In the first of them, the checksum of an entry goes over its whole payload."""
_decode_source = msgspec.msgpack.Decoder(Source).decode
_decode_view = msgspec.msgpack.Decoder(ViewNumber).decode
_NUMBERS: Final = struct.Struct("<qqq")


def entries_of(connection: sqlite3.Connection, base: int, format: int) -> list[Entry]:
    """The entries from base + 1 on, up to the first that is missing. Raises Spoiled."""
    entries: list[Entry] = []
    rows = connection.execute(
        "SELECT idx, view, kind, stamp, source, payload, checksum FROM entries WHERE idx > ? ORDER BY idx",
        (base,),
    )
    # An open query would keep the file open, whoever closes the connection.
    with closing(rows):
        for index, view, kind, stamp, source, payload, kept in rows:
            if index != base + len(entries) + 1:
                break
            try:
                origin = _decode_source(source) if source else None
                entry = Entry(_decode_view(view), index, stamp, payload, kind, origin)
                sound = _sum(view, source, entry, format) == kept
            except UNREADABLE:
                sound = False
            if not sound:
                raise Spoiled(f"entry {index} is not what was written")
            entries.append(entry)
    return entries


def _sum(view: bytes, source: bytes, entry: Entry, format: int) -> bytes:
    payload = entry.payload
    if format != OLD_FORMATS[0]:
        payload = zlib.crc32(payload).to_bytes(4, "little")
    return checksum(_NUMBERS.pack(entry.index, entry.kind, entry.stamp_ns), view, source, payload)
