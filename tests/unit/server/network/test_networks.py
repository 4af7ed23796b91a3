from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from quorate.agents import AgentId, Note
from quorate.engine import StampedNote
from quorate.engine.causal_order import stamped
from quorate.engine.server_links import Link as EngineLink
from quorate.hachannel.transport.connection import LinkSettings
from quorate.server.network import outgoing
from quorate.server.network.hello import NETWORK
from quorate.server.network.incoming import Data, Incoming
from quorate.server.network.link_handshake import LinkHandshake
from quorate.server.network.link_ordering import ordering_field
from quorate.server.network.listener import Listener
from quorate.server.network.outgoing import Outgoing
from quorate.testing.servers.memory_network import MemoryNet

SENDER = AgentId(0, 0, 1025)


def note(number: int, size: int = 0) -> Note:
    return Note(AgentId(1, 1, 1025), SENDER, "t", str(number).encode() + b"." * size)


class ReplicaAddress:
    """A replica of server 1 that receives, or the master of server 0 that sends."""

    def __init__(self, net: MemoryNet, name: str, server: int) -> None:
        self.net = net
        self.server = server
        self.lines: list[str] = []
        self.counts: list[str] = []
        self.master = True
        self.master_at: tuple[str, int] | None = None
        self.net_accepting = True
        self.waiting: list[Callable[[], None]] = []
        self.link = EngineLink(1 - server)
        self.way: Outgoing | None = None
        self.got: list[bytes] = []
        self.acked: list[int] = []
        self.calls = 0
        self.commit_s = 0.01
        self.net_birth = 100 + server
        self.net_server = server
        self.causal = False
        self.settled: list[int] = []
        self.replicas: list[tuple[int, str, int]] = []
        self.heard: list[int] = []
        self.reactor = net.machine(name)
        self.incoming = Incoming(server, self, self.lines.append)
        front = Listener(
            self.reactor,
            {NETWORK: self.incoming},
            secret=None,
            log=self.lines.append,
            count=self.counts.append,
        )
        front.listen(100)

    def net_heard(self, server: int, birth: int) -> None:
        if self.heard[-1:] != [birth]:
            self.heard.append(birth)
            self.incoming.keep_incarnation(server, birth)
            if self.way is not None:
                self.way.keep_incarnation(birth)

    def net_peer(self, server: int, birth: int) -> None:
        self.net.clock.callLater(self.commit_s, self.meet, birth)

    def net_input(self, server: int, birth: int, first_seq: int, notes: list[Note]) -> None:
        self.calls += 1
        self.net.clock.callLater(self.commit_s, self.receive, birth, first_seq, notes)

    def net_causal_input(
        self, server: int, birth: int, first_seq: int, settled: int, notes: list[StampedNote]
    ) -> None:
        self.settled.append(settled)
        self.net_input(server, birth, first_seq, [*notes])

    def net_is_causal(self, server: int) -> bool:
        return self.causal

    def meet(self, birth: int) -> None:
        if self.link.meet(birth) and self.way is not None:
            self.way.begin_incarnation(birth, self.link.first_seq, list(self.link.waiting), 7)

    def reborn(self, birth: int) -> "ReplicaAddress":
        """The same server at the same place, without its state."""
        self.net.crash(self.reactor.name, notice_s=10)
        new = ReplicaAddress(self.net, self.reactor.name, self.server)
        new.net_birth = birth
        return new

    def receive(self, birth: int, first_seq: int, notes: list[Note]) -> None:
        self.meet(birth)
        self.got += [each.payload for each in self.link.accept(first_seq, notes)]
        self.incoming.acknowledge(1 - self.server, birth, self.link.received)

    def net_acked(self, server: int, birth: int, upto: int) -> None:
        self.acked.append(upto)
        self.link.acknowledge(birth, upto)

    def net_received(self, server: int, birth: int) -> int:
        return self.link.received if birth == self.link.peer_birth else 0

    def net_refusal(self) -> str | None:
        return None if self.master and self.net_birth else "This replica is joining."

    def net_master(self, server: int) -> tuple[str, int] | None:
        return self.master_at

    def net_replicas(self, server: int) -> list[tuple[int, str, int]]:
        return self.replicas

    def net_knows(self, server: int) -> bool:
        return server in (0, 1)

    def when_net_accepting(self, callback: Callable[[], None]) -> None:
        self.waiting.append(callback)

    def send_to(self, hosts: list[str], *notes: Note) -> Outgoing:
        self.way = Outgoing(
            1 - self.server,
            [(host, 100) for host in hosts],
            self,
            self.reactor,
            lambda: LinkHandshake(
                NETWORK,
                {"server": self.server, "birth": self.net_birth, **ordering_field(self.causal)},
                None,
            ),
            self.lines.append,
            LinkSettings(),
            causal=self.causal,
        )
        for each in notes:
            self.link.push(each)
        self.way.start(self.link.peer_birth, self.link.first_seq, list(self.link.waiting), 7)
        return self.way

    def send(self, *notes: Note) -> None:
        """Send more."""
        assert self.way is not None
        self.way.queue([(self.link.push(each), each) for each in notes])


