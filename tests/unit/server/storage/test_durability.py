"""A replica's journal over its incarnations: recovery, refusals, journals that are set aside."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock

from quorate import Agent, Context, Notification, reacts
from quorate.agents import Note, agent_spec, encode, factory, outside
from quorate.agents.builtin import Create
from quorate.engine import Capture, Engine, EngineSettings, Posts, encode_batch
from quorate.hachannel.journal.journal import Identity
from quorate.hachannel.model.log import Accepted, Activated, Appended, Committed, LogRecord, Reset
from quorate.hachannel.model.messages import Entry
from quorate.hachannel.model.view import Tag, View, ViewNumber, Voter
from quorate.server.errors import StartError
from quorate.server.storage.durability import Durability
from quorate.server.storage.recovery import Recovery
from quorate.server.storage.snapshotter import SnapshotSettings, Snapshotter

ME = Identity("cluster", "s0", 0)
NUMBER = ViewNumber(1, 0, 7)
VIEW = View(NUMBER, (Voter(0, 7),), (Voter(0, 7),), 1, 0)


@attrs.frozen
class Add(Notification):
    number: int


@attrs.define
class Sum(Agent):
    total: int = 0

    @reacts
    def add(self, ctx: Context, note: Add) -> None:
        if note.number == 13:
            raise ValueError("unlucky")
        self.total += note.number


class Host:
    """The replica and its reactor, all in one thread."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.clock.callFromThread = lambda call, *args: call(*args)  # type: ignore[attr-defined]
        self.durable: list[int] = []
        self.failed: list[str] = []
        self.interrupted = False
        self.lines: list[str] = []
        self.flushed: Deferred[Any] = succeed(None)

    def persisted(self, token: int) -> None:
        self.durable.append(token)

    def disk_failed(self, sentence: str) -> None:
        self.failed.append(sentence)

    def flush_trace(self) -> "Deferred[Any]":
        return self.flushed

    def log(self, line: str) -> None:
        self.lines.append(line)

    def announce(self, line: str) -> None:
        self.lines.append(f"told: {line}")


class Replica:
    """One incarnation of a replica that commits each entry at once."""

    def __init__(
        self,
        path: Path,
        incarnation: int,
        clustered: bool = False,
        engine: EngineSettings | None = None,
        **settings: int,
    ) -> None:
        self.host = Host()
        self.engine = Engine(0, {"s0": 0}, engine, load=load)
        self.durability = Durability(
            path, ME, clustered, self.host.clock, self.host, SnapshotSettings(**settings)
        )
        self.recovery: Recovery = self.durability.open(incarnation, self.engine)
        self.last = self.recovery.log.last.at
        self.token = 0

    def write(self, *records: LogRecord) -> None:
        self.token += 1
        self.durability.write(records, self.token, None)
        self.host.clock.advance(0)

    def apply(self, *notes: Note, commit: bool = True) -> None:
        self.last += 1
        entry = Entry(NUMBER, self.last, self.last * 10**9, encode_batch([Posts(list(notes))]))
        self.write(Appended((entry,)))
        if commit:
            self.engine.apply(entry.index, entry.stamp_ns, entry.payload)
            self.write(Committed(self.last))

    def add(self, number: int, commit: bool = True) -> None:
        self.apply(Note("sum", outside(0), Add.type_name, encode(Add(number))), commit=commit)

    def create(self, name: str = "sum") -> None:
        ask = Create(agent_spec(Sum).name, name, agent_spec(Sum).save(Sum()), None, name)
        self.apply(Note(factory(0), outside(0), Create.type_name, encode(ask)))

    @property
    def snapshotter(self) -> Snapshotter:
        found = self.durability._snapshotter
        assert found is not None
        return found

    def end(self, save: bool = False) -> None:
        """Writes go on in their thread; when this returns they are done."""
        disk = self.durability._disk
        assert disk is not None
        if save:
            for _ in self.snapshotter.save_all():
                pass
        disk.close()


def load(name: str) -> Any:
    assert name == agent_spec(Sum).name
    return agent_spec(Sum)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    first = Replica(tmp_path, 7)
    first.write(Accepted(VIEW), Activated(NUMBER))
    first.create()
    for number in range(1, 11):
        first.add(number)
    first.add(100, commit=False)
    first.end()
    return tmp_path


def total(engine: Engine) -> int:
    cell = engine.find("sum")
    assert cell is not None
    agent = cell.agent
    assert isinstance(agent, Sum)
    return agent.total


