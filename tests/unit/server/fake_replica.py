"""A replica's administration without a replica: a target in memory, and real sockets served by threads."""

import contextlib
import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import msgspec
import pytest
from twisted.internet.defer import Deferred, succeed

from quorate.agents import (
    FIRST_FREE_STAMP,
    AgentId,
    AgentPage,
    AgentRow,
    ListAgents,
    Note,
    encode,
    outside,
)
from quorate.engine import AgentState
from quorate.hachannel.codec.framing import HEADER_BYTES, frame_parts
from quorate.server.admin import wire
from quorate.server.admin.protocol import AdminProtocol, NotMaster
from quorate.server.network.handshake import NONCE_BYTES, Acceptor
from quorate.server.network.hello import ProtocolError
from quorate.server.processes.free_ports import free_ports

ALICE = AgentId(0, 0, 1025)


@attrs.define
class FakeTarget:
    """What AdminTarget asks for; tests set the fields."""

    server_id: int = 0
    replica: int = 0
    role: str = "master"
    master: tuple[str, int] | None = None
    waits: str = ""
    watches: str = ""
    applied: int = 0
    known: list[tuple[AgentId, str, str, int]] = attrs.Factory(
        lambda: [(ALICE, "alice", "examples.bank:Account", 3), (AgentId(0, 0, 2), "", "quorate:Factory", 1)]
    )
    states: dict[Any, bytes] = attrs.Factory(dict)
    kept: dict[AgentId, AgentState] = attrs.Factory(dict)
    failure: Note | None = None
    posted: list[Note] = attrs.Factory(list)
    requested: list[Note] = attrs.Factory(list)
    answer: Callable[[Note], Any] = lambda note: None
    stops: int = 0
    together: bool | None = None
    on_stop: Callable[[], None] = lambda: None

    def status(self) -> "Deferred[dict[str, Any]]":
        found = {
            "server": "s0",
            "server_id": 0,
            "replica": self.replica,
            "role": self.role,
            "diagnosis": self.waits,
            "view": 4,
            "commit": 99,
            "applied": self.applied,
        }
        return succeed(found)

    def master_address(self) -> tuple[str, int] | None:
        return self.master

    def diagnosis(self) -> str:
        return self.waits

    def agentless(self) -> str:
        return ""

    def command(self, name: str, arguments: Mapping[str, Any]) -> Any:
        raise NotImplementedError

    def lacks_all(self) -> str:
        return self.watches

    def page(self, ask: ListAgents) -> AgentPage:
        rows = sorted(row for row in self.known if not ask.after or row[0] > AgentId.parse(ask.after))
        rows = [row for row in rows if ask.platform or row[0].stamp >= FIRST_FREE_STAMP]
        rows = [row for row in rows if ask.name in ("", row[1]) and ask.class_name in ("", row[2])]
        last = str(rows[ask.limit - 1][0]) if len(rows) > ask.limit else ""
        return AgentPage([AgentRow(*row) for row in rows[: ask.limit]], last)

    def inspect(self, address: AgentId | str) -> tuple[AgentRow, bytes] | None:
        rows = [AgentRow(*row) for row in self.known if address in row[:2]]
        return (rows[0], self.states[address]) if rows and address in self.states else None

    def stored(self, identity: AgentId) -> AgentState:
        return self.kept[identity]

    def figures(self) -> list[wire.FigureRow]:
        return []

    def begin_backup(self, birth: int, have: int) -> wire.BackupBegun:
        raise NotImplementedError

    def continue_backup(self, token: int) -> "Deferred[wire.BackupPart]":
        raise NotImplementedError

    def post(self, note: Note) -> "Deferred[Note | None]":
        if self.role != "master" or self.waits:
            raise NotMaster(self.master, self.waits, leads=self.role == "master")
        self.posted.append(note)
        return succeed(self.failure)

    def request(self, note: Note, timeout_s: float) -> "Deferred[Note]":
        if self.role != "master" or self.waits:
            raise NotMaster(self.master, self.waits, leads=self.role == "master")
        self.requested.append(note)
        result = self.answer(note)
        if isinstance(result, Exception):
            raise result
        if isinstance(result, Deferred):
            return result
        return succeed(Note(outside(0), self.sender(note.to), type(result).type_name, encode(result)))

    @staticmethod
    def sender(to: AgentId | str) -> AgentId:
        return to if isinstance(to, AgentId) else ALICE

    def stop(self, *, together: bool, again: bool) -> None:
        self.stops += 1
        self.together = together
        self.on_stop()


