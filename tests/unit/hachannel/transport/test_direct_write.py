"""Writing at once: what the socket takes, and what is left to Twisted, in order."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from quorate.hachannel.transport.direct_write import MOST_PARTS, TURN_BYTES, DirectWriteReactor


class Tcp:
    """A TCP connection as Twisted makes it, as far as a direct write needs one, and its socket."""

    def __init__(self, takes: Callable[[], int]) -> None:
        self.reactor = self.socket = self
        self.takes = takes
        """How many bytes the socket takes next; it may raise."""
        self.connected, self.disconnecting = True, False
        self.sent: list[bytes] = []
        self.waiting: list[bytes] = []
        self.producer: Any = None
        self.paused = False

    def send(self, data: bytes) -> int:
        self.sent.append(data[: self.takes()])
        return len(self.sent[-1])

    def sendmsg(self, parts: list[bytes]) -> int:
        assert len(parts) <= MOST_PARTS
        return self.send(b"".join(parts))

    def write(self, data: bytes) -> None:
        self.writeSequence([data])

    def writeSequence(self, parts: list[bytes]) -> None:
        assert all(type(part) is bytes for part in parts)
        self.waiting += parts
        if self.producer is not None and sum(map(len, self.waiting)) > 64 * 1024:
            self.paused = True
            self.producer.pauseProducing()

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        self.producer = producer

    def unregisterProducer(self) -> None:
        self.producer = None

    def comes_round(self) -> bytes:
        """Return what was sent, after the reactor has written all that waits."""
        arrived = b"".join(self.sent + self.waiting)
        self.sent.clear()
        self.waiting.clear()
        if self.paused and self.producer is not None:
            self.paused = False
            self.producer.resumeProducing()
        return arrived

    def getWriters(self) -> list[Any]:
        return [self] if self.waiting else []


class Producer:
    """A producer that records when it is paused and resumed."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def pauseProducing(self) -> None:
        self.told.append("pause")

    def resumeProducing(self) -> None:
        self.told.append("resume")

    def stopProducing(self) -> None:
        self.told.append("stop")


def refuses(error: Exception) -> Callable[[], int]:
    def takes() -> int:
        raise error

    return takes


def direct(tcp: Any) -> Any:
    """The transport that a protocol gets for a connection."""

    class Reactor:
        seconds = callLater = None

        def connectTCP(self, host: str, port: int, factory: Any, timeout: float) -> None:
            self.protocol = factory.buildProtocol(None)
            self.protocol.makeConnection(tcp)

    class Protocol:
        def makeConnection(self, transport: Any) -> None:
            self.transport = transport

    class Factory:
        noisy = False

        def buildProtocol(self, addr: Any) -> Protocol:
            return Protocol()

    reactor = Reactor()
    DirectWriteReactor(reactor).connectTCP("h", 1, Factory())
    return reactor.protocol.transport


def test_a_direct_write_goes_out_at_once() -> None:
    tcp = Tcp(lambda: 100)
    transport = direct(tcp)
    transport.write(b"abc")
    transport.writeSequence([b"de", b"f"])
    assert (tcp.sent, tcp.waiting) == ([b"abc", b"def"], [])


def test_nothing_overtakes_what_the_socket_did_not_take() -> None:
    tcp = Tcp(lambda: 2)
    transport = direct(tcp)
    transport.write(b"abc")
    transport.write(b"def")
    assert (tcp.sent, tcp.waiting) == ([b"ab"], [b"c", b"def"])
    tcp.waiting.clear()
    tcp.takes = lambda: 100
    transport.write(b"ghi")
    assert (tcp.sent, tcp.waiting) == ([b"ab", b"ghi"], [])


@pytest.mark.parametrize(
    ("takes", "left"), [(0, [b"abc", b"de"]), (2, [b"c", b"de"]), (3, [b"de"]), (4, [b"e"]), (5, [])]
)
def test_pieces_that_the_socket_did_not_accept_are_kept(takes: int, left: list[bytes]) -> None:
    tcp = Tcp(lambda: takes)
    direct(tcp).writeSequence([b"abc", b"de"])
    assert tcp.waiting == left


