"""The state of an engine in parts: a copy converges while the original goes on, whoever sends them."""

import random
from collections.abc import Callable, Iterator

import attrs
import pytest

from quorate import Agent, AgentId, Context, Delete, Notification, reacts
from quorate.agents import AgentError, Create, Note, agent_spec, encode, factory, outside
from quorate.engine import (
    CollectedState,
    Engine,
    EngineSettings,
    Posts,
    SnapshotError,
    Source,
    Staging,
    encode_batch,
)
from quorate.engine.snapshot import precopy
from quorate.testing.harness import Harness

LOAD = Harness()._load


@attrs.frozen
class Add(Notification):
    number: int


@attrs.define
class Sum(Agent):
    total: int = 0
    ballast: str = ""

    @reacts
    def add(self, ctx: Context, note: Add) -> None:
        self.total += note.number
        if note.number % 5 == 0:
            ctx.timer(1000.0, Add(1))


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quorate.engine.snapshot.transfer.PART_AGENTS", 3)
    monkeypatch.setattr(precopy, "FEW", 2)
    monkeypatch.setattr(precopy, "SORTED_AT_ONCE", 7)


def fresh() -> Engine:
    return Engine(0, {"s0": 0}, load=LOAD)


def parts(source: Source) -> Iterator[tuple[bytes, int | None]]:
    """All parts, the engine free to go on between them."""
    while not source.over:
        part = source.next()
        if part is not None:
            assert part.last == source.over
            assert part.index is not None or not part.last
            yield part.data, part.index if part.last else None


def receive_all(staging: Staging, source: Source) -> None:
    """Give a staging all parts of a source whose engine does not go on."""
    for data, _ in parts(source):
        staging.accept(data)


class Busy:
    """A harness whose agents change, come and go."""

    def __init__(self, seed: int, agents: int = 40) -> None:
        self.random = random.Random(seed)
        self.harness = Harness()
        self.engine = self.harness.engine
        self.names: dict[str, AgentId] = {}
        self.count = 0
        self.digests: dict[int, bytes] = {}
        for _ in range(agents):
            self.deploy()

    def deploy(self) -> None:
        self.count += 1
        name = f"a{self.count}"
        ballast = "x" * self.random.choice([0, 0, 3000])
        self.names[name] = self.harness.deploy(Sum, name=name, ballast=ballast)

    def act(self) -> None:
        chance = self.random.random()
        if chance < 0.15:
            self.deploy()
        elif chance < 0.3 and self.names:
            name = self.random.choice(sorted(self.names))
            self.harness.send(factory(0), Delete(str(self.names.pop(name))))
        elif self.names:
            self.harness.send(self.random.choice(sorted(self.names)), Add(self.random.randint(1, 50)))
        self.digests[self.engine.applied] = self.engine.digest()


def finish(busy: Busy, source: Source, staging: Staging, target: Engine, acts: int = 3) -> int:
    """Receive the rest; returns how many agents came. The copy must be the original as of the last part."""
    index = None
    for data, index in parts(source):
        staging.accept(data)
        if index is None:
            for _ in range(busy.random.randint(0, acts)):
                busy.act()
    assert index is not None
    busy.digests[busy.engine.applied] = busy.engine.digest()
    target.install(staging)
    assert (target.applied, target.digest()) == (index, busy.digests[index])
    return len(staging.hashes)


@pytest.mark.parametrize("seed", range(30))
def test_a_copy_made_while_agents_change_is_the_state_after_one_entry(seed: int) -> None:
    busy = Busy(seed)
    target = fresh()
    finish(busy, busy.engine.source(), target.staging(), target)
    capture = target.capture()
    assert capture.full
    capture.step()
    assert len(capture.agents) == len(list(target.cells()))


def clone(engine: Engine) -> Engine:
    copy = fresh()
    copy.restore(engine.snapshot())
    return copy


@pytest.mark.parametrize("seed", range(30))
def test_another_source_goes_on_where_one_ended(seed: int) -> None:
    busy = Busy(seed)
    target = fresh()
    staging = target.staging()
    for _ in range(busy.random.randint(1, 3)):
        source = busy.engine.source(staging.marker)
        given = parts(source)
        for _ in range(busy.random.randint(0, 12)):
            data, index = next(given, (b"", 0))
            if index is not None:
                break
            staging.accept(data)
            busy.act()
        for _ in range(3):
            busy.act()
    finish(busy, busy.engine.source(staging.marker), staging, target)


