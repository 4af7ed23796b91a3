"""A replica in the foreground: its reactor and the replica start and stop together."""

from collections.abc import Callable
from typing import Any

import pytest
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock

from quorate.server.cli.service_manager import ServiceManager
from quorate.server.cli.start import LEAVE_TIMEOUT_S, ROLE_PERIOD_S, WAIT_REPORT_S, Foreground
from quorate.server.errors import StartInterrupted


class FakeReactor(Clock):
    """A clock that also starts and stops, running the shutdown triggers as Twisted does."""

    def __init__(self) -> None:
        super().__init__()
        self.running = False
        self.ended = False
        self.begin: Callable[[], None] = lambda: None
        self.end: Callable[[], Any] = lambda: None

    def callWhenRunning(self, function: Callable[[], None]) -> None:
        self.begin = function

    def addSystemEventTrigger(self, phase: str, event: str, function: Callable[[], Any]) -> None:
        assert (phase, event) == ("before", "shutdown")
        self.end = function

    def run(self) -> None:
        self.running = True
        self.begin()

    def stop(self) -> None:
        assert self.running
        self.running = False
        (self.end() or succeed(None)).addBoth(self._over)

    def _over(self, _result: object) -> None:
        self.ended = True


class FakeReplica:
    def __init__(self) -> None:
        self.role = "joining"
        self.waits_for = ""
        self.stopped: Deferred[None] = Deferred()
        self.starting: Any = None
        self.stopping: Any = None
        self.stops = 0
        self.together: bool | None = None
        self.again = False

    def start(self) -> Any:
        if isinstance(self.starting, Exception):
            raise self.starting
        return self.starting

    def stop(self, *, together: bool) -> Any:
        self.stops += 1
        self.together = together
        return self.stopping


@pytest.fixture
def scene() -> tuple[FakeReactor, FakeReplica, list[str], Foreground]:
    reactor, replica, lines = FakeReactor(), FakeReplica(), list[str]()
    foreground = Foreground(
        reactor,
        replica,
        lambda: replica.role,
        lambda: replica.waits_for,
        lines.append,
        ServiceManager({}),
    )
    return reactor, replica, lines, foreground


Scene = tuple[FakeReactor, FakeReplica, list[str], Foreground]


def test_a_line_is_printed_when_ready_and_when_the_role_changes(scene: Scene) -> None:
    reactor, replica, lines, foreground = scene
    foreground.run()
    assert lines == []
    for replica.role in ("blocked", "slave", "slave", "blocked", "slave", "master"):
        reactor.advance(ROLE_PERIOD_S)
    assert lines == ["slave", "master"]


def test_the_reason_of_a_wait_is_printed_once_it_has_lasted(scene: Scene) -> None:
    reactor, replica, lines, foreground = scene
    replica.waits_for = "start replica 1"
    foreground.run()
    reactor.pump([ROLE_PERIOD_S] * int(WAIT_REPORT_S / ROLE_PERIOD_S))
    assert lines == []
    reactor.pump([ROLE_PERIOD_S] * 50)
    assert lines == ["joining: start replica 1"]
    replica.waits_for = "start replica 2"
    reactor.pump([ROLE_PERIOD_S] * 50)
    replica.role, replica.waits_for = "slave", ""
    reactor.advance(ROLE_PERIOD_S)
    replica.role, replica.waits_for = "changing", "a moment"
    reactor.advance(ROLE_PERIOD_S)
    replica.role, replica.waits_for = "slave", ""
    reactor.advance(ROLE_PERIOD_S)
    assert lines == ["joining: start replica 1", "joining: start replica 2", "slave"]
    replica.role, replica.waits_for = "blocked", "start replica 2"
    reactor.pump([ROLE_PERIOD_S] * 50)
    replica.role, replica.waits_for = "slave", ""
    reactor.advance(ROLE_PERIOD_S)
    assert lines[3:] == ["blocked: start replica 2", "slave"]


def test_a_witness_prints_the_beginning_and_the_end_of_a_wait(scene: Scene) -> None:
    reactor, replica, lines, foreground = scene
    foreground.run()
    replica.role = "witness"
    reactor.advance(ROLE_PERIOD_S)
    replica.waits_for = "too few"
    reactor.pump([ROLE_PERIOD_S] * 4)
    assert lines == ["witness"]
    reactor.advance(WAIT_REPORT_S + ROLE_PERIOD_S)
    assert lines == ["witness", "witness: too few"]
    replica.waits_for = ""
    reactor.advance(ROLE_PERIOD_S)
    assert lines == ["witness", "witness: too few", "witness"]


@pytest.mark.parametrize("together", [False, True])
def test_a_signal_stops_the_replica_first(scene: Scene, together: bool) -> None:
    reactor, replica, _, foreground = scene
    replica.stopping = Deferred()
    foreground.run()
    if together:
        foreground.expect_stop_together()
    reactor.stop()
    assert (replica.stops, replica.together, reactor.ended) == (1, together, False)
    replica.stopped.callback(None)
    replica.stopping.callback(None)
    assert reactor.ended
    assert foreground.problem == ""


def test_a_replica_stopped_by_an_administrator_ends_the_process(scene: Scene) -> None:
    reactor, replica, _, foreground = scene
    foreground.run()
    replica.stopped.callback(None)
    assert (reactor.ended, replica.stops, foreground.problem) == (True, 0, "")


@pytest.mark.parametrize("late", [False, True])
def test_a_replica_that_cannot_start_ends_the_process_with_its_sentence(scene: Scene, late: bool) -> None:
    reactor, replica, lines, foreground = scene
    error = ValueError("Port 1 is taken.")
    replica.starting = Deferred() if late else error
    foreground.run()
    if late:
        replica.starting.errback(error)
    assert (reactor.ended, foreground.problem, lines) == (True, "Port 1 is taken.", [])


def test_a_start_that_was_interrupted_is_an_orderly_end(scene: Scene) -> None:
    reactor, replica, _, foreground = scene
    replica.starting = StartInterrupted("It was stopped before it had started.")
    foreground.run()
    assert (reactor.ended, foreground.problem) == (True, "")


def test_a_replica_that_fails_ends_the_process_with_its_sentence(scene: Scene) -> None:
    reactor, replica, _, foreground = scene
    foreground.run()
    replica.stopped.errback(RuntimeError("The disk is full."))
    assert (reactor.ended, foreground.problem) == (True, "The disk is full.")


def test_an_orderly_stop_is_bounded(scene: Scene) -> None:
    reactor, replica, _, foreground = scene
    replica.stopping = Deferred()
    foreground.run()
    reactor.stop()
    reactor.advance(LEAVE_TIMEOUT_S)
    assert reactor.ended
    assert "did not leave in order" in foreground.problem
