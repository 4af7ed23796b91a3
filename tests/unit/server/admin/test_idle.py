"""An administrator's connection that is not used is closed."""

from pathlib import Path
from typing import Any, cast

from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock

from quorate.agents import Note, outside
from quorate.server.admin.wire import Body, Call, Request, Status, encode
from quorate.server.network.hello import ADMIN, build_hello, parse_hello
from quorate.server.replica.inbound import ADMIN_IDLE_S, AdminHandler


class Wire:
    peer = "127.0.0.1:5000"

    def __init__(self) -> None:
        self.handler: Any = None
        self.sent: list[bytes] = []
        self.dropped = ""

    def send(self, frames: list[bytes]) -> None:
        self.sent += frames

    def limit_frames(self, _: int) -> None:
        pass

    def drop(self, reason: str) -> None:
        self.dropped = reason
        self.handler.lost(self, reason)


class Host:
    server_id = 0

    def __init__(self, directory: Path) -> None:
        self.reactor = Clock()
        self.directory = directory
        self.reply: Deferred[Note] = Deferred()

    def status(self) -> "Deferred[dict[str, Any]]":
        return succeed({})

    def wall_ns(self) -> int:
        return 0

    def log(self, line: str) -> None:
        del line

    def agentless(self) -> str:
        return ""

    def request(self, _note: Note, _timeout_s: float) -> "Deferred[Note]":
        return self.reply


def begin(host: Host) -> Wire:
    wire = Wire()
    hello = parse_hello(build_hello(ADMIN, {}))
    AdminHandler(cast("Any", host), cast("Any", host)).begin(cast("Any", wire), hello, [])
    return wire


def call(wire: Wire, body: Body) -> None:
    wire.handler.frames(wire, [encode(Call(1, body))])


def test_a_connection_is_closed_when_nothing_is_asked(tmp_path: Path) -> None:
    host = Host(tmp_path)
    wire = begin(host)
    for _ in range(4):
        host.reactor.advance(ADMIN_IDLE_S / 2)
        call(wire, Status())
    assert wire.dropped == ""
    host.reactor.pump([ADMIN_IDLE_S / 2] * 3)
    assert wire.dropped
    assert host.reactor.getDelayedCalls() == []


def test_a_call_that_takes_long_keeps_its_connection(tmp_path: Path) -> None:
    host = Host(tmp_path)
    wire = begin(host)
    call(wire, Request("alice", "m:T", b"\x80", 300.0))
    host.reactor.pump([ADMIN_IDLE_S] * 4)
    assert wire.dropped == ""
    host.reply.callback(Note(outside(0), outside(0), "m:T", b"\x80"))
    assert len(wire.sent) == 1
    host.reactor.pump([ADMIN_IDLE_S] * 3)
    assert wire.dropped
