import socket
from typing import Any

import pytest

from quorate.hachannel.codec.buffers import LONG_BYTES
from quorate.hachannel.codec.framing import frame_parts
from quorate.hachannel.transport.connection import LinkSettings
from quorate.testing.servers.memory_network import MemoryNet, MemoryReactor


def test_every_pair_of_replicas_gets_one_connection(net: MemoryNet, make_peer: Any) -> None:
    peers = [make_peer(id, 3) for id in range(3)]
    net.advance(2)
    assert [peer.up for peer in peers] == [{1: 1, 2: 1}, {0: 1, 2: 1}, {0: 1, 1: 1}]
    assert [peer.front.connections for peer in peers] == [0, 1, 2]
    assert [peer.happened.count(("down", other)) for peer in peers for other in range(3)] == [0] * 9


def test_frames_arrive_in_order_both_ways(net: MemoryNet, make_peer: Any) -> None:
    zero, one = make_peer(0, 2), make_peer(1, 2)
    net.advance(1)
    zero.transport.send([1], [b"a", b"b"])
    zero.transport.send([1], [b"c"])
    one.transport.send([0], [b"d"])
    net.advance(0.1)
    assert one.got == [(0, b"a"), (0, b"b"), (0, b"c")]
    assert zero.got == [(1, b"d")]


def test_parts_of_a_long_frame_show_that_its_sender_is_alive(net: MemoryNet, make_peer: Any) -> None:
    zero = make_peer(0, 2)
    make_peer(1, 2)
    net.advance(1)
    link = net.wires[0].near.producer
    link.dataReceived(b"".join(frame_parts([b""])))
    assert zero.alive == set()
    frame = b"".join(frame_parts([b"x" * 1000]))
    link.dataReceived(frame[:400])
    assert (zero.alive, zero.got) == ({1}, [])
    link.dataReceived(frame[400:])
    assert zero.got == [(1, b"x" * 1000)]


def test_a_damaged_frame_is_dropped_and_the_connection_made_again(net: MemoryNet, make_peer: Any) -> None:
    zero, one = make_peer(0, 2), make_peer(1, 2)
    net.advance(1)
    frame = bytearray(b"".join(frame_parts([b"sound", b"spoiled"])))
    frame[-3] ^= 4
    net.wires[0].near.producer.dataReceived(bytes(frame))
    assert ("down", 1) in zero.happened
    assert zero.got == []
    net.advance(1)
    assert (zero.up, one.up) == ({1: 1}, {0: 1})


def test_the_higher_id_calls_so_that_the_lower_dials_at_once(net: MemoryNet, make_peer: Any) -> None:
    zero = make_peer(0, 2, settings=LinkSettings(max_delay_s=1000.0, first_delay_s=1000.0))
    net.advance(5)
    one = make_peer(1, 2)
    net.advance(0.1)
    assert zero.up == {1: 1}
    assert one.up == {0: 1}


def test_a_broken_connection_is_reported_at_once_and_made_again(net: MemoryNet, make_peer: Any) -> None:
    zero, one = make_peer(0, 2), make_peer(1, 2)
    net.advance(1)
    net.wires[0].break_off()
    assert ("down", 1) in zero.happened
    assert ("down", 0) in one.happened
    net.advance(1)
    assert (zero.up, one.up) == ({1: 1}, {0: 1})


def test_a_dead_peer_is_reported_unreachable_soon(net: MemoryNet, make_peer: Any) -> None:
    zero = make_peer(0, 3)
    make_peer(1, 3)
    two = make_peer(2, 3)
    net.advance(1)
    net.crash("m1")
    net.advance(0.05)
    assert ("unreachable", 1) in zero.happened
    assert ("unreachable", 1) in two.happened


def test_a_new_life_of_a_peer_replaces_the_old_connection(net: MemoryNet, make_peer: Any) -> None:
    zero, one = make_peer(0, 2), make_peer(1, 2)
    net.advance(1)
    one.transport.stop()
    one.front.stop()
    make_peer(1, 2, incarnation=2)
    net.advance(1)
    assert zero.up == {1: 2}


def test_a_silent_connection_is_dropped_and_comes_back_when_the_network_does(
    net: MemoryNet, make_peer: Any
) -> None:
    zero, one = make_peer(0, 2), make_peer(1, 2)
    net.advance(1)
    net.cut("m0", "m1")
    net.advance(8)
    assert (zero.up, one.up) == ({}, {})
    net.heal()
    net.advance(8)
    assert (zero.up, one.up) == ({1: 1}, {0: 1})


