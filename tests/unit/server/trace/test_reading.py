"""The latest reactions of an agent, from the files of a trace."""

import os
from pathlib import Path

import pytest

from quorate.agents import AgentId
from quorate.engine import Reaction
from quorate.replay.schema import Origin
from quorate.server.trace.reading import latest_reactions
from quorate.server.trace.writer import TraceWriter

pytest.importorskip("pyarrow.parquet")

AGENT = AgentId(0, 0, 1025)


def reaction(position: int, agent: AgentId = AGENT, error: str = "") -> Reaction:
    return Reaction(
        position=position,
        index=position,
        step=0,
        now_ns=1_700_000_000_000_000_000 + position,
        agent=agent,
        cls="bank:Account",
        kind="react",
        sender=AgentId(1, 0, 1),
        type="bank.deposit",
        payload=b"\x91\x05",
        request=7,
        error=error,
        sends=1,
        outputs=bytes(16),
        stamp=1100,
        duration_ns=1500,
    )


def write(directory: Path, life: int, *reactions: Reaction) -> None:
    """Write a file, which is later than those before."""
    writer = TraceWriter(directory, Origin("s0", 0, 0, life))
    writer.write(list(reactions))
    writer.close()
    for number, path in enumerate(sorted(directory.glob("*.parquet"), key=lambda each: int(each.name[0]))):
        os.utime(path, (1000 + number, 1000 + number))


def positions(directory: Path, limit: int = 10, **options: int) -> list[int]:
    found = latest_reactions(directory, str(AGENT), limit, **options)
    assert found is not None
    return [each.position for each in found]


def test_they_are_of_one_agent_the_latest_first(tmp_path: Path) -> None:
    other = AgentId(0, 0, 1026)
    write(tmp_path, 1, reaction(1), reaction(2, other), reaction(3, error="no money"))
    found = latest_reactions(tmp_path, str(AGENT), 10)
    assert found is not None
    assert [(each.position, each.error) for each in found] == [(3, "no money"), (1, "")]
    assert (found[0].sender, found[0].type, found[0].sends, found[0].duration_ns) == (
        "#1.0.1",
        "bank.deposit",
        1,
        1500,
    )


def test_a_later_life_may_have_the_same_reactions_again(tmp_path: Path) -> None:
    write(tmp_path, 1, reaction(1), reaction(2), reaction(3))
    write(tmp_path, 2, reaction(3), reaction(4))
    assert positions(tmp_path) == [4, 3, 2, 1]
    assert positions(tmp_path, 3) == [4, 3, 2]


def test_no_more_is_looked_through_than_it_may_be(tmp_path: Path) -> None:
    write(tmp_path, 1, reaction(1))
    write(tmp_path, 2, reaction(2))
    assert positions(tmp_path, max_bytes=1) == [2], "one file always is"


def test_a_file_that_cannot_be_read_is_passed_over(tmp_path: Path) -> None:
    write(tmp_path, 1, reaction(1))
    (tmp_path / "9-000001.parquet").write_bytes(b"no parquet")
    assert positions(tmp_path) == [1]


def test_without_a_trace_there_is_none(tmp_path: Path) -> None:
    assert latest_reactions(tmp_path / "missing", str(AGENT), 10) is None
