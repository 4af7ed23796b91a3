"""Captures: what has changed, as of one entry, while the engine goes on."""

import random

import attrs
import pytest

from quorate import Agent, AgentId, Context, Delete, Notification, reacts
from quorate.agents import AgentError, agent_spec, factory
from quorate.engine import AgentState, Capture, Engine, SnapshotError
from quorate.testing.harness import Harness


@attrs.frozen
class Add(Notification):
    number: int
    to: str = ""


@attrs.define
class Sum(Agent):
    total: int = 0

    @reacts
    def add(self, ctx: Context, note: Add) -> None:
        self.total += note.number
        if note.to:
            ctx.send(note.to, Add(note.number))
        if note.number % 7 == 0:
            ctx.timer(1000.0, Add(1))
        if note.number < 0:
            raise ValueError("negative")


class Store:
    """What a disk would hold."""

    def __init__(self) -> None:
        self.header = b""
        self.agents: dict[AgentId, AgentState] = {}

    def save(self, capture: Capture) -> None:
        assert capture.done
        self.header = capture.header
        if capture.full:
            self.agents.clear()
        for identity in capture.deleted:
            self.agents.pop(identity, None)
        self.agents |= {agent.identity: agent for agent in capture.agents}

    def engine(self, harness: Harness) -> Engine:
        engine = Engine(harness.engine.server, {"s0": 0}, load=harness._load)
        engine.load(self.header, iter(self.agents.values()))
        return engine

    def save_changes(self, engine: Engine) -> Capture:
        """Capture what has changed since the last capture, all at once, and save it."""
        capture = engine.capture()
        capture.step()
        self.save(capture)
        return capture


@pytest.fixture
def harness() -> Harness:
    return Harness()


@pytest.fixture
def store() -> Store:
    return Store()


def deploy_sums(harness: Harness, count: int) -> list[AgentId]:
    """Create agents named sum0, sum1 and so on."""
    return [harness.deploy(Sum, name=f"sum{number}") for number in range(count)]


def test_the_first_capture_has_everything_and_the_next_ones_what_has_changed(
    harness: Harness, store: Store
) -> None:
    deploy_sums(harness, 3)
    first = harness.engine.capture()
    assert first.step()
    assert first.full
    assert sorted(agent.name or "" for agent in first.agents) == ["sum0", "sum1", "sum2"]
    store.save(first)
    harness.send("sum1", Add(5))
    second = harness.engine.capture()
    assert second.step()
    assert not second.full
    assert [agent.name for agent in second.agents] == ["sum1"]
    assert second.index == harness.engine.applied
    store.save(second)
    assert store.engine(harness).digest() == harness.engine.digest()
    third = harness.engine.capture()
    assert third.done
    assert (third.agents, third.deleted) == ([], [])


def test_a_capture_is_as_of_one_entry_although_the_engine_goes_on(harness: Harness, store: Store) -> None:
    deploy_sums(harness, 4)
    digest = harness.engine.digest()
    capture = harness.engine.capture()
    index = harness.engine.applied
    assert not capture.step(1)
    harness.send("sum3", Add(7, to="sum2"))
    harness.deploy(Sum, name="late")
    with pytest.raises(RuntimeError, match="under way"):
        harness.engine.capture()
    assert capture.step()
    store.save(capture)
    engine = store.engine(harness)
    assert (engine.digest(), engine.applied) == (digest, index)
    rest = harness.engine.capture()
    rest.step()
    assert sorted(agent.name or "" for agent in rest.agents) == ["late", "sum2", "sum3"]


def test_deleted_agents_are_told_apart(harness: Harness, store: Store) -> None:
    ids = deploy_sums(harness, 2)
    store.save_changes(harness.engine)
    during = harness.engine.capture()
    assert during.done
    harness.send(factory(0), Delete(str(ids[0])))
    after = harness.engine.capture()
    after.step()
    assert after.deleted == [ids[0]]
    store.save(after)
    assert store.engine(harness).digest() == harness.engine.digest()


def test_a_restored_engine_captures_everything_and_a_loaded_one_what_changes(
    harness: Harness, store: Store
) -> None:
    deploy_sums(harness, 2)
    harness.engine.restore(harness.engine.snapshot())
    capture = harness.engine.capture()
    assert capture.full
    assert not capture.done
    capture.step()
    store.save(capture)
    loaded = store.engine(harness).capture()
    assert not loaded.full
    assert loaded.done


