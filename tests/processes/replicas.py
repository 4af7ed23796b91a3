"""Servers of real processes for tests: their configuration, their agents, and what they say of themselves."""

import contextlib
import re
import secrets
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import attrs
import msgspec

from quorate.agents import Create, Notification, encode
from quorate.client import Connection
from quorate.client.frames import (
    MAGIC,
    VERSION,
    Bye,
    ClientInput,
    ClientNote,
    ClientOutput,
    FrameBuffer,
    Hello,
    ServerFrame,
    Welcome,
    decode_server_frame,
    encode_frame,
)
from quorate.server.admin import wire
from quorate.server.admin.client import ServerAdmin
from quorate.server.admin.connection import AdminError
from quorate.server.admin.replica_status import gather
from quorate.server.cli.deploy import deploy
from quorate.server.cli.launcher import Launcher
from quorate.server.cli.supervisor import Supervisor
from quorate.server.config import load
from quorate.server.processes.free_ports import free_ports

from .running import BOUND_S

ACTS = """
import os
import time

from quorate.services.base import Service


class Acts(Service):
    def init(self, ctx, args, first_time):
        self.reactor = ctx.reactor
        self.name = f"{ctx.replica}/{time.monotonic()}/{first_time}"
        self.file = os.open(args, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.act()

    def act(self):
        os.write(self.file, f"{self.name} {time.monotonic()}\\n".encode())
        self.call = self.reactor.callLater(0.005, self.act)

    def stop(self):
        self.call.cancel()
"""
"""The module `acts`: a service that writes down every few milliseconds that it does something."""
LEDGER = """
import attrs

from quorate import Agent, Context, Notification, reacts


@attrs.frozen
class Entry(Notification):
    number: int


@attrs.frozen
class Ask(Notification):
    pass


@attrs.frozen
class Sum(Notification):
    numbers: list[int]


@attrs.define
class Ledger(Agent):
    numbers: list[int] = attrs.field(factory=list)

    @reacts
    def entry(self, ctx: Context, note: Entry) -> None:
        self.numbers.append(note.number)

    @reacts
    def ask(self, ctx: Context, note: Ask) -> None:
        ctx.send(ctx.sender, Sum(self.numbers))


@attrs.define
class Forwarder(Agent):
    to: str = "ledger@s1"

    @reacts
    def entry(self, ctx: Context, note: Entry) -> None:
        ctx.send(self.to, note)
"""
"""The module `ledger` on the servers: an agent that records what it gets, and one that sends it on."""


@attrs.frozen
class Entry(Notification):
    """A number for a ledger."""

    number: int


@attrs.frozen
class Ask(Notification):
    """What has come so far?"""


@attrs.frozen
class Sum(Notification):
    """Its answer."""

    numbers: list[int]


for _cls in (Entry, Ask, Sum):
    _cls.type_name = f"ledger:{_cls.__name__}"


@attrs.frozen
class Part:
    """A server of the configuration: a cluster when it has more than one replica."""

    name: str
    replicas: int = 1
    networks: tuple[str, ...] = ("D1",)
    clients: bool = True
    witnesses: int = 0
    """So many of the replicas, the last ones."""
    attributes: str = ""
    """More of them, for the element of the server or cluster."""
    services: str = ""
    """More elements, for each replica."""

    def element(self, id: int, hosts: Sequence[str], ports: Iterable[int]) -> str:
        """Write the element; takes as many ports as it needs."""
        own = f'name="{self.name}" {self.attributes}'
        take = iter(ports)
        replicas = [
            f'<server id="{number if self.replicas > 1 else id}" '
            f'{own if self.replicas == 1 else ""} hostname="{hosts[number]}"'
            + (' witness="true">' if number >= self.replicas - self.witnesses else ">")
            + "".join(f'<network domain="{domain}" port="{next(take)}"/>' for domain in self.networks)
            + (self._services(next(take)) if self.clients and number < self.replicas - self.witnesses else "")
            + ("" if number >= self.replicas - self.witnesses else self.services)
            + "</server>"
            for number in range(self.replicas)
        ]
        inside = "".join(replicas)
        if self.replicas == 1:
            return inside
        return f'<cluster id="{id}" {own}>{inside}</cluster>'

    def _services(self, port: int) -> str:
        return (
            '<service class="org.objectweb.joram.mom.proxies.ConnectionManager" args="root root"/>'
            f'<service class="org.objectweb.joram.mom.proxies.tcp.TcpProxyService" args="{port}"/>'
        )


