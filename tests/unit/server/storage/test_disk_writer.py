"""The thread that writes to the journal, under disks that are slow or full."""

import errno
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from quorate.hachannel.journal.journal import Journal
from quorate.hachannel.model.log import Appended, Committed, Promised, Reset
from quorate.hachannel.model.messages import Entry
from quorate.hachannel.model.view import Tag
from quorate.testing.harness import Harness

from ..disk_rig import BOUND_S, ME, VIEW, Add, Rig, Sum, captured, entry, load


def test_requests_during_a_sync_are_written_together_and_confirmed_once(rig: Rig) -> None:
    rig.disk.write([Promised(VIEW)], 1)
    rig.wait_begun()
    for token in range(2, 12):
        rig.disk.write([Appended((entry(token - 1),))], token)
    rig.let(2)
    rig.turn()
    rig.turn()
    assert rig.durable == [1, 11]
    assert rig.disk.writes == 2
    assert rig.journal.remembered.last == 10


def test_nothing_is_confirmed_before_it_is_synced(rig: Rig) -> None:
    rig.disk.write([Appended((entry(1),))], 1)
    rig.wait_begun()
    assert rig.calls.empty()
    rig.let()
    rig.turn()
    assert rig.durable == [1]


def test_a_commit_index_is_confirmed_at_once_and_written_with_the_next_records(rig: Rig) -> None:
    rig.disk.write([Committed(0)], 0)
    rig.disk.write([Appended((entry(1), entry(2)))], 2)
    rig.wait_begun()
    rig.disk.write([Committed(2)], 3)
    rig.let()
    while rig.durable[-1:] != [3]:
        rig.turn()
    assert rig.journal.remembered.commit in (0, 2)
    rig.disk.write([Appended((entry(3),))], 4)
    rig.let()
    while rig.durable[-1:] != [4]:
        rig.turn()
    assert rig.journal.remembered.commit == 2
    assert rig.durable == sorted(rig.durable)


def test_a_commit_index_without_a_token_wakes_no_thread_and_is_written_soon(rig: Rig) -> None:
    rig.let(10)
    rig.disk.write([Appended((entry(1),))], 1)
    rig.turn()
    rig.disk.write([Committed(1)], 0)
    rig.wait_begun()
    # By itself, though nothing follows.
    rig.wait_begun()
    rig.disk.close()
    assert rig.journal.remembered.commit == 1
    assert rig.calls.empty()
    assert rig.durable == [1]


def test_a_commit_index_is_written_at_the_end(rig: Rig, tmp_path: Path) -> None:
    rig.let(10)
    rig.disk.write([Appended((entry(1),))], 1)
    rig.turn()
    rig.disk.write([Committed(1)], 0)
    rig.disk.close()
    assert Journal.open(tmp_path / "journal.db", ME, 8).remembered.commit == 1


def test_closing_writes_the_queued_requests(rig: Rig, tmp_path: Path) -> None:
    for index in range(1, 6):
        rig.disk.write([Appended((entry(index),))], index)
    rig.let(10)
    rig.disk.close()
    assert Journal.open(tmp_path / "journal.db", ME, 8).remembered.last == 5
    while rig.durable[-1:] != [5]:
        rig.turn()
    rig.disk.write([Appended((entry(6),))], 6)
    assert rig.calls.empty()


def test_nothing_is_confirmed_after_a_write_failed(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    rig.let(10)
    rig.disk.write([Appended((entry(1),))], 1)
    rig.turn()
    monkeypatch.setattr(os, "pwritev", full)
    rig.disk.write([Appended((entry(2, 1_000_000),))], 2)
    rig.turn()
    rig.disk.write([Appended((entry(3),))], 3)
    rig.disk.write([Committed(1)], 4)
    rig.disk.close()
    assert rig.calls.empty()
    assert rig.durable == [1]
    assert rig.failed == [
        f"The journal {tmp_path / 'journal.db-frames'} cannot be written: no space is left on the disk."
    ]


def test_a_defect_while_writing_is_reported(rig: Rig) -> None:
    rig.let(10)
    rig.disk.write([Appended((Entry(VIEW, 1, 2**80, b""),))], 1)
    rig.turn()
    assert "OverflowError: can't serialize ints" in rig.failed[0]
    assert rig.durable == []


def test_a_write_to_a_full_queue_waits(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quorate.server.storage.write_queue.MAX_QUEUED_BYTES", 10_000)
    rig.disk.write([Promised(VIEW)], 1)
    rig.wait_begun()
    rig.disk.write([Appended((entry(1, 9000),))], 2)
    third = threading.Thread(target=rig.disk.write, args=([Appended((entry(2, 9000),))], 3))
    third.start()
    third.join(0.05)
    assert third.is_alive()
    rig.let(10)
    third.join(BOUND_S)
    assert not third.is_alive()
    while rig.durable[-1:] != [3]:
        rig.turn()


def test_an_installed_state_and_the_reset_of_the_log_are_one_write(rig: Rig, tmp_path: Path) -> None:
    harness = Harness()
    harness.know(Sum)
    harness.deploy(Sum, name="sum")
    harness.send("sum", Add(4))
    harness.engine.restore(harness.engine.snapshot())
    rig.disk.write([Appended(tuple(entry(index) for index in range(1, 4)))], 1)
    rig.wait_begun()
    index = harness.engine.applied
    rig.disk.write([Reset(Tag(VIEW, index))], 2, captured(harness))
    rig.disk.write([Appended((entry(index + 1),))], 3)
    rig.let(3)
    rig.disk.close()
    assert rig.disk.writes == 3
    assert load(tmp_path / "journal.db").digest() == harness.engine.digest()


def test_a_saved_state_removes_entries_from_the_journal(rig: Rig, tmp_path: Path) -> None:
    harness = Harness()
    harness.know(Sum)
    for number in range(9):
        harness.deploy(Sum, name=f"sum{number}")
    rig.let(10)
    rig.disk.write([Appended(tuple(entry(index) for index in range(1, 12)))], 1)
    done: list[int] = []
    rig.disk.save(captured(harness), 5, lambda: done.append(1))
    while not done:
        rig.turn()
    rig.disk.close()
    journal = Journal.open(tmp_path / "journal.db", ME, 8)
    assert journal.remembered.base == Tag(VIEW, 5)
    assert journal.remembered.commit == 9
    journal.close()
    assert load(tmp_path / "journal.db").digest() == harness.engine.digest()


def test_the_database_records_the_last_frame_at_intervals(rig: Rig) -> None:
    rig.let(100)
    for token in (1, 2):
        rig.disk.write([Appended((entry(token),))], token)
        while rig.durable[-1:] != [token]:
            rig.turn()
        assert rig.journal.frames.last.number == 0
        rig.now += 0.6
    rig.disk.write([Appended((entry(3),))], 3)
    while rig.durable[-1:] != [3]:
        rig.turn()
    rig.disk.write([Appended((entry(4),))], 4)
    while rig.durable[-1:] != [4]:
        rig.turn()
    assert rig.journal.frames.last.number == 3
