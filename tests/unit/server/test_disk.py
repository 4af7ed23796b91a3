"""The thread that writes, and the engine's state in the file, under disks that are slow, full or spoiled."""

import errno
import os
import queue
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from quorate import Agent, Context, Delete, Notification, reacts
from quorate.agents import AgentId, factory
from quorate.engine import Capture, Engine, Taken
from quorate.hachannel.journal import Damaged, Identity, Journal
from quorate.hachannel.log import Appended, Committed, Promised, Reset
from quorate.hachannel.messages import Entry
from quorate.hachannel.view import Tag, ViewNumber
from quorate.server.disk import Disk
from quorate.server.storage import SCHEMA, StateStore
from quorate.testing.harness import Harness

BOUND_S = 30.0
ME = Identity("cluster", "s0", 0)
VIEW = ViewNumber(1, 0, 7)


@attrs.frozen
class Add(Notification):
    number: int


@attrs.define
class Sum(Agent):
    total: int = 0

    @reacts
    def add(self, ctx: Context, note: Add) -> None:
        self.total += note.number
        ctx.timer(1000.0, Add(1))


def entry(index: int, size: int = 10) -> Entry:
    return Entry(VIEW, index, 0, bytes(size))


class Held(Journal):
    """Writes only when it may."""

    gate: threading.Semaphore
    begun: threading.Semaphore

    def write(self, *args: Any, **options: Any) -> None:
        self.begun.release()
        assert self.gate.acquire(timeout=BOUND_S)
        super().write(*args, **options)


class Rig:
    """A disk and the reactor thread that uses it: the test's own."""

    def __init__(self, path: Path) -> None:
        opened = Journal.open(path, ME, 7, schema=SCHEMA)
        self.journal = Held(path, opened.connection, opened.frames, 7, opened.remembered)
        self.journal.gate = threading.Semaphore(0)
        self.journal.begun = threading.Semaphore(0)
        self.store = StateStore(path)
        self.calls: queue.Queue[tuple[Callable[..., None], tuple[Any, ...]]] = queue.Queue()
        self.durable: list[int] = []
        self.failed: list[str] = []
        self.now = 0.0
        self.disk = Disk(
            self.journal,
            self.store,
            lambda call, *args: self.calls.put((call, args)),
            self.durable.append,
            self.failed.append,
            clock=lambda: self.now,
        )

    def turn(self) -> None:
        """Run what the disk wants to be run in the reactor."""
        call, args = self.calls.get(timeout=BOUND_S)
        call(*args)

    def let(self, writes: int = 1) -> None:
        for _ in range(writes):
            self.journal.gate.release()

    def wait_begun(self) -> None:
        assert self.journal.begun.acquire(timeout=BOUND_S)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(tmp_path / "journal.db")
    yield rig
    rig.let(1000)
    rig.disk.close()


def load(path: Path) -> Engine:
    """What a start finds."""
    journal = Journal.open(path, ME, 8)
    engine = Engine(0, {"s0": 0}, load=_load)
    store = StateStore(path)
    if store.unfinished(journal.connection):
        journal.write([], also=store.settle)
    stored = store.read(journal.connection)
    if stored is not None:
        engine.load(stored.header, stored.agents)
    journal.close()
    return engine


def _load(name: str) -> Any:
    harness = Harness()
    harness.know(Sum)
    return harness._load(name)


def crashed(place: Path) -> Path:
    """What is on the disk now."""
    copy = place / "copy"
    copy.mkdir()
    for file in place.glob("journal.db*"):
        shutil.copy(file, copy)
    return copy / "journal.db"


def captured(harness: Harness) -> Capture:
    capture = harness.engine.capture()
    capture.step()
    return capture


# The thread


def test_what_waits_during_a_sync_is_written_together_and_confirmed_once(rig: Rig) -> None:
    assert not rig.disk.write([Promised(VIEW)], 1)
    rig.wait_begun()
    for token in range(2, 12):
        assert not rig.disk.write([Appended((entry(token - 1),))], token)
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


def test_a_commit_index_alone_waits_for_nothing_and_is_written_with_the_next_records(rig: Rig) -> None:
    assert rig.disk.write([Committed(0)], 1)
    rig.disk.write([Appended((entry(1), entry(2)))], 2)
    rig.wait_begun()
    assert not rig.disk.write([Committed(2)], 3)
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


def test_a_commit_index_that_nobody_waits_for_wakes_nobody_and_is_written_soon(rig: Rig) -> None:
    rig.let(10)
    rig.disk.write([Appended((entry(1),))], 1)
    rig.turn()
    assert rig.disk.write([Committed(1)], 2)
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
    rig.disk.write([Committed(1)], 2)
    rig.disk.close()
    assert Journal.open(tmp_path / "journal.db", ME, 8).remembered.commit == 1


