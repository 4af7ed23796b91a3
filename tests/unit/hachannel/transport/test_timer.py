"""A deadline, kept with the reactor."""

import pytest
from twisted.internet.task import Clock

from quorate.hachannel.transport.timer import RAISED_PAUSE_S, Timer


class Due:
    """A deadline, and what is called then."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.deadline: float | None = 1.0
        self.rung: list[float] = []
        self.fails = False
        self.alarm = Timer(lambda: self.deadline, self.clock, self.clock.seconds, self.ring)

    def ring(self) -> None:
        self.rung.append(self.clock.seconds())
        if self.fails:
            raise RuntimeError("defect")


def test_a_timer_fires_at_the_present_deadline_not_at_an_earlier_one() -> None:
    due = Due()
    due.alarm.arm()
    due.deadline = 2.0
    due.clock.advance(1.0)
    assert due.rung == []
    due.clock.advance(1.0)
    assert due.rung == [2.0]


def test_an_earlier_deadline_is_kept() -> None:
    due = Due()
    due.alarm.arm()
    due.deadline = 0.25
    due.alarm.arm()
    due.clock.advance(0.25)
    assert due.rung == [0.25]


def test_a_call_that_raised_is_repeated_after_a_pause() -> None:
    due = Due()
    due.alarm.arm()
    due.fails = True
    with pytest.raises(RuntimeError):
        due.clock.advance(1.0)
    due.fails = False
    due.alarm.arm()
    due.clock.advance(0.0)
    assert due.rung == [1.0]
    due.clock.advance(RAISED_PAUSE_S)
    assert due.rung == [1.0, 1.0 + RAISED_PAUSE_S]


def test_a_stopped_timer_never_fires() -> None:
    due = Due()
    due.alarm.arm()
    due.alarm.stop()
    due.clock.advance(5.0)
    assert due.rung == []


def test_a_timer_stopped_by_a_call_that_raises_schedules_nothing() -> None:
    due = Due()
    ring = due.ring

    def stops() -> None:
        due.alarm.stop()
        ring()

    due.alarm = Timer(lambda: due.deadline, due.clock, due.clock.seconds, stops)
    due.fails = True
    due.alarm.arm()
    with pytest.raises(RuntimeError):
        due.clock.advance(1.0)
    assert due.clock.getDelayedCalls() == []
