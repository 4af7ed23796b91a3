"""Digests are reckoned while a node goes on, and compared at the master."""

from collections.abc import Callable
from typing import Any, cast

import attrs
import pytest

from quorate.hachannel import DirectReceived, ViewEvent
from quorate.hachannel.model.view import ViewNumber
from quorate.hachannel.protocol.observed import Standing
from quorate.server.node import divergence
from quorate.server.node.digests import Chain, Diverged, Report, decode_direct, encode_direct
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
        self.diverged: list[float] = []
        self.reported: list[str] = []
        for number in range(agents):
            self.harness.deploy(Sum, name=f"a{number}")
        self.detector = DivergenceDetector(me, self.harness.engine, cast("Any", self), self.reported.append)
        self.detector.begin_view(0.0, VIEW)

    def disqualify(self, _now: float, _reason: str, pause_s: float) -> None:
        self.diverged.append(pause_s)

    def send_direct(self, peer: int, data: bytes) -> None:
        self.told.append((peer, decode_direct(data)))


def test_a_digest_is_complete_after_so_many_entries_though_agents_go_on_changing() -> None:
    member, twin = Member(1), Member(1)
    expected = twin.harness.engine.digest()
    member.detector.start_digest(0.0, 256)
    entries = 0
    while member.detector.running is not None:
        assert not any(isinstance(message, Report) for _, message in member.told)
        effects = member.harness.post(member.harness.note(f"a{entries % 300}", Add(1)))
        member.detector.applied(0.0, effects)
        entries += 1
    assert 50 < entries <= divergence.SHARES
    assert [each for each in member.told if isinstance(each[1], Report)] == [(0, Report(256, expected))]


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
    member.detector.begin_view(0.0, VIEW)
    assert member.detector.running is None
    assert not member.told


def pair(*wrong: int, entries: int = 3, marks: bool = True) -> tuple[Member, Member]:
    """Return a master and a slave, both of which have applied some entries, with others on the slave."""
    members = Member(0, 2), Member(1, 2)
    for member in members:
        for number in range(entries):
            value = 5 if number in wrong and member is members[1] else 1
            effects = member.harness.post(member.harness.note(f"a{number % 2}", Add(value)))
            if not marks:
                effects = attrs.evolve(effects, trace=[], marks=[])
            member.detector.applied(0.0, effects)
        member.told.clear()
    return members


def exchange(*members: Member) -> None:
    """Deliver the messages of the members to each other until there are none."""
    while any(member.told for member in members):
        for me, member in enumerate(members):
            told, member.told = member.told, []
            for peer, message in told:
                members[peer].detector.received(0.0, DirectReceived(me, encode_direct(message)))


def test_a_slave_reports_its_chain_when_nothing_follows_and_when_enough_follows() -> None:
    slave = Member(1, 2)
    slave.detector.tick(0.0)
    slave.told.clear()
    effects = slave.harness.post(slave.harness.note("a0", Add(1)))
    slave.detector.applied(5.0, effects)
    due = slave.detector.due
    assert due is not None
    slave.detector.tick(due - 0.001)
    assert not slave.told
    slave.detector.tick(due)
    assert slave.told == [(0, Chain(effects.index, slave.harness.engine.chain))]
    assert slave.detector.due is None
    slave.told.clear()
    for _ in range(divergence.CHAIN_EVERY):
        slave.detector.applied(due, slave.harness.post(slave.harness.note("a0", Add(1))))
    assert len(slave.told) == 1


def test_both_replicas_name_the_first_entry_and_agent_that_differ() -> None:
    master, slave = pair(1)
    slave.detector.tick(1.0)
    exchange(master, slave)
    [sentence] = slave.reported
    assert master.reported == [sentence]
    assert (
        "replica 1 is in another state than the others: entry 4 ended otherwise on replica 1 than" in sentence
    )
    assert "Sum" in sentence
    assert "Add with another result" in sentence
    assert (master.diverged, slave.diverged) == ([], [0.0])


def test_equal_chains_are_no_difference() -> None:
    master, slave = pair()
    slave.detector.tick(1.0)
    exchange(master, slave)
    assert (master.reported, slave.reported) == ([], [])
    assert (master.diverged, slave.diverged) == ([], [])


def test_a_chain_that_comes_before_the_master_has_applied_the_entry_is_compared_then() -> None:
    master, slave = pair(1)
    effects = slave.harness.post(slave.harness.note("a0", Add(1)))
    slave.detector.applied(0.0, effects)
    slave.detector.tick(1.0)
    exchange(master, slave)
    assert not slave.diverged
    master.detector.applied(1.0, master.harness.post(master.harness.note("a0", Add(1))))
    exchange(master, slave)
    assert slave.diverged == [0.0]


def test_a_difference_of_states_whose_reactions_were_equal_names_the_entries() -> None:
    master, slave = pair()
    slave.detector.received(0.0, DirectReceived(0, encode_direct(Diverged(1, 2, 256))))
    assert (
        "replica 1 is in another state than the others since some entry between 3 and 256"
        in slave.reported[0]
    )
    assert slave.diverged == [0.0]
    assert not master.reported


def test_the_master_names_the_entries_when_the_replica_that_differs_does_not_answer() -> None:
    master, slave = pair(1)
    slave.detector.tick(1.0)
    [(_, chain)] = slave.told
    master.detector.received(0.0, DirectReceived(1, encode_direct(chain)))
    assert not master.reported
    master.detector.begin_view(1.0, VIEW)
    assert "replica 1 is in another state than the others since some entry between" in master.reported[0]


def test_a_replica_that_differs_again_and_again_waits_longer_and_longer() -> None:
    slave = Member(1, 2)
    for now in (0.0, 1.0, 2.0, 3.0, 3.0 + divergence.CALM_S):
        slave.detector.received(now, DirectReceived(0, encode_direct(Diverged(1, 0, 1))))
    assert slave.diverged == [0.0, 1.0, 2.0, 4.0, 0.0]


def test_a_replica_that_differs_learns_of_it_before_the_views_that_wait() -> None:
    slave = Member(1, 2)
    chain = DirectReceived(0, encode_direct(Chain(2, b"")))
    assert not slave.detector.received(0.0, chain, early=True)
    assert slave.detector.received(0.0, DirectReceived(0, encode_direct(Diverged(1, 0, 1))), early=True)
    assert slave.diverged == [0.0]


def test_a_new_state_begins_a_new_history() -> None:
    master, slave = pair(1)
    slave.harness.engine.chain = master.harness.engine.chain
    slave.detector.state_installed()
    slave.detector.due = 0.0
    slave.detector.tick(1.0)
    exchange(master, slave)
    assert not slave.diverged


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