class Served:
    """A target served on a loopback port by threads."""

    def __init__(
        self,
        target: FakeTarget,
        secret: str | None = None,
        loopback: bool = True,
        port: int = 0,
        host: str = "localhost",
    ) -> None:
        self.host = host
        self.target = target
        self.secret = secret
        self.loopback = loopback
        self.calls = 0
        self.drop_calls = 0
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port: int = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._open: list[socket.socket] = []
        self._threads[0].start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                peer, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, peer: socket.socket) -> None:
        def send(frame: bytes) -> None:
            peer.sendall(b"".join(frame_parts([frame])))

        acceptor = Acceptor(
            lambda _hello: {"address": [self.host, self.port]},
            secret=self.secret,
            nonce=os.urandom(NONCE_BYTES),
            loopback=self.loopback,
        )
        with peer, peer.makefile("rb") as reader, contextlib.suppress(OSError):
            protocol = AdminProtocol(self.target, send)
            while len(head := reader.read(HEADER_BYTES)) == HEADER_BYTES:
                frame = reader.read(struct.unpack_from(">I", head)[0])
                if acceptor.done:
                    self.calls += 1
                    if self.drop_calls:
                        self.drop_calls -= 1
                        return
                    protocol.frame_received(frame)
                    continue
                try:
                    for answer in acceptor.receive(frame):
                        send(answer)
                except ProtocolError as error:
                    if error.answer is not None:
                        send(error.answer)
                    return


@pytest.fixture
def serve() -> Iterator[Callable[..., Served]]:
    """Serve a target; closed at the end of the test."""
    open_: list[Served] = []

    def serve(target: FakeTarget, **options: Any) -> Served:
        served = Served(target, **options)
        open_.append(served)
        return served

    yield serve
    for served in open_:
        served.close()


@pytest.fixture
def target() -> Callable[..., FakeTarget]:
    """Make a target."""
    return FakeTarget


@pytest.fixture
def xml(tmp_path: Path) -> Callable[..., Path]:
    """Write a configuration: a cluster s0 on the given ports, or a plain server on one."""

    def write(*ports: int, secret: str = "", plain: bool = False, durability: str = "disk") -> Path:
        named = 'name="s0"' if plain else ""
        replicas = [
            f'<server id="{number}" hostname="localhost" {named}>'
            f'<network domain="D1" port="{port}"/></server>'
            for number, port in enumerate(ports)
        ]
        begin = f'<cluster id="0" name="s0" durability="{durability}">'
        body = "".join(replicas) if plain else f"{begin}{''.join(replicas)}</cluster>"
        key = f'<property name="secret" value="{secret}"/>' if secret else ""
        path = tmp_path / "a3servers.xml"
        path.write_text(f'<config>{key}<domain name="D1"/>{body}</config>')
        return path

    return write


@pytest.fixture
def hold() -> Iterator[Callable[[Path], "subprocess.Popen[bytes]"]]:
    """Start a process that holds the directory of s0.1 in a directory, and does nothing with it."""
    script = (
        "import sys, pathlib, signal; from quorate.server.storage.data_directory import DataDirectory;"
        "d = DataDirectory.open(pathlib.Path(sys.argv[1]), 's0', 1);"
        "print('held', flush=True); signal.pause()"
    )
    with contextlib.ExitStack() as processes:

        def start(data: Path) -> "subprocess.Popen[bytes]":
            command = [sys.executable, "-c", script, str(data)]
            process = processes.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE))
            processes.callback(process.kill)
            assert process.stdout is not None
            assert process.stdout.readline() == b"held\n"
            return process

        yield start


@pytest.fixture
def free_port() -> int:
    """A port on which nobody listens."""
    return free_ports(1)[0]


@pytest.fixture
def state() -> bytes:
    """The state of alice."""
    return msgspec.msgpack.encode({"balance": 12})