def test_what_is_there_already_does_not_come_again() -> None:
    busy = Busy(1)
    target = fresh()
    staging = target.staging()
    given = parts(busy.engine.source())
    for _ in range(8):
        staging.accept(next(given)[0])
    there = len(staging.cells)
    assert there > 15
    staging.hashes = dict.fromkeys((), 0) | staging.hashes
    other = clone(busy.engine)
    again = target.staging()
    again.cells, again.hashes = staging.cells, dict(staging.hashes)
    sent = 0
    for data, _ in parts(other.source(staging.marker)):
        before = set(again.hashes)
        again.accept(data)
        sent += len(set(again.hashes) - before)
    target.install(again)
    assert sent == 40 - there
    assert target.digest() == busy.engine.digest()


@pytest.mark.parametrize("seed", range(20))
def test_a_replica_with_an_old_state_gets_what_has_changed_since(seed: int) -> None:
    busy = Busy(seed)
    target = clone(busy.engine)
    first = target.capture()
    first.step()
    first.written = True
    have = target.applied
    for _ in range(10):
        busy.act()
    before = {cell.identity for cell in target.cells()}
    came = finish(busy, busy.engine.source(have=have), target.staging(), target, acts=1)
    assert came < 40
    capture = target.capture()
    capture.step()
    assert not capture.full
    now = {cell.identity for cell in target.cells()}
    assert set(capture.deleted) == before - now
    assert {agent.identity for agent in capture.agents} >= now - before
    assert len(capture.agents) <= came


@pytest.mark.parametrize("seed", range(20))
def test_a_collected_state_is_that_of_the_last_source(seed: int) -> None:
    busy = Busy(seed)
    collected = CollectedState()
    have = 0
    for copy in range(4):
        if copy:
            collected.follow()
        index = None
        for data, index in parts(busy.engine.source(have=have)):
            collected.accept(data)
            if index is None:
                busy.act()
        busy.digests[busy.engine.applied] = busy.engine.digest()
        assert index is not None
        assert collected.end is not None
        loaded = fresh()
        loaded.load(collected.end.header, collected.agents.values())
        assert loaded.digest() == collected.end.digest == busy.digests[index]
        have = index
        for _ in range(busy.random.randint(0, 10)):
            busy.act()


def test_a_collected_state_refuses_what_it_cannot_go_on_from() -> None:
    busy = Busy(1)
    later = [data for data, _ in parts(busy.engine.source(have=busy.engine.applied))]
    with pytest.raises(SnapshotError, match="said to be in an earlier state, and is not"):
        CollectedState().accept(later[0])
    collected = CollectedState()
    for data, _ in parts(busy.engine.source()):
        collected.accept(data)
    with pytest.raises(SnapshotError, match="a part after the last one"):
        collected.accept(later[0])
    with pytest.raises(SnapshotError, match="damaged"):
        CollectedState().accept(b"nonsense")


def test_an_abandoned_capture_is_part_of_the_next_one() -> None:
    busy = Busy(2)
    target = clone(busy.engine)
    target.capture().step()
    identity = next(iter(busy.names.values()))
    cell = target.find(identity)
    assert cell is not None
    target._directory.touch(cell, target.applied)
    assert not target.capture().done
    for _ in range(5):
        busy.act()
    have = target.applied
    finish(busy, busy.engine.source(have=have), target.staging(), target)
    capture = target.capture()
    capture.step()
    assert identity in {*(agent.identity for agent in capture.agents), *capture.deleted}


def test_passes_over_what_changes_are_bounded() -> None:
    busy = Busy(3, agents=60)
    target = fresh()
    source, staging = busy.engine.source(), target.staging()
    index = None
    for data, index in parts(source):
        staging.accept(data)
        if index is None:
            for name in sorted(busy.names):
                busy.harness.send(name, Add(1))
            busy.digests[busy.engine.applied] = busy.engine.digest()
    assert source.rounds <= precopy.MAX_ROUNDS
    target.install(staging)
    assert target.digest() == busy.digests[target.applied]


def test_a_state_that_differs_from_that_of_the_source_is_refused_and_nothing_changes() -> None:
    busy = Busy(4)
    target = clone(busy.engine)
    digest, have = target.digest(), target.applied
    cell = target.find(next(iter(busy.names.values())))
    assert cell is not None
    assert isinstance(cell.agent, Sum)
    stale = fresh()
    stale.restore(busy.engine.snapshot())
    spoiled = stale.find(cell.identity)
    assert spoiled is not None
    spoiled.react(busy_note(spoiled.identity), 0, 0, 0, stale.resolve)
    stale._directory.touch(spoiled, 1)
    busy.deploy()
    staging = stale.staging()
    receive_all(staging, busy.engine.source(have=have))
    applied = stale.applied
    with pytest.raises(SnapshotError, match="not the one that was sent"):
        stale.install(staging)
    assert stale.applied == applied
    assert target.digest() == digest


def busy_note(to: AgentId):  # type: ignore[no-untyped-def]
    from quorate.agents import Note, encode

    return Note(to, to, Add.type_name, encode(Add(1)))