@pytest.fixture
def place(net: MemoryNet) -> Any:
    return lambda name, server: ReplicaAddress(net, name, server)


def numbers(count: int) -> list[bytes]:
    return [str(number).encode() for number in range(1, count + 1)]


def test_what_waited_and_what_comes_later_arrives_in_order_once(net: MemoryNet, place: Any) -> None:
    sender, receiver = place("a", 0), place("b", 1)
    way = sender.send_to(["b"], note(1), note(2))
    net.until(lambda: len(receiver.got) == 2)
    sender.send(note(3), note(4))
    net.until(lambda: sender.acked[-1:] == [4])
    assert receiver.got == numbers(4)
    assert way.waiting == 0


def test_a_broken_connection_is_made_again_and_nothing_is_lost_or_repeated(
    net: MemoryNet, place: Any
) -> None:
    sender, receiver = place("a", 0), place("b", 1)
    way = sender.send_to(["b"])
    for number in range(1, 201):
        sender.send(note(number))
        net.advance(0.005)
        if number % 50 == 0:
            net.wires[-1].break_off()
    net.until(lambda: way.waiting == 0)
    assert receiver.got == numbers(200)


def test_the_master_is_found_by_trying_the_replicas_and_following_redirections(
    net: MemoryNet, place: Any
) -> None:
    sender, slave, master = place("a", 0), place("b", 1), place("d", 1)
    slave.master, slave.master_at = False, ("d", 100)
    way = sender.send_to(["b", "c", "d"], note(1))
    net.until(lambda: way.waiting == 0, 0.5)
    assert master.got == numbers(1)
    assert slave.counts == []


def test_a_sender_uses_the_replica_addresses_of_the_hello(net: MemoryNet, place: Any) -> None:
    sender, old = place("a", 0), place("b", 1)
    old.replicas = [(0, "b", 100), (3, "d", 100)]
    way = sender.send_to(["b"], note(1))
    net.until(lambda: way.waiting == 0, 0.5)
    net.crash("b")
    new = place("d", 1)
    new.link = old.link
    way.queue([(2, note(2))])
    net.until(lambda: way.waiting == 0, 5)
    assert new.got == numbers(2)[1:]


def test_replicas_that_point_at_each_other_are_asked_with_pauses(net: MemoryNet, place: Any) -> None:
    sender, one, other = place("a", 0), place("b", 1), place("c", 1)
    one.master_at, other.master_at = ("c", 100), ("b", 100)
    sender.send_to(["b", "c"], note(1))
    asked = 0
    real = one.net_master

    def count(server: int) -> Any:
        nonlocal asked
        asked += 1
        return real(server)

    one.net_master = count
    net.advance(20, step_s=0.01)
    assert 10 < asked < 120
    other.master_at = None
    net.until(lambda: other.got == numbers(1), 3)


def test_a_master_that_fell_silent_is_not_asked_first_who_is_master(net: MemoryNet, place: Any) -> None:
    sender, old, new = place("a", 0), place("b", 1), place("c", 1)
    new.master = False
    way = sender.send_to(["b", "c"])
    net.until(lambda: way.connected)
    net.cut("a", "b")
    new.master = True
    sender.send(note(1))
    # Every attempt to reach it would take two seconds, and five if it still took connections.
    net.until(lambda: not way.connected)
    net.until(lambda: new.got == numbers(1), 0.5)
    assert old.got == []


def test_a_new_master_of_the_receiver_gets_what_the_old_one_did_not_commit(
    net: MemoryNet, place: Any
) -> None:
    sender, old, new = place("a", 0), place("b", 1), place("c", 1)
    old.net_input = lambda *_: None
    new.master = False
    way = sender.send_to(["b", "c"], note(1), note(2))
    net.until(lambda: way.connected)
    net.crash("b")
    new.master = True
    net.until(lambda: way.waiting == 0)
    assert new.got == numbers(2)


