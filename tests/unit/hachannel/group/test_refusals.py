"""Refused members: both sides log the reason in one sentence, and only so often."""

from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.protocol import ClientFactory, Protocol

from quorate.hachannel import Group, Settings
from quorate.hachannel.codec.framing import frame_parts
from quorate.testing.servers.memory_network import MemoryNet


def lines_with(member: Any, sentence: str) -> list[str]:
    return [line for line in member.lines if sentence in line]


def earlier_life(member: int, later: int) -> str:
    """Why a member is turned away of which a process with the incarnation `later` was connected."""
    return (
        f"member {member} has a lower incarnation than a life of it that was here before: if another process "
        f"runs as member {member}, stop one of the two; if none does, its clock was set back: correct the "
        f"clock and start the member again, or give it an incarnation above {later}"
    )


@pytest.mark.parametrize("back", [0, 1, 2])
def test_a_member_whose_clock_was_set_back_is_logged_on_both_sides(
    net: MemoryNet, make: Any, back: int
) -> None:
    members = [make(me, incarnation=100).join() for me in range(3)]
    net.until(lambda: all(len(member.group.members) == 3 for member in members))
    members[back].kill()
    net.advance(5)
    net.cuts.clear()
    late = make(back, incarnation=50).join()
    net.advance(30)
    assert late.joined == []
    sentence = earlier_life(back, 100)
    for member in members:
        if member.me != back:
            assert 1 <= len(lines_with(member, sentence)) <= 3
    assert 1 <= len(lines_with(late, sentence)) <= 6


@pytest.mark.parametrize("back", [0, 1, 2])
def test_a_life_with_the_incarnation_of_an_earlier_one_is_turned_away(
    net: MemoryNet, make: Any, three: list[Any], back: int
) -> None:
    three[back].kill()
    net.advance(5)
    net.cuts.clear()
    late = make(back).join()
    net.advance(30)
    assert late.joined == []
    sentence = (
        f"member {back} has the incarnation 1, as another life of it had before: if another "
        f"process runs as member {back}, stop one of the two; if none does, give every life a higher one, or "
        "none"
    )
    assert sentence in late.group.waits_for
    for member in three:
        if member.me != back:
            assert 1 <= len(lines_with(member, sentence)) <= 3
    assert 1 <= len(lines_with(late, sentence)) <= 6


def test_a_life_with_a_used_incarnation_ends_at_a_message_of_the_earlier_one(
    net: MemoryNet, make: Any, three: list[Any]
) -> None:
    three[2].send(b"one", b"two")
    net.until(lambda: len(three[0].log) == 2)
    three[2].group.leave()
    for old in (0, 1):
        net.advance(3)
        three[old].group.leave()
        net.advance(3)
        three[old] = make(old, incarnation=2).join()
    net.advance(3)
    assert {len(member.group.members) for member in three[:2]} == {2}
    late = make(2)
    failures: list[Any] = []
    late.group.stopped.addErrback(failures.append)
    late.join()
    net.until(lambda: late.joined != [])
    sentence = "an earlier life of member 2, with the same incarnation 1, has sent messages: give every life"
    assert sentence in str(late.joined[0].value)
    assert [failure.value for failure in failures] == [late.joined[0].value]


def test_a_connection_that_breaks_is_no_other_life(net: MemoryNet, three: list[Any]) -> None:
    for _ in range(3):
        net.cut("m0", "m1")
        net.advance(0.3)
        net.cuts.clear()
        net.advance(2)
    assert [member.group.role for member in three] == ["master", "slave", "slave"]
    assert [lines_with(member, "turned away") for member in three] == [[], [], []]


def test_a_second_process_of_the_same_incarnation_is_turned_away(
    net: MemoryNet, make: Any, three: list[Any]
) -> None:
    addresses = {0: ("m0", 100), 1: ("m1", 100), 2: ("twin", 100)}
    twin = make(2, host="twin", addresses=addresses).join()
    net.advance(10)
    assert "replicas 0, 1 turn this one away: member 2 has the incarnation 1" in twin.group.waits_for
    assert [member.group.members for member in three] == [(0, 1, 2)] * 3


def test_the_older_of_two_processes_with_one_id_logs_that_one_must_stop(
    net: MemoryNet, make: Any, three: list[Any]
) -> None:
    old = three[0]
    addresses = {0: ("twin", 100), 1: ("m1", 100), 2: ("m2", 100)}
    twin = make(0, incarnation=2, host="twin", addresses=addresses).join()
    net.until(lambda: twin.joined == [None])
    net.advance(10)
    assert old.group.waits_for == (
        "too few replicas of view 1 can be reached to go on, this one hears none; "
        f"replicas 1, 2 turn this one away: {earlier_life(0, 2)}"
    )
    assert old.group.waits_for in old.lines
    assert lines_with(old, "stop all") == []
    assert [member.group.waits_for for member in three[1:]] == ["", ""]