def test_an_idle_connection_stays(net: MemoryNet, make_peer: Any) -> None:
    zero = make_peer(0, 2)
    make_peer(1, 2)
    net.advance(60, step_s=0.05)
    assert zero.happened.count(("down", 1)) == 0


def test_a_peer_that_does_not_read_is_dropped(net: MemoryNet, make_peer: Any) -> None:
    zero = make_peer(0, 2, settings=LinkSettings(buffer_bytes=1000))
    make_peer(1, 2)
    net.advance(1)
    link = net.wires[0].near.producer
    link.pauseProducing()
    zero.transport.send([1], [b"x" * 600])
    assert zero.up == {1: 1}
    zero.transport.send([1], [b"x" * 600])
    assert zero.up == {}
    assert any("does not read" in line for line in zero.lines)


def test_what_waited_is_sent_when_the_peer_reads_again(net: MemoryNet, make_peer: Any) -> None:
    zero, one = make_peer(0, 2), make_peer(1, 2)
    net.advance(1)
    link = net.wires[0].near.producer
    link.pauseProducing()
    zero.transport.send([1], [b"a"])
    zero.transport.send([1], [b"b"])
    net.advance(0.1)
    assert one.got == []
    link.resumeProducing()
    net.advance(0.1)
    assert one.got == [(0, b"a"), (0, b"b")]


def test_long_frames_come_whole_and_in_order_with_short_ones(net: MemoryNet, make_peer: Any) -> None:
    zero, one = make_peer(0, 2), make_peer(1, 2)
    net.advance(1)
    link = net.wires[0].near.producer
    writes = [
        [b"a" * LONG_BYTES],
        [b"b"],
        [b"c", b"d" * LONG_BYTES, b"e"],
        [b"f"] * 16 + [b"g" * LONG_BYTES],
    ]
    for bodies in writes:
        zero.transport.send([1], bodies)
    link.pauseProducing()
    for bodies in writes:
        zero.transport.send([1], bodies)
    link.resumeProducing()
    net.advance(0.1)
    assert one.got == [(0, body) for bodies in writes * 2 for body in bodies]


def test_replicas_with_a_secret_meet_and_others_are_turned_away(net: MemoryNet, make_peer: Any) -> None:
    zero = make_peer(0, 3, secret="s3cret")
    one = make_peer(1, 3, secret="s3cret")
    two = make_peer(2, 3, secret="guess")
    net.advance(2)
    assert (zero.up, one.up, two.up) == ({1: 1}, {0: 1}, {})
    assert "garbage" in two.counts


def test_the_attempts_on_a_dead_peer_are_bounded(net: MemoryNet, make_peer: Any) -> None:
    zero = make_peer(0, 2)
    net.advance(60, step_s=0.05)
    attempts = zero.happened.count(("unreachable", 1))
    assert 50 <= attempts <= 120
    assert len(zero.lines) <= 3


def test_addresses_are_logged_as_people_write_them(net: MemoryNet, make_peer: Any) -> None:
    zero = make_peer(0, 2)
    net.advance(1)
    assert zero.lines[0].startswith("replica 1 at m1:100 cannot be reached: ")
    zero.transport.follow({0: ("m0", 100), 1: ("fe80::1", 7)})
    net.advance(2)
    assert any(line.startswith("replica 1 at [fe80::1]:7 cannot be reached: ") for line in zero.lines)


def test_a_peer_that_is_added_is_reached_and_one_that_goes_keeps_its_connection_until_it_breaks(
    net: MemoryNet, make_peer: Any
) -> None:
    zero = make_peer(0, 2)
    make_peer(1, 2)
    two = make_peer(2, 3)
    net.advance(1)
    assert not zero.transport.knows(2)
    one_at, two_at = two.transport._peers[1].address, ("m2", two.transport._peers[1].address[1])
    zero.transport.follow({0: ("m0", 1), 1: one_at, 2: two_at})
    net.advance(1)
    assert zero.up == {1: 1, 2: 1}
    zero.transport.follow({0: ("m0", 1), 1: one_at})
    assert zero.up == {1: 1, 2: 1}
    net.crash("m2")
    net.advance(5)
    assert not zero.transport.knows(2)
    assert ("down", 2) in zero.happened


