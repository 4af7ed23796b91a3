"""A model of a replicated server, to test the clients against: real sockets, one thread, no replication."""

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable

import attrs
import msgspec
import pytest

from quorate.agents import AgentId, ExceptionNotification, Notification, UnknownAgent, encode
from quorate.client.frames import (
    Bye,
    ClientInput,
    ClientOutput,
    Close,
    FrameBuffer,
    Hello,
    Ping,
    Pong,
    ServerNote,
    Welcome,
    decode_client_frame,
    encode_frame,
)

ALICE = AgentId(0, 0, 1030)


@attrs.frozen
class Deposit(Notification):
    amount: int
    text: str = ""


@attrs.frozen
class Balance(Notification):
    amount: int


class Context:
    """State of one connection: what a proxy agent would hold."""

    def __init__(self, user: str):
        self.user = user
        self.last_in = 0
        self.last_out = 0
        self.output: dict[int, ServerNote] = {}


class Replica(asyncio.Protocol):
    """One TCP connection to the model."""

    def __init__(self, model: "Model"):
        self.model = model
        self.buffer = FrameBuffer(1 << 24)
        self.context: Context | None = None
        self.transport: asyncio.Transport

    def connection_made(self, transport):
        self.transport = transport
        self.model.links.add(self)

    def connection_lost(self, exc):
        self.model.links.discard(self)

    def say(self, frame):
        self.transport.write(encode_frame(frame))

    def data_received(self, data):
        self.buffer.feed(data)
        while (body := self.buffer.next()) is not None:
            self.frame(decode_client_frame(body))

    def frame(self, frame):
        model = self.model
        match frame:
            case Hello():
                if frame.password != "root":
                    self.bye("authentication", "wrong user or password")
                    return
                name = frame.connection or f"#0.0.{1100 + len(model.contexts)}"
                if frame.connection is None:
                    model.contexts[name] = Context(frame.user)
                elif name not in model.contexts:
                    self.bye("expired", "it is no more")
                    return
                self.context = model.contexts[name]
                for seq in [s for s in self.context.output if s <= frame.out_ack]:
                    del self.context.output[seq]
                replicas = [("127.0.0.1", port) for port in model.ports]
                self.say(Welcome(1, name, replicas, 60.0, 65536, model.window, self.context.last_in))
                pending = list(self.context.output.values())
                self.say(
                    ClientOutput(self.context.last_in, self.context.last_out - len(pending) + 1, pending)
                )
            case ClientInput():
                if not model.deaf:
                    self.input(frame)
            case Ping(token):
                self.say(Pong(token))
            case Close():
                self.bye("closed", "the client closed the connection")

    def bye(self, code, text):
        self.say(Bye(code, text))
        self.transport.close()

    def input(self, frame):
        context = self.context
        self.model.credits.put(frame.credit_notes)
        notes = []
        for seq, note in enumerate(frame.notes, frame.first_seq):
            if seq == context.last_in + 1:
                context.last_in = seq
                reply = self.model.react(note)
                if reply is not None:
                    context.last_out += 1
                    sent = ServerNote(ALICE, reply.type_name, encode(reply), note.request)
                    context.output[context.last_out] = sent
                    notes.append(sent)
        self.model.frames += 1
        if self.model.cut_after and context.last_in >= self.model.cut_after:
            # Processed, but neither acknowledged nor answered on this TCP connection.
            self.model.cut_after = 0
            self.transport.abort()
            return
        self.say(ClientOutput(context.last_in, context.last_out - len(notes) + 1, notes))


class Model:
    """Two replicas, of which one listens at a time."""

    def __init__(self):
        self.loop = asyncio.new_event_loop()
        self.links: set[Replica] = set()
        self.contexts: dict[str, Context] = {}
        self.seen: list[int] = []
        self.balance = 0
        self.frames = 0
        self.credits: queue.SimpleQueue[int] = queue.SimpleQueue()
        self.window = 1000
        self.deaf = False
        self.cut_after = 0
        self.servers: list[asyncio.Server] = []
        self.ports: list[int] = []
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.ports = [self.call(self.listen(0)), self.call(self.listen(0))]
        self.call(self.shut(1))

    def call(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(10)

    def run(self, function: Callable[[], object]):
        async def wrapped():
            return function()

        return self.call(wrapped())

    async def listen(self, port):
        server = await self.loop.create_server(lambda: Replica(self), "127.0.0.1", port)
        self.servers.append(server)
        return server.sockets[0].getsockname()[1]

    async def shut(self, at):
        self.servers.pop(at).close()

    @property
    def url(self):
        return "quorate://" + ",".join(f"127.0.0.1:{port}" for port in self.ports)

    def fail_over(self):
        """The master dies with its TCP connections; the other replica takes its place."""

        async def swap():
            await self.shut(0)
            for link in list(self.links):
                link.transport.abort()
            self.ports.reverse()
            await self.listen(self.ports[0])

        self.call(swap())

    def cut(self):
        self.run(lambda: [link.transport.abort() for link in list(self.links)])

    def push(self, notification):
        def send_to_links():
            for link in self.links:
                context = link.context
                context.last_out += 1
                note = ServerNote(ALICE, notification.type_name, encode(notification), 0)
                context.output[context.last_out] = note
                link.say(ClientOutput(context.last_in, context.last_out, [note]))

        self.run(send_to_links)

    def hear_again(self):
        """Stop being deaf; clients have to reopen to be heard."""
        self.deaf = False
        self.cut()

    def react(self, note):
        if note.to == "nobody":
            return UnknownAgent("nobody", note.type)
        if note.to == "silent":
            return None
        amount = msgspec.msgpack.decode(note.payload)["amount"]
        if amount < 0:
            return ExceptionNotification(ALICE, note.type, "ValueError", "no debts")
        if note.to == "stranger":
            return ExceptionNotification(ALICE, note.type, "Unhandled", "Stranger does not react to Deposit")
        self.seen.append(amount)
        self.balance += amount
        return Balance(self.balance) if note.request else None

    def stop(self):
        with contextlib.suppress(Exception):
            self.call(self._stop())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()

    async def _stop(self):
        for server in self.servers:
            server.close()
        for link in list(self.links):
            link.transport.abort()
        await asyncio.sleep(0)


@pytest.fixture
def model():
    model = Model()
    yield model
    model.stop()


@pytest.fixture
def deposit():
    return Deposit


@pytest.fixture
def balance():
    return Balance
