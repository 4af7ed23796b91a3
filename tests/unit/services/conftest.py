"""A server with real agents and engine, a virtual clock, and transports in memory."""

from collections.abc import Callable, Sequence
from typing import Any

import attrs
import msgspec
import pytest
from twisted.internet.defer import Deferred
from twisted.internet.error import CannotListenError, ConnectionDone
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from quorate.agents import Agent, AgentId, Context, Note, Notification, Opaque, reacts
from quorate.client.frames import MAGIC, VERSION, FrameBuffer, Hello, decode_server_frame, encode_frame
from quorate.client.session import Session
from quorate.services.base import ServerView, Service, ViewCallback
from quorate.services.client_connection import ClientConnection
from quorate.services.manager import ConnectionManager
from quorate.services.tcp import TcpProxyService
from quorate.testing.harness import Harness


@attrs.frozen
class Deposit(Notification):
    amount: int


@attrs.frozen
class Balance(Notification):
    amount: int


@attrs.define
class Account(Agent):
    balance: int = 0
    seen: list[int] = attrs.field(factory=list)

    @reacts
    def deposit(self, ctx: Context, note: Deposit) -> None:
        if note.amount < 0:
            raise ValueError("no debts")
        self.balance += note.amount
        self.seen.append(note.amount)
        ctx.send(ctx.sender, Balance(self.balance))


class FakeTcp:
    """One side of a TCP connection: what is written stands in `written`."""

    def __init__(self, link: ClientConnection):
        self.link = link
        self.written = bytearray()
        self.reading = True
        self.connected = True
        self.closing = False
        self.producer: Any = None

    def write(self, data: bytes) -> None:
        if self.connected:
            self.written += data

    def writeSequence(self, data: Sequence[bytes]) -> None:
        self.write(b"".join(data))

    def loseConnection(self) -> None:
        self.closing = True

    def abortConnection(self) -> None:
        self.cut()

    def pauseProducing(self) -> None:
        self.reading = False

    def resumeProducing(self) -> None:
        self.reading = True

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        self.producer = producer

    def unregisterProducer(self) -> None:
        self.producer = None

    def setTcpNoDelay(self, enabled: bool) -> None: ...

    def getPeer(self) -> Any:
        return None

    def getHost(self) -> Any:
        return None

    def read_written(self) -> bytes:
        data = bytes(self.written)
        self.written.clear()
        return data

    def cut(self) -> None:
        if self.connected:
            self.connected = False
            self.link.connectionLost(Failure(ConnectionDone()))


class FakePort:
    def __init__(self, port: int):
        self.port = port

    def stopListening(self) -> None:
        self.port = -1

    def getHost(self) -> Any:
        return self


class Reactor(Clock):
    """A virtual clock that can be listened on."""

    taken = False
    listener: Any = None

    def listenTCP(self, port: int, factory: Any, backlog: int = 50, interface: str = "") -> FakePort:
        if self.taken:
            raise CannotListenError(interface, port, OSError("address in use"))
        self.listener = (port, factory, interface)
        return FakePort(port)