def test_a_new_connection_of_a_peer_that_has_gone_is_not_kept(net: MemoryNet, make_peer: Any) -> None:
    zero, two = make_peer(0, 3), make_peer(2, 3)
    net.advance(1)
    two.transport.follow({1: ("m1", 100), 2: ("m2", 100)})
    assert two.up == {0: 1}
    # It comes again before this side knows that the connection of before is none any more.
    zero.front.stop()
    again = make_peer(0, 3, incarnation=2)
    net.advance(1)
    assert not two.transport.knows(0)
    assert two.up == {}
    two.transport.stop()
    two.front.stop()
    net.advance(10)
    assert again.up == {}


def test_a_side_that_stops_when_it_loses_a_connection_keeps_no_newer_one(
    net: MemoryNet, make_peer: Any
) -> None:
    zero, two = make_peer(0, 3), make_peer(2, 3)
    net.advance(1)
    down = two.peer_down

    def stop(peer: int, reason: str) -> None:
        down(peer, reason)
        two.transport.stop()

    two.peer_down = stop
    zero.front.stop()
    again = make_peer(0, 3, incarnation=2)
    net.advance(1)
    assert two.up == {}
    assert again.up == {}


def test_an_unusable_address_does_not_hinder_other_peers(
    net: MemoryNet, make_peer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = MemoryReactor.connectTCP

    def connect_if_known(reactor: MemoryReactor, host: str, *args: Any, **options: Any) -> None:
        if "%" in host:
            # As Twisted does, for an interface that this machine does not have.
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        connect(reactor, host, *args, **options)

    monkeypatch.setattr(MemoryReactor, "connectTCP", connect_if_known)
    zero, two = make_peer(0, 2), make_peer(2, 3)
    net.advance(1)
    zero.transport.follow({0: ("m0", 100), 1: ("fe80::1%eth7", 100), 2: ("m2", 100)})
    net.advance(20)
    assert zero.up == {2: 1}
    assert ("unreachable", 1) in zero.happened
    assert any(
        line == "replica 1 at [fe80::1%eth7]:100 cannot be reached: Name or service not known"
        for line in zero.lines
    )
    make_peer(1, 2)
    zero.transport.follow({0: ("m0", 100), 1: ("m1", 100), 2: ("m2", 100)})
    net.advance(20)
    assert zero.up == {1: 1, 2: 1}
    assert two.up == {0: 1}


# What a refused connection proves

SURE = LinkSettings(refusal_ends=True)


def ended(net: MemoryNet, one: Any, other: int) -> bool:
    """Whether one knows, after a while, that the process of the other has ended."""
    net.advance(2)
    return bool(one.transport.ended(other))


@pytest.mark.parametrize("dead", [0, 1])
def test_a_refused_connection_shows_that_the_process_has_ended(
    net: MemoryNet, make_peer: Any, dead: int
) -> None:
    peers = [make_peer(id, 2, settings=SURE) for id in range(2)]
    net.advance(2)
    living = peers[1 - dead]
    assert not living.transport.ended(dead)
    net.crash(f"m{dead}")
    assert ended(net, living, dead)
    assert ("unreachable", dead) in living.happened


def test_by_default_it_shows_nothing(net: MemoryNet, make_peer: Any) -> None:
    zero = make_peer(0, 2)
    make_peer(1, 2)
    net.advance(2)
    net.crash("m1")
    assert not ended(net, zero, 1)


def test_a_machine_that_is_silent_has_not_ended(net: MemoryNet, make_peer: Any) -> None:
    zero = make_peer(0, 2, settings=SURE)
    make_peer(1, 2, settings=SURE)
    net.advance(2)
    net.cut("m0", "m1")
    net.advance(10)
    assert not ended(net, zero, 1)


def test_a_refusal_where_the_life_has_never_answered_shows_nothing(net: MemoryNet, make_peer: Any) -> None:
    """The one that is dialed looks for the other at an address that is wrong."""
    zero, one = make_peer(0, 2, settings=SURE), make_peer(1, 2, settings=SURE)
    one.transport.follow({0: ("m0", 99), 1: ("m1", 100)})
    net.advance(2)
    assert one.up == {0: 1}
    net.wires[0].break_off()
    net.advance(0.02)
    assert ("unreachable", 0) in one.happened or zero.up == {1: 1}
    assert not one.transport.ended(0)


def test_a_life_that_comes_back_has_not_ended(net: MemoryNet, make_peer: Any) -> None:
    zero = make_peer(0, 2, settings=SURE)
    make_peer(1, 2, settings=SURE)
    net.advance(2)
    net.crash("m1")
    assert ended(net, zero, 1)
    make_peer(1, 2, incarnation=2, settings=SURE)
    net.advance(2)
    assert zero.up == {1: 2}
    assert not zero.transport.ended(1)
