"""The session of a client with a replicated server. Sans-IO: no socket, clock, thread or random in here.

Source: HA Joram specification, section 5.1.6. The session numbers what it sends and keeps it until the
cluster has it. When its TCP connection fails, it looks for the master among the replicas, beginning with the
last master, and reopens the connection there. Then it sends again what is unacknowledged, and drops what it
receives a second time.

A driver calls `start`, `connected`, `attempt_failed`, `received`, `lost`, `tick`, `send` and `close` with the
time in seconds of any monotonic clock. After each call the driver carries out the events that `pop_events`
returns, writes what `data_to_send` returns, and calls `tick` at `deadline`.
"""

from collections.abc import Callable, Sequence
from typing import Final

from ..agents.ids import AgentId
from ..agents.proxy import MAX_INPUT_NOTES
from .attempts import ConnectionAttempts
from .delayed_ack import DelayedAck
from .errors import (
    AuthenticationError,
    ConnectionClosed,
    ConnectionLost,
    FrameTooLarge,
    ProtocolError,
    QuorateClientError,
    Unavailable,
)
from .events import (
    Acknowledged,
    Connect,
    Delivered,
    Disconnect,
    Ended,
    Event,
    Interrupted,
    Opened,
    Resumed,
    SessionSettings,
    StillOpening,
    Streamed,
)
from .frames import (
    DEFAULT_MAX_FRAME,
    MAGIC,
    PACK_BYTES,
    VERSION,
    Bye,
    ByeCode,
    ClientInput,
    ClientNote,
    ClientOutput,
    Close,
    FrameBuffer,
    Hello,
    Ping,
    ServerFrame,
    StreamItems,
    Welcome,
    decode_server_frame,
    encode_frame,
    note_size,
)
from .inbox_window import InboxWindow
from .keep_alive import KeepAlive, Liveness
from .outbox import Outbox
from .reply_window import ReplyWindow
from .states import Closed, Closing, Connecting, Handshaking, New, Open, State, Waiting
from .stream_positions import StreamPositions
from .url import Endpoint

__all__ = ["Session"]

NOTICE_S: Final = 3.0
"""A program that waits longer than this for its first master is told why."""
MAX_SERVER_FRAME: Final = 16 * 1024 * 1024
"""Largest frame that a server may send, in bytes."""
INPUT_OVERHEAD: Final = 32
"""Upper bound of the bytes that an input frame needs besides its notifications."""


