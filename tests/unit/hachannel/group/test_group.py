from typing import Any

import pytest
from twisted.internet.error import CannotListenError
from twisted.python.failure import Failure

from quorate.hachannel import Group, GroupError, GroupLimits, NotInGroup, QueueFull, Settings
from quorate.hachannel.model.errors import PayloadTooLarge
from quorate.testing.servers.memory_network import MemoryNet


def failed(result: Any) -> type[Exception]:
    assert isinstance(result, Failure)
    return type(result.value)


def numbered(member: int, first: int, last: int) -> list[bytes]:
    return [b"%d:%d" % (member, number) for number in range(first, last + 1)]


def test_members_found_a_group_and_its_first_view_ends_the_join(three: list[Any]) -> None:
    assert [member.joined for member in three] == [[None], [None], [None]]
    assert [member.group.role for member in three] == ["master", "slave", "slave"]
    assert [member.group.master for member in three] == [0, 0, 0]
    assert three[1].group.view.first_time
    assert three[2].group.members[0] == 0


def test_every_member_sends_and_all_get_one_order(net: MemoryNet, three: list[Any]) -> None:
    for round in range(5):
        for me, member in enumerate(three):
            member.send(*numbered(me, round * 10 + 1, round * 10 + 10))
        net.advance(0.01)
    net.advance(1)
    assert [len(member.log) for member in three] == [150, 150, 150]
    assert three[0].log == three[1].log == three[2].log
    assert [index for index, _, _ in three[0].log] == list(range(1, 151))
    for me in range(3):
        assert [payload for _, origin, payload in three[0].log if origin == me] == numbered(me, 1, 50)


def test_the_caller_learns_the_index_of_its_message(net: MemoryNet, three: list[Any]) -> None:
    for member in three:
        member.send(b"one", b"two")
        member.group.multicast_many([b"three", b"four"]).addBoth(member.results.append)
    net.advance(1)
    for member in three:
        indices = {payload: index for index, origin, payload in member.log if origin == member.me}
        assert member.results == [indices[b"one"], indices[b"two"], indices[b"four"]]


def test_messages_of_one_turn_share_entries(net: MemoryNet, three: list[Any]) -> None:
    three[0].send(*numbered(0, 1, 500))
    net.advance(1)
    assert three[0].results == list(range(1, 501))
    assert three[0].group._channel.last < 10


def test_a_call_larger_than_an_entry_is_split_and_fires_once(net: MemoryNet, make: Any) -> None:
    limits = GroupLimits(pack_messages=7, pack_bytes=40, packs_in_flight=2)
    members = [make(me, limits=limits).join() for me in range(3)]
    net.until(lambda: all(member.group.members for member in members))
    payloads = [b"x" * (number % 60) for number in range(100)]
    members[1].group.multicast_many(payloads).addBoth(members[1].results.append)
    net.until(lambda: len(members[1].log) == 100)
    assert [payload for _, _, payload in members[1].log] == payloads
    net.advance(0.1)
    assert members[1].results == [100]


@pytest.mark.parametrize("after_ms", range(0, 40, 4))
def test_a_master_that_dies_costs_no_message_of_the_others(
    net: MemoryNet, three: list[Any], after_ms: int
) -> None:
    def feed(number: int = 1) -> None:
        if number <= 60:
            for me, member in enumerate(three):
                member.send(b"%d:%d" % (me, number))
            net.clock.callLater(0.001, feed, number + 1)

    feed()
    net.advance(0.002 + after_ms / 1000, step_s=0.001)
    three[0].kill()
    confirmed = [result for result in three[0].results if isinstance(result, int)]
    net.until(lambda: all(len(three[me].results) == 60 for me in (1, 2)))
    net.advance(0.2)
    one, two = three[1].log, three[2].log
    assert one == two
    assert [index for index, _, _ in one] == list(range(1, len(one) + 1))
    for me in (1, 2):
        assert [payload for _, origin, payload in one if origin == me] == numbered(me, 1, 60)
    of_the_dead = [payload for _, origin, payload in one if origin == 0]
    assert of_the_dead == numbered(0, 1, len(of_the_dead))
    assert len(of_the_dead) >= len(confirmed)
    assert three[0].log == one[: len(three[0].log)]


def test_views_come_between_the_same_messages(net: MemoryNet, make: Any) -> None:
    members = [make(me) for me in range(3)]
    for member in members:
        member.view_changed = lambda view, log=member.log: log.append(("view", view.members))
        member.join()
    net.until(lambda: all(member.joined for member in members))
    for member in members:
        member.send(b"a", b"b")
    net.advance(0.0015, step_s=0.0005)
    members[0].kill()
    members[1].send(b"c")
    net.until(lambda: len(members[1].results) == 3)
    net.advance(0.5)
    assert members[1].log == members[2].log
    assert ("view", (1, 2)) in members[1].log


