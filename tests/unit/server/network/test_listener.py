from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from twisted.internet.protocol import ClientFactory, Protocol

from quorate.client.frames import Bye, FrameBuffer, decode_server_frame, encode_frame
from quorate.client.frames import Hello as ClientHello
from quorate.hachannel.codec.framing import FrameReader, frame_parts
from quorate.hachannel.transport.connection import Link
from quorate.server.errors import StartError
from quorate.server.network.handshake import HELLO_TIMEOUT_S
from quorate.server.network.hello import (
    ADMIN,
    NETWORK,
    Hello,
    ProtocolError,
    Refused,
    build_hello,
    parse_hello,
)
from quorate.server.network.listener import MAX_ADMINISTRATORS, Listener
from quorate.server.network.rate_limit import RateLimit
from quorate.testing.servers.memory_network import MemoryNet


def joined(bodies: list[bytes]) -> bytes:
    return b"".join(frame_parts(bodies))


class Raw(Protocol):
    """A stranger."""

    def __init__(self) -> None:
        self.got: list[bytes] = []
        self.lost = False
        self._reader = FrameReader()

    def dataReceived(self, data: bytes) -> None:
        self.got += self._reader.feed(data)

    def connectionLost(self, reason: Any = None) -> None:
        self.lost = True


class Unframed(Raw):
    """A stranger that keeps the bytes as they come."""

    def dataReceived(self, data: bytes) -> None:
        self.got.append(data)


class Echo:
    """Serves a purpose by sending back what comes."""

    def answer(self, hello: Hello) -> Mapping[str, Any]:
        if hello.fields.get("unwanted"):
            raise ProtocolError("You are not wanted here.")
        return {"name": "echo"}

    def begin(self, link: Link, hello: Hello, frames: list[bytes]) -> None:
        link.handler = self
        if frames:
            self.frames(link, frames)

    def frames(self, link: Link, bodies: list[bytes]) -> None:
        link.send(bodies)

    def lost(self, link: Link, reason: str) -> None:
        pass


class ReplicaAddress:
    def __init__(self, net: MemoryNet, **options: Any) -> None:
        self.net = net
        self.lines: list[str] = []
        self.counts: list[str] = []
        self.reactor = net.machine("server")
        self.front = Listener(
            self.reactor,
            {ADMIN: Echo()},
            secret=None,
            log=self.lines.append,
            count=self.counts.append,
            **options,
        )
        self.front.listen(100)

    def connect(self, raw: Raw | None = None) -> Raw:
        raw = Raw() if raw is None else raw

        class Factory(ClientFactory):
            def buildProtocol(self, addr: Any) -> Raw:
                return raw

        self.net.machine("client").connectTCP("server", 100, Factory())
        self.net.advance(0.01)
        return raw


@pytest.fixture
def place(net: MemoryNet) -> ReplicaAddress:
    return ReplicaAddress(net)


def test_a_hello_is_answered_and_the_purpose_takes_over(place: ReplicaAddress) -> None:
    raw = place.connect()
    raw.transport.write(joined([build_hello(ADMIN, {}), b"and", b"more"]))
    place.net.advance(0.1)
    assert parse_hello(raw.got[0]).fields == {"name": "echo"}
    assert raw.got[1:] == [b"and", b"more"]
    assert place.counts == []


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        joined([b"not msgpack \xc1"]),
        joined([msgspec.msgpack.encode(["quorate", 99, "admin", {}])]),
        joined([msgspec.msgpack.encode(["quorate", 1, "network", {}])]),
        joined([build_hello(ADMIN, {"unwanted": True})]),
        joined([b"x" * 5000]),
    ],
)
def test_garbage_gets_one_line_and_is_counted_and_closed(place: ReplicaAddress, garbage: bytes) -> None:
    raw = place.connect()
    raw.transport.write(garbage)
    place.net.advance(0.1)
    assert raw.lost
    assert place.counts == ["garbage"]
    assert len(place.lines) == 1
    assert "127.0.0.1" in place.lines[0]
    assert place.front.connections == 0


def test_a_silent_connection_is_closed_after_a_while(place: ReplicaAddress) -> None:
    raw = place.connect()
    place.net.advance(HELLO_TIMEOUT_S - 0.1)
    assert not raw.lost
    place.net.advance(0.3)
    assert raw.lost
    assert place.counts == ["garbage"]


def test_a_connection_that_closes_without_a_byte_is_not_reported(place: ReplicaAddress) -> None:
    raw = place.connect()
    raw.transport.loseConnection()
    place.net.advance(HELLO_TIMEOUT_S * 2)
    assert place.counts == []
    assert place.lines == []


