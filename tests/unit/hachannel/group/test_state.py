"""The state of a group on its way to a member that joins, and handlers that cannot give or take one."""

from collections.abc import Callable
from typing import Any

import pytest

from quorate.testing.servers.memory_network import MemoryNet


def test_a_large_state_is_cut_and_arrives_whole(net: MemoryNet, past: list[Any]) -> None:
    state = bytes(range(256)) * 10_000
    got: list[bytes] = []
    past[0].provide_state = lambda: state
    past[2].receive_state = got.extend
    past[2].join()
    net.until(lambda: past[2].joined == [None])
    assert b"".join(got) == state


def test_many_small_items_of_a_state_take_few_trips(net: MemoryNet, past: list[Any]) -> None:
    state = [b"item %d" % number for number in range(10_000)]
    got: list[bytes] = []
    past[0].provide_state = lambda: state
    past[2].receive_state = got.extend
    begin = net.clock.seconds()
    past[2].join()
    net.until(lambda: past[2].joined == [None])
    assert got == state
    assert net.clock.seconds() - begin < 2


class Bytes(bytes):
    """Only bytes themselves can be sent in every case."""


@pytest.mark.parametrize(
    "state",
    [
        None,
        7,
        "text",
        ["text"],
        Bytes(b"x"),
        [b"x", Bytes(b"x")],
        bytearray(9),
        memoryview(b"9"),
        {b"a": b"b"},
    ],
)
def test_a_provider_that_fails_once_is_asked_again(net: MemoryNet, past: list[Any], state: Any) -> None:
    right: Callable[[], Any] = past[0].provide_state

    def broken() -> Any:
        past[0].provide_state = right
        return state

    past[0].provide_state = broken
    past[2].join()
    net.until(lambda: past[2].joined == [None], limit_s=60)
    assert past[2].received == 1
    assert past[2].log == past[0].log
    assert any("provide_state of the handler returned" in line for line in past[0].lines)


def test_a_provider_that_fails_is_not_asked_again_when_nobody_joins(
    net: MemoryNet, past: list[Any], again: Any
) -> None:
    asked: list[float] = []

    def broken() -> Any:
        asked.append(net.clock.seconds())
        raise ValueError("not today")

    past[0].provide_state = broken
    joiner = past[2].join()
    for _ in range(4):
        net.advance(2.5)
        joiner.kill()
        net.advance(0.5)
        joiner = again(2)
    net.advance(5)
    last_s = [asked_s for asked_s in asked if asked_s > net.clock.seconds() - 3.5]
    assert 3 <= len(last_s) <= 4
    joiner.kill()
    net.advance(2)
    count = len(asked)
    net.advance(5)
    assert len(asked) == count