def test_a_message_waits_until_there_is_a_master(net: MemoryNet, three: list[Any]) -> None:
    three[0].kill()
    three[2].send(b"early")
    assert three[2].results == []
    net.until(lambda: three[2].results == [1])
    assert three[1].log == [(1, 2, b"early")]


def test_a_connection_that_breaks_loses_no_message(net: MemoryNet, three: list[Any]) -> None:
    for number in range(1, 31):
        three[1].send(b"1:%d" % number)
        net.advance(0.003, step_s=0.001)
        if number % 7 == 0:
            for wire in list(net.wires):
                if {wire.near.name, wire.far.name} == {"m0", "m1"}:
                    wire.break_off()
    net.until(lambda: len(three[1].results) == 30)
    net.advance(0.5)
    assert [payload for _, _, payload in three[0].log] == numbered(1, 1, 30)
    assert three[0].log == three[1].log == three[2].log


def test_what_a_member_sends_while_it_is_cut_off_is_delivered_once_later(
    net: MemoryNet, three: list[Any]
) -> None:
    """Scenario 3, ResendingVersusNew of JGroups: what is sent again comes before what is new."""
    three[2].send(b"before")
    net.advance(0.2)
    net.cut("m2", "m0")
    net.cut("m2", "m1")
    three[2].send(b"lost at first", b"too")
    three[0].send(b"meanwhile")
    net.until(lambda: three[0].results == [2])
    assert three[2].group.members == (0, 1, 2)
    net.heal()
    net.until(lambda: len(three[2].results) == 3)
    net.advance(0.5)
    assert [payload for _, _, payload in three[2].log] == [b"before", b"meanwhile", b"lost at first", b"too"]
    assert three[0].log == three[1].log == three[2].log


def test_a_master_that_was_cut_off_delivers_nothing_of_its_own(net: MemoryNet, three: list[Any]) -> None:
    net.cut("m0", "m1")
    net.cut("m0", "m2")
    three[0].send(b"alone")
    three[1].send(b"together")
    net.until(lambda: three[1].results == [1])
    assert three[0].log == []
    assert three[0].results == []
    net.heal()
    net.until(lambda: three[0].results == [2])
    net.advance(0.5)
    assert three[0].log == [(1, 1, b"together"), (2, 0, b"alone")]
    assert three[0].log == three[1].log == three[2].log


def test_a_late_member_receives_the_state(net: MemoryNet, past: list[Any]) -> None:
    members = past
    late = members[2].join()
    late.send(b"early")
    net.until(lambda: late.joined == [None])
    assert late.received == 1
    late.send(b"me too")
    net.until(lambda: late.results == [201, 202])
    net.advance(0.2)
    assert late.log == members[0].log == members[1].log


def test_a_member_that_missed_little_gets_the_messages_instead(net: MemoryNet, make: Any) -> None:
    members = [make(me, expected=2) for me in range(3)]
    for member in members[:2]:
        member.join()
    net.until(lambda: all(member.group.members for member in members[:2]))
    members[1].send(*numbered(1, 1, 20))
    net.advance(0.5)
    members[2].join()
    net.until(lambda: members[2].joined == [None])
    assert members[2].received == 0
    assert members[2].log == members[1].log


def test_a_killed_member_comes_back_and_counts_its_packs_from_one(
    net: MemoryNet, three: list[Any], again: Any
) -> None:
    three[2].send(*numbered(2, 1, 5))
    net.advance(0.5)
    three[2].kill()
    net.advance(3)
    back = again(2)
    net.until(lambda: back.joined == [None])
    back.send(b"again")
    net.until(lambda: back.results == [6])
    net.advance(0.2)
    assert back.log == three[0].log == three[1].log


def test_leaving_is_quick_and_fails_the_deferreds_that_wait(net: MemoryNet, three: list[Any]) -> None:
    left: list[Any] = []
    net.cut("m0", "m1")
    net.cut("m0", "m2")
    three[0].send(b"never")
    net.heal()
    three[0].group.leave().addBoth(left.append)
    net.until(lambda: left == [None])
    assert three[0].group.role == "stopped"
    assert failed(three[0].results[0]) is NotInGroup
    net.until(lambda: three[1].group.members == (1, 2))
    three[1].send(b"on")
    net.until(lambda: bool(three[1].results))
    again: list[Any] = []
    three[0].group.leave().addBoth(again.append)
    assert again == [None]


def test_a_member_that_left_has_no_calls_in_the_reactor(net: MemoryNet, three: list[Any]) -> None:
    for member in three:
        member.group.leave()
    net.until(lambda: all(member.group.role == "stopped" for member in three))
    net.advance(0.1)
    assert net.clock.getDelayedCalls() == []


