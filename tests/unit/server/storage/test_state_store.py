"""The engine's state in the journal: saved, received, written in slices, and corrupt."""

import shutil
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest

from quorate import Delete
from quorate.agents import AgentId, factory
from quorate.engine import Engine, StagedPart
from quorate.hachannel.journal.journal import Damaged, Journal
from quorate.hachannel.model.log import Appended, Promised, Reset
from quorate.hachannel.model.view import Tag
from quorate.server.storage.state_store import SCHEMA, StateStore
from quorate.testing.harness import Harness

from ..disk_rig import ME, VIEW, Add, Rig, Sum, captured, crashed, entry, load


def taken(harness: Harness, *ids: AgentId, anew: bool = False) -> StagedPart:
    """These agents, as a part of a transfer brings them."""
    return StagedPart([cell.stored()[0] for cell in harness.engine.cells() if cell.identity in ids], anew)


def all_is_large(rig: Rig) -> tuple[Harness, list[AgentId]]:
    """Five agents, of which each is more than goes into one write, and a log that the disk has."""
    rig.disk.slice_bytes = 1
    harness = Harness()
    harness.know(Sum)
    ids = [harness.deploy(Sum, name=f"sum{number}") for number in range(5)]
    rig.let()
    rig.disk.write([Appended(tuple(entry(index) for index in range(1, 31)))], 1)
    rig.turn()
    return harness, ids


def test_an_incoming_state_is_written_beside_the_stored_one(rig: Rig, tmp_path: Path) -> None:
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


def test_a_start_drops_an_incomplete_incoming_state(rig: Rig, tmp_path: Path) -> None:
    rig.let(100)
    coming = Harness()
    coming.know(Sum)
    rig.disk.stage(taken(coming, coming.deploy(Sum, name="sum"), anew=True))
    rig.disk.close()
    journal, store = Journal.open(tmp_path / "journal.db", ME, 8), StateStore(tmp_path)
    assert store.unfinished(journal.connection)
    journal.write([], also=store.recover)
    assert not store.unfinished(journal.connection)
    assert store.read(journal.connection) is None
    journal.close()


def test_a_large_incoming_state_is_written_in_several_transactions(rig: Rig) -> None:
    rig.disk.slice_bytes = 1
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
def test_a_crash_during_a_large_save_leaves_the_old_state_or_the_new_one(
    rig: Rig, tmp_path: Path, full: bool
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
    rig.disk.slice_bytes = 1
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
def test_a_crash_during_a_large_difference_leaves_the_old_state_or_the_new_one(
    rig: Rig, tmp_path: Path, merging: bool
) -> None:
    harness = Harness()
    harness.know(Sum)
    ids = [harness.deploy(Sum, name=f"sum{number}") for number in range(5)]
    rig.let(2)
    rig.disk.write([Appended(tuple(entry(index) for index in range(1, 31)))], 1)
    rig.turn()
    if merging:
        rig.disk.slice_bytes = 1
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
    rig.disk.slice_bytes = 1
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
def test_a_large_save_is_dropped_for_one_at_once_and_for_another_state(
    rig: Rig, tmp_path: Path, writes: int
) -> None:
    harness, ids = all_is_large(rig)
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


def test_a_large_save_without_a_changed_agent_is_complete(rig: Rig, tmp_path: Path) -> None:
    harness = Harness()
    harness.know(Sum)
    harness.deploy(Sum, name="sum")
    rig.let(100)
    rig.disk.write([Appended(tuple(entry(index) for index in range(1, 31)))], 1)
    done: list[int] = []
    rig.disk.save(captured(harness), 0, lambda: done.append(1))
    while len(done) < 1:
        rig.turn()
    # What waits for other servers, or for its time, is large.
    rig.disk.slice_bytes = 1
    capture = captured(harness)
    assert not capture.agents
    rig.disk.save(capture, 0, lambda: done.append(2))
    while len(done) < 2:
        rig.turn()
        assert not rig.failed
    rig.disk.close()
    assert load(tmp_path / "journal.db").digest() == harness.engine.digest()


@pytest.mark.parametrize("writes", [2, 3, 6])
def test_a_large_save_follows_a_state_that_was_queued_before_it(
    rig: Rig, tmp_path: Path, writes: int
) -> None:
    harness, ids = all_is_large(rig)
    rig.disk.write([Promised(VIEW)], 2)
    for _ in range(2):
        rig.wait_begun()
    rig.disk.write([Reset(Tag(VIEW, 30))], 3, captured(harness))
    for _ in range(2, writes):
        rig.let()
        rig.wait_begun()
    harness.send(ids[1], Add(3))
    harness.send(factory(0), Delete(str(ids[2])))
    done: list[int] = []
    rig.disk.save(captured(harness), 0, lambda: done.append(1))
    rig.let(100)
    while not done:
        rig.turn()
    assert load(crashed(tmp_path)).digest() == harness.engine.digest()


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


def test_the_stored_state_is_the_one_saved_last(saved: tuple[Path, Harness]) -> None:
    path, harness = saved
    assert load(path).digest() == harness.engine.digest()


@pytest.mark.parametrize(
    ("change", "flaw"),
    [
        ("UPDATE agents SET state = x'81' WHERE id = '#0.0.1030'", "agent #0.0.1030 is corrupt"),
        ("UPDATE agents SET name = 'x' WHERE id = '#0.0.1031'", "agent #0.0.1031 is corrupt"),
        ("UPDATE agents SET name = NULL WHERE id = '#0.0.1028'", "agent #0.0.1028 is corrupt"),
        ("UPDATE agents SET cls = NULL WHERE id = '#0.0.1028'", "agent #0.0.1028 is corrupt"),
        ("UPDATE agents SET reactions = 'x' WHERE id = '#0.0.1028'", "agent #0.0.1028 is corrupt"),
        ("UPDATE agents SET id = 'x' WHERE id = '#0.0.1028'", "agent x is corrupt"),
        ("DELETE FROM agents WHERE id = '#0.0.1030'", "it has 19 agents instead of the 20"),
        ("DELETE FROM state", "the row of the engine's state is missing"),
        ("UPDATE state SET idx = idx + 1", "the row of the engine's state is corrupt"),
        ("UPDATE state SET header = x'80'", "the row of the engine's state is corrupt"),
        ("UPDATE state SET total = NULL", "the row of the engine's state is corrupt"),
    ],
)
def test_a_corrupt_state_is_refused(saved: tuple[Path, Harness], change: str, flaw: str) -> None:
    path, _ = saved
    with sqlite3.connect(path) as connection:
        assert connection.execute(change).rowcount == 1
    connection.close()
    with pytest.raises(Damaged, match=flaw):
        load(path)


def test_an_agent_of_an_older_save_is_detected(tmp_path: Path, saved: tuple[Path, Harness]) -> None:
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
    with pytest.raises(Damaged, match="instead of the 20 that were written"):
        load(path)


def test_a_large_save_pauses_while_somebody_waits_for_records(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = Harness()
    harness.know(Sum)
    for number in range(5):
        harness.deploy(Sum, name=f"sum{number}")
    rig.disk.slice_bytes = 1
    parts: list[int] = []
    write_slice = rig.store.write_slice

    def slow(*args: Any, **options: Any) -> None:
        parts.append(rig.disk.writes)
        rig.now += 0.1
        write_slice(*args, **options)

    monkeypatch.setattr(rig.store, "write_slice", slow)
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
