"""The audit of exactly once, on the traces of two servers, with one fault planted after the other."""

from pathlib import Path
from typing import Any

import attrs
import msgspec
import pytest

from quorate import Agent, Context, Notification, reacts
from quorate.agents import Note, Pause, encode, factory, outside
from quorate.engine import Effects, EngineSettings, Item, NetAck, NetInput, NetPeer, Reaction
from quorate.replay import ExactlyOnceReport, exactly_once
from quorate.replay.schema import Origin
from quorate.server.trace.writer import TraceWriter
from quorate.testing.harness import Harness

pytestmark = pytest.mark.spark

SERVERS = {"s0": 0, "s1": 1}
TOURS = 20
Rows = dict[str, list[Reaction]]


@attrs.frozen
class Tour(Notification):
    way: list[str]


@attrs.define
class Station(Agent):
    @reacts
    def tour(self, ctx: Context, note: Tour) -> None:
        if note.way:
            ctx.send(note.way[0], Tour(note.way[1:]))


@attrs.define
class Restless(Agent):
    @reacts
    def tour(self, ctx: Context, note: Tour) -> None:
        ctx.send(ctx.agent, note)
        ctx.send(ctx.agent, note)


class Traced(Harness):
    """A server whose reactions are kept."""

    def __init__(self, server: int) -> None:
        self.rows: list[Reaction] = []
        super().__init__(server, SERVERS, EngineSettings(max_turn=50))

    def apply(self, *items: Item) -> Effects:
        effects = super().apply(*items)
        self.rows += effects.trace
        return effects


class World:
    """Two servers. Twenty notifications have gone from s0 to s1, from agent to agent there, and back."""

    def __init__(self) -> None:
        self.near, self.far = Traced(0), Traced(1)
        self.near.deploy(Station, name="near")
        self.near.deploy(Restless, name="restless")
        self.far.deploy(Station, name="far")
        self.near.apply(NetPeer(1, self.far.engine.birth))
        self.far.apply(NetPeer(0, self.near.engine.birth))
        for _ in range(TOURS):
            self.post("near", "far@s1", "far", "near@s0")

    def post(self, to: str, *way: str) -> None:
        tour = Tour(list(way))
        effects = self.near.post(Note(to, outside(0), tour.type_name, encode(tour)))
        source, target = self.near, self.far
        while effects.network:
            items = next(iter(effects.network.values()))
            numbered = [note for _, note in items]
            own = source.engine
            effects = target.apply(NetInput(own.server, own.birth, items[0][0], numbered))
            birth, upto = effects.net_acks[own.server]
            source.apply(NetAck(target.engine.server, target.engine.birth, upto))
            assert birth == own.birth
            source, target = target, source

    @property
    def rows(self) -> Rows:
        return {"s0": self.near.rows, "s1": self.far.rows}


def audit(session: Any, data: Path, rows: Rows) -> ExactlyOnceReport:
    for server, found in rows.items():
        writer = TraceWriter(data / server / "0" / "trace", Origin(server, SERVERS[server], 0, 5, SERVERS))
        writer.write(found)
        writer.close()
    return exactly_once(session, data)


def renumbered(rows: list[Reaction], place: int, row: Reaction | None) -> list[Reaction]:
    """Put a row before another one, or leave that one out, as if the server had done so: without a hole."""
    position = rows[place].position
    by = -1 if row is None else 1

    def moved(each: Reaction) -> Reaction:
        later = each.cause >= position if row is not None else each.cause > position
        here = each.sender.host == rows[place].agent.host
        cause = each.cause + by if later and here else each.cause
        return msgspec.structs.replace(each, position=each.position + by, cause=cause)

    rest = rows[place:] if row is not None else rows[place + 1 :]
    return [*rows[:place], *([] if row is None else [row]), *map(moved, rest)]


def tours(rows: list[Reaction]) -> list[int]:
    return [place for place, row in enumerate(rows) if row.type == Tour.type_name]


def test_what_two_servers_send_each_other_is_followed(session: Any, tmp_path: Path) -> None:
    found = audit(session, tmp_path, World().rows)
    assert found.problems == []
    counted = [(each.server, each.target, each.sent, each.arrived) for each in found.accounts]
    assert counted == [("s0", "s1", TOURS, TOURS), ("s1", "s0", TOURS, TOURS), ("s1", "s1", TOURS, TOURS)]


def test_a_notification_that_was_lost_within_a_server_is_found(session: Any, tmp_path: Path) -> None:
    rows = World().rows
    lost = tours(rows["s1"])[11]
    cause = rows["s1"][lost].cause
    assert cause == rows["s1"][lost - 1].position
    rows["s1"] = renumbered(rows["s1"], lost, None)
    # What the lost one would have sent is gone with it: its row in s0 has lost its cause.
    (flaw, *_) = audit(session, tmp_path, rows).flaws
    assert (flaw.server, flaw.position, flaw.target, flaw.sent, flaw.arrived) == ("s1", cause, "s1", 1, 0)


def test_a_notification_that_was_lost_between_servers_is_found(session: Any, tmp_path: Path) -> None:
    rows = World().rows
    arrived = [place for place, row in enumerate(rows["s0"]) if row.link == 1]
    lost = rows["s0"][arrived[7]]
    rows["s0"] = renumbered(rows["s0"], arrived[7], None)
    flaws = audit(session, tmp_path, rows).flaws
    assert ("s1", lost.cause, "s0", 1, 0) in [
        (each.server, each.position, each.target, each.sent, each.arrived) for each in flaws
    ]


def test_a_notification_that_came_twice_is_found(session: Any, tmp_path: Path) -> None:
    rows = World().rows
    place = [place for place, row in enumerate(rows["s0"]) if row.link == 1][7]
    again = rows["s0"][place]
    second = msgspec.structs.replace(again, position=again.position + 1, index=again.index + 1)
    rows["s0"] = renumbered(rows["s0"], place + 1, second)
    found = audit(session, tmp_path, rows)
    assert f"number {again.number}" in found.twice[0]
    assert [(each.sent, each.arrived) for each in found.flaws if each.position == again.cause] == [(1, 2)]


def test_what_waits_for_a_paused_agent_or_is_under_way_is_no_fault(session: Any, tmp_path: Path) -> None:
    world = World()
    world.far.send(factory(1), Pause("far"))
    world.post("near", "far@s1")
    world.post("near", "far@s1")
    found = audit(session, tmp_path, world.rows)
    assert found.problems == []
    assert sum(each.under_way + each.waiting for each in found.accounts) == 2
    assert len(found.notes) >= 1


def test_what_a_runaway_turn_drops_is_no_fault(session: Any, tmp_path: Path) -> None:
    world = World()
    world.post("restless")
    world.post("near")
    assert any(row.kind == "deadletter" for row in world.near.rows)
    assert audit(session, tmp_path, world.rows).problems == []


def test_a_server_whose_trace_was_not_given_is_named(session: Any, tmp_path: Path) -> None:
    found = audit(session, tmp_path, {"s1": World().rows["s1"]})
    assert found.problems == []
    assert f"{TOURS} notifications came to s1 from server 0, whose trace was not given" in found.notes
