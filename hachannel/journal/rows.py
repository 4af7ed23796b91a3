"""Rows of a journal's database: one for each kind of fact, with a checksum, as SQLite's pages have none."""

import sqlite3
import struct
from collections.abc import Callable
from hashlib import blake2b
from typing import Any, Final

import msgspec

__all__ = ["UNREADABLE", "Corrupt", "checksum", "put_row", "row_of"]

UNREADABLE: Final = (TypeError, ValueError, struct.error, msgspec.MsgspecError)
"""Errors that decoding raises for damaged bytes."""


class Corrupt(Exception):
    """A row or frame differs from what was written. The text says which."""


def checksum(*parts: bytes) -> bytes:
    """Return a checksum of 8 bytes over the parts and their lengths."""
    hasher = blake2b(digest_size=8)
    for part in parts:
        hasher.update(len(part).to_bytes(8, "little"))
        hasher.update(part)
    return hasher.digest()


def put_row(connection: sqlite3.Connection, table: str, body: bytes) -> None:
    """Write the only row of a table."""
    connection.execute(f"INSERT OR REPLACE INTO {table} VALUES (1, ?, ?)", (body, checksum(body)))  # noqa: S608


def row_of(connection: sqlite3.Connection, table: str, decode: Callable[[bytes], Any]) -> Any:
    """Return the decoded content of the only row of a table. Raises Corrupt."""
    row = connection.execute(f"SELECT body, checksum FROM {table}").fetchone()  # noqa: S608
    try:
        if row is not None and checksum(row[0]) == row[1]:
            return decode(row[0])
    except UNREADABLE:
        pass
    raise Corrupt(f"its row of {table} is missing or damaged")
