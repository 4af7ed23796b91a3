"""Journals of the formats before, which have their entries in rows of the database."""

import sqlite3
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from quorate.hachannel.journal.durable_log import Remembered
from quorate.hachannel.journal.journal import Damaged, Identity, Journal, checksum
from quorate.hachannel.journal.rows import put_row
from quorate.hachannel.model.log import Appended, Committed
from quorate.hachannel.model.messages import Entry
from quorate.hachannel.model.submitters import Source
from quorate.hachannel.model.view import Tag, View, ViewNumber, Voter

ME = Identity("cluster", "s0", 0)
VIEW = ViewNumber(3, 0, 7)
VOTERS = (Voter(0, 7), Voter(1, 8), Voter(2, 9))
REMEMBERED = Remembered(VIEW, View(VIEW, VOTERS, VOTERS, 3, 5, 2, "start-up"), True, 5, Tag(VIEW, 2), 6)
Copy = Callable[[Path], Path]


def entry(index: int, size: int = 90) -> Entry:
    return Entry(VIEW, index, 1000 + index, (b"payload %d " % index * size)[:size])


def crashed(path: Path) -> tuple[Remembered, list[Entry]]:
    """What a file comes back with."""
    journal = Journal.open(path, ME, 99)
    found = journal.remembered, list(journal.recovered)
    assert journal.incarnation == 7
    journal.close()
    return found


def old_journal(path: Path, format: int) -> list[Entry]:
    """Make one of a format before, with entries 3 to 6, of which 5 are committed."""
    entries = [entry(3), entry(4, 300_000), entry(5), Entry(VIEW, 6, 0, b"x", 0, Source(2, 1 << 60, 1, 9))]
    encode = msgspec.msgpack.encode
    meta = {"format": format, "identity": ME, "incarnation": 7}
    with sqlite3.connect(path) as connection:
        for table, body in (("meta", encode(meta)), ("remembered", encode(REMEMBERED))):
            connection.execute(f"CREATE TABLE {table} (one INTEGER PRIMARY KEY, body BLOB, checksum BLOB)")
            put_row(connection, table, body)
        connection.execute(
            "CREATE TABLE entries (idx INTEGER PRIMARY KEY, view BLOB, kind INTEGER, stamp INTEGER, "
            "source BLOB, payload BLOB, checksum BLOB)"
        )
        for each in (entry(2), *entries):
            source = encode(each.source) if each.source else b""
            whole = each.payload if format == 2 else zlib.crc32(each.payload).to_bytes(4, "little")
            numbers = struct.pack("<qqq", each.index, each.kind, each.stamp_ns)
            kept = checksum(numbers, encode(each.view), source, whole)
            row = (each.index, encode(each.view), each.kind, each.stamp_ns, source, each.payload, kept)
            connection.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?)", row)
    connection.close()
    return entries


@pytest.mark.parametrize("format", [2, 3])
def test_a_journal_of_a_format_before_becomes_one_of_this(tmp_path: Path, copy: Copy, format: int) -> None:
    path = tmp_path / "journal.db"
    entries = old_journal(path, format)
    (tmp_path / "journal.db-frames").write_bytes(b"of an upgrade that was cut short")
    assert crashed(path) == (REMEMBERED, entries)
    journal = Journal.open(path, ME, 8)
    journal.write([Appended((entry(7, 5000),)), Committed(6)], trim=3)
    found = crashed(copy(path))
    assert found == (journal.remembered, [*entries[1:], entry(7, 5000)])
    assert found[0].base == Tag(VIEW, 3)


@pytest.mark.parametrize("format", [2, 3])
@pytest.mark.parametrize(
    ("change", "flaw"),
    [
        ("UPDATE entries SET payload = x'00' WHERE idx = 4", "entry 4 is not what was written"),
        ("UPDATE entries SET stamp = 'x' WHERE idx = 4", "entry 4 is not what was written"),
        ("UPDATE entries SET view = NULL WHERE idx = 3", "entry 3 is not what was written"),
        ("DELETE FROM entries WHERE idx = 5", "entry 5 is missing"),
        ("DELETE FROM entries WHERE idx > 4", "entry 5 is missing"),
        ("DELETE FROM entries", "entry 3 is missing"),
        ("UPDATE entries SET idx = 7 WHERE idx = 6", "entry 6 is missing"),
        ("DROP TABLE entries", "no such table: entries"),
    ],
)
def test_the_place_of_the_damage_of_an_old_journal_is_named(
    tmp_path: Path, format: int, change: str, flaw: str
) -> None:
    path = tmp_path / "journal.db"
    old_journal(path, format)
    with sqlite3.connect(path) as connection:
        connection.execute(change)
    connection.close()
    for _ in range(2):
        with pytest.raises(Damaged, match=flaw):
            Journal.open(path, ME, 8)
