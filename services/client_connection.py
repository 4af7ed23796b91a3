"""One TCP connection of a client, on the server."""

from collections.abc import Callable
from typing import Final, Protocol, cast

from twisted.internet.protocol import Protocol as TwistedProtocol
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure

from ..agents.ids import AgentId
from ..agents.nesting import TOO_DEEP, nested_too_deep
from ..agents.proxy import (
    MAX_INPUT_NOTES,
    MAX_OUTPUT_BYTES,
    MAX_OUTPUT_NOTES,
    ClientEnd,
    ClientInput,
    ClientOutput,
    ServerNote,
)
from ..client.errors import ProtocolError
from ..client.frames import (
    MAGIC,
    MAX_HELLO,
    Bye,
    ByeCode,
    Close,
    FrameBuffer,
    Hello,
    Ping,
    Pong,
    Welcome,
    decode_client_frame,
    encode_frame,
    pack_outputs,
)
from ..hachannel.transport.ports import ClockPort, DelayedCallPort, TcpPort

__all__ = ["ClientConnection", "ConnectionOwner"]

HANDSHAKE_TIMEOUT_S: Final = 5.0
"""Time for the first frame of a client to arrive."""
MAX_HELD_BYTES: Final = 4 * MAX_OUTPUT_BYTES
"""Most bytes held for a client that does not read; with more its TCP connection is aborted."""
MAX_HELD_NOTES: Final = 4 * MAX_OUTPUT_NOTES
GOODBYE_TIMEOUT_S: Final = 5.0
"""Time for the last frame to leave before the connection is aborted."""


class LinkSettings(Protocol):
    """The settings that a client connection uses."""

    @property
    def max_frame(self) -> int:
        """Largest frame, in bytes."""
        ...

    @property
    def idle_timeout_s(self) -> float:
        """Silence after which a connection expires."""
        ...


class ConnectionOwner(Protocol):
    """The service, as a client connection sees it."""

    def joined(self, link: "ClientConnection") -> None:
        """The TCP connection was made."""
        ...

    def left(self, link: "ClientConnection") -> None:
        """The TCP connection is gone."""
        ...

    def garbage(self, link: "ClientConnection", reason: str) -> None:
        """The client does not follow the protocol."""
        ...

    def complain(self, line: str) -> None:
        """Log a line about a client."""
        ...

    def greet(self, link: "ClientConnection", hello: Hello) -> None:
        """Open or reopen the connection of a client, as its first frame asks."""
        ...

    def submit_inputs(self, link: "ClientConnection", bodies: list[bytes]) -> None:
        """Checked bodies of input frames arrived."""
        ...

    def keep_alive(self, link: "ClientConnection", ping: Ping) -> None:
        """Process a keep-alive of the client."""
        ...

    def close(self, link: "ClientConnection") -> None:
        """End the connection on a Close frame of the client."""
        ...

    def dirty(self, link: "ClientConnection") -> None:
        """Call `ClientConnection.flush` soon."""
        ...


