"""Another server is down: the clients that send to it are held back, the others go on."""

import attrs
import pytest

from quorate.client.frames import ClientInput, ClientNote, ClientOutput, Ping, Pong


@pytest.fixture
def bench(make_bench):
    bench = make_bench()
    engine = bench.harness.engine
    mail = engine._mail
    engine.settings = mail._settings = attrs.evolve(engine.settings, high_water=10)
    return bench


@pytest.fixture
def send(bench, deposit):
    """Send notifications on a TCP connection, and return the last acknowledgement that comes."""
    sent = {}

    def send(tcp, to, count, request=0):
        first = sent.get(tcp, 0) + 1
        sent[tcp] = first + count - 1
        notes = [ClientNote(to, *deposit(1), request)] * count
        frames = bench.say(tcp, ClientInput(0, first, notes))
        return max([frame.in_ack for frame in frames if isinstance(frame, ClientOutput)], default=None)

    return send


def acked(frames):
    return [frame.in_ack for frame in frames if isinstance(frame, ClientOutput)]


def test_only_the_client_that_sends_to_a_server_that_is_down_is_held_back(bench, send):
    (tcp, _), (other, _) = bench.opened(), bench.opened()
    assert send(tcp, "bob@s1", 10) == 10
    assert send(tcp, "bob@s1", 10) is None
    assert send(other, "alice", 5) == 5
    assert send(other, "alice", 5) == 10


def test_a_client_that_is_held_back_gets_its_answers_and_keep_alives(bench, send):
    tcp, _ = bench.opened()
    send(tcp, "bob@s1", 10)
    send(tcp, "bob@s1", 10)
    assert send(tcp, "alice", 1, request=7) == 10
    assert bench.say(tcp, Ping(3)) == [Pong(3)]


def test_all_is_acknowledged_once_the_server_has_taken_enough(bench, send):
    tcp, _ = bench.opened()
    send(tcp, "bob@s1", 10)
    send(tcp, "bob@s1", 10)
    bench.ctx._act(bench.harness.acknowledge(1, 5))
    assert acked(bench.heard(tcp)) == []
    bench.ctx._act(bench.harness.acknowledge(1, 15))
    assert acked(bench.heard(tcp)) == [20]
    assert send(tcp, "bob@s1", 1) == 21


def test_a_reopened_connection_is_held_back_when_it_sends_there_again(bench, send):
    tcp, welcome = bench.opened()
    send(tcp, "bob@s1", 10)
    send(tcp, "bob@s1", 10)
    tcp.cut()
    again, back = bench.opened(connection=welcome.connection)
    assert back.in_ack == 20
    (note,) = [ClientNote("bob@s1", "x", b"\x80")]
    assert acked(bench.say(again, ClientInput(0, 21, [note]))) == []


def test_the_newer_of_two_tcp_connections_is_held_back_too(bench, send):
    tcp, welcome = bench.opened()
    send(tcp, "bob@s1", 10)
    send(tcp, "bob@s1", 10)
    again, back = bench.opened(connection=welcome.connection, attempt=1)
    assert back.in_ack == 20
    assert acked(bench.say(again, ClientInput(0, 21, [ClientNote("alice", "x", b"\x80")]))) in ([], [20])
