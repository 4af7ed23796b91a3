"""The journal: what it remembers, and that it never gives out what is not as it was written."""

import errno
import os
import random
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from quorate.hachannel.journal.durable_log import DurableLog, Remembered
from quorate.hachannel.journal.journal import FORMAT, Damaged, Foreign, Identity, Journal, WriteFailed
from quorate.hachannel.journal.wal_check import inspect_wal
from quorate.hachannel.model.log import (
    Accepted,
    Activated,
    Appended,
    Booted,
    Committed,
    LogRecord,
    Promised,
    Reset,
    Truncated,
)
from quorate.hachannel.model.messages import RECONFIG, Entry
from quorate.hachannel.model.submitters import Source
from quorate.hachannel.model.view import NO_VIEW, Tag, View, ViewNumber, Voter

ME = Identity("cluster", "s0", 0)
VIEW = ViewNumber(3, 0, 7)
Copy = Callable[[Path], Path]


def nothing(_: sqlite3.Connection) -> None:
    """What an application has to write."""


def entry(index: int, size: int = 90, view: ViewNumber = VIEW) -> Entry:
    return Entry(view, index, 1000 + index, (b"payload %d " % index * size)[:size])


def view(number: ViewNumber = VIEW) -> View:
    voters = (Voter(0, 7), Voter(1, 8), Voter(2, 9))
    return View(number, voters, voters, 3, 5, 2, "start-up")


def reopened(path: Path) -> tuple[Remembered, list[Entry]]:
    journal = Journal.open(path, ME, 99)
    found = journal.remembered, list(journal.recovered)
    assert journal.incarnation == 7
    journal.close()
    return found


def crashed(journal: Journal, copy: Copy) -> tuple[Remembered, list[Entry]]:
    """What a copy made now comes back with."""
    return reopened(copy(journal.path))


def test_what_is_written_is_there_after_a_crash(journal: Journal, copy: Copy) -> None:
    assert journal.remembered == Remembered()
    journal.write([Promised(VIEW), Accepted(view()), Activated(VIEW)])
    journal.write([Appended((entry(1), entry(2))), Committed(1), Appended((entry(3, 300_000),))])
    remembered, entries = crashed(journal, copy)
    assert remembered == Remembered(VIEW, view(), True, 1, Tag(NO_VIEW, 0), 3)
    assert entries == [entry(1), entry(2), entry(3, 300_000)]
    journal.close()
    assert reopened(journal.path) == (remembered, entries)


def test_a_view_accepted_later_is_not_known_to_be_active(journal: Journal, copy: Copy) -> None:
    later = view(ViewNumber(4, 1, 8))
    journal.write([Accepted(view()), Activated(VIEW), Accepted(later), Activated(VIEW)])
    remembered, _ = crashed(journal, copy)
    assert (remembered.accepted, remembered.active, remembered.promised) == (later, False, later.number)


def test_entries_that_never_were_give_way_to_others(journal: Journal, copy: Copy) -> None:
    other = ViewNumber(4, 1, 8)
    journal.write([Appended(tuple(entry(index) for index in range(1, 6))), Committed(2)])
    journal.write([Truncated(3), Appended((entry(4, view=other),))])
    remembered, entries = crashed(journal, copy)
    assert remembered.last == 4
    assert entries == [entry(1), entry(2), entry(3), entry(4, view=other)]


def test_a_reset_forgets_all_entries(journal: Journal, copy: Copy) -> None:
    journal.write([Appended(tuple(entry(index) for index in range(1, 6)))])
    journal.write([Reset(Tag(VIEW, 40)), Appended((entry(41),))])
    remembered, entries = crashed(journal, copy)
    assert (remembered.base, remembered.commit, remembered.last) == (Tag(VIEW, 40), 40, 41)
    assert entries == [entry(41)]


