"""Snapshots of agents in traces: replays that begin in the middle, and states that are compared."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from quorate.agents import Create, Note, Notification, encode, factory, outside
from quorate.engine import Engine, Posts, Reaction, encode_batch
from quorate.replay import regress, rerun, state_at
from quorate.replay.schema import Origin
from quorate.server.trace.writer import TraceWriter

pytestmark = pytest.mark.spark

CODE = """
import attrs
from quorate import Agent, Context, Notification, Rows, reacts

@attrs.frozen
class Add(Notification):
    amount: int

@attrs.define
class Silent(Agent):
    total: int = 0

    @reacts
    def add(self, ctx: Context, note: Add) -> None:
        self.total += note.amount

@attrs.define
class Large(Agent):
    notes: list[str] = attrs.field(factory=list)

    @reacts
    def add(self, ctx: Context, note: Add) -> None:
        self.notes.append(f"{note.amount:100}")

@attrs.define
class Ledger(Agent):
    total: int = 0
    rows: Rows[int, int] = attrs.field(factory=Rows[int, int])

    @reacts
    def add(self, ctx: Context, note: Add) -> None:
        self.total += note.amount
        self.rows[len(self.rows)] = note.amount
"""
SERVERS = {"s0": 0}
COUNT = 400


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Reaction]]:
    """Three agents that answer nothing; each gets 0, 1, 2 and so on."""
    place = tmp_path_factory.mktemp("code")
    (place / "silent_agents.py").write_text(CODE)
    sys.path.insert(0, str(place))
    try:
        from importlib import import_module

        module: Any = import_module("silent_agents")
        engine = Engine(0, SERVERS)
        found: list[Reaction] = []

        def post(to: Any, *notes: Notification) -> None:
            posts = Posts([Note(to, outside(0), note.type_name, encode(note)) for note in notes])
            found.extend(
                engine.apply(engine.applied + 1, 10**18 + engine.applied, encode_batch([posts])).trace
            )

        for name in ("Silent", "Large", "Ledger"):
            post(factory(0), Create(f"silent_agents:{name}", name=name))
        for amount in range(COUNT):
            for name in ("Silent", "Large", "Ledger"):
                post(name, module.Add(amount))
        yield found
    finally:
        sys.path.remove(str(place))
        sys.modules.pop("silent_agents", None)


def store(data: Path, rows: list[Reaction]) -> None:
    writer = TraceWriter(data / "s0" / "0" / "trace", Origin("s0", 0, 0, 1, SERVERS))
    writer.write(rows)
    writer.close()


def ident(rows: list[Reaction], cls: str) -> str:
    return next(str(one.agent) for one in rows if one.cls == f"silent_agents:{cls}")


def test_snapshots_take_no_more_room_than_what_agents_get(recorded: list[Reaction]) -> None:
    own = {
        cls: [one for one in recorded if one.cls == f"silent_agents:{cls}" and one.kind == "react"]
        for cls in ("Silent", "Large", "Ledger")
    }
    assert [place for place, one in enumerate(own["Silent"], 1) if one.state] == [64, 128, 192, 256, 320, 384]
    large = [one for one in own["Large"] if one.state]
    assert 3 < len(large) < COUNT / 10
    assert not any(one.state for one in own["Ledger"])


def test_agents_are_run_again_from_a_snapshot_if_the_beginning_is_gone(
    session: Any, recorded: list[Reaction], tmp_path: Path
) -> None:
    store(tmp_path, recorded[COUNT:])
    result = rerun(session, tmp_path)
    silent, large, ledger = (result.agent(ident(recorded, cls)) for cls in ("Silent", "Large", "Ledger"))
    assert silent.state == {"total": sum(range(COUNT))}
    assert large.state == {"notes": [f"{amount:100}" for amount in range(COUNT)]}
    assert silent.begins is not None
    assert silent.begins > silent.first
    assert "before the trace begins, which has no snapshot of it" in ledger.skipped
    assert [note for note in result.notes if "run again from its snapshot" in note]
    assert result.problems == [
        f"s0: agent {ledger.agent} (silent_agents:Ledger) not run again: it was created before the trace "
        "begins, which has no snapshot of it"
    ]


def test_the_state_at_a_position_begins_with_the_last_snapshot(
    session: Any, recorded: list[Reaction], tmp_path: Path
) -> None:
    store(tmp_path, recorded)
    agent = ident(recorded, "Silent")
    rows = [one for one in recorded if str(one.agent) == agent and one.kind == "react"]
    for count, reactions in ((200, 200 - 192), (192, 0), (63, 63)):
        found = state_at(session, tmp_path, agent, rows[count - 1].position)
        assert (found.state, found.reactions) == ({"total": sum(range(count))}, reactions)


def test_a_state_that_is_another_one_is_told_though_nothing_was_sent(
    session: Any, recorded: list[Reaction], tmp_path: Path
) -> None:
    agent = ident(recorded, "Silent")
    snapshots = [one for one in recorded if str(one.agent) == agent and one.kind == "react" and one.state]
    planted = snapshots[2]
    location, name, state = msgspec.msgpack.decode(planted.state)
    other = {**msgspec.msgpack.decode(state), "total": -1}
    wrong = msgspec.msgpack.encode([location, name, msgspec.msgpack.encode(other)])
    rows = [msgspec.structs.replace(one, state=wrong) if one is planted else one for one in recorded]
    store(tmp_path, rows)
    (problem,) = rerun(session, tmp_path).problems
    assert (
        f"agent {agent} (silent_agents:Silent) does something else at position {planted.position}" in problem
    )
    assert f"total is {sum(range(192))}; the trace has: -1" in problem


def test_new_code_with_another_attribute_is_compared_by_those_that_both_have(
    session: Any, recorded: list[Reaction], tmp_path: Path
) -> None:
    store(tmp_path / "data", recorded)
    new = tmp_path / "new"
    new.mkdir()
    (new / "silent_agents.py").write_text(
        CODE.replace("total: int = 0\n\n", "total: int = 0\n    more: int = 7\n\n", 1)
    )
    found = regress(session, tmp_path / "data", [str(new)])
    assert [change.different for change in found.changes] == [0]
    assert found.changes[0].state == {"more": (None, 7)}
