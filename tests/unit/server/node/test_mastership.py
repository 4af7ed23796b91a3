"""A master stops serving in time, and what its entries ask for does not leave after that."""

from types import SimpleNamespace
from typing import Any

import attrs
import pytest

from quorate.agents import (
    Agent,
    Context,
    Create,
    Note,
    Notification,
    agent_spec,
    encode,
    factory,
    outside,
    reacts,
)
from quorate.engine import Engine
from quorate.hachannel import ViewEvent
from quorate.hachannel.model.view import ViewNumber
from quorate.hachannel.protocol.observed import Standing
from quorate.server.node.factory import make_node
from quorate.server.node.mastership import Mastership
from quorate.server.node.node import Node
from quorate.server.node.outputs import NodeSettings, Output

WALL = 20_000 * 86_400_000_000_000


@attrs.frozen
class Ping(Notification):
    pass


@attrs.define
class Echo(Agent):
    pings: int = 0

    @reacts
    def ping(self, ctx: Context, note: Ping) -> None:
        self.pings += 1
        ctx.send(ctx.sender, note)


class Pair:
    """Two nodes of one cluster, without delays. `run` lets time pass."""

    def __init__(self) -> None:
        self.now = 50.0
        self.nodes = [self.node(0), self.node(1)]
        for node in self.nodes:
            node.start(self.now, WALL)
        for node in self.nodes:
            node.connected(self.now, WALL, 1 - node.me, 1)
        self.outs = [Output(), Output()]
        for _ in range(100):
            self.run(0.05)
        [self.master] = [node for node in self.nodes if node.serving]
        state = agent_spec(Echo).save(Echo())
        create = Create(f"{__name__}:Echo", "echo", state, None, "k")
        self.post(Note(factory(0), outside(0), Create.type_name, encode(create)))
        self.run(0.05)

    def node(self, me: int) -> Node:
        return make_node(me, [0, 1], server=0, names={"s0": 0}, incarnation=1, cluster="c", expected=2)

    def post(self, note: Note) -> None:
        assert self.master.post([note])
        self.master.flush(self.now, WALL)

    def run(self, seconds: float) -> None:
        self.now += seconds
        for node in self.nodes:
            node.tick(self.now, WALL)
        self.settle()

    def settle(self) -> None:
        """Exchange messages and apply entries until there is nothing to do."""
        busy = True
        while busy:
            busy = self.exchange()
            for node in self.nodes:
                busy = node.work(self.now, WALL) or busy

    def exchange(self) -> bool:
        """Carry messages, without applying what they commit. Return whether there were any."""
        sent = False
        for node in self.nodes:
            out = node.drain(self.now)
            mine = self.outs[node.me]
            mine.effects += out.effects
            mine.roles += out.roles
            for peer, message in out.messages:
                sent = True
                self.nodes[peer].receive(self.now, WALL, node.me, [message])
        return sent

    def commit_ping(self) -> None:
        """Have an entry committed that the master has still to apply."""
        assert not self.master.unapplied
        self.post(Note("echo", outside(0), Ping.type_name, encode(Ping()), 9))
        while self.exchange():
            pass
        assert self.master.unapplied

    @property
    def answers(self) -> list[int]:
        effects = self.outs[self.master.me].effects
        return [note.request for each in effects for note in each.replies if note.request]

    @property
    def serves(self) -> bool:
        return self.outs[self.master.me].roles[-1].master


def test_what_a_master_applies_while_it_holds_the_lease_leaves() -> None:
    pair = Pair()
    pair.commit_ping()
    pair.settle()
    assert pair.answers == [9]
    assert pair.serves


def test_what_a_master_applies_after_the_lease_is_over_does_not_leave() -> None:
    pair = Pair()
    pair.commit_ping()
    pair.now += 10.0
    assert pair.master.work(pair.now, WALL)
    pair.exchange()
    assert pair.answers == []
    assert not pair.serves
    # It is applied all the same.
    assert pair.master.reactions == 2


@pytest.mark.parametrize("ticked", [False, True])
def test_what_a_master_has_applied_when_the_lease_ends_does_not_leave_any_more(ticked: bool) -> None:
    pair = Pair()
    pair.commit_ping()
    assert pair.master.work(pair.now, WALL)
    # The reaction took this long, or the process was suspended after it.
    pair.now += 10.0
    if ticked:
        pair.master.tick(pair.now, WALL)
    pair.exchange()
    assert pair.answers == []
    assert not pair.serves


