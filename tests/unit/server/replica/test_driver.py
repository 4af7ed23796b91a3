"""A node and the reactor."""

from typing import Any

import pytest
from twisted.internet.task import Clock

from quorate.hachannel.transport.timer import RAISED_PAUSE_S
from quorate.server.replica.driver import Driver


class Node:
    """A node that is due until it has ticked, and never has anything to say."""

    only_digest_left = False
    unapplied = 0

    def __init__(self) -> None:
        self.ticks = 0
        self.fails = False
        self.due = True

    def tick(self, now: float, wall_ns: int) -> None:
        self.ticks += 1
        if self.fails:
            raise RuntimeError("defect")
        self.due = False

    def flush(self, now: float, wall_ns: int) -> None:
        """Nothing waits."""

    def drain(self, now: float) -> None:
        """Nothing."""

    def work(self, now: float, wall_ns: int) -> bool:
        return False

    def log_slow_entry(self, seconds: float) -> None:
        """Nothing to name."""

    def deadline(self, now: float, wall_ns: int) -> float | None:
        return now if self.due else None


def driver_of(node: Node, clock: Clock) -> Driver:
    """A driver that drops the outputs of the node."""
    driver = Driver(clock, lambda _: None, lambda: None)
    made: Any = node
    driver.begin(made)
    return driver


def test_after_a_tick_that_raised_there_is_another_and_not_at_once() -> None:
    clock, node = Clock(), Node()
    driver = driver_of(node, clock)
    node.fails = True
    driver.call(node.flush)
    with pytest.raises(RuntimeError):
        clock.advance(0.0)
    assert node.ticks == 1
    driver.call(node.flush)
    clock.advance(0.0)
    assert node.ticks == 1
    assert len(clock.getDelayedCalls()) == 1
    node.fails = False
    clock.advance(RAISED_PAUSE_S)
    assert node.ticks == 2


def test_work_that_takes_long_is_named() -> None:
    clock, node = Clock(), Node()
    now, took, said = [0.0], [0.2, 7.5, 0.1], list[float]()

    def work(*_: Any) -> bool:
        now[0] += took.pop(0)
        return bool(took)

    made: Any = node
    made.work, made.log_slow_entry = work, said.append
    driver = Driver(clock, lambda _: None, lambda: None, now=lambda: now[0])
    driver.begin(made)
    driver.call(node.flush)
    assert took == []
    assert said == [pytest.approx(7.5)]
