"""A process that is killed, or a machine that loses power, at any moment of a write to the journal.

What is found is what was there before that write or what was to be there after it, rows of the application
and all: never a part, and never damage.
"""

import os
import random
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from quorate.hachannel.journal.durable_log import Remembered
from quorate.hachannel.journal.journal import Damaged, Identity, Journal
from quorate.hachannel.model.log import Appended, Committed, LogRecord, Promised, Reset, Truncated
from quorate.hachannel.model.messages import Entry
from quorate.hachannel.model.view import Tag, ViewNumber

ME = Identity("cluster", "s0", 0)
VIEW = ViewNumber(3, 0, 7)
SCHEMA = ("CREATE TABLE mark (number INTEGER)", "INSERT INTO mark VALUES (0)")
SECTOR = 512
NAMES = ("journal.db", "journal.db-wal", "journal.db-frames")
Found = tuple[Remembered, list[Entry], int]
Files = dict[str, bytes]


class Disk:
    """What is on it: as it is, and as it was before and after each step of the last write."""

    def __init__(self, place: Path, monkeypatch: pytest.MonkeyPatch, rng: random.Random) -> None:
        self.place = place
        self.rng = rng
        self.steps: list[Files] = []
        self._pwritev = os.pwritev
        monkeypatch.setattr(os, "pwritev", self._write)

    def files(self) -> Files:
        paths = [self.place / name for name in NAMES]
        return {path.name: path.read_bytes() for path in paths if path.exists()}

    def step(self) -> None:
        self.steps.append(self.files())

    def _write(self, file: int, parts: list[Any], at: int, flags: int) -> int:
        before = self.files()
        self.steps.append(before)
        data = b"".join(parts)
        for _ in range(2):
            self.steps.append({**before, NAMES[2]: self._torn(before[NAMES[2]], data, at)})
        done = self._pwritev(file, parts, at, flags)
        self.step()
        return done

    def _torn(self, old: bytes, data: bytes, at: int) -> bytes:
        """Some of the sectors of a write are on the disk."""
        end = at + len(data)
        new = old.ljust(end, b"\0")[:at] + data + old[end:]
        torn = bytearray(old.ljust(len(new) if self.rng.random() < 0.5 else 0, b"\0"))
        for sector in range(at // SECTOR, end // SECTOR + 1):
            span = slice(sector * SECTOR, sector * SECTOR + SECTOR)
            if self.rng.random() < 0.6 and span.start < len(new):
                torn.extend(bytes(max(0, min(span.stop, len(new)) - len(torn))))
                torn[span] = new[span] + torn[span][len(new[span]) :]
        return bytes(torn)

    def committed(self) -> None:
        """A transaction of the database was written after the last step: as it is, and with its end torn."""
        before, after = self.steps[-1].get(NAMES[1], b""), self.files()
        wal = after.get(NAMES[1], b"")
        cut = self.rng.randrange(len(before), len(wal)) if len(wal) > len(before) else len(wal) - 1
        for end in (b"", bytes(len(wal) - cut)):
            self.steps.append({**after, NAMES[1]: wal[:cut] + end})
        self.step()


class Marked(sqlite3.Connection):
    """Tells of its transactions."""

    disk: Disk | None = None

    def execute(self, sql: str, *args: Any) -> sqlite3.Cursor:
        if sql == "COMMIT" and self.disk is not None:
            self.disk.step()
        cursor = super().execute(sql, *args)
        if sql == "COMMIT" and self.disk is not None:
            self.disk.committed()
        return cursor


def restore(place: Path, files: Files) -> None:
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    for name, data in files.items():
        (place / name).write_bytes(data)


def found(place: Path, files: Files) -> Found:
    restore(place, files)
    result = []
    for _ in range(2):  # what was found once is found again
        journal = Journal.open(place / NAMES[0], ME, 8, existing=True)
        (mark,) = journal.connection.execute("SELECT number FROM mark").fetchone()
        result.append((journal.remembered, list(journal.recovered), mark))
        journal.close()
    assert result[0] == result[1]
    return result[0]


def some_records(rng: random.Random, now: Remembered) -> list[LogRecord]:
    records: list[LogRecord] = []
    last, commit = now.last, now.commit
    for _ in range(rng.randint(1, 3)):
        kind = rng.random()
        if kind < 0.6:
            size = rng.choice([0, 40, 700, 700, 3000])
            records.append(Appended((Entry(VIEW, last + 1, 0, rng.randbytes(size)),)))
            last += 1
        elif kind < 0.7 and last > commit:
            last = rng.randint(commit, last)
            records.append(Truncated(last))
        elif kind < 0.9:
            commit = rng.randint(commit, last)
            records.append(Committed(commit))
        elif kind < 0.95:
            records.append(Promised(ViewNumber(rng.randint(1, 99), 0, 7)))
        else:
            last = commit = last + rng.randint(0, 3)
            records.append(Reset(Tag(VIEW, last)))
    return records


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_a_crash_leaves_what_was_there_before_a_write_or_after_it(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scenario 22: a write is there as a whole or not at all."""
    monkeypatch.setattr("quorate.hachannel.journal.frame_file.SEGMENT_BYTES", 2500)
    rng = random.Random(seed)
    place, copy = tmp_path / "journal", tmp_path / "copy"
    place.mkdir()
    connections: list[Marked] = []

    def connect(*args: Any, **options: Any) -> sqlite3.Connection:
        connections.append(sqlite3.connect(*args, factory=Marked, **options))
        return connections[-1]

    journal = Journal.open(place / NAMES[0], ME, 7, schema=SCHEMA, connect=connect)
    disk = Disk(place, monkeypatch, rng)
    mark, entries = 0, list[Entry]()
    for number in range(1, 16):
        before = journal.remembered, entries, mark
        if rng.random() < 0.2:
            journal.note()
        disk.steps.clear()
        connections[-1].disk = disk
        marked = rng.random() < 0.3

        def also(connection: sqlite3.Connection, number: int = number) -> None:
            connection.execute("UPDATE mark SET number = ?", (number,))

        base, commit = journal.remembered.base.at, journal.remembered.commit
        trim = rng.randint(base, commit) if rng.random() < 0.2 else 0
        journal.write(some_records(rng, journal.remembered), trim=trim, also=also if marked else None)
        mark = number if marked else mark
        connections[-1].disk = None
        after = found(copy, disk.files())
        assert (after[0], after[2]) == (journal.remembered, mark)
        entries = after[1]
        for files in disk.steps:
            assert found(copy, files) in (before, after), number
        if rng.random() < 0.2:
            # It ends in the middle of a write, and another process goes on with what it finds there.
            journal.close()
            restore(place, rng.choice(disk.steps))
            journal = Journal.open(place / NAMES[0], ME, 7, connect=connect)
            (mark,) = journal.connection.execute("SELECT number FROM mark").fetchone()
            entries = list(journal.recovered)


def test_frames_behind_a_lost_transaction_are_a_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction that made room for frames is not there, and they are."""
    monkeypatch.setattr("quorate.hachannel.journal.frame_file.SEGMENT_BYTES", 2500)
    path = tmp_path / NAMES[0]
    journal = Journal.open(path, ME, 7)
    before = {}
    for index in range(1, 12):
        before = before or {name: (tmp_path / name).read_bytes() for name in NAMES[:2]}
        journal.write([Appended((Entry(VIEW, index, 0, bytes(600)),))])
    frames = (tmp_path / NAMES[2]).read_bytes()
    place = tmp_path / "copy"
    restore(place, {**before, NAMES[2]: frames})
    for _ in range(2):
        with pytest.raises(Damaged, match=r"later ones are|is lost"):
            Journal.open(place / NAMES[0], ME, 8)
