"""The connector: TCP, then the handshake, then either `opened` or `failed`, once."""

from collections.abc import Callable, Mapping
from typing import Any

import attrs
import pytest
from twisted.internet.protocol import Factory

from quorate.hachannel.transport.connection import Link, LinkSettings
from quorate.hachannel.transport.connector import NO_ADDRESS, NOBODY_LISTENS, connect
from quorate.testing.servers.memory_network import MemoryNames, MemoryNet

SETTINGS = LinkSettings()


@attrs.define
class OneAnswer:
    """A handshake that is done after one frame, and refuses b"no"."""

    first: bytes = b"hello"
    done: bool = False
    fields: Mapping[str, Any] = attrs.field(factory=dict[str, Any])

    def receive(self, frame: bytes) -> list[bytes]:
        if frame == b"no":
            raise ValueError("it is refused: ask somebody else")
        self.done, self.fields = True, {"answer": frame}
        return [b"thanks"]


@attrs.define(eq=False)
class Accepting:
    """The listening side: it answers the first frame with `answers`."""

    answers: list[bytes]
    got: list[bytes] = attrs.field(factory=list[bytes])
    losses: int = 0

    def frames(self, link: Link, bodies: list[bytes]) -> None:
        if not self.got and self.answers:
            link.send(self.answers)
        self.got += bodies

    def lost(self, link: Link, reason: str) -> None:
        self.losses += 1


@attrs.define
class Attempt:
    opened: list[tuple[Link, Mapping[str, Any], list[bytes]]] = attrs.field(factory=list)
    failed: list[str] = attrs.field(factory=list)
    cancel: Callable[[], None] = lambda: None


@pytest.fixture
def net() -> MemoryNet:
    return MemoryNet()


def listen(net: MemoryNet, answers: list[bytes], host: str = "far") -> Accepting:
    side = Accepting(answers)
    reactor = net.machine(host)

    class Listening(Factory):
        def buildProtocol(self, addr: object) -> Link:
            return Link(reactor, SETTINGS, side)

    reactor.listenTCP(7, Listening())
    return side


def dial(net: MemoryNet, names: MemoryNames | None = None) -> Attempt:
    attempt = Attempt()
    reactor: Any = net.machine("near")
    if names is not None:
        reactor.nameResolver = names

    def opened(link: Link, fields: Mapping[str, Any], frames: list[bytes]) -> None:
        attempt.opened.append((link, fields, frames))

    attempt.cancel = connect(reactor, ("far", 7), SETTINGS, OneAnswer(), opened, attempt.failed.append)
    return attempt


def test_the_opened_link_comes_with_the_fields_and_the_frames_after_the_handshake(net: MemoryNet) -> None:
    side = listen(net, [b"welcome", b"early"])
    attempt = dial(net)
    net.advance(1)
    [(_, fields, frames)] = attempt.opened
    assert (fields, frames) == ({"answer": b"welcome"}, [b"early"])
    assert side.got == [b"hello", b"thanks"]
    assert attempt.failed == []


def test_a_refusal_is_the_reason_of_the_failure(net: MemoryNet) -> None:
    side = listen(net, [b"no"])
    attempt = dial(net)
    net.advance(1)
    assert attempt.failed == ["it is refused: ask somebody else"]
    assert (attempt.opened, side.losses) == ([], 1)


def test_a_port_that_nobody_listens_on_fails_the_attempt_once(net: MemoryNet) -> None:
    attempt = dial(net)
    net.advance(2 * SETTINGS.hello_timeout_s)
    assert len(attempt.failed) == 1


def test_a_side_that_sends_no_hello_fails_the_attempt_after_the_timeout(net: MemoryNet) -> None:
    side = listen(net, [])
    attempt = dial(net)
    net.advance(SETTINGS.hello_timeout_s - 0.1)
    assert attempt.failed == []
    net.advance(0.2)
    assert attempt.failed == ["no hello came in time"]
    assert side.losses == 1


@pytest.mark.parametrize("after_s", [0.0, 0.0005, 0.0025])
def test_a_cancelled_attempt_reports_nothing_and_leaves_no_connection(net: MemoryNet, after_s: float) -> None:
    listen(net, [b"welcome"])
    attempt = dial(net)
    if after_s:
        net.advance(after_s, after_s)
    attempt.cancel()
    net.advance(2 * SETTINGS.hello_timeout_s)
    assert (attempt.opened, attempt.failed) == ([], [])
    assert net.wires == []


@pytest.mark.parametrize(
    "addresses", [("2001:db8::1",), ("2001:db8::1", "192.0.2.1"), ("::2", "2001:db8::1")]
)
def test_a_host_name_is_tried_at_each_of_its_addresses(net: MemoryNet, addresses: tuple[str, ...]) -> None:
    side = listen(net, [b"welcome"], "2001:db8::1")
    attempt = dial(net, MemoryNames(*addresses))
    net.advance(1)
    assert len(attempt.opened) == 1
    assert side.got == [b"hello", b"thanks"]


def test_a_host_name_with_both_ip_versions_is_tried_with_ipv4_first(net: MemoryNet) -> None:
    six, four = (listen(net, [b"welcome"], host) for host in ("2001:db8::1", "192.0.2.1"))
    dial(net, MemoryNames("2001:db8::1", "192.0.2.1"))
    net.advance(1)
    assert (six.got, four.got) == ([], [b"hello", b"thanks"])


def test_an_attempt_fails_once_when_no_address_of_the_host_accepts(net: MemoryNet) -> None:
    attempt = dial(net, MemoryNames("2001:db8::1", "192.0.2.1"))
    net.advance(2 * SETTINGS.hello_timeout_s)
    [reason] = attempt.failed
    assert NOBODY_LISTENS in reason


def test_an_attempt_at_a_host_name_without_an_address_fails_with_that_reason(net: MemoryNet) -> None:
    attempt = dial(net, MemoryNames())
    net.advance(1)
    [reason] = attempt.failed
    assert NO_ADDRESS in reason
