"""The agents that do most, in a trace in which one of them does."""

from typing import Any

import pytest

from quorate.agents import AgentId
from quorate.engine import Reaction
from quorate.replay import HotReport, hot
from quorate.replay.schema import Origin
from quorate.server.trace.writer import TraceWriter

pytestmark = pytest.mark.spark

SECOND_NS = 1_000_000_000
BEGIN_NS = 1_700_000_000 * SECOND_NS
ENTRIES = 100


def row(position: int, index: int, agent: int, duration_ns: int, **changes: Any) -> Reaction:
    who = AgentId(0, 0, agent)
    at_ns = BEGIN_NS + index * SECOND_NS // 10
    fields: dict[str, Any] = {"kind": "react", "error": "", **changes}
    return Reaction(
        position=position,
        index=index,
        step=0,
        now_ns=at_ns,
        agent=who,
        cls="m:C",
        sender=who,
        type="m:T",
        payload=b"\x80",
        request=0,
        sends=0,
        outputs=b"",
        stamp=1,
        duration_ns=duration_ns,
        **fields,
    )


@pytest.fixture(scope="module")
def found(session: Any, tmp_path_factory: pytest.TempPathFactory) -> HotReport:
    """Ten entries a second; agent 1026 takes long, 1027 reacts often, and the entry 55 is a large one."""
    rows: list[Reaction] = []
    for index in range(1, ENTRIES + 1):
        agents = [(1025, 1000), (1027, 10), (1027, 10)]
        if index == 55:
            agents += [(1026, 500_000_000), (1026, 300_000_000)]
        for agent, duration_ns in agents:
            rows.append(row(len(rows) + 1, index, agent, duration_ns))
    rows.append(row(len(rows) + 1, ENTRIES, 1027, 0, error="ValueError: no"))
    rows.append(row(len(rows) + 1, ENTRIES, 9999, 0, kind="deadletter"))
    data = tmp_path_factory.mktemp("hot")
    for replica in (0, 1):
        writer = TraceWriter(data / "s0" / str(replica) / "trace", Origin("s0", 0, replica, 5))
        writer.write(rows)
        writer.close()
    return hot(session, data, top=2)


def test_the_agents_that_took_longest_come_first_whatever_the_count_of_replicas(found: HotReport) -> None:
    slow, steady = found.agents
    assert (slow.agent, slow.reactions, slow.busy_ns, slow.longest_ns) == (
        "#0.0.1026",
        2,
        800_000_000,
        500_000_000,
    )
    assert (steady.agent, steady.reactions, steady.errors) == ("#0.0.1025", ENTRIES, 0)


def test_a_server_has_the_room_of_its_busiest_second(found: HotReport) -> None:
    (load,) = found.loads
    assert load.reactions == 3 * ENTRIES + 4
    assert load.largest_entry == 5
    assert load.headroom == pytest.approx(0.2, abs=0.001)


def test_the_time_is_divided_into_parts_of_a_second_or_more(found: HotReport) -> None:
    assert sum(each.reactions for each in found.timeline) == 3 * ENTRIES + 4
    assert {each.width_ns for each in found.timeline} == {1_000_000_000}
    assert [each.at_ns for each in found.timeline] == sorted({each.at_ns for each in found.timeline})
    assert max(each.largest_entry for each in found.timeline) == 5
