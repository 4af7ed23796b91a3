"""When a master tells slaves what is committed: with the next entry, at once to who waits, after silence."""

from collections.abc import Callable
from typing import Any

import pytest

from quorate.hachannel.model.messages import Commit, decode_message
from quorate.hachannel.model.settings import ANNOUNCE_AFTER_S, Settings
from quorate.testing.servers.memory_network import MemoryNet

TRIP_S = 0.0001


@pytest.fixture
def net() -> MemoryNet:
    return MemoryNet(delay_s=TRIP_S)


def commits_heard(member: Any) -> list[Commit]:
    """A list that grows with every Commit that arrives at a member."""
    heard: list[Commit] = []
    deliver_frames = member.group._driver.peer_frames

    def record_commits(peer: int, bodies: list[bytes]) -> None:
        heard.extend(said for body in bodies if isinstance(said := decode_message(body), Commit))
        deliver_frames(peer, bodies)

    member.group._driver.peer_frames = record_commits
    return heard


def pass_until(net: MemoryNet, condition: Callable[[], bool], limit_s: float) -> float:
    """Let time pass in steps of half a trip; return how much it was."""
    start = net.clock.seconds()
    while not condition():
        assert net.clock.seconds() - start < limit_s
        net.clock.advance(TRIP_S / 2)
    return net.clock.seconds() - start


def quiet(net: MemoryNet) -> None:
    """Until nothing is under way."""
    net.advance(4 * ANNOUNCE_AFTER_S, TRIP_S)


def together(net: MemoryNet, make: Any, mode: Any) -> list[Any]:
    """Three members in one view, with nothing under way."""
    members = [make(me, settings=Settings(mode=mode)).join() for me in range(3)]
    net.until(lambda: all(len(member.group.members) == 3 for member in members))
    quiet(net)
    return members


def test_the_next_entry_of_the_master_announces_the_commit_of_its_last(
    net: MemoryNet, three: list[Any]
) -> None:
    master, slave = three[0], three[1]
    heard = commits_heard(slave)
    quiet(net)
    heard.clear()
    for number in range(1, 21):
        master.send(b"%d" % number)
        pass_until(net, lambda number=number: len(master.results) == number, 10 * TRIP_S)
        assert len(slave.log) in (number - 1, number)
        net.advance(ANNOUNCE_AFTER_S / 2, TRIP_S)
    # Heartbeats may have come meanwhile, and say it, too; messages only for this did not.
    assert heard == []
    pass_until(net, lambda: len(slave.log) == 20, 2 * ANNOUNCE_AFTER_S + 2 * TRIP_S)
    quiet(net)
    assert len(heard) <= 1


def test_a_slave_learns_at_once_that_its_own_message_is_committed(net: MemoryNet, three: list[Any]) -> None:
    quiet(net)
    slave = three[1]
    for number in range(1, 6):
        slave.send(b"%d" % number)
        # There, to the others, back, and the word that it is committed.
        passed = pass_until(net, lambda number=number: len(slave.results) == number, 20 * TRIP_S)
        assert passed <= 6 * TRIP_S < ANNOUNCE_AFTER_S
        quiet(net)


def test_a_slave_learns_at_once_that_all_members_hold_its_message(net: MemoryNet, make: Any) -> None:
    members = together(net, make, "MAJORITY")
    results: list[Any] = []
    # Its own messages before and after it make the master neither hasty nor slow.
    members[0].send(b"before")
    members[1].group.multicast(b"waits", all_members=True).addBoth(results.append)
    members[0].send(b"after")
    passed = pass_until(net, lambda: bool(results), 20 * TRIP_S)
    assert passed <= 6 * TRIP_S < ANNOUNCE_AFTER_S


@pytest.mark.parametrize("mode", ["ALL", "MAJORITY"])
def test_a_slave_learns_its_commit_at_once_when_an_entry_of_the_master_follows(
    net: MemoryNet, make: Any, mode: Any
) -> None:
    members = together(net, make, mode)
    results: list[Any] = []
    for number in range(1, 4):
        members[1].group.multicast(b"of the slave", all_members=True).addBoth(results.append)
        net.clock.advance(1.5 * TRIP_S)
        members[0].send(b"in flight when the other one is committed")
        passed = pass_until(net, lambda number=number: len(results) == number, 20 * TRIP_S)
        assert passed <= 6 * TRIP_S < ANNOUNCE_AFTER_S
        quiet(net)


@pytest.mark.parametrize("mode", ["ALL", "MAJORITY"])
def test_a_slave_learns_its_commit_soon_when_a_later_entry_is_held_up(
    net: MemoryNet, make: Any, mode: Any
) -> None:
    members = together(net, make, mode)
    held_up = True
    lost = [members[2], members[1]] if mode == "MAJORITY" else [members[2]]

    for member in lost:

        def lose(
            peer: int, bodies: list[bytes], deliver_frames: Any = member.group._driver.peer_frames
        ) -> None:
            deliver_frames(peer, [body for body in bodies if not (held_up and b"held up" in body)])

        member.group._driver.peer_frames = lose
    results: list[Any] = []
    members[1].group.multicast(b"of the slave").addBoth(results.append)
    net.clock.advance(1.5 * TRIP_S)
    members[0].send(b"held up on its way to a member")
    passed = pass_until(net, lambda: bool(results), Settings().heartbeat_s / 2)
    assert passed <= 6 * TRIP_S + 2 * ANNOUNCE_AFTER_S
    assert not members[0].results
    held_up = False
    net.until(lambda: bool(members[0].results))
    quiet(net)
    assert members[1].log == members[0].log == members[2].log


def test_a_member_alone_schedules_no_announcement(net: MemoryNet, make: Any) -> None:
    member = make(0, size=1).join()
    member.send(b"x")
    net.until(lambda: member.results == [1])
    assert member.group._driver._announcement is None


def test_a_member_that_stops_cancels_its_announcement(net: MemoryNet, three: list[Any]) -> None:
    group = three[0].group

    def due() -> bool:
        return any(call.args[0] == group._driver._announce for call in net.clock.getDelayedCalls())

    quiet(net)
    three[0].send(b"last")
    pass_until(net, lambda: len(three[0].results) == 1, 10 * TRIP_S)
    assert due()
    group._finish(None)
    assert not due()


def test_an_ack_that_commits_nothing_causes_no_output(
    net: MemoryNet, three: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    master = three[0]
    channel = master.group._channel
    quiet(net)
    master.send(b"first")
    pass_until(net, lambda: len(master.results) == 1, 6 * TRIP_S)
    acts: list[str] = []
    receive, drain = channel.receive, channel.drain

    def receive_and_note(now: float, peer: int, message: Any) -> None:
        acts.append(type(message).__name__)
        receive(now, peer, message)

    def drain_and_note(**how: Any) -> Any:
        acts.append("drain")
        return drain(**how)

    monkeypatch.setattr(channel, "receive", receive_and_note)
    monkeypatch.setattr(channel, "drain", drain_and_note)
    master.send(b"second")
    pass_until(net, lambda: len(master.results) == 2, 6 * TRIP_S)
    assert acts == ["drain", "Ack", "Ack", "drain"]
