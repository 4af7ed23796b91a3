"""The audit of exactly once, on the traces of two servers, with one fault planted after the other."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from quorate.agents import Pause, factory
from quorate.agents.proxy import CLIENT_INPUT
from quorate.engine import Reaction
from quorate.replay import ExactlyOnceReport, exactly_once

from .two_servers import TOURS, Rows, Tour, World, renumbered, write

pytestmark = pytest.mark.spark


def audit(session: Any, data: Path, rows: Rows) -> ExactlyOnceReport:
    write(data, rows)
    return exactly_once(session, data)


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


def test_what_a_client_sent_is_followed_through_its_reconnections(session: Any, tmp_path: Path) -> None:
    world = World()
    client = world.client()
    client.send(1, "near", "near", "nobody@nowhere")
    client.send(2, "near", "nobody@nowhere", "near")  # it has lost the answer, and sends the last two again
    client.send(9, "near")  # what was before it was lost on the way
    client.send(5, "near")
    found = audit(session, tmp_path, world.rows)
    assert found.problems == []
    (counted,) = found.clients
    assert (counted.server, counted.connections, counted.accepted, counted.arrived) == ("s0", 1, 5, 4)
    assert (counted.again, counted.early) == (2, 1)
    assert any(note.startswith("1 notifications of clients of s0 were refused") for note in found.notes)


def test_a_notification_of_a_client_that_was_accepted_twice_is_found(session: Any, tmp_path: Path) -> None:
    world = World()
    client = world.client()
    client.send(1, "near")
    client.send(1, "near")  # a copy, after a reconnection
    client.send(2, "near")
    rows = world.rows["s0"]
    copy = [place for place, row in enumerate(rows) if row.type == CLIENT_INPUT][1]
    row = next(row for row in rows if row.sender == client.proxy and row.type == Tour.type_name)
    again = msgspec.structs.replace(
        row,
        position=rows[copy].position + 1,
        index=rows[copy].index,
        step=1,
        now_ns=rows[copy].now_ns,
        cause=rows[copy].position,
    )
    rows[copy] = msgspec.structs.replace(rows[copy], local=1)  # as if the proxy had forwarded the copy
    found = audit(session, tmp_path, {**world.rows, "s0": renumbered(rows, copy + 1, again)})
    assert found.flaws == ()
    (flaw,) = found.client_flaws
    assert (flaw.agent, flaw.type, flaw.accepted, flaw.arrived) == (str(client.proxy), Tour.type_name, 2, 3)
    assert not found.ok