def greeted(place: ReplicaAddress, purpose: str = ADMIN) -> Raw:
    """A connection that has sent its hello."""
    raw = place.connect()
    raw.transport.write(joined([build_hello(purpose, {})]))
    place.net.advance(0.1)
    return raw


def test_connections_over_the_limit_are_refused(net: MemoryNet) -> None:
    place = ReplicaAddress(net, max_connections=2)
    raws = [greeted(place) for _ in range(3)]
    assert [raw.lost for raw in raws] == [False, False, True]
    with pytest.raises(Refused, match="Too many connections"):
        parse_hello(raws[2].got[0])
    assert place.counts == ["refused_connections"]
    assert place.front.connections == 2
    raws[0].transport.loseConnection()
    net.advance(0.1)
    assert not greeted(place).lost


def test_administrators_leave_places_for_replicas_and_servers(net: MemoryNet) -> None:
    place = ReplicaAddress(net)
    place.front._handlers = {ADMIN: Echo(), NETWORK: Echo()}
    raws = [greeted(place) for _ in range(MAX_ADMINISTRATORS + 1)]
    assert raws[-1].lost
    assert not any(raw.lost for raw in raws[:-1])
    assert not greeted(place, NETWORK).lost


@pytest.mark.parametrize("known", [False, True])
def test_silent_connections_do_not_keep_a_new_one_out(net: MemoryNet, known: bool) -> None:
    place = ReplicaAddress(net, is_known=lambda _: known)
    silent = [place.connect() for _ in range(100)]
    assert place.front.connections < 70
    assert not greeted(place).lost
    assert "too many connections have sent no hello" in place.lines[0]
    assert set(place.counts) == {"refused_connections"}
    net.advance(HELLO_TIMEOUT_S * 2)
    assert all(raw.lost for raw in silent)
    assert place.front.connections == 1


def test_refused_connections_that_do_not_close_do_not_keep_a_new_one_out(net: MemoryNet) -> None:
    place = ReplicaAddress(net)
    for _ in range(100):
        raw = place.connect()
        raw.transport.write(joined([build_hello(ADMIN, {"unwanted": True})]))
        net.advance(0.001, 0.001)
    assert not greeted(place).lost
    assert place.front.connections < 70


def test_a_taken_port_is_one_clear_sentence(place: ReplicaAddress) -> None:
    other = Listener(place.reactor, {}, secret=None, log=print, count=print)
    with pytest.raises(StartError, match=r"Port 100 .*stop the program that uses it or change the port"):
        other.listen(100)


def test_the_log_of_bad_connections_is_limited() -> None:
    lines: list[str] = []
    limit = RateLimit(lines.append, lines=2, period_s=10)
    for _ in range(5):
        limit.line(0.0, "bad")
    limit.line(11.0, "bad")
    assert lines == ["bad", "bad", "3 more lines about bad connections were left out", "bad"]


@pytest.mark.parametrize(
    ("client_port", "advice"),
    [
        (2560, "clients connect to port 2560 of this host"),
        (None, "this replica has no TcpProxyService, so clients cannot connect to it"),
    ],
)
def test_a_client_program_on_a_network_port_is_told_where_clients_connect(
    net: MemoryNet, client_port: int | None, advice: str
) -> None:
    place = ReplicaAddress(net, client_port=client_port)
    raw = place.connect(Unframed())
    raw.transport.write(encode_frame(ClientHello("quorate-client", 1, "root", "root")))
    net.advance(0.1)
    assert raw.lost
    buffer = FrameBuffer(1000)
    buffer.feed(b"".join(raw.got))
    body = buffer.next()
    assert body is not None
    assert decode_server_frame(body) == Bye("protocol", f"this port is for servers and commands; {advice}")
    assert place.counts == ["garbage"]
    assert place.lines[0].endswith("it is a client program, and this is a network port")


def test_a_hello_from_an_address_that_is_refused_does_not_reach_its_handler(net: MemoryNet) -> None:
    def check(hello: Hello, source: str) -> None:
        raise ProtocolError(f"{hello.purpose} is not for {source}.")

    place = ReplicaAddress(net, check_source=check)
    raw = place.connect()
    raw.transport.write(joined([build_hello(ADMIN, {})]))
    place.net.advance(0.1)
    with pytest.raises(Refused, match=r"admin is not for 127.0.0.1."):
        parse_hello(raw.got[0])
    assert raw.lost
    assert place.counts == ["garbage"]
    assert "admin is not for" in place.lines[0]