class Session:
    """One connection of one user, across any number of TCP connections.

    The class has more than 20 methods: a driver's entries (9), what a driver may observe (8), and one method
    per transition and frame. All of them read and change the one state machine, `states.State`. The parts
    that can be understood without it are classes of their own: `ConnectionAttempts`, `KeepAlive`, `Outbox`,
    `ReplyWindow`, `InboxWindow`, `DelayedAck`, `FrameBuffer` and, behind the driver, `PendingRequests`.
    """

    notice_s: float | None = NOTICE_S
    """Time without a first master after which the session reports why; None: never."""

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        user: str,
        password: str,
        jitter: Callable[[], float],
        settings: SessionSettings | None = None,
    ):
        """Prepare a session with the replicas at `endpoints`. `jitter` returns numbers from 0 to 1."""
        self.settings = settings or SessionSettings()
        self.connection: str | None = None
        self.max_frame = DEFAULT_MAX_FRAME
        self.idle_timeout_s = 60.0
        self.reconnections = 0
        self.outbox = Outbox()
        self._window = self.settings.window
        """Unacknowledged notifications that the server and the settings allow."""
        self._reply_window = ReplyWindow()
        self._received = DelayedAck(self.settings)
        self.inbox_window = InboxWindow(self.settings)
        self.streams = StreamPositions()
        self._attempts = ConnectionAttempts(endpoints, self.settings, jitter)
        self._user = user
        self._password = password
        self._state: State = New()
        self._events: list[Event] = []
        self._control = bytearray()
        """Encoded frames of the handshake and keep-alives, written before notifications."""
        self._last_ping = 0
        self._handshakes = 0
        self._close_sent = False
        self._notice_at: float | None = None
        """The time at which to report that there is no master yet."""
        self._buffer = FrameBuffer(MAX_SERVER_FRAME)

    # What the driver observes.

    @property
    def replicas(self) -> tuple[Endpoint, ...]:
        """The replicas of the server, as far as they are known."""
        return self._attempts.replicas

    @property
    def is_open(self) -> bool:
        """Whether notifications flow now."""
        return isinstance(self._state, Open)

    @property
    def ended(self) -> bool:
        """Whether the session has ended or is closing."""
        return isinstance(self._state, (Closing, Closed))

    @property
    def window(self) -> int:
        """Number of notifications that may be unacknowledged at present."""
        return min(self._window, self._reply_window.window)

    @property
    def window_bytes(self) -> int:
        """Bytes of notifications that may be unacknowledged at present."""
        return min(self.settings.window_bytes, self._reply_window.window_bytes)

    @property
    def full(self) -> bool:
        """Whether the window is full: wait for `Acknowledged` before sending more."""
        box = self.outbox
        return (
            box.last_seq - box.acked >= self.window or box.last_bytes - box.acked_bytes >= self.window_bytes
        )

    @property
    def ping_interval_s(self) -> float:
        """Seconds between keep-alives."""
        return min(self.settings.ping_interval_s, self.idle_timeout_s / 3)

    @property
    def deadline(self) -> float | None:
        """The time by which the driver has to call `tick`."""
        match self._state:
            case New() | Closed():
                return None
            case Waiting(until) | Connecting(_, until) | Handshaking(_, until):
                until = min(until, self._attempts.deadline)
                return until if self._notice_at is None else min(until, self._notice_at)
            case Closing(deadline):
                return deadline
            case Open(_, _, keep_alive):
                ack = self._received.deadline
                return keep_alive.deadline if ack is None else min(keep_alive.deadline, ack)

    def pop_events(self) -> list[Event]:
        """Return the events since the last call, in order: what happened, and what the driver has to do."""
        events = self._events
        self._events = []
        return events

    # Inputs.

    def start(self, now: float) -> None:
        """Begin to connect."""
        if isinstance(self._state, New):
            self._notice_at = None if self.notice_s is None else now + self.notice_s
            self._attempt(self._attempts.start(now))

    def connected(self, now: float) -> None:
        """Process that the TCP connection of the last `Connect` is open."""
        match self._state:
            case Connecting(endpoint, _):
                self._buffer = FrameBuffer(MAX_SERVER_FRAME)
                self._control.clear()
                self._handshakes += 1
                received = self._received.acknowledge()
                hello = Hello(
                    MAGIC,
                    VERSION,
                    self._user,
                    self._password,
                    self.connection,
                    received,
                    self._handshakes,
                )
                self._control += encode_frame(hello)
                self._state = Handshaking(endpoint, now + self._attempts.handshake_timeout_s)
            case _:
                self._events.append(Disconnect())

    def attempt_failed(self, now: float, reason: str) -> None:
        """Process that the TCP connection of the last `Connect` could not be opened."""
        match self._state:
            case Connecting(endpoint, _):
                self._attempt(self._attempts.failed(now, endpoint, reason))
            case _:
                pass

    def lost(self, now: float, reason: str) -> None:
        """Process that the TCP connection has ended, without a `Disconnect`."""
        match self._state:
            case Handshaking(endpoint, _):
                self._attempt(self._attempts.failed(now, endpoint, reason))
            case Open() as state:
                self._interrupted(now, state, reason)
            case Closing():
                self._end(None)
            case _:
                pass

    def received(self, now: float, data: bytes) -> None:
        """Process bytes from the TCP connection."""
        if isinstance(self._state, Open):
            self._state.keep_alive.heard_at = now
        self._buffer.feed(data)
        try:
            while isinstance(self._state, (Handshaking, Open, Closing)):
                body = self._buffer.next()
                if body is None:
                    return
                self._handle_frame(now, decode_server_frame(body))
        except ProtocolError as error:
            self._reconnect(now, str(error))

    def send(self, to: AgentId | str, type: str, payload: bytes, request: int = 0) -> int:
        """Queue a notification and return its number.

        The driver checks `full` before. Raises `FrameTooLarge` if no frame can hold it, and the
        session's error (or `ConnectionClosed`) once it has ended; in both cases nothing is queued.
        """
        if self.ended:
            raise self.error()
        size = self.check_size(to, type, payload)
        return self.outbox.append(ClientNote(to, type, payload, request), size)

    def check_size(self, to: AgentId | str, type: str, payload: bytes) -> int:
        """Return the bytes that a notification takes. Raises `FrameTooLarge` if no frame can hold it."""
        size = note_size(to, type, payload)
        if size + INPUT_OVERHEAD > self.max_frame:
            raise FrameTooLarge(
                f"a {type} of {len(payload)} bytes does not fit into a frame of {self.max_frame} bytes; "
                "send it in parts, or raise the property max_frame of the server"
            )
        return size

    def close(self, now: float) -> None:
        """Send Close after the queued notifications. Nothing more can be queued."""
        match self._state:
            case Open():
                self._state = Closing(now + self.settings.close_timeout_s)
            case Closing() | Closed():
                pass
            case _:
                self._end(None)

    def abort(self, error: QuorateClientError | None = None) -> None:
        """End now, without a Close frame."""
        if not isinstance(self._state, Closed):
            self._end(error)

    def tick(self, now: float) -> None:
        """Process the passing of time. May be called at any time."""
        if self._notice_at is not None and now >= self._notice_at:
            self._notice_at = None
            if isinstance(self._state, (Waiting, Connecting, Handshaking)):
                left_s = self._attempts.deadline - now
                self._events.append(
                    StillOpening(f"no master yet, tries for {left_s:.0f} s more: {self._attempts.failures()}")
                )
        match self._state:
            case Waiting() | Connecting() | Handshaking() if now >= self._attempts.deadline:
                self._end(self._timeout_error())
            case Waiting(until) if now >= until:
                self._attempt(self._attempts.begin_round(now))
            case Connecting(endpoint, deadline) if now >= deadline:
                reason = f"no connection within {self.settings.attempt_timeout_s:g} s"
                self._events.append(Disconnect())
                self._attempt(self._attempts.failed(now, endpoint, reason))
            case Handshaking(endpoint, deadline) if now >= deadline:
                reason = f"no answer within {self._attempts.handshake_timeout_s:g} s"
                self._events.append(Disconnect())
                self._attempt(self._attempts.failed(now, endpoint, reason))
            case Open() as state:
                self._tick_open(now, state)
            case Closing(deadline) if now >= deadline:
                self._end(None)
            case _:
                pass

    def data_to_send(self, now: float) -> bytes:
        """Return the bytes to write now: at most one frame of notifications; call again until empty.

        While the transport of a driver is full, the driver does not call: what is queued meanwhile shares the
        next frame.
        """
        if self.streams.due and isinstance(self._state, Open):
            self._control += encode_frame(self.streams.take())
        control = bytes(self._control)
        self._control.clear()
        match self._state:
            case Open():
                if self.outbox.waiting:
                    return control + self._pack()
                if self._received.due(now) or self.inbox_window.due:
                    return control + encode_frame(self._input(self.outbox.last_sent + 1, []))
            case Closing():
                if self.outbox.waiting:
                    return control + self._pack()
                if not self._close_sent:
                    self._close_sent = True
                    return control + encode_frame(Close(self._received.last_seq))
            case _:
                pass
        return control

    def error(self) -> QuorateClientError:
        """Return the reason why nothing can be sent any more."""
        if isinstance(self._state, Closed) and self._state.error is not None:
            return self._state.error
        return ConnectionClosed("the connection is closed; open a new one with quorate.connect")

    # Attempts.

    def _attempt(self, state: Connecting | Waiting | None) -> None:
        """Make the next attempt, or wait before it. None: the time for attempts is over."""
        if state is None:
            self._end(self._timeout_error())
            return
        self._state = state
        if isinstance(state, Connecting):
            self._events.append(Connect(state.endpoint))

    def _reconnect(self, now: float, reason: str) -> None:
        """Disconnect the open TCP connection and begin the next attempt."""
        self._events.append(Disconnect())
        self.lost(now, reason)

    def _interrupted(self, now: float, state: Open, reason: str, *, silent: bool = False) -> None:
        """Look for the master again: the open connection has failed. `silent`: it is not closed."""
        self._events.append(Interrupted(reason))
        self._attempt(self._attempts.restart(now, state.endpoint, state.since, reason, silent=silent))

    def _timeout_error(self) -> QuorateClientError:
        tried = self._attempts.failures()
        if self.connection is None:
            timeout = self.settings.open_timeout_s
            return Unavailable(f"no replica answered as master within {timeout:g} s ({tried})")
        timeout = self.settings.reconnect_timeout_s
        return ConnectionLost(
            f"the connection could not be reopened within {timeout:g} s ({tried}); "
            "what was not acknowledged may or may not have been processed"
        )

    def _end(self, error: QuorateClientError | None) -> None:
        if not isinstance(self._state, (New, Waiting)):
            self._events.append(Disconnect())
        self._state = Closed(error)
        self._control.clear()
        self._events.append(Ended(error))

    # Frames.

    def _input(self, first_seq: int, notes: list[ClientNote]) -> ClientInput:
        return ClientInput(self._received.acknowledge(), first_seq, notes, *self.inbox_window.name())

    def _pack(self) -> bytes:
        first = self.outbox.last_sent + 1
        limit = min(PACK_BYTES, self.max_frame) - INPUT_OVERHEAD
        return encode_frame(self._input(first, self.outbox.pack(limit, MAX_INPUT_NOTES)))

    def _handle_frame(self, now: float, frame: ServerFrame) -> None:
        match self._state, frame:
            case (Handshaking(endpoint, _), Welcome()):
                self._handle_welcome(now, endpoint, frame)
            case (Handshaking() | Open() | Closing(), Bye()):
                self._handle_bye(now, frame)
            case (Open() | Closing(), ClientOutput()):
                self._handle_output(now, frame)
            case (Open() | Closing(), StreamItems()):
                self._events.append(Streamed(frame))
            case (Open() | Closing(), _) if not isinstance(frame, (Welcome, Bye, ClientOutput)):
                pass
            case _:
                kind = type(frame).__name__
                raise ProtocolError(f"the server sent a {kind} frame where none belongs")

    def _handle_welcome(self, now: float, endpoint: Endpoint, frame: Welcome) -> None:
        if not 1 <= frame.version <= VERSION:
            self._end(
                ProtocolError(f"the server speaks version {frame.version} of the protocol, not {VERSION}")
            )
            return
        if frame.in_ack > self.outbox.last_seq or (self.connection or frame.connection) != frame.connection:
            self._end(ProtocolError("the server opened another connection than the one asked for"))
            return
        first = self.connection is None
        self.connection = frame.connection
        self._notice_at = None
        self.idle_timeout_s = max(frame.idle_timeout_s, 0.1)
        self.max_frame = max(frame.max_frame, 1024)
        self._window = max(1, min(self.settings.window, frame.window))
        self._attempts.succeeded(endpoint, [(host, port) for host, port in frame.replicas])
        self._state = Open(endpoint, now, KeepAlive(now, self.ping_interval_s))
        self.outbox.rewind()
        if first:
            self._events.append(Opened(frame.connection))
        else:
            self.reconnections += 1
            self.inbox_window.reopened()
            self.streams.opened()
            self._events.append(Resumed(endpoint))
        self._acknowledge(frame.in_ack)

    def _handle_bye(self, now: float, frame: Bye) -> None:
        error: QuorateClientError
        match frame.code:
            case ByeCode.AUTHENTICATION:
                error = AuthenticationError(frame.text)
            case ByeCode.EXPIRED:
                error = ConnectionClosed(
                    f"the connection has expired on the server ({frame.text}): the high availability "
                    "is broken; what was not acknowledged may or may not have been processed"
                )
            case ByeCode.CLOSED if isinstance(self._state, Closing):
                self._end(None)
                return
            case ByeCode.CLOSED | ByeCode.REPLACED:
                error = ConnectionClosed(f"the server closed the connection: {frame.text}")
            case ByeCode.VERSION | ByeCode.PROTOCOL:
                error = ProtocolError(f"the server refuses this client: {frame.text}")
            case _:
                self._reconnect(now, frame.text)
                return
        self._end(error)

    def _handle_output(self, now: float, frame: ClientOutput) -> None:
        if frame.in_ack > self.outbox.last_sent:
            raise ProtocolError("the server acknowledged what was not sent")
        if self.outbox.last_seq > self.outbox.acked:
            self._reply_window.under_way(now)
        self._acknowledge(frame.in_ack)
        if frame.notes:
            notes, size_bytes = self._received.accept(now, frame.first_seq, frame.notes)
            if notes:
                self._events.append(Delivered(notes))
                self._reply_window.received(now, size_bytes)

    def _acknowledge(self, in_ack: int) -> None:
        if in_ack > self.outbox.acked:
            box = self.outbox
            count, size = box.acked, box.acked_bytes
            box.acknowledge(in_ack)
            self._reply_window.acknowledged(box.acked - count, box.acked_bytes - size)
            self._events.append(Acknowledged(in_ack))

    def _tick_open(self, now: float, state: Open) -> None:
        keep_alive = state.keep_alive
        match keep_alive.tick(now):
            case Liveness.PING:
                self._last_ping += 1
                ping = Ping(self._last_ping, self._received.last_seq, self.outbox.last_sent + 1)
                self._control += encode_frame(ping)
            case Liveness.SILENT:
                reason = f"nothing was heard from the replica for {now - keep_alive.heard_at:.1f} s"
                self._events.append(Disconnect())
                self._interrupted(now, state, reason, silent=True)
            case Liveness.ALIVE:
                pass
