"""What an engine runs at a moment, as another thread sees it, and reactions that the administrator skips."""

import signal
import threading
from collections.abc import Callable, Generator
from types import FrameType
from typing import Any

import attrs
import pytest

from quorate import Agent, AgentId, Context, CreateFailed, ExceptionNotification, Notification, reacts
from quorate.agents import Create, agent_spec, factory
from quorate.engine import EngineSettings
from quorate.testing.harness import Harness

ONE = AgentId(0, 0, 1025)
during: Callable[[], None] = lambda: None  # noqa: E731
"""Called within a reaction of `Worker`."""


@attrs.frozen
class Work(Notification):
    how: str = ""


@attrs.frozen
class Done(Notification):
    count: int


@attrs.define
class Worker(Agent):
    count: int = 0
    pad: bytes = b""

    @reacts
    def work(self, ctx: Context, note: Work) -> None:
        self.count += 1
        ctx.send(ctx.sender, Done(self.count))
        if note.how == "for ever":
            while True:
                self.count += 1
        if note.how == "catches":
            try:
                during()
            except BaseException as error:
                raise RuntimeError("something else") from error
        if note.how:
            during()


@attrs.define
class Unborn(Agent):
    def __attrs_post_init__(self) -> None:
        during()

    @reacts
    def work(self, ctx: Context, note: Work) -> None:
        """Never called."""


def worker(pad: int = 0, **settings: Any) -> Harness:
    harness = Harness(settings=EngineSettings(**settings), guard=False)
    harness.deploy(Worker, name="worker", pad=bytes(pad))
    harness.send("worker", Work())
    return harness


def skip_next(harness: Harness) -> None:
    engine = harness.engine
    engine.current.skips = {engine.position + 1: (engine.applied + 1, engine.birth)}


def state(harness: Harness) -> Worker:
    agent = harness.agent("worker")
    assert isinstance(agent, Worker)
    return agent


@pytest.fixture
def interrupts() -> Generator[Callable[[Harness], None]]:
    """Lets SIGUSR2 interrupt the reactions of a harness, until the end of the test."""
    before = signal.getsignal(signal.SIGUSR2)

    def install(harness: Harness) -> None:
        def handle(_number: int, _frame: FrameType | None) -> None:
            harness.engine.current.interrupt()

        signal.signal(signal.SIGUSR2, handle)

    yield install
    signal.signal(signal.SIGUSR2, before)


def within(monkeypatch: pytest.MonkeyPatch, action: Callable[[], None]) -> None:
    monkeypatch.setitem(globals(), "during", action)


def test_the_running_reaction_is_seen_from_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = worker()
    current = harness.engine.current
    seen: list[Any] = []

    def look() -> None:
        thread = threading.Thread(target=lambda: seen.append((current.entry, current.running)))
        thread.start()
        thread.join()

    within(monkeypatch, look)
    harness.send("worker", Work("once"))
    ((entry, running),) = seen
    position, note, agent = running
    assert (entry, position) == (harness.engine.applied, harness.engine.position)
    assert (note.type, agent.identity, agent.name, agent.spec.cls) == (Work.type_name, ONE, "worker", Worker)
    assert (current.entry, current.running) == (0, None)


def test_nothing_runs_after_a_reaction_that_failed_or_did_not_fit() -> None:
    harness = worker()
    for note in (Done(1), Work("catches")):
        harness.send("worker", note)
    assert (harness.engine.current.entry, harness.engine.current.running) == (0, None)


@pytest.mark.parametrize("pad", [0, 100_000])
def test_a_reaction_with_an_order_is_skipped_without_being_run(
    monkeypatch: pytest.MonkeyPatch, pad: int
) -> None:
    harness = worker(pad)
    within(monkeypatch, lambda: pytest.fail("it ran"))
    skip_next(harness)
    (answer,) = harness.send("worker", Work("once"))
    assert isinstance(answer, ExceptionNotification)
    assert (answer.error, answer.message) == ("Skipped", "skipped by the administrator")
    assert state(harness).count == 1
    within(monkeypatch, lambda: None)
    assert harness.send("worker", Work("once")) == [Done(2)]