def test_notifications_the_receiver_has_are_not_sent_again(net: MemoryNet, place: Any) -> None:
    sender, receiver = place("a", 0), place("b", 1)
    sender.link.meet(receiver.net_birth)
    receiver.link.meet(sender.net_birth)
    receiver.link.received = 2
    sender.send_to(["b"], note(1), note(2), note(3))
    net.until(lambda: sender.acked[-1:] == [3])
    assert sender.acked == [2, 3]
    assert receiver.got == [b"3"]


def test_a_full_receiver_stops_reading_and_resumes(net: MemoryNet, place: Any) -> None:
    sender, receiver = place("a", 0), place("b", 1)
    receiver.net_accepting = False
    way = sender.send_to(["b"], note(1))
    net.until(lambda: receiver.waiting)
    sender.send(note(2))
    net.advance(10, step_s=0.05)
    assert receiver.got == numbers(1)
    assert way.connected
    receiver.net_accepting = True
    receiver.waiting.pop()()
    net.until(lambda: way.waiting == 0)
    assert receiver.got == numbers(2)


def test_what_is_unacknowledged_is_bounded(net: MemoryNet, place: Any) -> None:
    sender, receiver = place("a", 0), place("b", 1)
    receiver.net_input = lambda *_: None
    way = sender.send_to(["b"])
    net.until(lambda: way.connected)
    before = net.wires[-1].near.sent_bytes
    for number in range(1, 200):
        sender.send(note(number, 100_000))
    net.advance(1)
    sent = net.wires[-1].near.sent_bytes - before
    assert sent < outgoing.WINDOW_BYTES + 2 * outgoing.BATCH_BYTES


def test_a_server_that_is_not_in_the_configuration_is_turned_away(net: MemoryNet, place: Any) -> None:
    sender, receiver = place("a", 7), place("b", 1)
    sender.send_to(["b"])
    net.advance(0.5)
    assert "garbage" in receiver.counts
    assert any("Server 7 is not in the configuration" in line for line in receiver.lines)


def test_a_stopped_way_leaves_no_timer_and_no_connection(net: MemoryNet, place: Any) -> None:
    sender, receiver = place("a", 0), place("b", 1)
    way = sender.send_to(["b"])
    net.until(lambda: way.connected)
    way.stop()
    net.advance(10, step_s=0.05)
    assert receiver.incoming.connected == []
    assert net.wires == []
    assert net.clock.getDelayedCalls() == []


def test_a_server_without_a_birth_neither_connects_nor_accepts(net: MemoryNet, place: Any) -> None:
    sender, receiver = place("a", 0), place("b", 1)
    sender.net_birth = receiver.net_birth = 0
    way = sender.send_to(["b"], note(1))
    net.advance(2)
    assert net.wires == []
    sender.net_birth = 5
    net.advance(2)
    assert not way.connected
    assert receiver.counts == []
    receiver.net_birth = 6
    net.until(lambda: receiver.got == numbers(1))
    assert sender.heard == [6]


def test_the_life_of_the_other_server_is_recorded_before_anything_is_sent(net: MemoryNet, place: Any) -> None:
    sender, receiver = place("a", 0), place("b", 1)
    sender.commit_s = 5
    way = sender.send_to(["b"], note(1))
    net.until(lambda: way.connected)
    sender.send(note(2))
    net.advance(2)
    assert receiver.calls == 0
    net.until(lambda: receiver.got == numbers(2))


def test_a_receiver_that_has_lost_its_state_gets_what_it_had_not_acknowledged_and_what_is_new(
    net: MemoryNet, place: Any
) -> None:
    sender, receiver = place("a", 0), place("b", 1)
    sender.send_to(["b"], note(1), note(2))
    net.until(lambda: sender.acked[-1:] == [2])
    receiver.commit_s = 1000
    sender.send(note(3))
    net.advance(0.1)
    new = receiver.reborn(201)
    sender.send(note(4))
    net.until(lambda: sender.acked == [2, 2])
    assert new.got == [b"3", b"4"]
    sender.send(note(5))
    net.until(lambda: new.got == [b"3", b"4", b"5"])


def test_a_sender_that_has_lost_its_state_is_heard_again(net: MemoryNet, place: Any) -> None:
    sender, receiver = place("a", 0), place("b", 1)
    sender.send_to(["b"], note(1), note(2))
    net.until(lambda: sender.acked[-1:] == [2])
    new = sender.reborn(200)
    new.send_to(["b"], note(10))
    net.until(lambda: new.acked == [1])
    assert receiver.got == [b"1", b"2", b"10"]