def write_config(
    path: Path,
    parts: Sequence[Part],
    *,
    properties: dict[str, object],
    hosts: Sequence[str],
    ports: Iterable[int],
) -> None:
    """Write a configuration; every server's replica n is on the n-th host."""
    domains = sorted({domain for part in parts for domain in part.networks})
    take = iter(ports)
    path.write_text(
        "<config>"
        + "".join(f'<property name="{name}" value="{value}"/>' for name, value in properties.items())
        + "".join(f'<domain name="{domain}"/>' for domain in domains)
        + "".join(part.element(id, hosts, take) for id, part in enumerate(parts))
        + "</config>"
    )


class Site:
    """Servers of this machine, each replica a process. The first one is the one that is asked by default."""

    def __init__(
        self,
        place: Path,
        *parts: Part,
        modules: dict[str, str] | None = None,
        hosts: Sequence[str] = ("localhost",) * 9,
        **properties: object,
    ):
        """Prepare them in a directory. Properties of the configuration; no trace unless it is one of them.

        hosts: of the replicas of every server, by number.
        """
        self.place = place
        self.name = parts[0].name
        self.replicas = range(parts[0].replicas)
        self.xml = place / "a3servers.xml"
        write_config(
            self.xml,
            parts,
            properties={"trace": "false", **properties},
            hosts=hosts,
            ports=free_ports(sum(part.replicas * (len(part.networks) + 1) for part in parts)),
        )
        for name, source in {"ledger": LEDGER, **(modules or {})}.items():
            (place / f"{name}.py").write_text(source)
        self.config = load(self.xml)
        self.said: list[str] = []
        """What replicas have said, with their names in front."""
        self.supervise()

    def supervise(self) -> None:
        """Have a supervisor, or another one after the last has stopped."""
        self.supervisor = Supervisor(
            self.xml,
            self.place / "data",
            launcher=Launcher({"PYTHONPATH": str(self.place)}),
            on_event=lambda event: self.said.append(f"{event.name} {event.text}"),
        )

    def run(self, *command: str) -> "subprocess.CompletedProcess[str]":
        """Run a command of `quorate` to its end."""
        return subprocess.run(
            [sys.executable, "-m", "quorate", *command],
            cwd=self.place,
            capture_output=True,
            text=True,
            timeout=BOUND_S,
            check=False,
        )

    def deploy(self, cls: str, server: str = "", name: str = "") -> None:
        """Create an agent, for example "ledger:Ledger"; it gets the class's name in small letters."""
        agent = name or cls.partition(":")[2].lower()
        state = msgspec.msgpack.encode({})
        deploy(self.admin(server), Create(cls, agent, state, None, secrets.token_hex(16)))

    def url(self, server: str = "") -> str:
        """Where clients connect."""
        return self.config.client_urls(server or self.name)

    def client_address(self, replica: int) -> tuple[str, int]:
        """Where clients connect to one replica of the first server."""
        host, _, port = self.url().partition("://")[2].split(",")[replica].rpartition(":")
        return host, int(port)

    def directory(self, replica: int = 0, server: str = "") -> Path:
        """The data of a replica."""
        return self.place / "data" / (server or self.name) / str(replica)

    def log(self, replica: int = 0, server: str = "") -> str:
        """What a replica has logged, this life and earlier ones."""
        return "".join(path.read_text() for path in sorted(self.directory(replica, server).glob("log*")))

    # Killing

    def kill(self, *replicas: int, server: str = "") -> None:
        """Kill replicas at the same time, and wait until they are gone."""
        name = server or self.name
        for replica in replicas:
            self.supervisor.kill(name, replica, signal.SIGKILL)
        pause = threading.Event()
        for replica in replicas:
            while self.supervisor.pid(name, replica) is not None:
                pause.wait(0.005)

    def freeze(self, replica: int) -> None:
        """Stop a process where it stands."""
        self.supervisor.kill(self.name, replica, signal.SIGSTOP)

    def thaw(self, replica: int) -> None:
        """Let it go on."""
        self.supervisor.kill(self.name, replica, signal.SIGCONT)

    def until_gone(self, replica: int) -> None:
        """Wait until a replica has ended by itself."""
        pause = threading.Event()
        for _ in range(int(BOUND_S / 0.1)):
            if self.supervisor.pid(self.name, replica) is None:
                return
            pause.wait(0.1)
        raise AssertionError(f"it goes on: {self.statuses()}")

    def stop(self) -> None:
        """`quorate stop`, for all."""
        done = self.run("stop", str(self.xml))
        assert done.returncode == 0, done.stdout + done.stderr
        for replica in self.replicas:
            self.until_gone(replica)

    def start(self, *replicas: int) -> None:
        """Start replicas that do not run."""
        for replica in replicas:
            self.supervisor.start_replica(self.name, replica)

    # Asking

    def admin(self, server: str = "") -> ServerAdmin:
        """Calls to a server."""
        return ServerAdmin(self.config, self.config.server(server or self.name))

    def statuses(self, server: str = "") -> list[dict[str, Any]]:
        """What the replicas that answer say."""
        ((_, replicas),) = gather([self.admin(server)])
        return [replica.status for replica in replicas if replica.status is not None]

    def until(self, condition: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
        """Ask for statuses until they fulfil the condition."""
        pause = threading.Event()
        for _ in range(int(BOUND_S / 0.1)):
            statuses = self.statuses()
            if condition(statuses):
                return statuses
            pause.wait(0.1)
        raise AssertionError(f"it did not happen: {self.statuses()}")

    def master(self) -> int:
        """The one master, as soon as there is one."""
        (master,) = [status["replica"] for status in self.until(one_master) if status["role"] == "master"]
        return int(master)

    def slaves(self) -> list[int]:
        """The others that run."""
        master = self.master()
        return [id for id in self.replicas if id != master and self.supervisor.pid(self.name, id) is not None]

    def whole(self) -> None:
        """Wait until all replicas are in one view, with equal states at equal positions."""
        count = len(self.replicas)
        self.until(lambda statuses: len(statuses) == count and agreed(statuses))

    def ledger(self, replica: int, agent: str = "ledger", server: str = "") -> list[int]:
        """What a ledger recorded, according to one replica."""
        call = wire.Inspect(agent, anywhere=True)
        try:
            found = self.admin(server).ask(replica, call, wire.AgentState)
        except AdminError as error:
            raise AssertionError(f"replica {replica} does not show {agent}: {error}") from error
        return [int(number) for number in msgspec.msgpack.decode(found.state)["numbers"]]

    def ledgers(self, *replicas: int) -> dict[str, list[int]]:
        """What each replica recorded, by its name: for `sequences.check`."""
        return {f"{self.name}.{replica}": self.ledger(replica) for replica in replicas or self.replicas}

    def incarnations(self, replica: int) -> set[str]:
        """The lives of a replica as a voter."""
        return set(re.findall(r"starts, incarnation (\d+)", self.log(replica)))


def one_master(statuses: list[dict[str, Any]]) -> bool:
    """Whether there is exactly one."""
    return [status["role"] for status in statuses].count("master") == 1


def agreed(statuses: list[dict[str, Any]]) -> bool:
    """Whether all that answer are in one view, with equal states at equal positions."""
    return (
        sorted(status["role"] for status in statuses) == ["master"] + ["slave"] * (len(statuses) - 1)
        and len({(status["view"], status["applied"], status["digest"]) for status in statuses}) == 1
    )


class PinnedClient:
    """A client that stays with one replica, whatever happens: frames on a socket."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._socket = socket.create_connection(address, timeout=BOUND_S)
        self._buffer = FrameBuffer(1 << 24)
        self._sent = 0
        self.acknowledged = 0
        """How many of its notifications it was told to be safe."""
        self.goodbye = ""
        """The last word of the replica, if it said one."""
        self._say(Hello(MAGIC, VERSION, "root", "root", None, 0, 1))
        assert isinstance(self._read()[0], Welcome)

    def send(self, *numbers: int) -> None:
        """Send numbers to the ledger."""
        notes = [ClientNote("ledger", Entry.type_name, encode(Entry(number)), 0) for number in numbers]
        self._say(ClientInput(0, self._sent + 1, notes))
        self._sent += len(notes)

    def until_acknowledged(self, count: int) -> None:
        """Wait until so many are safe."""
        while self.acknowledged < count:
            assert self._read(), "the replica closed the connection"

    def until_closed(self) -> None:
        """Read until the replica closes the connection, in any way."""
        with contextlib.suppress(ConnectionError):
            while self._read():
                pass
        self._socket.close()

    def _say(self, frame: Hello | ClientInput) -> None:
        self._socket.sendall(encode_frame(frame))

    def _read(self) -> list[ServerFrame]:
        """The next frames; none when the connection is closed."""
        frames: list[ServerFrame] = []
        while not frames:
            data = self._socket.recv(65536)
            if not data:
                return []
            self._buffer.feed(data)
            while (body := self._buffer.next()) is not None:
                frames.append(decode_server_frame(body))
        for frame in frames:
            if isinstance(frame, ClientOutput):
                self.acknowledged = max(self.acknowledged, frame.in_ack)
            elif isinstance(frame, Bye):
                self.goodbye = frame.text
        return frames


def refuses(address: tuple[str, int]) -> bool:
    """Whether nobody listens there."""
    try:
        socket.create_connection(address, timeout=BOUND_S).close()
    except ConnectionError:
        return True
    return False


def ask_ledger(client: Connection, agent: str = "ledger") -> list[int]:
    """What a ledger recorded, according to the master."""
    return client.request(agent, Ask(), reply=Sum, timeout=BOUND_S).numbers