def test_parts_that_do_not_belong_together_are_refused() -> None:
    one, other = Busy(5), Busy(6)
    staging = fresh().staging()
    with pytest.raises(SnapshotError, match="is damaged"):
        staging.accept(b"\xc1")
    given = [data for data, _ in parts(one.engine.source())]
    with pytest.raises(SnapshotError, match="do not begin"):
        fresh().staging().accept(given[1])
    with pytest.raises(SnapshotError, match="not complete"):
        fresh().install(staging)
    # Of another life of the server.
    behind = clone(other.engine)
    (first, _) = next(parts(one.engine.source(have=one.engine.applied)))
    behind.birth += 1
    with pytest.raises(SnapshotError, match="another life"):
        behind.staging().accept(first)
    # What is said to be here is not.
    empty = fresh()
    empty.birth, empty.applied = one.engine.birth, one.engine.applied
    (first, _) = next(parts(one.engine.source(have=one.engine.applied)))
    with pytest.raises(SnapshotError, match="and is not"):
        empty.staging().accept(first)


@pytest.mark.parametrize("marker", [b"", b"\xc1", b"\x95\x01\x02\x03\x04\x05", b"\x90"])
def test_a_marker_of_no_use_means_everything(marker: bytes) -> None:
    busy = Busy(7)
    target = fresh()
    assert finish(busy, busy.engine.source(marker), target.staging(), target, acts=0) == 40


def test_a_class_that_cannot_be_loaded_is_an_agent_error() -> None:
    busy = Busy(8)

    def nothing(name: str):  # type: ignore[no-untyped-def]
        raise AgentError(f"no {name}")

    target = Engine(0, {"s0": 0}, load=nothing)
    with pytest.raises(AgentError, match="no "):
        target.restore(busy.engine.snapshot())


def test_a_later_source_ends_an_earlier_one() -> None:
    busy = Busy(9)
    first = busy.engine.source()
    second = busy.engine.source()
    assert first.over
    assert not second.over
    second.close()
    assert second.over


@pytest.mark.parametrize("based", [False, True])
def test_a_state_is_installed_some_agents_at_a_time_and_nothing_changes_before_the_last_step(
    based: bool,
) -> None:
    busy = Busy(5)
    target = clone(busy.engine)
    target.capture().step()
    digest, have = target.digest(), target.applied
    for _ in range(60):
        busy.act()
    staging = target.staging()
    receive_all(staging, busy.engine.source(have=have if based else 0))
    steps = 0
    for _ in target.installing(staging, 4):
        steps += 1
        assert (target.digest(), target.applied) == (digest, have)
    assert steps >= 15
    assert target.digest() == busy.engine.digest()
    capture = target.capture()
    capture.step()
    differ = {state.identity for state in capture.agents} | set(capture.deleted)
    assert differ >= set(staging.hashes) - set(staging.gone)
    if not based:
        assert len(capture.agents) == len(list(target.cells()))


def test_a_state_that_is_not_whole_is_not_installed() -> None:
    target = fresh()
    with pytest.raises(SnapshotError, match="not complete"):
        target.install(target.staging())


def ask(engine: Engine, key: str) -> list[Note]:
    """Ask for a new agent under a key, and return the answers."""
    state = agent_spec(Sum).save(Sum())
    create = Create(agent_spec(Sum).location, None, state, None, key)
    note = Note(factory(0), outside(0), Create.type_name, encode(create), 7)
    effects = engine.apply(engine.applied + 1, 5, encode_batch([Posts([note])]))
    return effects.replies


def transferred(engine: Engine) -> Engine:
    target = Engine(0, {"s0": 0}, engine.settings, LOAD)
    target.restore(engine.snapshot())
    return target


def stored(engine: Engine) -> Engine:
    capture = engine.capture()
    capture.step()
    target = Engine(0, {"s0": 0}, engine.settings, LOAD)
    target.load(capture.header, capture.agents)
    return target


@pytest.mark.parametrize("copy", [transferred, stored])
def test_the_copy_of_a_state_has_the_keys_under_which_agents_were_created(
    copy: Callable[[Engine], Engine],
) -> None:
    original = Engine(0, {"s0": 0}, EngineSettings(max_created_keys=2), LOAD)
    answers = {key: ask(original, key) for key in ("first", "second")}
    target = copy(original)
    assert {key: ask(target, key) for key in ("first", "second")} == answers
    assert len(list(target.cells())) == 2
    # Both forget the same key when there are too many.
    for engine in (original, target):
        ask(engine, "third")
    assert ask(original, "second") == ask(target, "second") == answers["second"]
    assert ask(original, "first") == ask(target, "first") != answers["first"]