def test_a_second_process_at_another_address_learns_of_the_first(
    net: MemoryNet, make: Any, three: list[Any]
) -> None:
    addresses = {0: ("m0", 100), 1: ("m1", 100), 2: ("twin", 100)}
    for member in three:
        member.lines.clear()
    twin = make(2, incarnation=2, host="twin", addresses=addresses).join()
    net.advance(10)
    reason = "; ".join(
        f"replica {id} turns this one away: a process that was started earlier runs as member 2 at the "
        f"address that member {id} has for it: stop one of the two, or give every member the same addresses"
        for id in (0, 1)
    )
    assert twin.group.waits_for.endswith(f"this replica hears none; {reason}")
    for member in three[:2]:
        assert (
            len(lines_with(member, "was turned away: a process that was started earlier runs as member 2"))
            == 1
        )
        assert len(lines_with(member, "connection to replica 2 lost")) == 1
    assert [member.group.members for member in three] == [(0, 1, 2)] * 3
    three[2].send(b"goes on")
    net.until(lambda: len(three[2].results) == 1)
    # What was found then does not keep out who comes to that address later.
    three[2].kill()
    net.cuts.clear()
    twin.group.leave()
    right = make(2, incarnation=3).join()
    net.until(lambda: right.joined == [None])


def pair(net: MemoryNet, *options: dict[str, Any]) -> list[Any]:
    """Two members that differ."""

    class Member:
        def __init__(self) -> None:
            self.lines: list[str] = []

        def delivered(self, index: int, origin: int, payload: bytes) -> None: ...
        def view_changed(self, view: Any) -> None: ...
        def provide_state(self) -> bytes:
            return b""

        def receive_state(self, chunks: list[bytes]) -> None: ...

    members = [Member(), Member()]
    for me, (member, given) in enumerate(zip(members, options, strict=True)):
        arguments: dict[str, Any] = {
            "name": "g",
            "me": me,
            "addresses": {0: ("m0", 100), 1: ("m1", 100)},
            "handler": member,
            "log": member.lines.append,
            "reactor": net.machine(f"m{me}"),
            **given,
        }
        Group(**arguments).join()
    net.advance(50)
    return members


@pytest.mark.parametrize(
    ("other", "sentence"),
    [
        (
            {"addresses": {0: ("m0", 100), 1: ("m1", 100), 2: ("m2", 100)}},
            "member 0 knows the members 0, 1 and member 1 knows the members 0, 1, 2: give every member",
        ),
        (
            {"settings": Settings(mode="MAJORITY")},
            "member 0 has mode ALL and member 1 has mode MAJORITY: give every member the same settings",
        ),
        (
            {"settings": Settings(max_payload_bytes=1 << 20)},
            "member 0 has max_payload_bytes 8388608 and member 1 has max_payload_bytes 1048576: give every",
        ),
        (
            {"settings": Settings(part_bytes=32 << 20, min_copies=2)},
            "member 0 has min_copies 1, part_bytes 1048576 and member 1 has min_copies 2, part_bytes "
            "33554432: give every member the same settings",
        ),
        (
            {"name": "h", "addresses": {1: ("m1", 100), 0: ("m0", 100), 7: ("m7", 100)}},
            "it is a member of another group: give every member the same name, or another port",
        ),
        (
            {"name": "h", "settings": Settings(mode="MAJORITY")},
            "it is a member of another group: give every member the same name, or another port",
        ),
        ({"name": "h"}, "it is a member of another group: give every member the same name, or another port"),
    ],
)
def test_members_with_different_arguments_log_the_difference(
    net: MemoryNet, other: dict[str, Any], sentence: str
) -> None:
    for member in pair(net, {}, other):
        assert 1 <= len(lines_with(member, sentence)) <= 6


def test_a_new_reason_for_a_refusal_is_logged(net: MemoryNet, make: Any) -> None:
    early = make(0, 2).join()
    net.advance(3)
    assert any("cannot be reached" in line for line in early.lines)
    late = make(1, 2, settings=Settings(mode="MAJORITY")).join()
    net.advance(3)
    assert lines_with(early, "has mode MAJORITY")
    assert lines_with(late, "has mode MAJORITY")


def test_the_same_refusal_is_logged_again_after_a_minute(net: MemoryNet, make: Any) -> None:
    early = make(0, 2).join()
    make(1, 2, settings=Settings(mode="MAJORITY")).join()
    net.advance(20)
    once = len(lines_with(early, "turned away: member 0 has mode"))
    net.advance(60)
    assert once == 1
    assert len(lines_with(early, "turned away: member 0 has mode")) == 2


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "a frame of 1195725856 bytes was announced; at most 4096 are accepted"),
        (b"\x00\x00", "no hello"),
    ],
)
def test_a_connection_that_sends_no_hello_is_logged(
    net: MemoryNet, make: Any, said: bytes, reason: str
) -> None:
    member = make(0, 1).join()
    net.until(lambda: member.joined == [None])

    class Stranger(Protocol):
        def connectionMade(self) -> None:
            assert self.transport is not None
            self.transport.write(said)

    for _ in range(2):
        net.machine("m1").connectTCP("m0", 100, ClientFactory.forProtocol(Stranger))
        net.advance(6)
    [line] = lines_with(member, "was turned away")
    assert line.endswith(f"was turned away: it does not speak as a member does: {reason}")