def test_an_order_for_another_entry_position_or_life_changes_nothing() -> None:
    harness = worker()
    engine = harness.engine
    for skips in (
        {engine.position + 1: (engine.applied + 2, engine.birth)},
        {engine.position + 2: (engine.applied + 1, engine.birth)},
        {engine.position + 1: (engine.applied + 1, engine.birth + 1)},
    ):
        engine.current.skips = skips
        assert harness.send("worker", Work("once")) == [Done(2)]
        harness = worker()
        engine = harness.engine


@pytest.mark.parametrize("pad", [0, 100_000])
@pytest.mark.parametrize("when", ["before", "interrupted", "caught", "ended"])
def test_the_outcome_is_the_same_whenever_the_order_comes(
    monkeypatch: pytest.MonkeyPatch, interrupts: Callable[[Harness], None], when: str, pad: int
) -> None:
    how = Work("catches")
    reference, harness = worker(pad), worker(pad)
    within(monkeypatch, lambda: None)
    skip_next(reference)
    expected = reference.post(reference.note("worker", how))
    interrupts(harness)

    def order() -> None:
        skip_next_of_running(harness)
        if when != "ended":
            signal.raise_signal(signal.SIGUSR2)
            pytest.fail("it went on")

    if when == "before":
        skip_next(harness)
    else:
        within(monkeypatch, order)
    if when == "interrupted":
        how = Work("once")
        reference = worker(pad)
        skip_next(reference)
        expected = reference.post(reference.note("worker", how))
    effects = harness.post(harness.note("worker", how))
    assert effects.outcome == expected.outcome
    assert effects.replies == expected.replies
    assert harness.engine.digest() == reference.engine.digest()
    assert state(harness).count == 1


def skip_next_of_running(harness: Harness) -> None:
    engine = harness.engine
    engine.current.skips = {engine.position: (engine.applied, engine.birth)}


def test_a_reaction_that_runs_for_ever_is_interrupted_by_a_signal(
    interrupts: Callable[[Harness], None],
) -> None:
    harness = worker()
    interrupts(harness)
    main = threading.main_thread().ident
    assert main is not None

    def rescue(current: Any = harness.engine.current) -> None:
        pause = threading.Event()
        while current.running is None:
            pause.wait(0.001)
        current.skips = {current.running[0]: (current.entry, current.birth)}
        signal.pthread_kill(main, signal.SIGUSR2)

    thread = threading.Thread(target=rescue)
    thread.start()
    (answer,) = harness.send("worker", Work("for ever"))
    thread.join()
    assert isinstance(answer, ExceptionNotification)
    assert answer.error == "Skipped"
    assert state(harness).count == 1


def test_a_signal_without_an_order_or_between_reactions_does_nothing(
    interrupts: Callable[[Harness], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = worker()
    interrupts(harness)
    within(monkeypatch, lambda: signal.raise_signal(signal.SIGUSR2))
    assert harness.send("worker", Work("once")) == [Done(2)]
    skip_next(harness)
    signal.raise_signal(signal.SIGUSR2)


def test_a_skipped_reaction_does_not_stop_an_engine_that_stops_on_exceptions() -> None:
    harness = worker(stop_on_exception=True)
    skip_next(harness)
    assert len(harness.send("worker", Work())) == 1


@pytest.mark.parametrize("late", [False, True])
def test_the_creation_of_an_agent_is_skipped(monkeypatch: pytest.MonkeyPatch, late: bool) -> None:
    harness = worker()
    harness.know(Unborn)
    if late:
        within(monkeypatch, lambda: skip_next_of_running(harness))
    else:
        skip_next(harness)
    create = Create(agent_spec(Unborn).location, name="unborn", key="k")
    (answer,) = harness.send(factory(0), create)
    assert isinstance(answer, CreateFailed)
    assert "Skipped: skipped by the administrator" in answer.reason
    within(monkeypatch, lambda: None)
    assert harness.engine.find("unborn") is None
    assert not isinstance(harness.send(factory(0), create)[0], CreateFailed), "the key is free"


def test_a_replica_that_does_not_skip_differs() -> None:
    one, other = worker(), worker()
    skip_next(one)
    effects = [each.post(each.note("worker", Work())) for each in (one, other)]
    assert one.engine.digest() != other.engine.digest()
    assert effects[1].differs(effects[0].outcome)
