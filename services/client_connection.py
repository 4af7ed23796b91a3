"""The server's end of the TCP connection of a client."""

from collections.abc import Callable
from typing import Final, Protocol, cast

from twisted.internet.protocol import Protocol as TwistedProtocol
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure

from ..agents.client_output import MAX_OUTPUT_BYTES, MAX_OUTPUT_NOTES, ServerNote
from ..agents.ids import AgentId
from ..agents.nesting import TOO_DEEP, nested_too_deep
from ..agents.proxy import (
    MAX_INPUT_NOTES,
    ClientEnd,
    ClientInput,
    ClientOutput,
)
from ..agents.rights import Grant
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
    StreamAck,
    Welcome,
    decode_client_frame,
    encode_frame,
    pack_outputs,
)
from ..client.stream_positions import MAX_STREAMS
from ..hachannel.transport.addresses import host_port, unmapped
from ..hachannel.transport.ports import ClockPort, DelayedCallPort, TcpPort
from ..tls.layer import proven_user

__all__ = ["ClientConnection", "ConnectionOwner"]

HANDSHAKE_TIMEOUT_S: Final = 5.0
"""Time for the first frame of a client to arrive."""
MAX_HELD_BYTES: Final = 4 * MAX_OUTPUT_BYTES
"""Most bytes held for a client that does not read; with more its TCP connection is aborted."""
MAX_HELD_NOTES: Final = 4 * MAX_OUTPUT_NOTES
"""Most notifications held for a client that does not read."""
BYE_TIMEOUT_S: Final = 5.0
"""Time for the last frame to be written before the connection is aborted."""


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

    def connection_made(self, link: "ClientConnection") -> None:
        """Record a TCP connection that was made."""
        ...

    def connection_lost(self, link: "ClientConnection") -> None:
        """Forget a TCP connection that has ended."""
        ...

    def protocol_violated(self, link: "ClientConnection", reason: str) -> None:
        """Count and log that the client does not follow the protocol."""
        ...

    def log(self, line: str) -> None:
        """Log a line about a client."""
        ...

    def open_connection(self, link: "ClientConnection", hello: Hello) -> None:
        """Open or reopen the connection of a client, as its first frame asks."""
        ...

    def submit_inputs(self, link: "ClientConnection", bodies: list[bytes]) -> None:
        """Post the checked bodies of input frames."""
        ...

    def keep_alive(self, link: "ClientConnection", ping: Ping) -> None:
        """Process a keep-alive of the client."""
        ...

    def stream_acked(self, link: "ClientConnection", ack: StreamAck) -> None:
        """Note how far the client has the streams that it follows."""
        ...

    def close(self, link: "ClientConnection") -> None:
        """End the connection on a Close frame of the client."""
        ...

    def schedule_flush(self, link: "ClientConnection") -> None:
        """Call `ClientConnection.flush` soon."""
        ...