def test_a_header_or_class_that_cannot_be_used_leaves_the_engine_empty(
    harness: Harness, store: Store
) -> None:
    identity = harness.deploy(Sum, name="sum")
    store.save_changes(harness.engine)
    engine = Engine(0, {"s0": 0})
    with pytest.raises(SnapshotError, match="header is damaged"):
        engine.load(b"\xc1", [])
    missing = AgentState(identity, None, "no.such:Class", 0, b"\x80")
    with pytest.raises(AgentError, match="cannot be found"):
        engine.load(store.header, [missing])
    assert (engine.applied, list(engine.cells())) == (0, [])


@pytest.mark.parametrize("seed", range(30))
def test_stored_captures_are_the_state_at_their_entries(harness: Harness, store: Store, seed: int) -> None:
    rng = random.Random(seed)
    live: dict[str, AgentId] = {}
    digests: dict[int, bytes] = {}
    capture: Capture | None = None
    for number in range(120):
        action = rng.random()
        if action < 0.15 or not live:
            name = f"a{number}"
            live[name] = harness.deploy(Sum, name=name)
        elif action < 0.22:
            name = rng.choice(sorted(live))
            harness.send(factory(0), Delete(str(live.pop(name))))
        else:
            target, other = rng.choice(sorted(live)), rng.choice([*sorted(live), ""])
            harness.send(target, Add(rng.randint(-2, 20), to=other if other != target else ""))
        digests[harness.engine.applied] = harness.engine.digest()
        if capture is None:
            if rng.random() < 0.3:
                capture = harness.engine.capture()
        elif capture.step(rng.randint(0, 2)):
            store.save(capture)
            engine = store.engine(harness)
            assert engine.digest() == digests[capture.index]
            again = engine.capture()
            assert (again.header, again.done) == (capture.header, True)
            capture = None


@attrs.define
class Heavy(Sum):
    """Too large to be saved after every reaction."""

    ballast: str = "x" * 4000


@attrs.frozen
class Spoil(Notification):
    """Leave what cannot be stored."""


@attrs.define
class Collector(Heavy):
    """Holds values in a container, where a wrong one is not seen at once."""

    values: list[int] = attrs.field(factory=list)

    @reacts
    def spoil(self, ctx: Context, note: Spoil) -> None:
        self.values.append("wrong")  # type: ignore[arg-type]


def test_an_agent_that_cannot_be_stored_is_stored_all_the_same_and_named(
    harness: Harness, store: Store
) -> None:
    identity = harness.deploy(Collector, name="collector")
    harness.deploy(Sum, name="sum")
    harness.send("collector", Add(3))
    assert not harness.send("collector", Spoil())
    harness.send("collector", Add(4))
    capture = harness.engine.capture()
    harness.send("collector", Add(1))
    harness.send("sum", Add(1))
    assert capture.step()
    (flaw,) = capture.flaws
    assert str(identity) in flaw
    assert "can no longer be stored" in flaw
    store.save(capture)
    store.save_changes(harness.engine)
    engine = store.engine(harness)
    assert engine.digest() == harness.engine.digest()
    cell = engine.find("collector")
    assert cell is not None
    assert isinstance(cell.agent, Collector)
    assert (cell.agent.total, cell.agent.values) == (8, ["wrong"])


def test_replicas_that_saved_at_different_times_refuse_the_same_reactions() -> None:
    def run(saves: int) -> list[bool]:
        harness = Harness()
        harness.deploy(Collector, name="collector")
        answers: list[bool] = []
        for number in range(120):
            if number == 3:
                harness.send("collector", Spoil())
            answers.append(bool(harness.send("collector", Add(number * 7 + 1))))
            if saves and number % saves == 0:
                harness.engine.capture().step()
        return answers

    refused = run(0)
    assert True in refused
    assert run(1) == refused
    assert run(7) == refused


@attrs.define
class Mended(Heavy):
    """What its author makes of the class when he sees why its reactions fail."""

    values: list[int] = attrs.field(factory=list)

    @reacts
    def spoil(self, ctx: Context, note: Spoil) -> None:
        self.values.append(0)


def test_a_mended_class_goes_on_with_all_that_was_not_refused(harness: Harness, store: Store) -> None:
    harness.deploy(Collector, name="collector")
    harness.send("collector", Add(1))
    harness.send("collector", Spoil())
    total = 1
    for _ in range(120):
        total += not harness.send("collector", Add(1))
    assert 1 < total < 121
    store.save_changes(harness.engine)
    mended = attrs.evolve(agent_spec(Mended), names=agent_spec(Collector).names)
    engine = Engine(0, {"s0": 0}, load=lambda _: mended)
    engine.load(store.header, iter(store.agents.values()))
    cell = engine.find("collector")
    assert cell is not None
    assert isinstance(cell.agent, Mended)
    assert (cell.agent.total, cell.agent.values) == (total, [0])
    later = engine.capture()
    later.step()
    assert not later.flaws