def test_closing_writes_what_waits(rig: Rig, tmp_path: Path) -> None:
    for index in range(1, 6):
        rig.disk.write([Appended((entry(index),))], index)
    rig.let(10)
    rig.disk.close()
    assert Journal.open(tmp_path / "journal.db", ME, 8).remembered.last == 5
    assert not rig.disk.write([Appended((entry(6),))], 6)


def test_a_disk_that_refuses_confirms_nothing_from_then_on(
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
    assert not rig.disk.write([Appended((entry(3),))], 3)
    assert not rig.disk.write([Committed(1)], 4)
    rig.disk.close()
    assert rig.calls.empty()
    assert rig.durable == [1]
    assert rig.failed == [
        f"The journal {tmp_path / 'journal.db'} cannot be written: no space is left on the disk."
    ]


def test_a_defect_while_writing_is_no_silence(rig: Rig) -> None:
    rig.let(10)
    rig.disk.write([Appended((Entry(VIEW, 1, 2**80, b""),))], 1)
    rig.turn()
    assert "OverflowError: can't serialize ints" in rig.failed[0]
    assert rig.durable == []


def test_the_queue_is_bounded_by_waiting(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quorate.server.disk.MAX_WAITING_BYTES", 10_000)
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


def test_a_saved_state_lets_entries_go(rig: Rig, tmp_path: Path) -> None:
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


def taken(harness: Harness, *ids: AgentId, anew: bool = False) -> Taken:
    """These agents, as a part of a transfer brings them."""
    return Taken([cell.stored()[0] for cell in harness.engine.cells() if cell.identity in ids], anew)


def test_a_state_that_comes_in_gathers_beside_the_one_that_is_there(rig: Rig, tmp_path: Path) -> None:
    rig.let(100)
    old = Harness()
    old.know(Sum)
    old.deploy(Sum, name="old")
    rig.disk.write([Appended(tuple(entry(index) for index in range(1, 12)))], 1)
    rig.disk.save(captured(old), 0, lambda: None)
    coming = Harness()
    coming.know(Sum)
    ids = [coming.deploy(Sum, name=f"sum{number}") for number in range(6)]
    rig.disk.stage(taken(coming, *ids[3:], anew=True))
    # Another transfer begins: what came is void. Of this one, an agent comes twice, and one is deleted.
    rig.disk.stage(taken(coming, anew=True))
    rig.disk.stage(taken(coming, *ids[:4]))
    rig.turn()
    while rig.disk.writes < 3:
        rig.turn()
    assert load(crashed(tmp_path)).digest() == old.engine.digest()
    coming.send(ids[1], Add(7))
    coming.send(factory(0), Delete(str(ids[2])))
    rig.disk.stage(taken(coming, ids[1], *ids[4:]))
    index = coming.engine.applied
    rig.disk.write([Reset(Tag(VIEW, index))], 2, coming.engine.adopted(index, [ids[2]]))
    coming.send(ids[0], Add(9))
    rig.disk.save(captured(coming), 0, lambda: None)
    rig.disk.close()
    assert load(tmp_path / "journal.db").digest() == coming.engine.digest()


def test_a_start_drops_a_state_that_did_not_come_as_a_whole(rig: Rig, tmp_path: Path) -> None:
    rig.let(100)
    coming = Harness()
    coming.know(Sum)
    rig.disk.stage(taken(coming, coming.deploy(Sum, name="sum"), anew=True))
    rig.disk.close()
    journal, store = Journal.open(tmp_path / "journal.db", ME, 8), StateStore(tmp_path)
    assert store.unfinished(journal.connection)
    journal.write([], also=store.settle)
    assert not store.unfinished(journal.connection)
    assert store.read(journal.connection) is None
    journal.close()


def test_a_large_state_is_written_some_at_a_time(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quorate.server.disk.STAGE_BYTES", 1)
    coming = Harness()
    coming.know(Sum)
    rig.disk.write([Promised(VIEW)], 1)
    rig.wait_begun()
    for number in range(4):
        rig.disk.stage(taken(coming, coming.deploy(Sum, name=f"sum{number}"), anew=not number))
    rig.let(100)
    while rig.disk.writes < 5:
        rig.turn()


@pytest.mark.parametrize("full", [True, False])
def test_a_large_save_is_written_some_at_a_time_and_a_crash_finds_the_old_state_or_the_new_one(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: bool
) -> None:
    harness = Harness()
    harness.know(Sum)
    ids = [harness.deploy(Sum, name=f"sum{number}") for number in range(5)]
    entries = [Appended(tuple(entry(index) for index in range(1, 31)))]
    rig.let(1 if full else 2)
    rig.disk.write(entries, 1)
    rig.turn()
    old = Engine(0, {"s0": 0}).digest()
    if not full:
        rig.disk.save(captured(harness), 0, lambda: None)
        rig.turn()
        old = harness.engine.digest()
        for identity in ids[1:]:
            harness.send(identity, Add(3))
        harness.send(factory(0), Delete(str(ids[2])))
        harness.deploy(Sum, name="late")
    monkeypatch.setattr("quorate.server.disk.STAGE_BYTES", 1)
    done: list[int] = []
    rig.disk.save(captured(harness), 5, lambda: done.append(1))
    found = []
    token = 1
    while not done:
        token += 1
        rig.disk.write([Appended((entry(29 + token),))], token)
        before = rig.disk.writes
        rig.let()
        while rig.disk.writes == before:
            rig.turn()
        found.append(load(crashed(tmp_path)).digest())
        shutil.rmtree(tmp_path / "copy")
        while not rig.calls.empty():
            rig.turn()
    new = harness.engine.digest()
    assert set(found) == {old, new}
    first = found.index(new)
    assert first >= 4
    assert found[first:] == [new] * len(found[first:])
    assert len(found) - first >= 4
    assert rig.durable[-1] >= token - 1
    rig.let(100)
    harness.send(ids[1], Add(3))
    rig.disk.save(captured(harness), 0, lambda: None, at_once=True)
    rig.disk.close()
    assert load(tmp_path / "journal.db").digest() == harness.engine.digest()


@pytest.mark.parametrize("merging", [False, True])
def test_a_large_difference_is_written_some_at_a_time_and_a_crash_finds_the_old_state_or_the_new_one(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, merging: bool
) -> None:
    harness = Harness()
    harness.know(Sum)
    ids = [harness.deploy(Sum, name=f"sum{number}") for number in range(5)]
    rig.let(2)
    rig.disk.write([Appended(tuple(entry(index) for index in range(1, 31)))], 1)
    rig.turn()
    if merging:
        monkeypatch.setattr("quorate.server.disk.STAGE_BYTES", 1)
    rig.disk.save(captured(harness), 0, lambda: None)
    if merging:
        rig.let(5)
        while rig.disk.writes < 7:
            rig.wait_begun()
    else:
        rig.turn()
    old = harness.engine.digest()
    for identity in ids[1:]:
        harness.send(identity, Add(3))
    harness.send(factory(0), Delete(str(ids[2])))
    harness.deploy(Sum, name="late")
    monkeypatch.setattr("quorate.server.disk.STAGE_BYTES", 1)
    new = harness.engine.digest()
    rig.disk.write([Reset(Tag(VIEW, 30))], 2, captured(harness))
    rig.disk.write([Promised(VIEW)], 3)
    found = []
    while rig.durable[-1] < 3 or len(found) < 12:
        before = rig.disk.writes
        rig.let()
        while rig.disk.writes == before and rig.durable[-1] < 3:
            time.sleep(0.001)
        time.sleep(0.01)
        found.append(load(crashed(tmp_path)).digest())
        shutil.rmtree(tmp_path / "copy")
        while not rig.calls.empty():
            rig.turn()
    assert set(found) == {old, new}
    first = found.index(new)
    assert first >= 4
    assert found[first:] == [new] * len(found[first:])
    assert rig.durable == [1, 2, 3]
    rig.let(100)
    harness.send(ids[1], Add(3))
    rig.disk.save(captured(harness), 0, lambda: None, at_once=True)
    rig.disk.close()
    assert load(tmp_path / "journal.db").digest() == harness.engine.digest()


@pytest.mark.parametrize("writes", range(1, 12))
def test_a_large_save_gives_way_to_one_at_once_and_to_another_state(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    monkeypatch.setattr("quorate.server.disk.STAGE_BYTES", 1)
    harness = Harness()
    harness.know(Sum)
    ids = [harness.deploy(Sum, name=f"sum{number}") for number in range(5)]
    rig.let()
    rig.disk.write([Appended(tuple(entry(index) for index in range(1, 31)))], 1)
    rig.turn()
    capture = captured(harness)
    rig.disk.save(capture, 0, lambda: None)
    while rig.disk.writes < writes:
        rig.let()
        rig.wait_begun()
    harness.send(ids[1], Add(3))
    harness.send(factory(0), Delete(str(ids[2])))
    if writes % 2:
        rig.disk.save(capture, 0, lambda: None, at_once=True)
        rig.disk.save(captured(harness), 0, lambda: None, at_once=True)
    else:
        rig.disk.stage(taken(harness, *ids, anew=True))
        rig.disk.write([Reset(Tag(VIEW, 30))], 2, harness.engine.adopted(30, []))
    rig.let(100)
    rig.disk.close()
    assert load(tmp_path / "journal.db").digest() == harness.engine.digest()


# The state in the file


@pytest.fixture
def saved(tmp_path: Path) -> tuple[Path, Harness]:
    """A state saved in three steps: agents are added, changed and deleted between them."""
    path = tmp_path / "journal.db"
    harness = Harness()
    journal, store = Journal.open(path, ME, 7, schema=SCHEMA), StateStore(path)
    journal.write([Appended(tuple(entry(index) for index in range(1, 101)))])
    ids = [harness.deploy(Sum, name=f"sum{number}" if number % 2 else None) for number in range(20)]
    for step in range(3):
        capture = captured(harness)
        journal.write([], also=lambda connection, capture=capture: store.save(connection, capture))
        if step < 2:
            harness.send(ids[3], Add(1))
            harness.send(ids[8 + step], Add(5))
            harness.send(factory(0), Delete(str(ids[step])))
            harness.deploy(Sum, name=f"late{step}")
    journal.close()
    return path, harness


def test_the_state_is_what_was_saved_last(saved: tuple[Path, Harness]) -> None:
    path, harness = saved
    assert load(path).digest() == harness.engine.digest()


@pytest.mark.parametrize(
    ("change", "flaw"),
    [
        ("UPDATE agents SET state = x'81' WHERE id = '#0.0.1030'", "agent #0.0.1030 is not what was written"),
        ("UPDATE agents SET name = 'x' WHERE id = '#0.0.1031'", "agent #0.0.1031 is not"),
        ("UPDATE agents SET name = NULL WHERE id = '#0.0.1028'", "agent #0.0.1028 is not"),
        ("UPDATE agents SET cls = NULL WHERE id = '#0.0.1028'", "agent #0.0.1028 is not"),
        ("UPDATE agents SET reactions = 'x' WHERE id = '#0.0.1028'", "agent #0.0.1028 is not"),
        ("UPDATE agents SET id = 'x' WHERE id = '#0.0.1028'", "agent x is not"),
        ("DELETE FROM agents WHERE id = '#0.0.1030'", "it holds 19 agents, and not the 20"),
        ("DELETE FROM state", "the row of the engine's state is missing"),
        ("UPDATE state SET idx = idx + 1", "the row of the engine's state is spoiled"),
        ("UPDATE state SET header = x'80'", "the row of the engine's state is spoiled"),
        ("UPDATE state SET total = NULL", "the row of the engine's state is spoiled"),
    ],
)
def test_a_state_that_is_not_what_was_saved_is_never_served(
    saved: tuple[Path, Harness], change: str, flaw: str
) -> None:
    path, _ = saved
    with sqlite3.connect(path) as connection:
        assert connection.execute(change).rowcount == 1
    connection.close()
    with pytest.raises(Damaged, match=flaw):
        load(path)


def test_an_agent_of_an_older_save_is_noticed(tmp_path: Path, saved: tuple[Path, Harness]) -> None:
    path, harness = saved
    with sqlite3.connect(path) as connection:
        rows = connection.execute("SELECT * FROM agents WHERE id = '#0.0.1028'").fetchall()
    connection.close()
    journal, store = Journal.open(path, ME, 8), StateStore(path)
    store.read(journal.connection)
    harness.send("sum3", Add(9))
    capture = captured(harness)
    journal.write([], also=lambda connection: store.save(connection, capture))
    journal.close()
    with sqlite3.connect(path) as connection:
        connection.execute("INSERT OR REPLACE INTO agents VALUES (?, ?, ?, ?, ?, ?, ?)", rows[0])
    connection.close()
    with pytest.raises(Damaged, match="and not the 20 that were written"):
        load(path)


def test_a_large_save_rests_while_records_are_waited_for(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    harness = Harness()
    harness.know(Sum)
    for number in range(5):
        harness.deploy(Sum, name=f"sum{number}")
    monkeypatch.setattr("quorate.server.disk.STAGE_BYTES", 1)
    parts: list[int] = []
    gather = rig.store.gather

    def slow(*args: Any, **options: Any) -> None:
        parts.append(rig.disk.writes)
        rig.now += 0.1
        gather(*args, **options)

    monkeypatch.setattr(rig.store, "gather", slow)
    # A part of it is written with records; after that it rests three times as long as that took.
    rig.disk.write([Appended((entry(1),))], 1)
    rig.wait_begun()
    rig.disk.save(captured(harness), 0, lambda: None)
    rig.disk.write([Appended((entry(2),))], 2)
    rig.let(2)
    while rig.durable != [1, 2]:
        rig.turn()
    for token in range(3, 9):
        rig.disk.write([Appended((entry(token),))], token)
        rig.let()
        while rig.durable[-1] < token:
            rig.turn()
    assert parts == [1]
    rig.now += 0.301
    rig.disk.write([Appended((entry(9),))], 9)
    rig.let(100)
    while rig.durable[-1] < 9:
        rig.turn()
    assert len(parts) >= 2
