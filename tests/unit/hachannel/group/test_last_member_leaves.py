"""The last one that has what the group holds leaves while another one is getting it."""

from collections.abc import Callable
from typing import Any

import pytest

from quorate.hachannel import NotInGroup, Settings
from quorate.hachannel.group.departure import HAND_OVER_S
from quorate.testing.servers.memory_network import MemoryNet


@pytest.fixture(params=[1, 2])
def last(net: MemoryNet, make: Callable[..., Any], request: pytest.FixtureRequest) -> list[Any]:
    """Member 0 alone, after the others have left; 1 is back, and 0 gives it the state after a second.

    The parameter is `min_copies`: with 2 it is blocked meanwhile.
    """
    settings = Settings(keep=0, window=16, min_copies=request.param)
    members = [make(me, settings=settings).join() for me in range(3)]
    net.until(lambda: all(len(member.group.members) == 3 for member in members))
    alone = members[0]
    for number in range(300):
        alone.send(b"%d" % number)
        net.advance(0.005)
    for other, rest in ((2, (0, 1)), (1, (0,))):
        members[other].group.leave()
        net.until(lambda rest=rest: alone.group.members == rest)
    net.advance(0.2)
    provide = alone.provide_state

    def not_yet() -> list[bytes]:
        alone.provide_state = provide
        raise OSError("test")

    alone.provide_state = not_yet
    back = make(1, settings=settings, incarnation=2).join()
    net.until(lambda: alone.provide_state is provide)
    return [alone, back]


def test_the_last_member_waits_until_the_receiver_of_the_state_is_a_member(
    net: MemoryNet, last: list[Any]
) -> None:
    alone, back = last
    left: list[Any] = []
    alone.group.leave().addBoth(left.append)
    alone.send(b"too late")
    assert alone.results[-1].type is NotInGroup
    net.until(lambda: bool(left))
    assert back.joined == [None]
    net.until(lambda: back.group.members == (1,))
    assert back.log == alone.log
    assert len(back.log) == 300
    net.advance(0.1)
    assert alone.group.role == "stopped"


def test_the_last_member_waits_for_the_receiver_when_their_connection_breaks(
    net: MemoryNet, last: list[Any]
) -> None:
    alone, back = last
    left: list[Any] = []
    alone.group.leave().addBoth(left.append)
    for wire in list(net.wires):
        wire.break_off()
    net.cut("m0", "m1")
    net.clock.callLater(0.5, net.heal)
    net.until(lambda: bool(left))
    net.until(lambda: back.group.members == (1,))
    assert len(back.log) == 300


def test_the_last_member_leaves_after_a_limit_and_logs_what_is_lost(net: MemoryNet, last: list[Any]) -> None:
    alone, back = last
    began = net.clock.seconds()
    left: list[Any] = []
    alone.group.leave().addBoth(left.append)
    alone.provide_state = None
    net.until(lambda: bool(left))
    assert HAND_OVER_S <= net.clock.seconds() - began <= HAND_OVER_S + 1
    assert back.joined == []
    assert "leaves before another member has received the state: the state is lost" in alone.lines


def test_the_last_member_leaves_at_once_when_nobody_receives_the_state(
    net: MemoryNet, make: Callable[..., Any]
) -> None:
    alone = make(0, 1).join()
    net.until(lambda: alone.joined == [None])
    left: list[Any] = []
    alone.group.leave().addBoth(left.append)
    net.advance(0.1)
    assert left == [None]
    assert alone.lines[-1].endswith("left")