def test_an_acknowledgement_for_an_earlier_life_is_not_sent_to_the_next(net: MemoryNet, place: Any) -> None:
    sender, receiver = place("a", 0), place("b", 1)
    receiver.commit_s = 1
    sender.send_to(["b"], note(1), note(2))
    net.until(lambda: receiver.calls == 1)
    net.advance(0.5)
    new = sender.reborn(200)
    new.send_to(["b"], note(10), note(11))
    net.until(lambda: receiver.calls == 2)
    net.until(lambda: receiver.got == numbers(2))
    net.advance(0.1)
    assert new.acked == []
    net.until(lambda: new.acked == [2])


def test_a_late_answer_of_an_earlier_incarnation_is_ignored(net: MemoryNet, place: Any) -> None:
    sender, old = place("a", 0), place("b", 1)
    net.latency_s = lambda: 1.0
    sender.send_to(["b"], note(1))
    net.advance(1.5)
    net.latency_s = lambda: 0.001
    new = old.reborn(201)
    new.send_to(["a"], note(7))
    net.until(lambda: sender.got == [b"7"], 0.4)
    net.until(lambda: new.got == numbers(1))
    assert sender.heard == [201]


def test_frames_of_an_earlier_incarnation_are_ignored_after_the_next_was_heard(
    net: MemoryNet, place: Any
) -> None:
    sender, receiver = place("a", 0), place("b", 1)
    receiver.net_accepting = False
    sender.send_to(["b"], note(1))
    net.until(lambda: receiver.waiting)
    sender.send(note(2))
    net.advance(0.1)
    new = sender.reborn(200)
    receiver.send_to(["a"], note(9))
    net.until(lambda: new.got == [b"9"])
    receiver.net_accepting = True
    receiver.waiting.pop()()
    net.advance(0.5)
    assert receiver.got == numbers(1)
    assert receiver.heard == [100, 200]


def test_a_server_with_an_older_copy_of_its_state_is_logged(net: MemoryNet, place: Any) -> None:
    sender, receiver = place("a", 0), place("b", 1)
    sender.link.meet(receiver.net_birth)
    receiver.link.meet(sender.net_birth)
    receiver.link.received = 5
    sender.send_to(["b"], note(1))
    net.advance(0.5)
    assert any("runs with an older copy of its state" in line for line in sender.lines)


DEEP = b"\x91" * 3000 + b"\xc0"


@pytest.mark.parametrize(
    ("data", "ack"),
    [
        (b"\xc1", b"\xc1"),
        (b"\x94\xa1d\x01\x90" + DEEP, b"\x93\xa1a\x01" + DEEP),
        (msgspec.msgpack.encode(Data(2, [note(2)])).replace(b"\xa1t", b"\xa1\xff"), b"\xc1"),
    ],
    ids=["bytes", "depth", "text"],
)
def test_a_connection_on_which_nonsense_comes_is_dropped_and_made_again(
    net: MemoryNet, place: Any, data: bytes, ack: bytes
) -> None:
    sender, receiver = place("a", 0), place("b", 1)
    way = sender.send_to(["b"], note(1))
    net.until(lambda: way.waiting == 0)
    way._link.send([data])
    net.until(
        lambda: "connection from server 0 lost: a frame is not a batch of notifications" in receiver.lines
    )
    net.until(lambda: way.connected and receiver.incoming.connected == [0])
    receiver.incoming._links[0].link.send([ack])
    net.until(lambda: "connection to server 1 lost: a frame is not an acknowledgement" in sender.lines)
    sender.send(note(2))
    net.until(lambda: way.waiting == 0)
    assert receiver.got == numbers(2)


def test_in_causal_order_notifications_arrive_with_their_places(net: MemoryNet, place: Any) -> None:
    sender, receiver = place("a", 0), place("b", 1)
    sender.causal = receiver.causal = True
    way = sender.send_to(["b"])
    net.until(lambda: receiver.settled == [7])
    sender.send(stamped(note(1), 8, ()), stamped(note(2), 9, ()))
    net.until(lambda: sender.acked[-1:] == [2])
    assert receiver.got == numbers(2)
    assert way.waiting == 0


@pytest.mark.parametrize("causal", [0, 1])
def test_servers_that_order_a_domain_in_two_ways_refuse_each_other_and_say_so(
    net: MemoryNet, place: Any, causal: int
) -> None:
    ends = place("a", 0), place("b", 1)
    ends[causal].causal = True
    sender, receiver = ends
    sender.send_to(["b"], note(1))
    net.advance(3)
    assert receiver.got == []
    assert any("start both with the same file" in line for line in sender.lines)