class ClientConnection(TwistedProtocol):
    """The client protocol on one TCP connection: handshake, input and output, end.

    The service sets `proxy`, the agent that holds the connection context. When a connection is reopened, the
    service sets it before it answers, and the output of the proxy is held back here until the answer.

    The class has more than 15 attributes: they are the state of both directions of one socket, which every
    method reads. The service keeps the connections of all clients and the routes to them.
    """

    def __init__(self, owner: ConnectionOwner, reactor: ClockPort, settings: LinkSettings):
        self.proxy: AgentId | None = None
        self.user = ""
        """The user that has logged in; "" before."""
        self.grants: list[Grant] | None = None
        """The rights of the user, as of the last handshake; None: none are set."""
        self.attempt = 0
        """Number of the client's handshake: the latest one of a connection wins."""
        self.peer = "?"
        self.host = "?"
        """Numeric address of the client."""
        self.is_open = False
        """Whether the client has been welcomed."""
        self.closed = False
        """Whether either side has ended the connection."""
        self.heard_at = reactor.seconds()
        """When bytes came from the client last, by the clock of the reactor."""
        self.positions: dict[AgentId, int] = {}
        """What the client has of the streams that it follows, as it has said last."""
        self.ended_here = False
        """Whether this server has ended the connection, so that the client, if it lives, opens another."""
        self.on_writable: Callable[[], None] | None = None
        """Called when the buffer of the transport has room again."""
        self._owner = owner
        self._reactor = reactor
        self._settings = settings
        self._buffer = FrameBuffer(MAX_HELLO)
        self._handler: Callable[[bytes, list[bytes]], None] = self._handle_hello
        self._timer: DelayedCallPort | None = None
        self._posted_at = 0.0
        self._in_ack = 0
        self._in_acked = 0
        self._acks_held = False
        self._next_out = 1
        self._notes: list[ServerNote] = []
        self._held_bytes = 0
        self._held_outputs: list[ClientOutput] = []
        self._flush_scheduled = False
        self._writable = True

    @property
    def proven_user(self) -> str:
        """The user that the certificate of the client is for; "" without TLS or without a certificate."""
        return proven_user(self._tcp)

    @property
    def _tcp(self) -> TcpPort:
        return cast("TcpPort", self.transport)  # pyright: ignore[reportUnknownMemberType]

    # What Twisted calls.

    def connectionMade(self) -> None:  # noqa: N802
        """Wait for the first frame, for a limited time."""
        peer = self._tcp.getPeer()
        self.host = unmapped(getattr(peer, "host", "?"))
        self.peer = host_port(self.host, getattr(peer, "port", "?"))
        self._tcp.setTcpNoDelay(True)
        self._tcp.registerProducer(self, True)
        self._timer = self._reactor.callLater(HANDSHAKE_TIMEOUT_S, self._handshake_timed_out)
        self._owner.connection_made(self)

    def dataReceived(self, data: bytes) -> None:  # noqa: N802
        """Cut and check frames, and submit all inputs together."""
        if self.closed:
            return
        self.heard_at = self._reactor.seconds()
        self._buffer.feed(data)
        inputs: list[bytes] = []
        try:
            while not self.closed:
                body = self._buffer.next()
                if body is None:
                    break
                self._handler(body, inputs)
        except ProtocolError as error:
            self._reject(str(error))
        if inputs:
            self._posted_at = self._reactor.seconds()
            self._owner.submit_inputs(self, inputs)

    def connectionLost(self, reason: Failure = connectionDone) -> None:  # noqa: N802, ARG002
        """Report the end to the service. The proxy keeps the connection context."""
        self.closed = True
        self.is_open = False
        self._cancel_timer()
        self._owner.connection_lost(self)

    def pauseProducing(self) -> None:  # noqa: N802
        """Hold the output of the proxy: the buffer of the transport is full."""
        self._writable = False

    def resumeProducing(self) -> None:  # noqa: N802
        """Write again: the buffer of the transport has room."""
        self._writable = True
        self.flush()
        if self.on_writable is not None:
            self.on_writable()

    def stopProducing(self) -> None:  # noqa: N802
        """Stop writing: the transport has ended."""
        self._writable = False

    # Frames.

    def _handle_hello(self, body: bytes, _: list[bytes]) -> None:
        frame = decode_client_frame(body)
        if not isinstance(frame, Hello) or frame.magic != MAGIC:
            raise ProtocolError("the first frame is not the hello of a quorate client")
        self._cancel_timer()
        self._buffer.max_frame = self._settings.max_frame
        self._handler = self._reject_early_frame
        self._owner.open_connection(self, frame)

    def _reject_early_frame(self, _: bytes, __: list[bytes]) -> None:
        raise ProtocolError("the client sent a frame before it was welcomed")

    def _handle_frame(self, body: bytes, inputs: list[bytes]) -> None:
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
                if self._writable:  # a client that does not read its answers gets no more of them
                    self._tcp.write(encode_frame(Pong(frame.token)))
                self._on_ping(frame, inputs)
            case StreamAck(positions=positions):
                self.positions.update(positions)
                if len(self.positions) > MAX_STREAMS:
                    raise ProtocolError(f"the client follows more than {MAX_STREAMS} streams")
                self._owner.stream_acked(self, frame)
            case Close():
                self._handler = self._ignore_frame
                if inputs:
                    self._owner.submit_inputs(self, inputs[:])
                    inputs.clear()
                self._owner.close(self)
            case Hello():
                raise ProtocolError("the client sent a second hello")

    def _on_ping(self, ping: Ping, inputs: list[bytes]) -> None:
        """Post a keep-alive only a few times in each idle time: every post is a reaction on all replicas."""
        now = self._reactor.seconds()
        if not inputs and now - self._posted_at >= self._settings.idle_timeout_s / 4:
            self._posted_at = now
            self._owner.keep_alive(self, ping)

    def _ignore_frame(self, _: bytes, __: list[bytes]) -> None:
        """Ignore a frame after the Close frame."""

    def _reject(self, reason: str) -> None:
        self._owner.protocol_violated(self, reason)
        self.send_bye(ByeCode.PROTOCOL, reason)

    def _handshake_timed_out(self) -> None:
        self._timer = None
        self._owner.log(f"client {self.peer}: sent no hello within {HANDSHAKE_TIMEOUT_S:g} s")
        self.send_bye(ByeCode.UNAVAILABLE, f"no hello within {HANDSHAKE_TIMEOUT_S:g} s")

    # What the service calls.

    def open(self, welcome: Welcome, first_seq: int, notes: list[ServerNote]) -> None:
        """Welcome the client, and send it what it has not acknowledged."""
        self.is_open = True
        self._handler = self._handle_frame
        self._posted_at = self._reactor.seconds()
        self._in_ack = self._in_acked = welcome.in_ack
        self._next_out = first_seq
        self._tcp.write(encode_frame(welcome))
        held, self._held_outputs = self._held_outputs, []
        if notes:
            self.send_output(ClientOutput(welcome.in_ack, first_seq, notes))
        for output in held:
            self.send_output(output)

    def send_output(self, output: ClientOutput) -> None:
        """Queue what the proxy emitted, until the next `flush`."""
        if self.closed:
            return
        if not self.is_open:
            self._held_outputs.append(output)
            self._check_held(output.notes)
            return
        if output.notes:
            known = self._next_out - output.first_seq
            if known < 0:
                self._disconnect(f"notification {self._next_out} for the client is missing")
                return
            notes = output.notes[known:]
            self._notes += notes
            self._next_out += len(notes)
            self._check_held(notes)
        self._in_ack = max(self._in_ack, output.in_ack)
        if not self._flush_scheduled:
            self._flush_scheduled = True
            self._owner.schedule_flush(self)

    def _check_held(self, notes: list[ServerNote]) -> None:
        self._held_bytes += sum(len(note.payload) for note in notes)
        if self._held_bytes > MAX_HELD_BYTES or len(self._notes) > MAX_HELD_NOTES:
            self._disconnect("the client reads too slowly")

    def flush(self) -> None:
        """Write what is queued, unless the buffer of the transport is full."""
        self._flush_scheduled = False
        if not self.is_open or self.closed or not self._writable:
            return
        in_ack = self._in_acked if self._acks_held else self._in_ack
        if self._notes or in_ack > self._in_acked:
            notes, self._notes = self._notes, []
            self._held_bytes = 0
            self._in_acked = in_ack
            self._tcp.write(b"".join(pack_outputs(in_ack, self._next_out - len(notes), notes)))

    @property
    def writable(self) -> bool:
        """Whether the client is connected, and the buffer of the transport has room."""
        return self.is_open and not self.closed and self._writable

    def write_frame(self, data: bytes) -> None:
        """Write an encoded frame that is no output of the proxy, after what is queued."""
        if self._notes:
            self.flush()
        self._tcp.write(data)

    def end(self, message: ClientEnd) -> None:
        """End the TCP connection, as the proxy asks: for good, or so that the client reopens it."""
        self.flush()
        self.send_bye(message.code, message.text)

    def send_bye(self, code: str, text: str) -> None:
        """Send a Bye frame and close."""
        if self.closed:
            return
        self.closed = self.ended_here = True
        self._cancel_timer()
        self._tcp.write(encode_frame(Bye(code, text)))
        self._tcp.unregisterProducer()
        self._tcp.loseConnection()
        # loseConnection waits until the last bytes are written, and a peer may never read them.
        self._timer = self._reactor.callLater(BYE_TIMEOUT_S, self._abort)

    def _disconnect(self, reason: str) -> None:
        """Abort the TCP connection. The client reopens it and gets what is missing."""
        self._owner.log(f"client {self.peer}: {reason}; its TCP connection is dropped")
        self.closed = self.ended_here = True
        self._cancel_timer()
        self._tcp.abortConnection()

    def _abort(self) -> None:
        self._timer = None
        self._tcp.abortConnection()

    def pause_reading(self) -> None:
        """Stop reading from the client: the server accepts no more input."""
        if not self.closed:
            self._tcp.pauseProducing()

    def resume_reading(self) -> None:
        """Read from the client again."""
        if not self.closed:
            self._tcp.resumeProducing()

    def hold_acks(self) -> None:
        """Acknowledge nothing more to the client until `release_acks`: its window fills, and it waits.

        It is read and gets its answers and keep-alives meanwhile.
        """
        self._acks_held = True

    def release_acks(self) -> None:
        """Acknowledge again what the proxy has accepted."""
        self._acks_held = False
        self.flush()

    def _cancel_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None and timer.active():
            timer.cancel()