class FakeContext:
    """Implements ServiceContext over an engine. What is posted waits for `commit`."""

    def __init__(self, harness: Harness, args: str = "2560"):
        self.harness = harness
        self.server_id, self.server_name, self.replica, self.host = 0, "s0", 0, "localhost"
        self.homes = self.local_context = False
        self.peers = [(0, "localhost", args), (1, "localhost", "2561"), (2, "far.example", "2562 60")]
        self.reactor = Reactor()
        self.client_reactor = self.reactor
        self.accepting = True
        self.lines: list[str] = []
        self.counts: dict[str, int] = {}
        self.gauges: dict[str, float] = {}
        self.settings: dict[str, str] = {}
        self.services: list[Service] = []
        self.queue: list[Note] = []
        self.auto = True
        self._waiting: dict[int, Deferred[Note]] = {}
        self._token = 0
        self._subscribers: list[tuple[str, Callable[[AgentId, msgspec.Struct], None]]] = []
        self._when: list[Callable[[], None]] = []

    def when_accepting(self, callback: Callable[[], None]) -> None:
        self._when.append(callback)

    def accept_again(self) -> None:
        self.accepting = True
        for callback in self._when:
            callback()
        self._when.clear()

    def setting(self, name: str, default: str = "") -> str:
        return self.settings.get(name, default)

    def sibling(self, service: type) -> Any:
        return next((s for s in self.services if isinstance(s, service)), None)

    def log(self, line: str) -> None:
        self.lines.append(line)

    def count(self, metric: str, n: int = 1) -> None:
        self.counts[metric] = self.counts.get(metric, 0) + n

    def gauge(self, metric: str, value: float) -> None:
        self.gauges[metric] = value

    def post(self, notes: list[Note]) -> None:
        self.queue += notes
        if self.auto:
            self.reactor.callLater(0, self.commit)

    def request(self, note: Note, timeout_s: float) -> Deferred[Note]:
        self._token += 1
        token = self._token
        deferred: Deferred[Note] = Deferred()
        self._waiting[token] = deferred

        def late() -> None:
            if self._waiting.pop(token, None):
                deferred.errback(TimeoutError("no reply"))

        self.reactor.callLater(timeout_s, late)
        self.post([msgspec.structs.replace(note, request=token)])
        return deferred

    def follow_views(self, callback: ViewCallback) -> None:
        callback(ServerView((1, 0), (0,)))

    def subscribe(self, topic: str, callback: Callable[[AgentId, msgspec.Struct], None]) -> None:
        self._subscribers.append((topic, callback))

    def commit(self) -> None:
        """One entry with all that waits."""
        queue, self.queue = self.queue, []
        if queue:
            self._act(self.harness.post(*queue))

    def pass_time(self, seconds: float) -> None:
        self._act(self.harness.advance(seconds))
        self.reactor.advance(seconds)
        self.reactor.advance(0)

    def _act(self, effects: Any) -> None:
        for topic, agent, message in effects.emissions:
            for wanted, callback in self._subscribers:
                if wanted == topic:
                    callback(agent, message)
        for reply in effects.replies:
            deferred = self._waiting.pop(reply.request, None)
            if deferred is not None:
                deferred.callback(reply)

    def settle(self) -> None:
        for _ in range(4):
            self.reactor.advance(0)


class Bench:
    """A context, its two services, and clients."""

    def __init__(
        self,
        args: str = "2560",
        settings: dict[str, str] | None = None,
        harness: Harness | None = None,
        host: str = "localhost",
    ):
        first = harness is None
        self.harness = harness or Harness(names={"s0": 0, "s1": 1})
        self.ctx = FakeContext(self.harness, args)
        self.ctx.settings, self.ctx.host = settings or {}, host
        self.manager, self.service = ConnectionManager(), TcpProxyService()
        self.ctx.services = [self.manager, self.service]
        started = self.manager.init(self.ctx, "root root alice secret", first)
        self.ctx.settle()
        assert started is not None
        assert started.called
        self.service.init(self.ctx, args, first)
        if first:
            self.alice = self.harness.deploy(Account, name="alice")

    def join(self) -> FakeTcp:
        """A new TCP connection."""
        link = self.ctx.reactor.listener[1].buildProtocol(None)
        tcp = FakeTcp(link)
        link.makeConnection(tcp)
        return tcp

    def say(self, tcp: FakeTcp, *frames: Any) -> list[Any]:
        """Send frames and return what the server has answered so far."""
        tcp.link.dataReceived(b"".join(encode_frame(f) if not isinstance(f, bytes) else f for f in frames))
        self.ctx.settle()
        return self.heard(tcp)

    def heard(self, tcp: FakeTcp) -> list[Any]:
        self.ctx.settle()
        buffer = FrameBuffer(1 << 24)
        buffer.feed(tcp.read_written())
        frames = []
        while (body := buffer.next()) is not None:
            frames.append(decode_server_frame(body))
        return frames

    def hello(
        self,
        user: str = "root",
        password: str = "root",
        connection: str | None = None,
        ack: int = 0,
        attempt: int = 0,
    ) -> Any:
        return Hello(MAGIC, VERSION, user, password, connection, ack, attempt)

    def opened(self, **kwargs: Any) -> tuple[FakeTcp, Any]:
        """A welcomed TCP connection, and the welcome."""
        tcp = self.join()
        welcome, *rest = self.say(tcp, self.hello(**kwargs))
        tcp.rest = rest  # type: ignore[attr-defined]
        return tcp, welcome


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture
def make_bench() -> type[Bench]:
    return Bench


@pytest.fixture
def deposit() -> Callable[..., tuple[str, bytes]]:
    """Type and payload of a deposit."""
    return lambda amount: (Deposit.type_name, msgspec.msgpack.encode({"amount": amount}))


__all__ = ["Account", "Balance", "Bench", "Deposit", "Opaque", "Session"]