def test_a_replica_recovers_as_the_same_voter_with_everything_committed(place: Path) -> None:
    again = Replica(place, 8)
    assert again.recovery.incarnation == 7
    assert total(again.engine) == 55
    assert again.recovery.lines == [
        "recovered: the state after entry 0, 11 entries applied again, 1 not known to be committed"
    ]
    assert len(again.recovery.trace) == 11
    log = again.recovery.log
    assert (log.recovered().commit, log.recovered().applied, log.last.at) == (11, 11, 12)
    assert (log.recovered().accepted, log.recovered().active) == (VIEW, True)
    again.end()


def test_only_entries_after_the_saved_state_are_applied_again(tmp_path: Path) -> None:
    first = Replica(tmp_path, 7, snapshot_entries=4)
    first.write(Accepted(VIEW))
    first.create()
    for number in range(1, 11):
        first.add(number)
    first.end()
    again = Replica(tmp_path, 8)
    assert 3 <= again.durability.saved <= 11
    assert len(again.recovery.trace) == 11 - again.durability.saved
    assert again.engine.digest() == first.engine.digest()
    assert again.recovery.log.base.at == 0
    again.end()


@pytest.mark.parametrize("bound", [{"snapshot_entries": 12}, {"snapshot_bytes": 700}])
def test_entries_applied_again_count_for_the_next_snapshot(tmp_path: Path, bound: dict[str, int]) -> None:
    """A replica that is killed again and again soon after its start has no more to apply each time."""
    again = []
    for start in range(8):
        replica = Replica(tmp_path, 7, **bound)
        again.append(len(replica.recovery.trace))
        if start == 0:
            replica.write(Accepted(VIEW))
            replica.create()
        for number in range(5):
            replica.add(number)
        replica.end()
    assert total(replica.engine) == 80
    assert max(again) < 20


def test_a_failed_reaction_fails_again_at_recovery(place: Path) -> None:
    again = Replica(place, 8)
    again.last = again.recovery.log.last.at
    again.add(13)
    again.end()
    third = Replica(place, 9)
    assert total(third.engine) == 155
    third.end()


def test_an_entry_that_stops_the_engine_is_reported_with_a_remedy_that_works(place: Path) -> None:
    replica = Replica(place, 8)
    replica.add(13)
    replica.end()
    stopping = EngineSettings(stop_on_exception=True)
    for clustered in (False, True):
        with pytest.raises(
            StartError, match=r"Entry 13 .* raised ValueError: unlucky.* set that property to false"
        ):
            Replica(place, 9, clustered, engine=stopping)
    assert total(Replica(place, 9).engine) == 155


def test_an_orderly_stop_leaves_nothing_to_apply_again(place: Path) -> None:
    again = Replica(place, 8)
    again.end(save=True)
    third = Replica(place, 9)
    assert third.durability.saved == 11
    assert third.recovery.trace == []
    assert total(third.engine) == 55
    third.end()


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


def test_a_replica_whose_state_differs_sets_its_journal_aside_and_starts_empty(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quorate.server.storage.durability.deferToThread", lambda call: succeed(call()))
    again = Replica(place, 8, clustered=True)
    done: list[object] = []
    again.durability.set_aside(20).addCallback(done.append)
    assert done == [None]
    assert (place / "aside-20.db").exists()
    engine = Engine(0, {"s0": 0}, load=load)
    recovery = again.durability.open(20, engine)
    assert (recovery.incarnation, recovery.log.recovered().guest, engine.applied) == (20, True, 0)
    again.end()


def test_a_replica_that_ends_after_setting_its_journal_aside_is_still_a_guest(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quorate.server.storage.durability.deferToThread", lambda call: succeed(call()))
    Replica(place, 8, clustered=True).durability.set_aside(20)
    again = Replica(place, 21, clustered=True)
    assert (again.recovery.incarnation, again.recovery.log.recovered().guest) == (21, True)
    again.end()


def test_a_class_that_cannot_be_loaded_is_not_reported_as_damage(place: Path) -> None:
    Replica(place, 8).end(save=True)
    host = Host()
    durability = Durability(place, ME, True, host.clock, host)
    with pytest.raises(StartError, match=r"The state in .* cannot be loaded: .*"):
        durability.open(9, Engine(0, {"s0": 0}, load=_missing))
    assert not list(place.glob("aside-*"))


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
