"""A replica's journal over its incarnations: recovery, refusals, journals that are set aside."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred, succeed

from quorate.engine import Capture, Engine
from quorate.hachannel.journal.journal import Identity
from quorate.hachannel.model.log import Accepted, Reset
from quorate.hachannel.model.view import Tag
from quorate.server.errors import StartError
from quorate.server.storage.durability import Durability

from ..durable_replica import ME, NUMBER, VIEW, Host, Replica, total


@pytest.mark.parametrize(("took", "rest"), [(0.01, 0.03), (600.0, 1.0), (-5.0, 0.0)])
def test_encoding_a_snapshot_uses_a_quarter_of_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, took: float, rest: float
) -> None:
    """As long as it is the encoding that takes long: the process may have been stopped, or the clock set."""
    monkeypatch.setattr("quorate.server.storage.snapshotter.SLICE_AGENTS", 2)
    replica = Replica(tmp_path, 7)
    for number in range(10):
        replica.create(f"agent{number}")
    clock, step, call_later = replica.host.clock, Capture.step, replica.host.clock.callLater
    rests: list[float] = []

    def slow(*args: Any) -> bool:
        clock.rightNow += took
        return step(*args)

    def later(delay: float, *args: Any) -> Any:
        rests.append(delay)
        return call_later(delay, *args)

    monkeypatch.setattr(Capture, "step", slow)
    replica.snapshotter.begin()
    monkeypatch.setattr(clock, "callLater", later)
    for _ in range(100):
        clock.advance(0.05)
    assert rests == [pytest.approx(rest)] * 4
    replica.end()


@pytest.mark.parametrize("under_way", [False, True])
def test_other_work_goes_on_while_an_orderly_stop_encodes_the_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, under_way: bool
) -> None:
    monkeypatch.setattr("quorate.server.storage.durability.deferToThread", lambda call: succeed(call()))
    monkeypatch.setattr("quorate.server.storage.snapshotter.SLICE_AGENTS", 2)
    replica = Replica(tmp_path, 7)
    for number in range(10):
        replica.create(f"agent{number}")
    replica.create()
    replica.add(7)
    done: list[object] = []
    turns: list[int] = []

    def work() -> None:
        turns.append(len(done))
        if not done:
            replica.host.clock.callLater(0, work)

    work()
    if under_way:
        replica.snapshotter.begin()
    replica.durability.close(save=True).addCallback(done.append)
    replica.host.clock.advance(0)
    assert done == [None]
    assert turns.count(0) > 5
    assert not replica.host.failed
    again = Replica(tmp_path, 8)
    assert (again.durability.saved, again.recovery.trace) == (12, [])
    assert total(again.engine) == 7
    assert again.engine.digest() == replica.engine.digest()
    again.end()


def test_a_state_that_cannot_be_encoded_at_a_stop_is_logged_and_the_journal_closed(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quorate.server.storage.durability.deferToThread", lambda call: succeed(call()))
    replica = Replica(place, 8)
    monkeypatch.setattr(replica.engine, "capture", lambda _: 1 / 0)
    done: list[object] = []
    replica.durability.close(save=True).addCallback(done.append)
    replica.host.clock.advance(0)
    assert done == [None]
    assert replica.host.lines == ["saving the state: division by zero"]
    assert total(Replica(place, 9).engine) == 55


@pytest.mark.parametrize("flushed", [True, False])
def test_a_state_is_saved_only_when_its_trace_is_in_files(tmp_path: Path, flushed: bool) -> None:
    first = Replica(tmp_path, 7, snapshot_entries=3)
    first.host.flushed = Deferred()
    first.create()
    first.add(1)
    first.add(2)
    if flushed:
        first.host.flushed.callback(None)
    first.end()
    again = Replica(tmp_path, 8)
    assert again.durability.saved == (2 if flushed else 0)
    assert total(again.engine) == 3
    again.end()


def test_records_are_written_while_another_capture_of_the_engine_is_under_way(place: Path) -> None:
    replica = Replica(place, 10, snapshot_entries=1)
    # What differs in a state that comes from another replica is being prepared.
    capture = replica.engine.capture()
    assert not capture.done
    replica.add(1, commit=False)
    replica.end()
    assert replica.host.durable == [1]
    again = Replica(place, 11)
    assert again.recovery.log.last.at == replica.last
    again.end()


def test_an_installed_state_and_the_reset_log_are_recovered_together(place: Path) -> None:
    donor = Replica(place, 8)
    (place / "learner").mkdir()
    learner = Replica(place / "learner", 9)
    learner.engine.restore(donor.engine.snapshot())
    capture = learner.engine.capture()
    capture.step()
    learner.durability.write([Reset(Tag(NUMBER, 11))], 1, capture)
    learner.end()
    again = Replica(place / "learner", 10)
    assert again.durability.saved == 11
    assert again.recovery.log.base == Tag(NUMBER, 11)
    assert again.engine.digest() == donor.engine.digest()
    again.end()
    donor.end()


@pytest.mark.parametrize("stops", [1, 2])
def test_a_stop_saves_an_installed_state_with_its_own_index(place: Path, stops: int) -> None:
    """The last entries before it held nothing for the engine, and none came since."""
    donor = Replica(place, 8)
    (place / "learner").mkdir()
    learner = Replica(place / "learner", 9)
    learner.engine.restore(donor.engine.snapshot())
    donor.end()
    capture = learner.engine.capture(13)
    capture.step()
    learner.durability.write([Reset(Tag(NUMBER, 13))], 1, capture)
    for stop in range(stops):
        learner.end(save=True)
        learner = Replica(place / "learner", 10 + stop)
        assert learner.durability.saved == 13
        assert total(learner.engine) == 55
    learner.add(5)
    learner.end(save=True)
    learner = Replica(place / "learner", 12)
    assert learner.durability.saved == 14
    assert total(learner.engine) == 60
    learner.end()


# Damage


def spoil(place: Path, sql: str) -> None:
    with sqlite3.connect(place / "journal.db") as connection:
        connection.execute(sql)
    connection.close()


def scratch(place: Path) -> None:
    with (place / "journal.db-frames").open("r+b") as file:
        file.seek(100)
        file.write(b"scratched")


def unlink(place: Path) -> None:
    (place / "journal.db").unlink()


def empty(place: Path) -> None:
    (place / "journal.db").write_bytes(b"")


DAMAGE: dict[str, Callable[[Path], None]] = {
    "journal.db-frames is damaged: frame 1 is not what was written": lambda place: scratch(place),
    "journal.db-frames is damaged: it is missing": lambda place: (place / "journal.db-frames").unlink(),
    "missing or empty": unlink,
    "missing or empty, but": empty,
    "no such table: agents": lambda place: spoil(place, "DROP TABLE agents"),
    "not a database": lambda place: (place / "journal.db").write_bytes(b"x" * 9000) and None,
    "it has a state after entry 0, entries 6 to 12": lambda place: rebase(place),
}


def rebase(place: Path) -> None:
    """Entries were trimmed, and the state that allowed it is gone."""
    from quorate.hachannel.journal.journal import Journal

    journal = Journal.open(place / "journal.db", ME, 8)
    journal.write([], trim=5)
    journal.close()


@pytest.mark.parametrize("flaw", DAMAGE)
def test_a_plain_server_with_a_damaged_journal_refuses_to_start(place: Path, flaw: str) -> None:
    DAMAGE[flaw](place)
    for _ in range(2):
        with pytest.raises(StartError, match=flaw) as raised:
            Replica(place, 8)
        assert str(raised.value).endswith(
            "Restore the directory from a copy, or remove journal.* in it to start with nothing."
        )
        assert "\n" not in str(raised.value)
    for file in place.glob("journal.*"):
        file.unlink()
    Replica(place, 9).end()


@pytest.mark.parametrize("flaw", DAMAGE)
def test_a_replica_sets_a_damaged_journal_aside_and_becomes_another_voter(place: Path, flaw: str) -> None:
    DAMAGE[flaw](place)
    there = (place / "journal.db").exists()
    again = Replica(place, 8, clustered=True)
    assert again.recovery.incarnation == 8
    assert again.recovery.log.recovered().guest
    assert (again.engine.applied, list(again.engine.cells()), len(again.recovery.log)) == (0, [], 0)
    assert again.host.lines[0].startswith("told: ")
    assert flaw in again.host.lines[0]
    assert (place / "aside-8.db").exists() == there
    again.end()
    third = Replica(place, 9, clustered=True)
    assert third.recovery.incarnation == 8
    third.end()


def test_a_deleted_mark_is_created_again_at_a_start(place: Path) -> None:
    (place / "journal.made").unlink()
    Replica(place, 8).end()
    unlink(place)
    with pytest.raises(StartError, match="missing or empty, but it existed before"):
        Replica(place, 9)


@pytest.mark.parametrize("clustered", [False, True])
def test_frames_without_mark_and_database_are_a_lost_journal(place: Path, clustered: bool) -> None:
    frames = (place / "journal.db-frames").read_bytes()
    for name in ("journal.made", "journal.db"):
        (place / name).unlink()
    if clustered:
        again = Replica(place, 8, clustered=True)
        assert again.recovery.log.recovered().guest
        assert "It is kept as aside-8.db-frames; " in again.host.lines[0]
        again.end()
        assert (place / "aside-8.db-frames").read_bytes() == frames
    else:
        with pytest.raises(StartError, match="missing or empty, but it existed before"):
            Replica(place, 8)
        assert (place / "journal.db-frames").read_bytes() == frames


def test_a_first_start_that_was_interrupted_is_repeated(tmp_path: Path) -> None:
    (tmp_path / "journal.db-frames").touch()
    (tmp_path / "journal.db").touch()
    Replica(tmp_path, 8).end()


@pytest.mark.parametrize("name", ["journal.db", "journal.db-frames"])
def test_a_bounded_number_of_journals_is_kept_aside(tmp_path: Path, name: str) -> None:
    for replica in range(10, 20):
        one = Replica(tmp_path, replica, clustered=True)
        one.write(Accepted(VIEW))
        one.end()
        (tmp_path / name).unlink()
    left = {path.name.partition(".")[0] for path in tmp_path.glob("aside-*")}
    assert left == {"aside-18", "aside-19"}


def test_a_journal_that_is_missing_is_not_reported_as_kept(place: Path) -> None:
    for suffix in ("", "-frames"):
        (place / f"journal.db{suffix}").unlink()
    again = Replica(place, 8, clustered=True)
    assert again.host.lines[0].endswith("but it existed before. The state comes from the other replicas.")
    again.end()


def test_a_class_that_cannot_be_loaded_is_not_reported_as_damage(place: Path) -> None:
    Replica(place, 8).end(save=True)
    host = Host()
    durability = Durability(place, ME, True, host.clock, host)
    with pytest.raises(StartError, match=r"The state in .* cannot be loaded: .*"):
        durability.open(9, Engine(0, {"s0": 0}, load=_missing))
    assert not list(place.glob("aside-*"))


def test_an_entry_whose_agent_class_is_missing_now_is_not_applied_again(tmp_path: Path) -> None:
    former = Replica(tmp_path, 7)
    former.create()
    former.end()
    host = Host()
    durability = Durability(tmp_path, ME, True, host.clock, host)
    with pytest.raises(StartError) as refused:
        durability.open(8, Engine(0, {"s0": 0}, load=_missing))
    assert str(refused.value).startswith("Entry 1 cannot be applied again: it creates an agent of class ")
    assert "cannot be found" in str(refused.value)
    assert not list(tmp_path.glob("aside-*"))


def _missing(name: str) -> Any:
    from quorate import AgentError

    raise AgentError(f"module of {name} cannot be found")


def test_the_journal_of_another_replica_is_refused_in_a_cluster_too(place: Path) -> None:
    host = Host()
    other = Durability(place, Identity("cluster", "s0", 1), True, host.clock, host)
    with pytest.raises(StartError, match="belongs to replica 0 of s0"):
        other.open(8, Engine(0, {"s0": 0}))
    assert not list(place.glob("aside-*"))


def test_a_directory_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    host = Host()
    with pytest.raises(StartError, match="cannot be used"):
        Durability(tmp_path / "missing", ME, False, host.clock, host).open(8, Engine(0, {"s0": 0}))
