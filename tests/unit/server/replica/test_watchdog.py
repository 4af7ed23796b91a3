"""The watchdog of a replica: what it says while an entry takes long, and the orders that it carries out."""

import signal
from collections.abc import Callable, Generator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import pytest

from quorate import Agent, Context, ExceptionNotification, Notification, reacts
from quorate.server.replica.watchdog import Watchdog
from quorate.server.storage.running_file import INTERRUPT_SIGNAL, read_running
from quorate.server.storage.skip_orders import SkipOrder, SkipOrders
from quorate.testing.harness import Harness

during: Callable[[], None] = lambda: None  # noqa: E731
"""Called within each reaction of `Slow`."""


@attrs.frozen
class Work(Notification):
    pass


@attrs.frozen
class Done(Notification):
    pass


@attrs.define
class Slow(Agent):
    count: int = 0

    @reacts
    def work(self, ctx: Context, note: Work) -> None:
        self.count += 1
        ctx.send(ctx.sender, Done())
        during()


class Rig:
    """A watchdog without its thread, and the engine it watches."""

    def __init__(self, directory: Path) -> None:
        self.lines: list[str] = []
        self.told: list[str] = []
        """Lines that the starter sees, too."""
        self.saved = 0
        context: Any = SimpleNamespace(
            directory=directory,
            config=SimpleNamespace(path=Path("a3.xml")),
            server=SimpleNamespace(name="s0"),
            log=self.lines.append,
            announce=self.told.append,
        )
        self.orders = SkipOrders(directory)
        self.directory = directory
        self.watchdog = Watchdog(context, lambda: self.saved)
        self.harness = Harness()
        self.harness.deploy(Slow, name="slow")
        self.now = 0.0
        self.watchdog.watch(self.harness.engine)

    @property
    def next(self) -> SkipOrder:
        """The order to skip the reaction of the next entry."""
        engine = self.harness.engine
        return SkipOrder(engine.applied + 1, engine.position + 1, engine.birth)

    def look(self, seconds: float = 0.25) -> None:
        self.now += seconds
        self.watchdog.look(self.now)


@pytest.fixture
def rig(tmp_path: Path) -> Generator[Rig]:
    before = signal.getsignal(INTERRUPT_SIGNAL)
    yield Rig(tmp_path)
    signal.signal(INTERRUPT_SIGNAL, before)


def within(monkeypatch: pytest.MonkeyPatch, action: Callable[[], None]) -> None:
    monkeypatch.setitem(globals(), "during", action)


def test_a_long_reaction_is_named_while_it_runs_and_its_end_is_told(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def long() -> None:
        for _ in range(12):
            rig.look()
        assert len(rig.told) == 2

    within(monkeypatch, long)
    rig.harness.send("slow", Work())
    first, second = rig.told
    assert f"reacts to {Work.type_name} from #0.0.1, reaction 2" in first
    assert f"agent #0.0.1025 'slow' ({Slow.__module__}:Slow)" in first
    assert "quorate skip" not in first
    assert "quorate skip a3.xml --server s0 2" in second
    report = read_running(rig.directory)
    assert report is not None
    assert (report.entry, report.position, report.seconds) == (2, 2, 2.0)
    rig.look()
    assert rig.told[2] == "entry 2 is over; this replica goes on"
    assert read_running(rig.directory) is None


def test_an_order_interrupts_the_reaction_that_runs(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.watchdog.handle_interrupts()
    order = rig.next

    def give() -> None:
        rig.look()
        rig.orders.add(order)
        rig.look()
        pytest.fail("it went on")

    within(monkeypatch, give)
    (answer,) = rig.harness.send("slow", Work())
    assert isinstance(answer, ExceptionNotification)
    assert answer.error == "Skipped"
    rig.look()
    rig.look()
    assert rig.told == [f"reaction {order.position} was skipped, as the administrator ordered"]
    assert rig.orders.read() == {order}, "a restart applies the entry again"


def test_an_order_is_known_to_a_replica_that_has_not_come_so_far(rig: Rig) -> None:
    rig.orders.add(rig.next)
    rig.look()
    (answer,) = rig.harness.send("slow", Work())
    assert isinstance(answer, ExceptionNotification)
    rig.look()
    assert rig.harness.send("slow", Work()) == [Done()]


def test_an_order_is_known_before_a_start_applies_the_first_entry(rig: Rig) -> None:
    order = rig.next
    rig.orders.add(order)
    again = Rig(rig.directory)
    (answer,) = again.harness.send("slow", Work())
    assert isinstance(answer, ExceptionNotification)


def test_an_order_for_a_reaction_that_has_ended_is_removed_and_reported(rig: Rig) -> None:
    order = rig.next
    rig.harness.send("slow", Work())
    rig.orders.add(order)
    rig.look()
    rig.look()
    (line,) = rig.told
    assert "came too late" in line
    assert rig.orders.read() == frozenset()


def test_an_order_stays_until_a_saved_state_has_passed_its_entry(rig: Rig) -> None:
    order = rig.next
    rig.orders.add(order)
    rig.look()
    rig.harness.send("slow", Work())
    for saved, left in ((0, {order}), (order.entry - 1, {order}), (order.entry, set[SkipOrder]())):
        rig.saved = saved
        rig.look()
        assert rig.orders.read() == left
    rig.look()
    assert len(rig.told) == 1, "that it was skipped"
    assert rig.harness.engine.current.skips == {}


def test_the_thread_ends_and_leaves_no_file(rig: Rig) -> None:
    rig.watchdog.start()
    rig.watchdog.stop()
    assert list(rig.directory.iterdir()) == []


def test_a_signal_makes_the_reaction_itself_say_what_runs_and_obey(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a regular expression, during which no other thread runs."""
    rig.watchdog.handle_interrupts()
    order = rig.next

    def give() -> None:
        signal.raise_signal(INTERRUPT_SIGNAL)
        report = read_running(rig.directory)
        assert report is not None
        assert report.sentence.startswith("entry 2 runs: agent #0.0.1025 'slow'")
        assert report.reaction == order
        rig.orders.add(order)
        signal.raise_signal(INTERRUPT_SIGNAL)
        pytest.fail("it went on")

    within(monkeypatch, give)
    (answer,) = rig.harness.send("slow", Work())
    assert isinstance(answer, ExceptionNotification)
    rig.look()
    rig.look()
    assert rig.told == [
        f"reaction {order.position} was skipped, as the administrator ordered",
        "entry 2 is over; this replica goes on",
    ]
    assert read_running(rig.directory) is None
    assert rig.orders.read() == {order}


def test_a_signal_between_reactions_does_nothing(rig: Rig) -> None:
    rig.watchdog.handle_interrupts()
    signal.raise_signal(INTERRUPT_SIGNAL)
    assert read_running(rig.directory) is None
