"""A handler that takes its time: delivering gives way to the network, and changes nothing else."""

from itertools import pairwise
from typing import Any

import pytest

from quorate.hachannel import GroupLimits, NotInGroup, Settings
from quorate.testing.servers.memory_network import MemoryNet


def slow(net: MemoryNet, member: Any, seconds: float) -> None:
    """From now on the handler of this member takes so long for a message."""
    quick = member.delivered

    def delivered(index: int, origin: int, payload: bytes) -> None:
        assert member.group.position == index
        net.clock.rightNow += seconds
        quick(index, origin, payload)

    member.delivered = delivered


def test_one_pack_of_many_messages_is_delivered_in_slices(net: MemoryNet, three: list[Any]) -> None:
    slow(net, three[1], 0.005)
    turns: list[int] = []

    def turn() -> None:
        turns.append(len(three[1].log))
        net.clock.callLater(0.001, turn)

    turn()
    payloads = [b"%d" % number for number in range(1000)]
    three[1].group.multicast_many(payloads).addBoth(three[1].results.append)
    net.until(lambda: three[1].results == [1000])
    # 20 ms of the handler, for each of the connections that has something, and at the next turn.
    assert max(later - earlier for earlier, later in pairwise(turns)) <= 20
    assert three[1].log == [(index, 1, b"%d" % (index - 1)) for index in range(1, 1001)]
    assert three[0].group.members == (0, 1, 2)
    assert three[0].log == three[1].log


def test_views_keep_their_place_beside_a_slow_handler(net: MemoryNet, three: list[Any]) -> None:
    for member in three:
        member.view_changed = lambda view, log=member.log: log.append(("view", view.members))
    slow(net, three[1], 0.005)
    three[2].send(*[b"%d" % number for number in range(600)])
    net.until(lambda: len(three[1].log) > 5)
    three[0].kill()
    three[1].send(b"more")
    net.until(lambda: len(three[1].results) == 1 and len(three[2].results) == 600)
    net.advance(1)
    assert three[1].log == three[2].log
    assert ("view", (1, 2)) in three[1].log


def test_a_deferred_fires_after_all_messages_of_its_call_were_delivered(
    net: MemoryNet, three: list[Any]
) -> None:
    slow(net, three[1], 0.03)
    seen: list[tuple[int, int]] = []
    for number in range(10):
        done = three[1].group.multicast(b"%d" % number)
        done.addCallback(lambda index: seen.append((index, three[1].group.position)))
    net.until(lambda: len(seen) == 10)
    assert [index for index, _ in seen] == list(range(1, 11))
    assert all(index <= position for index, position in seen)


def test_a_state_that_is_asked_for_again_does_not_end_within_a_pack(net: MemoryNet, make: Any) -> None:
    options = {"settings": Settings(keep=0, window=16), "expected": 2}
    members = [make(me, **options) for me in range(3)]
    for member in members[:2]:
        member.join()
    net.until(lambda: all(member.group.members for member in members[:2]))
    for _ in range(200):
        members[0].send(b"before")
        net.advance(0.01)
    right = members[0].provide_state
    given: list[int] = []

    def provide() -> Any:
        given.append(len(members[0].log))
        if len(given) == 1:
            raise RuntimeError("not now")
        return right()

    members[0].provide_state = provide
    members[2].join()
    net.until(lambda: bool(given))
    slow(net, members[0], 0.01)
    members[1].group.multicast_many([b"%d" % number for number in range(1000)])
    net.until(lambda: bool(members[2].joined), limit_s=60)
    net.until(lambda: len(members[2].log) == len(members[0].log) == 1200, limit_s=60)
    assert members[2].received == 1
    assert members[2].log == members[0].log == members[1].log


def test_the_rest_of_a_pack_is_not_delivered_after_the_member_has_stopped(
    net: MemoryNet, three: list[Any]
) -> None:
    slow(net, three[1], 0.03)
    net.clock.callLater(0.2, three[1].kill)
    three[0].group.multicast_many([b"%d" % number for number in range(100)])
    net.advance(5)
    assert 0 < len(three[1].log) < 20


def test_the_deferreds_of_a_pack_fail_when_the_member_stops_within_it(
    net: MemoryNet, three: list[Any]
) -> None:
    slow(net, three[1], 0.03)
    # It does not get through with them while it may wait.
    net.clock.callLater(0.2, three[1].group.leave)
    three[1].group.multicast_many([b"%d" % number for number in range(500)]).addBoth(three[1].results.append)
    net.until(lambda: three[1].group.role == "stopped")
    assert 0 < len(three[1].log) < 500
    assert [result.type for result in three[1].results] == [NotInGroup]


@pytest.mark.parametrize("pack", [1, 1024])
def test_a_quick_handler_gets_everything_at_once(net: MemoryNet, make: Any, pack: int) -> None:
    alone = make(0, 1, limits=GroupLimits(pack_messages=pack)).join()
    net.until(lambda: alone.joined == [None])
    alone.group.multicast_many([b"%d" % number for number in range(10)]).addBoth(alone.results.append)
    net.until(lambda: alone.results == [10])


def test_callbacks_that_send_again_and_again_give_way_to_the_network(net: MemoryNet, make: Any) -> None:
    member = make(0, size=1).join()
    net.until(lambda: member.group.role == "master")
    seen: list[int] = []
    results = member.results

    def again(index: int) -> None:
        results.append(index)
        net.clock.rightNow += 0.001
        if index < 500:
            member.group.multicast(b"again").addCallback(again)

    member.group.multicast(b"first").addCallback(again)
    net.clock.callLater(0.01, lambda: seen.append(len(results)))
    net.until(lambda: len(results) == 500)
    assert seen
    assert seen[0] < 50


def test_a_forward_queue_shorter_than_the_packs_in_flight_delays_nothing(net: MemoryNet, make: Any) -> None:
    limits = GroupLimits(pack_messages=1, packs_in_flight=4)
    member = make(0, size=1, settings=Settings(forward_queue=1), limits=limits).join()
    net.until(lambda: member.group.role == "master")
    member.send(*[b"%d" % number for number in range(20)])
    net.until(lambda: len(member.results) == 20, 1.0)
