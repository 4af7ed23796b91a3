"""Writing at once: what the socket takes, and what is left to Twisted, in order."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from quorate.hachannel.prompt import MOST_PARTS, PromptReactor


class Tcp:
    """A TCP connection as Twisted makes it, as far as a prompt write needs one, and its socket."""

    def __init__(self, takes: Callable[[], int]) -> None:
        self.reactor = self.socket = self
        self.takes = takes
        """How many bytes the socket takes next; it may raise."""
        self.connected, self.disconnecting = True, False
        self.sent: list[bytes] = []
        self.waiting: list[bytes] = []

    def send(self, data: bytes) -> int:
        self.sent.append(data[: self.takes()])
        return len(self.sent[-1])

    def sendmsg(self, parts: list[bytes]) -> int:
        assert len(parts) <= MOST_PARTS
        return self.send(b"".join(parts))

    def write(self, data: bytes) -> None:
        self.waiting.append(data)

    def writeSequence(self, parts: list[bytes]) -> None:
        self.waiting += parts

    def getWriters(self) -> list[Any]:
        return [self] if self.waiting else []


def refuses(error: Exception) -> Callable[[], int]:
    def takes() -> int:
        raise error

    return takes


def prompt(tcp: Any) -> Any:
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
    PromptReactor(reactor).connectTCP("h", 1, Factory())
    return reactor.protocol.transport


def test_a_prompt_write_goes_out_at_once() -> None:
    tcp = Tcp(lambda: 100)
    transport = prompt(tcp)
    transport.write(b"abc")
    transport.writeSequence([b"de", b"f"])
    assert (tcp.sent, tcp.waiting) == ([b"abc", b"def"], [])


def test_nothing_overtakes_what_the_socket_did_not_take() -> None:
    tcp = Tcp(lambda: 2)
    transport = prompt(tcp)
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
def test_of_parts_those_that_were_not_taken_are_left(takes: int, left: list[bytes]) -> None:
    tcp = Tcp(lambda: takes)
    prompt(tcp).writeSequence([b"abc", b"de"])
    assert tcp.waiting == left


@pytest.mark.parametrize("seed", range(20))
def test_all_bytes_arrive_in_their_order(seed: int) -> None:
    rng = random.Random(seed)
    tcp = Tcp(lambda: rng.choice([0, 1, 7, 100, 10_000]))
    transport = prompt(tcp)
    expected, arrived = b"", b""
    for number in range(200):
        parts = [bytes([number]) * rng.randrange(1, 30) for _ in range(rng.choice([1, 2, 2 * MOST_PARTS]))]
        expected += b"".join(parts)
        if len(parts) == 1:
            transport.write(parts[0])
        else:
            transport.writeSequence(parts)
        if rng.random() < 0.3:
            # The reactor has come round.
            arrived += b"".join(tcp.sent + tcp.waiting)
            tcp.sent.clear()
            tcp.waiting.clear()
    assert arrived + b"".join(tcp.sent + tcp.waiting) == expected


@pytest.mark.parametrize("error", [BlockingIOError(11, "full"), BrokenPipeError(32, "gone")])
def test_what_cannot_be_written_is_left_to_the_reactor(error: OSError) -> None:
    tcp = Tcp(refuses(error))
    transport = prompt(tcp)
    transport.write(b"abc")
    transport.writeSequence([b"d"])
    assert tcp.waiting == [b"abc", b"d"]
    tcp.waiting.clear()
    transport.writeSequence([b"e", b"f"])
    assert tcp.waiting == [b"e", b"f"]


def test_a_connection_that_closes_takes_nothing_at_once() -> None:
    tcp = Tcp(lambda: 100)
    tcp.disconnecting = True
    prompt(tcp).write(b"abc")
    assert tcp.sent == []


def test_a_transport_without_a_socket_stays_as_it_is() -> None:
    bare: Any = object()
    assert prompt(bare) is bare
