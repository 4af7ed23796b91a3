"""Digests are reckoned while a node goes on, and compared at the master."""

from collections.abc import Callable
from typing import Any, cast

import pytest

from quorate.hachannel import DirectReceived, ViewEvent
from quorate.hachannel.model.view import ViewNumber
from quorate.hachannel.protocol.observed import Standing
from quorate.server.node import divergence
from quorate.server.node.digests import Diverged, Report, decode_direct, encode_direct
from quorate.server.node.divergence import DivergenceDetector
from quorate.server.node.outputs import Output
from quorate.server.replica.driver import Driver
from quorate.testing.harness import Harness

from ..disk_rig import Add, Sum

VIEW = ViewEvent(0, ViewNumber(3, 0, 0), 0, (0, 1), False, "test")


class Member:
    """A member of the view whose master is 0."""

    standing = Standing()

    def __init__(self, me: int, agents: int = 300) -> None:
        self.harness = Harness()
        self.told: list[Any] = []
        self.lines: list[str] = []
        self.diverged: list[str] = []
        for number in range(agents):
            self.harness.deploy(Sum, name=f"a{number}")
        self.detector = DivergenceDetector(me, self.harness.engine, cast("Any", self), self.lines.append)
        self.detector.begin_view(VIEW)

    def disqualify(self, _now: float, reason: str) -> None:
        self.diverged.append(reason)

    def send_direct(self, peer: int, data: bytes) -> None:
        self.told.append((peer, decode_direct(data)))


def test_a_digest_is_complete_after_so_many_entries_though_agents_go_on_changing() -> None:
    member, twin = Member(1), Member(1)
    expected = twin.harness.engine.digest()
    member.detector.start_digest(0.0, 256)
    entries = 0
    while member.detector.running is not None:
        assert not member.told
        member.harness.send(f"a{entries % 300}", Add(1))
        member.detector.applied(0.0)
        entries += 1
    assert 50 < entries <= divergence.SHARES
    assert member.told == [(0, Report(256, expected))]


def test_what_is_left_is_looked_at_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(divergence, "SLICE_AGENTS", 100)
    member = Member(1)
    expected = Member(1).harness.engine.digest()
    member.detector.start_digest(0.0, 256)
    for _ in range(3):
        assert member.detector.running is not None
        assert not member.told
        member.detector.step(0.0)
    assert member.detector.running is None
    assert member.told == [(0, Report(256, expected))]


def test_another_position_is_not_begun_before_the_last_one_is_complete() -> None:
    member = Member(1)
    expected = Member(1).harness.engine.digest()
    member.detector.start_digest(0.0, 256)
    member.detector.start_digest(0.0, 257)
    assert member.told == [(0, Report(256, expected))]


def test_a_new_view_ends_a_reckoning() -> None:
    member = Member(1)
    member.detector.start_digest(0.0, 256)
    member.detector.begin_view(VIEW)
    assert member.detector.running is None
    assert not member.told


def test_a_replica_that_differs_is_told_so() -> None:
    member = Member(0)
    member.detector.received(0.0, DirectReceived(1, encode_direct(Report(256, b"another"))))
    member.detector.start_digest(0.0, 256)
    while member.detector.running is not None:
        member.detector.step(0.0)
    assert "replica 1 is in another state" in member.lines[0]
    slave = Member(1)
    slave.detector.received(0.0, DirectReceived(0, encode_direct(Diverged(0, 256))))
    assert "an agent is not deterministic" in slave.diverged[0]


class Slow:
    """A node that has nothing to do but what has time."""

    unapplied = 0
    left = 5
    works = 0

    @property
    def only_digest_left(self) -> bool:
        return self.left > 0

    def work(self, _now: float, _wall_ns: int) -> bool:
        if not self.left:
            return False
        self.left -= 1
        self.works += 1
        return True

    def drain(self, now: float) -> Output:
        return Output()

    def deadline(self, _now: float, _wall_ns: int) -> None:
        return None

    def flush(self, _now: float, _wall_ns: int) -> None:
        pass

    receive = flush


class Reactor:
    """What is to be called in the next turn, as in a real reactor, is not called in this one."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []

    def callLater(self, delay: float, call: Callable[[], None]) -> None:
        assert not delay
        self.calls.append(call)

    def turn(self) -> None:
        calls, self.calls = self.calls, []
        for call in calls:
            call()


def test_what_has_time_is_done_once_in_a_turn_of_the_reactor_however_much_comes_in() -> None:
    node, reactor = Slow(), Reactor()
    driver = Driver(cast("Any", reactor), lambda _: None, lambda: None)
    driver.begin(cast("Any", node))
    for turn in range(5):
        for _ in range(3):
            driver.call(node.receive)
        assert node.works == turn
        reactor.turn()
    assert node.works == 5
    assert not reactor.calls