class ClientConnection(TwistedProtocol):
    """The server's side of the client protocol: Hello, the answer of the service, input and output, the end.

    The service sets `proxy`. For a connection that is reopened it does so before it answers: what the proxy
    emits until then is held back here.

    The class has more than 15 attributes: they are the state of both directions of one socket, which every
    method reads. The connections of all clients, and their routes, are the service's.
    """

    def __init__(self, owner: ConnectionOwner, reactor: ClockPort, settings: LinkSettings):
        self.proxy: AgentId | None = None
        self.attempt = 0
        """Number of the client's hello."""
        self.peer = "?"
        self.is_open = False
        """Whether the client has been welcomed."""
        self.closed = False
        """Whether either side has ended the connection."""
        self._owner = owner
        self._reactor = reactor
        self._settings = settings
        self._buffer = FrameBuffer(MAX_HELLO)
        self._frame: Callable[[bytes, list[bytes]], None] = self._hello
        self._timer: DelayedCallPort | None = None
        self._posted = 0.0
        self._in_ack = 0
        self._in_acked = 0
        self._next_out = 1
        self._notes: list[ServerNote] = []
        self._held_bytes = 0
        self._early: list[ClientOutput] = []
        self._dirty = False
        self._writable = True

    @property
    def _tcp(self) -> TcpPort:
        return cast("TcpPort", self.transport)  # pyright: ignore[reportUnknownMemberType]

    # What Twisted calls.

    def connectionMade(self) -> None:  # noqa: N802
        """Wait for the first frame, not for ever."""
        peer = self._tcp.getPeer()
        self.peer = f"{getattr(peer, 'host', '?')}:{getattr(peer, 'port', '?')}"
        self._tcp.setTcpNoDelay(True)
        self._tcp.registerProducer(self, True)
        self._timer = self._reactor.callLater(HANDSHAKE_TIMEOUT_S, self._too_slow)
        self._owner.joined(self)

    def dataReceived(self, data: bytes) -> None:  # noqa: N802
        """Cut frames, check them, and hand all inputs over at once."""
        if self.closed:
            return
        self._buffer.feed(data)
        inputs: list[bytes] = []
        try:
            while not self.closed:
                body = self._buffer.next()
                if body is None:
                    break
                self._frame(body, inputs)
        except ProtocolError as error:
            self._broken(str(error))
        if inputs:
            self._posted = self._reactor.seconds()
            self._owner.submit_inputs(self, inputs)

    def connectionLost(self, reason: Failure = connectionDone) -> None:  # noqa: N802, ARG002
        """Forget the client; its proxy keeps the connection context."""
        self.closed = True
        self.is_open = False
        self._cancel_timer()
        self._owner.left(self)

    def pauseProducing(self) -> None:  # noqa: N802
        """The transport holds enough: what the proxy emits waits here."""
        self._writable = False

    def resumeProducing(self) -> None:  # noqa: N802
        """The transport takes more."""
        self._writable = True
        self.flush()

    def stopProducing(self) -> None:  # noqa: N802
        """The transport is gone."""
        self._writable = False

    # Frames.

    def _hello(self, body: bytes, _: list[bytes]) -> None:
        frame = decode_client_frame(body)
        if not isinstance(frame, Hello) or frame.magic != MAGIC:
            raise ProtocolError("the first frame is not the hello of a quorate client")
        self._cancel_timer()
        self._buffer.max_frame = self._settings.max_frame
        self._frame = self._too_early
        self._owner.greet(self, frame)

    def _too_early(self, _: bytes, __: list[bytes]) -> None:
        raise ProtocolError("the client sent a frame before it was welcomed")

    def _flowing(self, body: bytes, inputs: list[bytes]) -> None:
        frame = decode_client_frame(body)
        match frame:
            case ClientInput(notes=notes):
                if len(notes) > MAX_INPUT_NOTES:
                    raise ProtocolError(
                        f"the client sent {len(notes)} notifications in a frame, above {MAX_INPUT_NOTES}"
                    )
                for note in notes:
                    if nested_too_deep(note.payload):
                        raise ProtocolError(f"the client sent a {note.type} that cannot be read: {TOO_DEEP}")
                inputs.append(body)
            case Ping():
                if self._writable:  # one that does not read its answers gets no more of them
                    self._tcp.write(encode_frame(Pong(frame.token)))
                self._on_ping(frame, inputs)
            case Close():
                self._frame = self._after_close
                if inputs:
                    self._owner.submit_inputs(self, inputs[:])
                    inputs.clear()
                self._owner.close(self)
            case Hello():
                raise ProtocolError("the client said hello twice")

    def _on_ping(self, ping: Ping, inputs: list[bytes]) -> None:
        """The replicated idle time needs to know only now and then."""
        now = self._reactor.seconds()
        if not inputs and now - self._posted >= self._settings.idle_timeout_s / 4:
            self._posted = now
            self._owner.keep_alive(self, ping)

    def _after_close(self, _: bytes, __: list[bytes]) -> None:
        """A client that has closed is not listened to any more."""

    def _broken(self, reason: str) -> None:
        self._owner.garbage(self, reason)
        self.bye(ByeCode.PROTOCOL, reason)

    def _too_slow(self) -> None:
        self._timer = None
        self._owner.complain(f"client {self.peer}: said nothing for {HANDSHAKE_TIMEOUT_S:g} s")
        self.bye(ByeCode.UNAVAILABLE, f"no hello within {HANDSHAKE_TIMEOUT_S:g} s")

    # What the service calls.

    def open(self, welcome: Welcome, first_seq: int, notes: list[ServerNote]) -> None:
        """Welcome the client, and give it what it has not acknowledged."""
        self.is_open = True
        self._frame = self._flowing
        self._posted = self._reactor.seconds()
        self._in_ack = self._in_acked = welcome.in_ack
        self._next_out = first_seq
        self._tcp.write(encode_frame(welcome))
        early, self._early = self._early, []
        if notes:
            self.give(ClientOutput(welcome.in_ack, first_seq, notes))
        for output in early:
            self.give(output)

    def give(self, output: ClientOutput) -> None:
        """Take what the proxy emitted; it leaves with the next `flush`."""
        if self.closed:
            return
        if not self.is_open:
            self._early.append(output)
            self._bounded(output.notes)
            return
        if output.notes:
            known = self._next_out - output.first_seq
            if known < 0:
                self._drop(f"notification {self._next_out} for it is missing")
                return
            notes = output.notes[known:]
            self._notes += notes
            self._next_out += len(notes)
            self._bounded(notes)
        self._in_ack = max(self._in_ack, output.in_ack)
        if not self._dirty:
            self._dirty = True
            self._owner.dirty(self)

    def _bounded(self, notes: list[ServerNote]) -> None:
        self._held_bytes += sum(len(note.payload) for note in notes)
        if self._held_bytes > MAX_HELD_BYTES or len(self._notes) > MAX_HELD_NOTES:
            self._drop("it reads too slowly what it gets")

    def flush(self) -> None:
        """Write what gathered, unless the transport holds enough already."""
        self._dirty = False
        if not self.is_open or self.closed or not self._writable:
            return
        if self._notes or self._in_ack > self._in_acked:
            notes, self._notes = self._notes, []
            self._held_bytes = 0
            self._in_acked = self._in_ack
            self._tcp.write(b"".join(pack_outputs(self._in_ack, self._next_out - len(notes), notes)))

    def end(self, message: ClientEnd) -> None:
        """The proxy ends the connection, or wants it to be reopened."""
        self.flush()
        self.bye(message.code, message.text)

    def bye(self, code: str, text: str) -> None:
        """Say the last word and close."""
        if self.closed:
            return
        self.closed = True
        self._cancel_timer()
        self._tcp.write(encode_frame(Bye(code, text)))
        self._tcp.unregisterProducer()
        self._tcp.loseConnection()
        # loseConnection waits for the last bytes to leave, and a peer may never read them.
        self._timer = self._reactor.callLater(GOODBYE_TIMEOUT_S, self._abort)

    def _drop(self, reason: str) -> None:
        """Abort; the client reopens and gets again what is missing."""
        self._owner.complain(f"client {self.peer}: {reason}; its TCP connection is dropped")
        self.closed = True
        self._cancel_timer()
        self._tcp.abortConnection()

    def _abort(self) -> None:
        self._timer = None
        self._tcp.abortConnection()

    def pause_reading(self) -> None:
        """Let the client wait: the server has enough to do."""
        if not self.closed:
            self._tcp.pauseProducing()

    def resume_reading(self) -> None:
        """Read again."""
        if not self.closed:
            self._tcp.resumeProducing()

    def _cancel_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None and timer.active():
            timer.cancel()