@pytest.mark.parametrize("seed", range(20))
def test_all_bytes_arrive_in_their_order(seed: int) -> None:
    rng = random.Random(seed)
    tcp = Tcp(lambda: rng.choice([0, 1, 7, 100, 10_000, 200_000]))
    transport = direct(tcp)
    if seed % 2:
        transport.registerProducer(Producer(), True)
    expected, arrived = b"", b""
    for number in range(100):
        size = rng.choice([30] * 9 + [2 * TURN_BYTES])
        most = 2 * MOST_PARTS if size == 30 else 4
        parts = [bytes([number]) * rng.randrange(1, size) for _ in range(rng.choice([1, 2, most]))]
        expected += b"".join(parts)
        if len(parts) == 1:
            transport.write(parts[0])
        else:
            transport.writeSequence(parts)
        if rng.random() < 0.3:
            arrived += tcp.comes_round()
    if seed % 4 == 1:
        transport.unregisterProducer()
    while tcp.sent or tcp.waiting:
        arrived += tcp.comes_round()
    assert arrived == expected


def test_twisted_gets_as_much_as_it_writes_in_a_turn_and_then_the_socket_is_tried_again() -> None:
    taken = iter([100, 5 * TURN_BYTES, 0, 10**9])
    tcp, producer = Tcp(lambda: next(taken)), Producer()
    transport = direct(tcp)
    transport.registerProducer(producer, True)
    data = random.Random(1).randbytes(8 * TURN_BYTES)
    transport.writeSequence([data[: 3 * TURN_BYTES], data[3 * TURN_BYTES :]])
    assert [len(tcp.sent[0]), sum(map(len, tcp.waiting))] == [100, TURN_BYTES]
    assert producer.told == ["pause"]
    arrived = tcp.comes_round()
    # The socket has taken some again, and Twisted has the end of it: that is as much as it pauses for.
    assert [len(tcp.sent[0]), sum(map(len, tcp.waiting))] == [5 * TURN_BYTES, TURN_BYTES]
    assert producer.told == ["pause", "pause"]
    arrived += tcp.comes_round() + tcp.comes_round() + tcp.comes_round()
    assert arrived == data
    assert producer.told[-1] == "resume"


def test_the_producer_goes_on_when_little_is_left() -> None:
    taken = iter([0, TURN_BYTES - 1])
    tcp, producer = Tcp(lambda: next(taken)), Producer()
    transport = direct(tcp)
    transport.registerProducer(producer, True)
    transport.write(b"a" * 2 * TURN_BYTES)
    tcp.comes_round()
    assert (tcp.waiting, producer.told) == ([b"a"], ["pause", "resume"])


def test_twisted_gets_everything_when_no_producer_is_registered() -> None:
    tcp = Tcp(lambda: 1)
    transport = direct(tcp)
    transport.write(b"a" * 3 * TURN_BYTES)
    assert sum(map(len, tcp.waiting)) == 3 * TURN_BYTES - 1
    other = Tcp(lambda: 1)
    transport = direct(other)
    transport.registerProducer(Producer(), True)
    transport.write(b"b" * 3 * TURN_BYTES)
    transport.write(b"end")
    transport.unregisterProducer()
    assert b"".join(other.waiting) == b"b" * (3 * TURN_BYTES - 1) + b"end"


def test_bytes_that_wait_are_dropped_with_the_connection() -> None:
    tcp, producer = Tcp(lambda: 0), Producer()
    transport = direct(tcp)
    transport.registerProducer(producer, True)
    transport.write(b"a" * 3 * TURN_BYTES)
    tcp.producer.stopProducing()
    transport.unregisterProducer()
    assert sum(map(len, tcp.waiting)) == TURN_BYTES
    assert producer.told == ["pause", "stop"]


@pytest.mark.parametrize("error", [BlockingIOError(11, "full"), BrokenPipeError(32, "gone")])
def test_a_write_that_fails_is_left_to_the_reactor(error: OSError) -> None:
    tcp = Tcp(refuses(error))
    transport = direct(tcp)
    transport.write(b"abc")
    transport.writeSequence([b"d"])
    assert tcp.waiting == [b"abc", b"d"]
    tcp.waiting.clear()
    transport.writeSequence([b"e", b"f"])
    assert tcp.waiting == [b"e", b"f"]


def test_a_closing_connection_has_no_direct_writes() -> None:
    tcp = Tcp(lambda: 100)
    tcp.disconnecting = True
    direct(tcp).write(b"abc")
    assert tcp.sent == []


def test_a_transport_without_a_socket_stays_as_it_is() -> None:
    bare: Any = object()
    assert direct(bare) is bare