def test_a_member_outside_cannot_send(net: MemoryNet, make: Any, three: list[Any]) -> None:
    outsider = make(1)
    outsider.send(b"x")
    assert failed(outsider.results[0]) is NotInGroup
    three[1].group.leave()
    net.advance(2)
    three[1].send(b"y")
    assert failed(three[1].results[-1]) is NotInGroup
    left: list[Any] = []
    outsider.group.leave().addBoth(left.append)
    assert left == [None]


def test_a_port_that_is_taken_fails_the_join_in_one_sentence(
    net: MemoryNet, make: Any, three: list[Any]
) -> None:
    double = make(1).join()
    assert failed(double.joined[0]) is GroupError
    assert "port 100 cannot be listened on" in str(double.joined[0].value)
    assert not isinstance(double.joined[0].value, CannotListenError)
    assert (double.group.role, double.group.stopped.called) == ("stopped", True)
    twice: list[Any] = []
    three[0].group.join().addBoth(twice.append)
    assert failed(twice[0]) is GroupError


def test_contradictions_are_refused_when_the_group_is_made(make: Any) -> None:
    with pytest.raises(ValueError, match="member 7 has no address"):
        make(7)
    with pytest.raises(ValueError, match="more than half"):
        make(0, expected=1)
    with pytest.raises(ValueError, match="at least 1"):
        GroupLimits(pack_messages=0)
    with pytest.raises(ValueError, match="at most 16"):
        GroupLimits(packs_in_flight=17)


def test_messages_above_the_queue_limits_are_refused_and_the_rest_is_delivered(
    net: MemoryNet, make: Any
) -> None:
    limits = GroupLimits(queue_messages=10, queue_bytes=1000)
    members = [make(me, limits=limits).join() for me in range(3)]
    net.until(lambda: all(member.group.members for member in members))
    slave = members[1]
    members[0].kill()
    slave.send(*numbered(1, 1, 4))
    assert slave.group.accepting
    slave.send(*numbered(1, 5, 16))
    assert not slave.group.accepting
    assert failed(slave.results[0]) is QueueFull
    taken = 16 - len(slave.results)
    assert taken >= 10
    net.until(lambda: len(slave.results) == 16)
    assert slave.group.accepting
    assert [payload for _, _, payload in slave.log] == numbered(1, 1, taken)
    slave.send(b"x" * 1001)
    assert failed(slave.results[-1]) is QueueFull


def test_a_message_that_is_too_large_is_refused(make: Any, net: MemoryNet) -> None:
    members = [make(me, settings=Settings(max_payload_bytes=1000)).join() for me in range(3)]
    net.until(lambda: all(member.group.members for member in members))
    members[0].send(b"x" * 937, b"x" * 936)
    assert failed(members[0].results[0]) is PayloadTooLarge
    net.until(lambda: members[0].results[1:] == [1])
    members[0].group.multicast_many([]).addBoth(members[0].results.append)
    assert failed(members[0].results[-1]) is ValueError


def test_in_the_mode_all_every_message_waits_for_all_members(net: MemoryNet, three: list[Any]) -> None:
    results: list[Any] = []
    three[1].group.multicast(b"x", all_members=True).addBoth(results.append)
    net.until(lambda: results == [1])


@pytest.mark.parametrize("sender", [0, 1])
def test_a_message_in_the_mode_majority_waits_for_all_members_if_asked_to(
    net: MemoryNet, make: Any, sender: int
) -> None:
    members = [make(me, settings=Settings(mode="MAJORITY")).join() for me in range(3)]
    net.until(lambda: all(len(member.group.members) == 3 for member in members))
    group = members[sender].group
    results: list[Any] = []
    group.multicast(b"first", all_members=True).addBoth(results.append)
    net.until(lambda: results == [1])
    net.cut("m2", "m0")
    net.cut("m2", "m1")
    group.multicast(b"all", all_members=True).addBoth(results.append)
    group.multicast(b"most").addBoth(results.append)
    net.until(lambda: results == [1, 3])
    # Member 2 is gone from the next view: all of that have it.
    net.until(lambda: results == [1, 3, 2])
    assert members[0].group.members == (0, 1)
    group.multicast(b"pending", all_members=True).addBoth(results.append)
    members[sender].kill()
    assert failed(results[-1]) is NotInGroup


def test_members_of_another_group_are_turned_away(net: MemoryNet) -> None:
    class Nothing:
        def delivered(self, index: int, origin: int, payload: bytes) -> None: ...
        def view_changed(self, view: Any) -> None: ...
        def provide_state(self) -> bytes:
            return b""

        def receive_state(self, chunks: list[bytes]) -> None: ...

    lines: list[str] = []
    addresses = {0: ("m0", 100), 1: ("m1", 100)}
    for me, name in enumerate(["red", "blue"]):
        group = Group(name, me, addresses, handler=Nothing(), reactor=net.machine(f"m{me}"), log=lines.append)
        group.join()
    net.advance(5)
    assert any("turned away: it is a member of another group" in line for line in lines)
    assert len([line for line in lines if "turned away" in line]) <= 40


