"""Causes and effects of a notification, and the slowest chains, over two servers."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from quorate.replay import NoTrace, chain, slowest
from quorate.replay.command import command

from .two_servers import TOURS, Rows, Tour, World, write

pytestmark = pytest.mark.spark

SLOW_NS = 3_000_000_000


@pytest.fixture(scope="module")
def rows() -> Rows:
    """The fifth tour takes three seconds longer than the others on its way back."""
    found = World().rows
    place = [place for place, row in enumerate(found["s0"]) if row.link == 1][4]
    found["s0"][place:] = [
        msgspec.structs.replace(row, now_ns=row.now_ns + SLOW_NS) for row in found["s0"][place:]
    ]
    return found


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory, rows: Rows) -> Path:
    place = tmp_path_factory.mktemp("chains")
    write(place, rows)
    return place


def begun(rows: Rows) -> list[int]:
    return [row.position for row in rows["s0"] if row.type == Tour.type_name and not row.cause]


def test_a_notification_is_followed_to_all_that_it_caused(session: Any, data: Path, rows: Rows) -> None:
    found = chain(session, data, ("s0", begun(rows)[4]))
    assert [(hop.server, hop.depth) for hop in found.hops] == [("s0", 0), ("s1", 1), ("s1", 2), ("s0", 3)]
    assert found.hops[0].latency_ns is None
    assert (found.hops[3].latency_ns or 0) >= SLOW_NS - 1_000_000_000
    assert not found.more


def test_the_causes_of_a_notification_come_before_it(session: Any, data: Path, rows: Rows) -> None:
    last = [row.position for row in rows["s0"] if row.link == 1][4]
    found = chain(session, data, (0, last))
    assert [hop.depth for hop in found.hops] == [-3, -2, -1, 0]
    assert found.hops[0].position == begun(rows)[4]


def test_a_position_that_there_is_not_is_said_so(session: Any, data: Path) -> None:
    with pytest.raises(NoTrace, match="have no position 99999 of a server s0"):
        chain(session, data, ("s0", 99999))
    with pytest.raises(NoTrace, match="of a server s7"):
        chain(session, data, ("s7", 1))


def test_the_slowest_chain_is_the_one_that_was_held_up(session: Any, data: Path, rows: Rows) -> None:
    found = slowest(session, data, top=3)
    assert (found.paths[0].position, found.paths[0].hops, found.paths[0].reactions) == (begun(rows)[4], 3, 4)
    assert found.paths[0].span_ns > SLOW_NS - 1_000_000_000
    (tours,) = [each for each in found.types if each.type == Tour.type_name]
    assert (tours.chains, tours.hops) == (TOURS, 3)
    assert tours.median_ns < tours.longest_ns


def test_chains_of_a_server_alone_begin_with_what_came_over_the_link(session: Any, data: Path) -> None:
    found = slowest(session, data / "s1", top=100)
    assert {each.hops for each in found.paths if each.type == Tour.type_name} == {1}


@pytest.mark.parametrize("place", ["s0", "s0:", ":4", "s0:0", "s0:x"])
def test_a_place_that_is_none_is_wrong_usage(place: str, data: Path) -> None:
    done = CliRunner().invoke(command, ["chain", str(data), "--at", place])
    assert done.exit_code == 2
    assert "write it as s0:40000" in done.stderr


def test_the_command_prints_a_tree(data: Path, rows: Rows, tmp_path: Path) -> None:
    page = tmp_path / "chain.html"
    arguments = [
        "chain",
        str(data),
        "--at",
        f"s0:{begun(rows)[4]}",
        "--report",
        str(page),
        "--engine",
        "local",
    ]
    done = CliRunner().invoke(command, arguments)
    assert done.exit_code == 0, done.output
    assert f"\n      {Tour.type_name}" in done.stdout
    assert "<svg" in page.read_text()