def test_trimmed_entries_give_their_place_to_others(
    tmp_path: Path, copy: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quorate.hachannel.journal.frame_file.SEGMENT_BYTES", 4096)
    journal = Journal.open(tmp_path / "journal.db", ME, 7)
    frames = tmp_path / "journal.db-frames"
    for index in range(1, 401):
        journal.write([Appended((entry(index, 200),)), Committed(index - 1)], trim=index - 30)
        if index % 57 == 0:
            remembered, entries = crashed(journal, copy)
            assert remembered.base.at == max(0, index - 30)
            assert entries == [entry(each, 200) for each in range(max(1, index - 29), index + 1)]
    # Those that are kept, segments that have some others, the next one, and the one let go last.
    assert frames.stat().st_size <= 30 * 260 + 4 * 4096
    journal.write([], trim=100)
    assert journal.remembered.base == Tag(VIEW, 370)


def test_nothing_is_trimmed_at_an_entry_that_is_not_there(journal: Journal, copy: Copy) -> None:
    wanted = [entry(index) for index in range(1, 4)]
    journal.write([Appended(tuple(wanted))], trim=5)
    assert journal.remembered.base == Tag(NO_VIEW, 0)
    assert crashed(journal, copy) == (journal.remembered, wanted)


def test_a_large_write_has_a_segment_of_its_own(
    tmp_path: Path, copy: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quorate.hachannel.journal.frame_file.SEGMENT_BYTES", 4096)
    journal = Journal.open(tmp_path / "journal.db", ME, 7)
    sizes = [100, 9000, 100, 30_000, 3000, 100]
    for index, size in enumerate(sizes, 1):
        journal.write([Appended((entry(index, size),))])
    wanted = [entry(index, size) for index, size in enumerate(sizes, 1)]
    assert crashed(journal, copy)[1] == wanted
    journal.write([Committed(6)], trim=4)
    for index in range(7, 60):
        journal.write([Appended((entry(index, 1000),))])
    # The places of the large ones are used again.
    assert (tmp_path / "journal.db-frames").stat().st_size < 53 * 1100 + 6 * 4096
    assert [each.index for each in crashed(journal, copy)[1]] == list(range(5, 60))


@pytest.mark.parametrize("count", [1, 127, 255])
def test_a_large_write_has_room_whatever_number_it_carries(
    tmp_path: Path, copy: Copy, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr("quorate.hachannel.journal.frame_file.SEGMENT_BYTES", 4096)
    journal = Journal.open(tmp_path / "journal.db", ME, 7)
    while journal.frames.last.count < count:
        journal.write([Promised(VIEW)], also=nothing)
    journal.write([Appended((entry(1, 20_000),))])
    # The end of the frame is in its segment: the next one does not take its place, and a start finds it.
    assert crashed(journal, copy)[1] == [entry(1, 20_000)]
    journal.write([Appended((entry(2, 20_000),))])
    assert crashed(journal, copy)[1] == [entry(1, 20_000), entry(2, 20_000)]


def test_the_view_of_the_base_is_that_of_its_entry(journal: Journal, copy: Copy) -> None:
    later = ViewNumber(4, 1, 8)
    journal.write([Appended((entry(1), entry(2), entry(3)))])
    journal.write([Truncated(2), Appended((entry(3, view=later), entry(4, view=later)))])
    again = Journal.open(copy(journal.path), ME, 8)
    for each in (journal, again):
        each.write([], trim=2)
        assert each.remembered.base == Tag(VIEW, 2)
        each.write([], trim=3)
        assert each.remembered.base == Tag(later, 3)


def test_a_durable_log_begins_with_what_the_journal_has(journal: Journal) -> None:
    change = Entry(VIEW, 3, 0, b"change", RECONFIG)
    journal.write([Accepted(view()), Activated(VIEW), Appended((entry(1), entry(2), change)), Committed(2)])
    journal.write([], trim=1)
    journal.close()
    again = Journal.open(journal.path, ME, 8)
    log = DurableLog(again.remembered, again.recovered)
    assert log.durable
    assert (log.base, log.last, len(log)) == (Tag(VIEW, 1), Tag(VIEW, 3), 2)
    assert log.reconfig(2) == change
    recovered = log.recovered()
    assert (recovered.promised, recovered.accepted, recovered.active) == (VIEW, view(), True)
    assert (recovered.commit, recovered.applied, recovered.guest) == (2, 2, False)


def test_a_new_journal_remembers_that_its_replica_is_a_guest(tmp_path: Path) -> None:
    Journal.open(tmp_path / "journal.db", ME, 7, guest=True).close()
    again = Journal.open(tmp_path / "journal.db", ME, 8)
    assert DurableLog(again.remembered).recovered().guest


# Whose journal it is


@pytest.mark.parametrize(
    "other", [Identity("x", "s0", 0), Identity("cluster", "s1", 0), Identity("cluster", "s0", 1)]
)
def test_the_journal_of_somebody_else_is_refused(journal: Journal, other: Identity) -> None:
    journal.close()
    with pytest.raises(Foreign, match=r"belongs to replica 0 of s0,? .*choose another") as raised:
        Journal.open(journal.path, other, 8)
    alike = (other.server, other.replica) == (ME.server, ME.replica)
    assert ("where s0 has another id or is of another kind" in str(raised.value)) == alike


def test_sources_and_the_table_of_origins_come_back(journal: Journal) -> None:
    forwarded = Entry(VIEW, 2, 0, b"x", 0, Source(2, 1 << 60, 1, 9))
    journal.write([Appended((entry(1), forwarded)), Booted(3), Committed(2, (forwarded.source,))])
    journal.write([Committed(2), Committed(1)])
    journal.close()
    again = Journal.open(journal.path, ME, 8)
    assert list(again.recovered) == [entry(1), forwarded]
    recovered = DurableLog(again.remembered, again.recovered).recovered()
    assert (recovered.boots, recovered.submitters) == (3, (forwarded.source,))
    again.write([Reset(Tag(VIEW, 40), (Source(0, 1, 1, 1),))])
    assert again.remembered.submitters == (Source(0, 1, 1, 1),)


@pytest.mark.parametrize("read", [FORMAT - 1, FORMAT + 1])
def test_another_format_is_refused(journal: Journal, monkeypatch: pytest.MonkeyPatch, read: int) -> None:
    journal.close()
    monkeypatch.setattr("quorate.hachannel.journal.journal.FORMAT", read)
    with pytest.raises(Foreign, match=f"has format {FORMAT}, and .* reads format {read} only; start"):
        Journal.open(journal.path, ME, 8)


def test_another_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE recipes (name TEXT)")
    connection.close()
    with pytest.raises(Foreign, match="not the journal of a replica"):
        Journal.open(path, ME, 8)


def test_a_file_that_is_no_database_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "journal.db").write_bytes(b"not at all a database " * 100)
    with pytest.raises(Damaged, match="not a database"):
        Journal.open(tmp_path / "journal.db", ME, 8)


# Torn and spoiled files


def filled(journal: Journal, copy: Copy, rounds: int = 12) -> list[tuple[int, Remembered, int]]:
    """Write some; returns what was confirmed by the time the frames had each of their sizes."""
    rng = random.Random(5)
    confirmed = [(0, journal.remembered, 0)]
    last = 0
    for number in range(rounds):
        records: list[LogRecord] = [Promised(ViewNumber(number + 1, 0, 7))]
        for _ in range(rng.randint(1, 3)):
            last += 1
            records.append(Appended((entry(last, rng.choice([40, 3000, 9000])),)))
        records.append(Committed(last - 1))
        journal.write(records)
        confirmed.append((journal.frames.end, journal.remembered, last))
    return confirmed


def test_a_torn_tail_is_cut_and_what_was_confirmed_is_kept(journal: Journal, copy: Copy) -> None:
    """Scenario 22: the torn tail is cut."""
    confirmed = filled(journal, copy)
    data = journal.path.with_name("journal.db-frames").read_bytes()[: confirmed[-1][0]]
    rng = random.Random(1)
    sizes = {size + delta for size, _, _ in confirmed for delta in (-1, 0, 1, 24)}
    sizes |= {rng.randrange(len(data)) for _ in range(60)}
    for size in sorted(size for size in sizes if 0 <= size <= len(data)):
        place = copy(journal.path)
        place.with_name("journal.db-frames").write_bytes(data[:size])
        remembered, entries = reopened(place)
        _, expected, last = max((item for item in confirmed if item[0] <= size), key=lambda item: item[0])
        assert remembered == expected
        assert entries == [entry(index, len(entries[index - 1].payload)) for index in range(1, last + 1)]


@pytest.mark.parametrize("zeros", [False, True])
def test_an_end_that_was_noted_and_is_lost_is_damage(journal: Journal, copy: Copy, zeros: bool) -> None:
    confirmed = filled(journal, copy)
    size = confirmed[-1][0]
    journal.note()
    journal.write([Committed(confirmed[-1][1].commit)])
    place = copy(journal.path)
    frames = place.with_name("journal.db-frames")
    data = frames.read_bytes()
    for kept, lost in ((size, False), (size - 1, True), (size // 2, True), (0, True)):
        frames.write_bytes(data[:kept] + bytes(len(data) - kept) * zeros)
        if lost:
            with pytest.raises(Damaged, match="is not what was written"):
                Journal.open(place, ME, 8)
        else:
            Journal.open(place, ME, 8).close()
            place = copy(journal.path)
            frames = place.with_name("journal.db-frames")


def test_what_comes_after_a_torn_tail_takes_its_place(journal: Journal, copy: Copy) -> None:
    confirmed = filled(journal, copy)
    size = confirmed[-1][0]
    frames = journal.path.with_name("journal.db-frames")
    journal.write([Appended((entry(confirmed[-1][2] + 1, 9000),))])
    place = copy(journal.path)
    place.with_name("journal.db-frames").write_bytes(frames.read_bytes()[: size + 8000])
    again = Journal.open(place, ME, 8)
    again.write([Committed(3)])
    again.write([Appended((entry(confirmed[-1][2] + 1, 40),))])
    remembered, entries = crashed(again, copy)
    assert remembered == again.remembered
    assert entries[-1] == entry(confirmed[-1][2] + 1, 40)


def test_sectors_missing_within_the_last_write_cut_that_write_only(journal: Journal, copy: Copy) -> None:
    confirmed = filled(journal, copy)
    data = journal.path.with_name("journal.db-frames").read_bytes()
    before, expected, _ = confirmed[-2]
    for start in range(before, confirmed[-1][0], 512):
        place = copy(journal.path)
        torn = data[:start] + bytes(512) + data[start + 512 :]
        place.with_name("journal.db-frames").write_bytes(torn)
        assert reopened(place)[0] == expected


def test_a_spoiled_byte_among_confirmed_writes_is_found(journal: Journal, copy: Copy) -> None:
    """Scenario 22: corruption in the middle is refused."""
    confirmed = filled(journal, copy)
    data = bytearray(journal.path.with_name("journal.db-frames").read_bytes())
    end = confirmed[-2][0]
    rng = random.Random(2)
    for position in [0, 9, 17, 25, 33, *(rng.randrange(end) for _ in range(150))]:
        place = copy(journal.path)
        spoiled = bytearray(data)
        spoiled[position] ^= 1 << rng.randrange(8)
        place.with_name("journal.db-frames").write_bytes(spoiled)
        for _ in range(2):  # a refused journal stays refused
            with pytest.raises(
                Damaged, match=r"/journal\.db-frames is damaged: frame .* is not what was written"
            ):
                Journal.open(place, ME, 8)


def test_a_spoiled_byte_among_confirmed_transactions_is_found(journal: Journal, copy: Copy) -> None:
    wal = journal.path.with_name("journal.db-wal")
    sizes: list[int] = []
    for index in range(1, 9):
        journal.write([Appended((entry(index),))], also=nothing)
        sizes.append(wal.stat().st_size)
    data = wal.read_bytes()
    rng = random.Random(2)
    for position in [0, 9, 17, 25, 33, *(rng.randrange(sizes[-2]) for _ in range(40))]:
        place = copy(journal.path)
        spoiled = bytearray(data)
        spoiled[position] ^= 1 << rng.randrange(8)
        place.with_name("journal.db-wal").write_bytes(spoiled)
        for _ in range(2):  # a refused journal stays refused
            with pytest.raises(Damaged, match="spoiled after frame"):
                Journal.open(place, ME, 8)


def test_the_last_transaction_is_missed_when_there_are_frames_after_it(journal: Journal, copy: Copy) -> None:
    journal.write([Appended((entry(1),))], also=nothing)
    wal = journal.path.with_name("journal.db-wal")
    size = wal.stat().st_size
    journal.write([], also=nothing)
    journal.write([Committed(1)])
    place = copy(journal.path)
    place.with_name("journal.db-wal").write_bytes(wal.read_bytes()[:size])
    with pytest.raises(Damaged, match="the last transaction of its database is lost"):
        Journal.open(place, ME, 8)


def test_the_last_frame_is_known_after_a_close(journal: Journal, copy: Copy) -> None:
    journal.write([Appended((entry(1),))])
    end = journal.frames.end
    for closed in (False, True):
        place = copy(journal.path)
        with place.with_name("journal.db-frames").open("r+b") as file:
            file.seek(end - 1)
            file.write(b"?")
        if closed:
            with pytest.raises(Damaged, match="frame 1 is not what was written"):
                Journal.open(place, ME, 8)
        else:
            assert Journal.open(place, ME, 8).remembered.last == 0
        journal.close()


def test_a_missing_file_of_frames_is_found(journal: Journal, copy: Copy) -> None:
    place = copy(journal.path)
    place.with_name("journal.db-frames").unlink()
    with pytest.raises(Damaged, match=r"/journal\.db-frames is damaged: it is missing\."):
        Journal.open(place, ME, 8)


def test_a_spoiled_byte_of_the_file_is_never_served(journal: Journal, copy: Copy) -> None:
    filled(journal, copy, 30)
    kept = journal.remembered
    journal.close()
    data = journal.path.read_bytes()
    _, whole = crashed(journal, copy)
    rng = random.Random(3)
    refused = 0
    used = [position for position, byte in enumerate(data) if byte]
    for position in [*range(0, 100), *rng.choices(used, k=250)]:
        place = copy(journal.path)
        spoiled = bytearray(data)
        spoiled[position] ^= 1 << rng.randrange(8)
        place.write_bytes(spoiled)
        try:
            assert reopened(place) == (kept, whole), position
        except (Damaged, Foreign):
            refused += 1
    assert refused > 150


def test_a_shortened_file_is_never_served(journal: Journal, copy: Copy) -> None:
    filled(journal, copy, 30)
    journal.close()
    data = journal.path.read_bytes()
    for size in [0, 1, 50, 512, 1024, 4096, *range(8192, len(data), 8192), len(data) - 1]:
        place = copy(journal.path)
        place.write_bytes(data[:size])
        with pytest.raises(Damaged):
            Journal.open(place, ME, 8, existing=True)


def test_a_missing_journal_is_a_loss_only_where_there_was_one(tmp_path: Path) -> None:
    with pytest.raises(Damaged, match="is missing or empty, but it existed before"):
        Journal.open(tmp_path / "journal.db", ME, 8, existing=True)
    assert Journal.open(tmp_path / "journal.db", ME, 8).incarnation == 8


@pytest.mark.parametrize(
    ("change", "flaw"),
    [
        ("DELETE FROM remembered", "its row of remembered is missing or damaged"),
        ("UPDATE remembered SET body = x'90'", "its row of remembered"),
        ("DELETE FROM frames", "its row of frames is missing or damaged"),
        ("UPDATE frames SET body = x'90'", "its row of frames"),
        ("UPDATE meta SET checksum = NULL", "its row of meta"),
        ("DROP TABLE frames", "no such table: frames"),
    ],
)  # fmt: skip
def test_the_place_of_the_damage_is_named(journal: Journal, change: str, flaw: str) -> None:
    journal.write([Appended(tuple(entry(index) for index in range(1, 11))), Committed(4)])
    journal.close()
    with sqlite3.connect(journal.path) as connection:
        connection.execute(change)
    connection.close()
    with pytest.raises(Damaged, match=flaw):
        Journal.open(journal.path, ME, 8)


def test_a_log_of_sqlite_of_which_nothing_is_lost() -> None:
    report = inspect_wal(Path("/nonexistent"), 4096)
    assert (report.valid, report.lost) == (0, 0)


# A disk that refuses


class Refusing(sqlite3.Connection):
    """Fails like SQLite does, at the statement number `at`."""

    count = 0
    at = 10**9

    def execute(self, sql: str, *args: Any) -> sqlite3.Cursor:
        self.count += 1
        if self.count >= self.at:
            raise sqlite3.OperationalError("disk I/O error")
        return super().execute(sql, *args)


def test_a_write_that_fails_is_one_sentence_and_nothing_of_it_is_there(tmp_path: Path, copy: Copy) -> None:
    for at in range(1, 6):
        place = tmp_path / str(at)
        place.mkdir()
        connections: list[Refusing] = []

        def connect(*args: Any, made: list[Refusing] = connections, **options: Any) -> sqlite3.Connection:
            made.append(sqlite3.connect(*args, factory=Refusing, **options))
            return made[0]

        journal = Journal.open(place / "journal.db", ME, 7, connect=connect)
        journal.write([Appended((entry(1),)), Committed(1)], also=nothing)
        connections[0].at = connections[0].count + at
        records = [Appended((entry(2),)), Truncated(1), Appended((entry(2),)), Committed(2)]
        if at == 5:
            journal.write(records, also=nothing)
            assert crashed(journal, copy)[0].last == 2
            continue
        with pytest.raises(WriteFailed, match=r"/journal\.db cannot be written: disk I/O error\.$"):
            journal.write(records, also=nothing)
        assert crashed(journal, copy)[0].last == 1


@pytest.mark.parametrize(
    ("code", "said"),
    [(errno.ENOSPC, "no space is left on the disk"), (errno.EIO, os.strerror(errno.EIO))],
)
def test_a_frame_that_cannot_be_written_whole_is_one_sentence_and_not_there(
    journal: Journal, copy: Copy, monkeypatch: pytest.MonkeyPatch, code: int, said: str
) -> None:
    journal.write([Appended((entry(1),)), Committed(1)])
    pwritev = os.pwritev
    room = [5000]

    def full(file: int, parts: list[memoryview], at: int, flags: int) -> int:
        if not room:
            raise OSError(code, os.strerror(code))
        return pwritev(file, [b"".join(parts)[: room.pop()]], at, flags)

    monkeypatch.setattr(os, "pwritev", full)
    with pytest.raises(WriteFailed, match=rf"/journal\.db-frames cannot be written: {said}\.$"):
        journal.write([Appended((entry(2, 100_000),))])
    assert crashed(journal, copy)[0].last == 1


@pytest.mark.parametrize("code", [errno.EOPNOTSUPP, errno.EINVAL])
def test_where_a_write_cannot_sync_itself_it_is_synced(
    journal: Journal, copy: Copy, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    pwritev, fsync = os.pwritev, os.fsync
    calls: list[str] = []

    def plain(file: int, parts: list[memoryview], at: int, flags: int) -> int:
        if flags:
            raise OSError(code, os.strerror(code))
        calls.append("write")
        # Less than all of it, too.
        return pwritev(file, [b"".join(parts)[:3000]], at)

    def synced(file: int) -> None:
        calls.append("sync")
        fsync(file)

    monkeypatch.setattr(os, "pwritev", plain)
    monkeypatch.setattr(os, "fsync", synced)
    journal.write([Appended((entry(1, 5000),))])
    journal.write([Committed(1)])
    assert calls[-4:] == ["write", "sync", "write", "sync"]
    assert calls.count("sync") == 2
    assert crashed(journal, copy) == (journal.remembered, [entry(1, 5000)])


@pytest.mark.parametrize("seed", range(20))
def test_any_records_are_remembered_as_by_a_log_in_memory(
    seed: int, tmp_path: Path, copy: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quorate.hachannel.journal.frame_file.SEGMENT_BYTES", 1000)
    journal = Journal.open(tmp_path / "journal.db", ME, 7)
    rng = random.Random(seed)
    log = DurableLog(Remembered())
    counter, commit = 3, 0
    for _ in range(60):
        records: list[LogRecord] = []
        for _ in range(rng.randint(1, 4)):
            kind = rng.random()
            if kind < 0.7:
                new = Entry(
                    ViewNumber(counter, 0, 7), log.last.at + 1, rng.randint(0, 2**62), rng.randbytes(50)
                )
                log.append(new)
                records.append(Appended((new,)))
            elif kind < 0.8 and log.last.at > commit:
                index = rng.randint(commit, log.last.at)
                log.truncate(index)
                records.append(Truncated(index))
            elif kind < 0.9:
                commit = rng.randint(commit, log.last.at)
                records.append(Committed(commit))
            elif kind < 0.95:
                counter += 1
                records.append(Promised(ViewNumber(counter, 1, 8)))
            else:
                commit = log.last.at + rng.randint(1, 9)
                log.reset(Tag(ViewNumber(counter, 0, 7), commit))
                records.append(Reset(log.base))
        trim = rng.randint(log.base.at, commit) if rng.random() < 0.1 else 0
        journal.write(records, trim=trim, also=nothing if rng.random() < 0.2 else None)
        if trim:
            log.trim(trim)
        if rng.random() < 0.1:
            # It goes on from what is there.
            journal = Journal.open(copy(journal.path), ME, 8)
    remembered, entries = crashed(journal, copy)
    assert (remembered.commit, remembered.base, remembered.last) == (commit, log.base, log.last.at)
    assert entries == [log.get(index) for index in range(log.base.at + 1, log.last.at + 1)]