def test_a_stranger_that_says_nothing_or_nonsense_is_dropped(net: MemoryNet, three: list[Any]) -> None:
    from twisted.internet.protocol import ClientFactory, Protocol

    protocols: list[Protocol] = []

    class Talker(Protocol):
        def connectionMade(self) -> None:
            protocols.append(self)
            if len(protocols) > 1:
                self.transport.write(b"\x00\x00\x00\x03nonsense")

        def connectionLost(self, reason: Any = None) -> None:
            protocols.remove(self)

    factory = ClientFactory.forProtocol(Talker)
    stranger = net.machine("m9")
    stranger.connectTCP("m0", 100, factory)
    stranger.connectTCP("m0", 100, factory)
    net.advance(0.1)
    assert len(protocols) == 1
    net.advance(10)
    assert protocols == []
    assert any("turned away" in line for line in three[0].lines)
    assert three[0].group.role == "master"


@pytest.mark.parametrize("usable", [True, False])
def test_messages_that_were_delivered_while_a_member_was_away_still_fire(
    net: MemoryNet, make: Any, usable: bool
) -> None:
    options = {
        "limits": GroupLimits(pack_messages=1),
        "expected": 2,
        "settings": Settings(keep=0, window=16, suspect_s=1.0),
    }
    members = [make(me, **options).join() for me in range(3)]
    net.until(lambda: all(len(member.group.members) == 3 for member in members))
    members[2].send(b"on its way")
    # The master has it, but its answer does not come back.
    net.advance(0.0015, step_s=0.0005)
    net.cut("m2", "m0")
    net.cut("m2", "m1")
    members[0].send(*numbered(0, 1, 200))
    net.until(lambda: len(members[0].results) == 200)
    net.advance(1)
    assert members[2].results == []
    if not usable:
        members[2].receive_state = None
        members[2].group.stopped.addErrback(lambda failure: None)
    net.heal()
    net.until(lambda: len(members[2].results) == 1)
    net.advance(1)
    if not usable:
        assert failed(members[2].results[0]) is NotInGroup
        return
    indices = [index for index, origin, _ in members[0].log if origin == 2]
    assert members[2].results == indices
    assert members[2].log == members[0].log


def test_a_group_of_one_is_legal(net: MemoryNet, make: Any) -> None:
    alone = make(0, 1).join()
    net.until(lambda: alone.joined == [None])
    alone.send(b"a", b"b")
    assert alone.log == []
    net.advance(0.1)
    assert alone.results == [1, 2]
    assert alone.group.role == "master"


def test_a_handler_may_send_while_it_is_called(net: MemoryNet, three: list[Any]) -> None:
    def answer(index: int, origin: int, payload: bytes) -> None:
        three[1].log.append((index, origin, payload))
        if payload.startswith(b"ask"):
            three[1].send(b"answer")

    three[1].delivered = answer
    three[0].send(b"ask 1", b"ask 2")
    net.until(lambda: len(three[1].results) == 2)
    net.advance(0.2)
    assert [payload for _, _, payload in three[2].log] == [b"ask 1", b"ask 2", b"answer", b"answer"]


def test_two_runs_are_equal(make: Any) -> None:
    def once() -> list[Any]:
        net = MemoryNet()
        members = [type(make(0))(net, me, 3).join() for me in range(3)]
        net.until(lambda: all(one.group.members for one in members))
        for number in range(20):
            members[number % 3].send(b"%d" % number)
            net.advance(0.002, step_s=0.001)
        members[0].kill()
        net.until(lambda: len(members[2].log) >= 19)
        return [members[1].log, members[2].log, members[2].views]

    assert once() == once()


def test_a_message_that_is_not_bytes_is_refused_at_the_call(net: MemoryNet, three: list[Any]) -> None:
    group = three[1].group
    confirmed: list[int] = []
    changed = bytearray(b"second")
    group.multicast(b"first").addCallback(confirmed.append)
    for wrong in ("text", 5, None, ["list"]):
        with pytest.raises(TypeError, match="a message is bytes, not"):
            group.multicast(wrong)
    with pytest.raises(TypeError, match="not str"):
        group.multicast_many([b"good", "bad"])
    group.multicast_many([changed, memoryview(b"third")]).addCallback(confirmed.append)
    changed[:] = b"later!"
    net.advance(1)
    assert [payload for _, _, payload in three[0].log] == [b"first", b"second", b"third"]
    assert confirmed == [1, 3]
