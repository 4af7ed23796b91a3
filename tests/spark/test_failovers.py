"""The report of failovers, from events and rows that were written as a server writes them."""

import json
from pathlib import Path
from typing import Any

import pytest

from quorate.agents import AgentId
from quorate.engine import Reaction
from quorate.replay import FailoverReport, failovers
from quorate.replay.schema import EVENTS_SUFFIX, Origin
from quorate.server.trace.writer import TraceWriter

pytestmark = pytest.mark.spark

SECOND_NS = 1_000_000_000
BEGIN_NS = 1_700_000_000 * SECOND_NS


def row(position: int, at_s: float) -> Reaction:
    agent = AgentId(0, 0, 1025)
    at_ns = BEGIN_NS + round(at_s * SECOND_NS)
    return Reaction(
        position, position, 0, at_ns, agent, "m:C", "react", agent, "m:T", b"\x80", 0, "", 0, b"", 1
    )


ROWS = [*(row(position, position / 10) for position in range(1, 51)), row(51, 7.5), row(52, 7.6)]
"""Fifty entries in five seconds, then none for two and a half."""


def view(number: str, at_s: float, index: int, master: int) -> dict[str, Any]:
    at_ns = BEGIN_NS + round(at_s * SECOND_NS)
    members = [master, 1 - master]
    return {
        **{"event": "view", "view": number, "at_ns": at_ns, "index": index},
        **{"master": master, "members": members, "reason": "master 0 is suspected"},
    }


def write(data: Path, replica: int, *events: dict[str, Any]) -> Path:
    directory = data / "s0" / str(replica) / "trace"
    writer = TraceWriter(directory, Origin("s0", 0, replica, 5))
    for event in events:
        writer.event(event)
    writer.write(ROWS)
    writer.close()
    return directory / f"5{EVENTS_SUFFIX}"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    write(tmp_path, 0, view("1.0", 0, 0, 0), view("10.1", 9, 52, 1))
    served = {"event": "master", "at_ns": BEGIN_NS + 7 * SECOND_NS, "reason": "it holds the lease"}
    write(tmp_path, 1, view("1.0", 0, 0, 0), view("9.1", 6.5, 50, 1), served, view("10.1", 9, 52, 1))
    return tmp_path


def times(found: FailoverReport) -> list[tuple[str, int, int, float | None, float | None]]:
    return [
        (each.view, each.former, each.master, each.silence_s, each.takeover_s) for each in found.failovers
    ]


def test_a_change_of_the_master_has_its_silence_and_its_takeover(session: Any, data: Path) -> None:
    found = failovers(session, data)
    assert (found.problems, found.notes) == ((), ())
    # The view 10.1 has the same master as the one before.
    assert times(found) == [("9.1", 0, 1, 2.5, 2.0)]


def test_a_damaged_file_of_events_is_named_and_the_rest_is_used(session: Any, data: Path) -> None:
    events = data / "s0" / "0" / "trace" / f"5{EVENTS_SUFFIX}"
    events.write_text("garbage\n" + json.dumps({"event": "view"}) + "\n" + events.read_text() + '{"eve')
    found = failovers(session, data)
    assert found.problems == (f"{events}: line 1 is no event", f"{events}: line 2 is no event")
    assert len(found.failovers) == 1


def test_a_server_without_events_is_a_note(session: Any, data: Path) -> None:
    for path in data.rglob(f"*{EVENTS_SUFFIX}"):
        path.unlink()
    found = failovers(session, data)
    assert (found.ok, found.failovers) == (True, ())
    assert found.notes[0].startswith("s0: no file of events")