def test_a_master_that_lost_the_lease_in_a_reaction_that_was_skipped_names_that_reaction() -> None:
    pair = Pair()
    pair.commit_ping()
    engine = pair.master.engine
    engine.current.skips = {engine.position + 1: (engine.applied + 1, engine.birth)}
    assert pair.master.work(pair.now, WALL)
    pair.now += 10.0
    pair.exchange()
    reason = pair.outs[pair.master.me].roles[-1].reason
    assert reason.startswith("it does not hold the lease: the reaction of agent #0.0.1025 (")
    assert f"to {Ping.type_name} in entry {engine.applied} took too long; it was skipped, as the" in reason


class Serving:
    """The mastership of a replica, over a channel whose answers the test sets."""

    def __init__(self) -> None:
        self.entries: list[int] = []
        self.standing = Standing(
            role="master", master=0, leading=True, may_submit=True, lease_until=float("inf")
        )
        self.channel: Any = SimpleNamespace(
            state=SimpleNamespace(me=SimpleNamespace(replica=0)),
            standing=self.standing,
            can_submit=True,
            submit=self.submit_entry,
        )
        divergence: Any = SimpleNamespace(may_serve=True, send_outcomes=lambda: None)
        settings = NodeSettings(unsettled_s=1.5)
        self.mastership = Mastership(self.channel, Engine(0, {"s0": 0}), settings, divergence)
        self.begin_view(0)
        self.mastership.role_changes.clear()

    def submit_entry(self, now: float, stamp_ns: int, payload: bytes) -> int:
        self.entries.append(len(self.entries) + 1)
        return self.entries[-1]

    def submit(self, count: int) -> None:
        for _ in range(count):
            self.mastership.queue.add_notes([Note("x", outside(0), Ping.type_name, b"")], None)
            assert self.mastership.submit(50.0, WALL)

    def begin_view(self, index: int) -> None:
        """Begin a view of this master, whose log ends with the entry `index`."""
        self.mastership.views_waiting += 1
        self.mastership.follow_view(50.0, ViewEvent(index, ViewNumber(3, 0, 0), 0, (0, 1), False, "test"))

    def follow(self, now: float, role: Any) -> None:
        self.channel.standing = attrs.evolve(self.standing, role=role)
        self.mastership.follow_role(now, self.channel.standing)

    @property
    def changes(self) -> list[tuple[bool, str]]:
        return [(change.master, change.reason) for change in self.mastership.role_changes]


def test_a_master_whose_entries_in_flight_are_in_the_next_view_serves_on() -> None:
    serving = Serving()
    serving.submit(2)
    serving.begin_view(2)
    assert serving.mastership.serving
    assert serving.changes == []


@pytest.mark.parametrize("index", [0, 1])
def test_a_master_whose_entries_in_flight_are_lost_starts_its_services_anew(index: int) -> None:
    serving = Serving()
    serving.submit(2)
    serving.begin_view(index)
    assert serving.changes == [(False, "entries in flight were lost"), (True, "test")]
    # What its services had posted is gone with them.
    assert not serving.mastership.queue.waiting


def test_a_master_whose_entries_were_all_applied_has_none_to_lose() -> None:
    serving = Serving()
    serving.submit(2)
    for index in serving.entries:
        serving.mastership.delivered(50.0, index, WALL)
    serving.begin_view(1)
    assert serving.changes == []


@pytest.mark.parametrize("role", ["changing", "blocked"])
def test_a_master_that_cannot_commit_for_long_stops_serving(role: str) -> None:
    serving = Serving()
    serving.follow(60.0, role)
    assert serving.mastership.deadline(60.0, WALL) == 61.5
    serving.follow(61.4, role)
    assert serving.mastership.serving
    serving.follow(61.5, role)
    assert serving.changes == [(False, f"this replica was {role} for too long")]
    serving.follow(70.0, role)
    serving.follow(71.0, "master")
    assert serving.changes[1:] == [(True, "it is master and holds the lease")]


def test_short_interruptions_of_a_master_do_not_add_up() -> None:
    serving = Serving()
    for second in range(60, 70):
        serving.follow(second, "blocked")
        serving.follow(second + 0.9, "master")
    assert serving.mastership.serving
    assert serving.changes == []
    assert serving.mastership.deadline(70.0, WALL) is None