def speak(net: MemoryNet, machine: str, *said: bytes) -> None:
    """Connect with member 0 from a machine, once for each of these, and say it."""
    for data in said:

        class Stranger(Protocol):
            def connectionMade(self, data: bytes = data) -> None:
                assert self.transport is not None
                self.transport.write(data)

        net.machine(machine).connectTCP("m0", 100, ClientFactory.forProtocol(Stranger))
        net.advance(0.1)


def test_garbage_of_any_length_is_logged_once_and_hides_no_member(net: MemoryNet, make: Any) -> None:
    member = make(0).join()
    speak(net, "m9", *((10**6 + number).to_bytes(4, "big") + bytes(4) for number in range(30)))
    speak(net, "m9", *(b"".join(frame_parts([bytes([0x90 + length])])) for length in (0, 1, 2, 3, 5)))
    assert len(lines_with(member, "a frame of 1000000 bytes was announced")) == 1
    assert (
        len(lines_with(member, "not the hello of a group")) == len(lines_with(member, "turned away")) - 1 == 1
    )
    make(2, name="other").join()
    net.advance(3)
    assert len(lines_with(member, "turned away: it is a member of another group")) == 1


def test_garbage_from_many_places_hides_no_member_either(net: MemoryNet, make: Any) -> None:
    member = make(0).join()
    for number in range(30):
        place = SimpleNamespace(peer_host=f"10.0.0.{number}", peer=f"10.0.0.{number}:5000")
        member.group._listener.dropped(place, "no hello")
    assert len(lines_with(member, "was turned away: it does not speak as a member does: no hello")) == 20
    make(2, name="other").join()
    net.advance(3)
    assert len(lines_with(member, "turned away: it is a member of another group")) == 1


def test_a_connection_that_closes_without_a_byte_is_not_logged(net: MemoryNet, make: Any) -> None:
    member = make(0, 1).join()
    net.until(lambda: member.joined == [None])

    class Probe(Protocol):
        def connectionMade(self) -> None:
            assert self.transport is not None
            self.transport.loseConnection()

    net.machine("m1").connectTCP("m0", 100, ClientFactory.forProtocol(Probe))
    net.advance(6)
    assert lines_with(member, "turned away") == []


def test_a_member_that_has_stopped_logs_no_refusal(net: MemoryNet, make: Any) -> None:
    member = make(0, 1).join()
    net.until(lambda: member.joined == [None])
    net.machine("m1").connectTCP("m0", 100, ClientFactory.forProtocol(Protocol))
    net.advance(0.1)
    member.group.leave()
    net.advance(10)
    assert lines_with(member, "turned away") == []


def test_waits_for_has_the_reason_of_a_member_that_is_turned_away(net: MemoryNet, make: Any) -> None:
    members = [make(0).join(), make(1).join(), make(2, name="other").join()]
    net.advance(5)
    another = "it is a member of another group: give every member the same name, or another port"
    begins = "waits for the others before the very first start"
    assert [member.group.waits_for for member in members] == [
        f"{begins}: 2 of 3 expected are here, this replica hears {other}; "
        f"replica 2 turns this one away: {another}"
        for other in (1, 0)
    ] + [
        f"{begins}: 1 of 3 expected are here, this replica hears none; "
        f"replicas 0, 1 turn this one away: {another}"
    ]
    for member in members:
        assert lines_with(member, "does not answer") == lines_with(member, "do not answer") == []
        assert member.group.waits_for in member.lines


def test_a_refusal_is_forgotten_when_the_peer_is_gone_or_accepts(net: MemoryNet, make: Any) -> None:
    early = make(0, 2).join()
    stranger = make(1, 2, name="other").join()
    net.until(lambda: "replica 1 turns this one away" in early.group.waits_for)
    stranger.group.leave()
    net.until(lambda: early.group.waits_for.endswith("this replica hears none; start replica 1"))
    right = make(1, 2).join()
    net.until(lambda: early.joined == right.joined == [None])
    assert early.group.waits_for == ""


def test_waits_for_names_the_settings_that_differ(net: MemoryNet, make: Any) -> None:
    large, small = Settings(max_payload_bytes=32 << 20), Settings(max_payload_bytes=1 << 20)
    members = [make(me, settings=small if me == 1 else large).join() for me in range(3)]
    net.advance(5)
    assert members[1].group.waits_for.endswith(
        "this replica hears none; replica 0 turns this one away: member 0 has max_payload_bytes 33554432 and "
        "member 1 has max_payload_bytes 1048576: give every member the same settings; replica 2 turns this "
        "one away: member 1 has max_payload_bytes 1048576 and member 2 has max_payload_bytes 33554432: give "
        "every member the same settings"
    )


def test_members_may_differ_in_settings_that_are_not_shared(net: MemoryNet, make: Any) -> None:
    members = [make(me, settings=Settings(keep=100 + me, stall_s=5.0 + me)).join() for me in range(3)]
    net.until(lambda: all(member.joined == [None] for member in members))
