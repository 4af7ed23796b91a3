"""The session of a client with a replicated server. Sans-IO: no socket, clock, thread or random in here.

Source: HA Joram specification, section 5.1.6. The session numbers what it sends and keeps it until the
cluster has it. It looks for the master among the replicas, beginning with the last master, reopens its
connection there, sends again what is unacknowledged and drops what it has seen.

A driver calls `start`, `connected`, `attempt_failed`, `received`, `lost`, `tick`, `send` and `close` with the
time in seconds of any monotonic clock. After each call the driver carries out the events that `pop_events`
returns, writes what `data_to_send` returns, and calls `tick` at `deadline`.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from ..agents.ids import AgentId
from ..agents.proxy import MAX_INPUT_NOTES
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
    Welcome,
    decode_server_frame,
    encode_frame,
    note_size,
)
from .outbox import Outbox
from .reply_window import ReplyWindow
from .states import Closing, Connecting, Greeting, New, Open, Over, State, Waiting
from .url import Endpoint, format_endpoint

__all__ = ["Session"]

MAX_SERVER_FRAME: Final = 16 * 1024 * 1024
"""Largest frame that a server may send, in bytes."""
INPUT_OVERHEAD: Final = 32
"""Upper bound of the bytes that an input frame needs besides its notifications."""
MAX_REPLICAS: Final = 64
"""Replicas remembered from a server's list."""
BRIEF_S: Final = 1.0
"""A TCP connection that ends within this time counts as brief. After a second brief one in a row the session
waits before it connects again."""


class Session:
    """One connection of one user, across any number of TCP connections.

    The class has more than 20 methods: a driver's entries (9), what it may observe (8), and one method per
    transition and frame. They all read and change the one state machine, `states.State`. What could stand
    alone does: `Outbox`, `ReplyWindow`, `FrameBuffer` and `PendingRequests`.
    """

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
        self.replicas: tuple[Endpoint, ...] = tuple(endpoints)
        self.max_frame = DEFAULT_MAX_FRAME
        self.idle_timeout_s = 60.0
        self._most = self.settings.window
        """Unacknowledged notifications that the server and the settings allow."""
        self.outbox = Outbox()
        self._reply_window = ReplyWindow()
        self.last_out = 0
        """Number of the last notification received."""
        self.reconnections = 0
        self._url_endpoints = tuple(endpoints)
        self._user = user
        self._password = password
        self._jitter = jitter
        self._state: State = New()
        self._events: list[Event] = []
        self._control = bytearray()
        self._ack_owed = 0
        self._ack_owed_bytes = 0
        self._token = 0
        self._attempt = 0
        self._close_sent = False
        self._buffer = FrameBuffer(MAX_SERVER_FRAME)
        self._plan: deque[Endpoint] = deque()
        self._round = 0
        self._brief = 0
        """TCP connections that broke soon after they were welcomed, one after the other."""
        self._connect_deadline = 0.0
        self._preferred: Endpoint = self.replicas[0]
        self._silent: Endpoint | None = None
        """The replica that has fallen silent. It may still accept TCP connections, so it is tried last."""
        self._failures: dict[Endpoint, str] = {}

    # What the driver observes.

    @property
    def is_open(self) -> bool:
        """Whether notifications flow now."""
        return isinstance(self._state, Open)

    @property
    def ended(self) -> bool:
        """Whether the session is over or about to be."""
        return isinstance(self._state, (Closing, Over))

    @property
    def window(self) -> int:
        """How many notifications may be unacknowledged at present."""
        return min(self._most, self._reply_window.window)

    @property
    def window_bytes(self) -> int:
        """How many bytes of notifications may be unacknowledged at present."""
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
        """When `tick` is to be called at the latest."""
        match self._state:
            case New() | Over():
                return None
            case Waiting(until):
                return min(until, self._connect_deadline)
            case Connecting(_, deadline) | Greeting(_, deadline):
                return min(deadline, self._connect_deadline)
            case Closing(deadline):
                return deadline
            case Open() as state:
                until = min(state.ping_at, self._silence_deadline(state))
                return until if state.ack_at is None else min(until, state.ack_at)

    def pop_events(self) -> list[Event]:
        """Return what has happened and what the driver has to do, in order, once."""
        events = self._events
        self._events = []
        return events

    # Inputs.

    def start(self, now: float) -> None:
        """Begin to connect."""
        if isinstance(self._state, New):
            self._connect_deadline = now + self.settings.open_timeout_s
            self._begin_round(now)

    def connected(self, now: float) -> None:
        """The TCP connection of the last `Connect` is open."""
        match self._state:
            case Connecting(endpoint, _):
                self._buffer = FrameBuffer(MAX_SERVER_FRAME)
                self._control.clear()
                self._attempt += 1
                who = (self._user, self._password, self.connection)
                self._send_control(Hello(MAGIC, VERSION, *who, self.last_out, self._attempt))
                self._state = Greeting(endpoint, now + self._greeting_s)
            case _:
                self._events.append(Disconnect())

    def attempt_failed(self, now: float, reason: str) -> None:
        """The TCP connection of the last `Connect` could not be opened."""
        match self._state:
            case Connecting(endpoint, _):
                self._failures[endpoint] = reason
                self._next_attempt(now)
            case _:
                pass

    def lost(self, now: float, reason: str) -> None:
        """The TCP connection has ended without being asked to."""
        match self._state:
            case Greeting(endpoint, _):
                self._failures[endpoint] = reason
                self._next_attempt(now)
            case Open():
                self._interrupt(now, reason)
            case Closing():
                self._end(None)
            case _:
                pass

    def received(self, now: float, data: bytes) -> None:
        """Bytes have arrived on the TCP connection."""
        if isinstance(self._state, Open):
            self._state.heard = now
        self._buffer.feed(data)
        try:
            while isinstance(self._state, (Greeting, Open, Closing)):
                body = self._buffer.next()
                if body is None:
                    return
                self._react(now, decode_server_frame(body))
        except ProtocolError as error:
            self._drop(now, str(error))

    def send(self, to: AgentId | str, type: str, payload: bytes, request: int = 0) -> int:
        """Queue a notification and return its number.

        The driver looks at `full` before. Raises `FrameTooLarge` if no frame can hold it, and the
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
            case Closing() | Over():
                pass
            case _:
                self._end(None)

    def abort(self, error: QuorateClientError | None = None) -> None:
        """End now, without a Close frame."""
        if not isinstance(self._state, Over):
            self._end(error)

    def tick(self, now: float) -> None:
        """Let time pass. May be called at any time."""
        match self._state:
            case Waiting() | Connecting() | Greeting() if now >= self._connect_deadline:
                self._end(self._timeout_error())
            case Waiting(until) if now >= until:
                self._begin_round(now)
            case Connecting(endpoint, deadline) if now >= deadline:
                self._failures[endpoint] = f"no connection within {self.settings.attempt_timeout_s:g} s"
                self._events.append(Disconnect())
                self._next_attempt(now)
            case Greeting(endpoint, deadline) if now >= deadline:
                self._failures[endpoint] = f"no answer within {self._greeting_s:g} s"
                self._events.append(Disconnect())
                self._next_attempt(now)
            case Open() as state:
                self._tick_open(now, state)
            case Closing(deadline) if now >= deadline:
                self._end(None)
            case _:
                pass

    def data_to_send(self, now: float) -> bytes:
        """Return the bytes to write now: at most one frame of notifications; call again until empty.

        A driver whose transport is full waits, and what gathers meanwhile shares the next frame.
        """
        control = bytes(self._control)
        self._control.clear()
        match self._state:
            case Open() as state:
                if self.outbox.waiting:
                    return control + self._pack()
                if self._ack_owed and state.ack_at is not None and now >= state.ack_at:
                    return control + encode_frame(self._input(self.outbox.last_sent + 1, []))
            case Closing():
                if self.outbox.waiting:
                    return control + self._pack()
                if not self._close_sent:
                    self._close_sent = True
                    return control + encode_frame(Close(self.last_out))
            case _:
                pass
        return control

    def error(self) -> QuorateClientError:
        """Return the reason why nothing can be sent any more."""
        if isinstance(self._state, Over) and self._state.error is not None:
            return self._state.error
        return ConnectionClosed("the connection is closed; open a new one with quorate.connect")

    # Attempts.

    @property
    def _greeting_s(self) -> float:
        settings = self.settings
        return min(settings.greeting_timeout_s, settings.greeting_first_s * 2.0 ** min(self._round, 16))

    def _begin_round(self, now: float) -> None:
        """Plan one attempt per replica: the one that served last first, then the others in their order.

        A replica that has fallen silent is tried last: the others refuse at once, unless one of them is
        master.
        """
        replicas = self.replicas
        at = replicas.index(self._preferred) if self._preferred in replicas else 0
        self._plan = deque(replicas[at:] + replicas[:at])
        if self._silent == self._plan[0]:
            self._plan.rotate(-1)
        self._next_attempt(now)

    def _next_attempt(self, now: float) -> None:
        if now >= self._connect_deadline:
            self._end(self._timeout_error())
        elif self._plan:
            endpoint = self._plan.popleft()
            self._state = Connecting(endpoint, now + self.settings.attempt_timeout_s)
            self._events.append(Connect(endpoint))
        else:
            self._wait(now)

    def _wait(self, now: float) -> None:
        """Begin the next round after the back-off time."""
        wait = min(self.settings.backoff_cap_s, self.settings.backoff_first_s * 2 ** min(self._round, 16))
        self._round += 1
        self._state = Waiting(now + wait * (0.5 + 0.5 * self._jitter()))

    def _interrupt(self, now: float, reason: str) -> None:
        assert isinstance(self._state, Open)
        self._preferred = self._state.endpoint
        self._failures = {self._preferred: reason}
        self._brief = self._brief + 1 if now - self._state.since < BRIEF_S else 0
        self._round = max(0, self._brief - 1)
        self._connect_deadline = now + self.settings.reconnect_timeout_s
        self._events.append(Interrupted(reason))
        if self._round:
            # All replicas of a server have work with every client that comes back.
            self._wait(now)
        else:
            self._begin_round(now)

    def _drop(self, now: float, reason: str) -> None:
        """Disconnect the open TCP connection and begin the next attempt."""
        self._events.append(Disconnect())
        self.lost(now, reason)

    def _timeout_error(self) -> QuorateClientError:
        tried = "; ".join(
            f"{format_endpoint(endpoint)}: {self._failures.get(endpoint, 'no answer in time')}"
            for endpoint in self.replicas
        )
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
        self._state = Over(error)
        self._control.clear()
        self._events.append(Ended(error))

    # Frames.

    def _send_control(self, frame: Hello | Ping) -> None:
        self._control += encode_frame(frame)

    def _input(self, first_seq: int, notes: list[ClientNote]) -> ClientInput:
        self._ack_owed = self._ack_owed_bytes = 0
        if isinstance(self._state, Open):
            self._state.ack_at = None
        return ClientInput(self.last_out, first_seq, notes)

    def _pack(self) -> bytes:
        first = self.outbox.last_sent + 1
        limit = min(PACK_BYTES, self.max_frame) - INPUT_OVERHEAD
        return encode_frame(self._input(first, self.outbox.pack(limit, MAX_INPUT_NOTES)))

    def _react(self, now: float, frame: ServerFrame) -> None:
        match self._state, frame:
            case (Greeting(endpoint, _), Welcome()):
                self._welcome(now, endpoint, frame)
            case (Greeting() | Open() | Closing(), Bye()):
                self._bye(now, frame)
            case (Open() | Closing(), ClientOutput()):
                self._output(now, frame)
            case (Open() | Closing(), _) if not isinstance(frame, (Welcome, Bye, ClientOutput)):
                pass
            case _:
                kind = type(frame).__name__
                raise ProtocolError(f"the server sent a {kind} frame where none belongs")

    def _welcome(self, now: float, endpoint: Endpoint, frame: Welcome) -> None:
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
        self.idle_timeout_s = max(frame.idle_timeout_s, 0.1)
        self.max_frame = max(frame.max_frame, 1024)
        self._most = max(1, min(self.settings.window, frame.window))
        listed = tuple((host, port) for host, port in frame.replicas[:MAX_REPLICAS])
        self.replicas = tuple(dict.fromkeys((endpoint, *listed, *self._url_endpoints)))
        if endpoint in listed:
            self.replicas = tuple(dict.fromkeys((*listed, *self._url_endpoints)))
        self._preferred = endpoint
        self._silent = None
        self._failures = {}
        self._state = Open(endpoint, heard=now, ping_at=now + self.ping_interval_s, since=now)
        self.outbox.rewind()
        if first:
            self._events.append(Opened(frame.connection))
        else:
            self.reconnections += 1
            self._events.append(Resumed(endpoint))
        self._acknowledge(frame.in_ack)

    def _bye(self, now: float, frame: Bye) -> None:
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
                self._drop(now, frame.text)
                return
        self._end(error)

    def _output(self, now: float, frame: ClientOutput) -> None:
        if frame.in_ack > self.outbox.last_sent:
            raise ProtocolError("the server acknowledged what was not sent")
        if self.outbox.last_seq > self.outbox.acked:
            self._reply_window.under_way(now)
        self._acknowledge(frame.in_ack)
        if not frame.notes:
            return
        known = self.last_out + 1 - frame.first_seq
        if known < 0:
            raise ProtocolError(f"notification {self.last_out + 1} from the server is missing")
        notes = frame.notes[known:] if known else frame.notes
        if not notes:
            return
        self.last_out += len(notes)
        self._events.append(Delivered(notes))
        self._ack_owed += len(notes)
        size = sum([len(note.payload) for note in notes])
        self._reply_window.received(now, size)
        self._ack_owed_bytes += size
        if isinstance(self._state, Open):
            much = (
                self._ack_owed >= self.settings.ack_notes or self._ack_owed_bytes >= self.settings.ack_bytes
            )
            if much:
                self._state.ack_at = now
            elif self._state.ack_at is None:
                self._state.ack_at = now + self.settings.ack_delay_s

    def _acknowledge(self, in_ack: int) -> None:
        if in_ack > self.outbox.acked:
            box = self.outbox
            count, size = box.acked, box.acked_bytes
            box.acknowledge(in_ack)
            self._reply_window.acknowledged(box.acked - count, box.acked_bytes - size)
            self._events.append(Acknowledged(in_ack))

    def _silence_deadline(self, state: Open) -> float:
        """Return the time at which a silent replica is given up: after three ping intervals."""
        return state.heard + 3 * self.ping_interval_s

    def _tick_open(self, now: float, state: Open) -> None:
        interval = self.ping_interval_s
        patience = self._silence_deadline(state)
        if now >= patience + interval:
            # This process itself was stopped for a while: let it read the bytes that have arrived meanwhile
            # first.
            state.heard = now - 2 * interval
        elif now >= patience:
            self._silent = state.endpoint
            self._drop(now, f"nothing was heard from the replica for {now - state.heard:.1f} s")
            return
        if now >= state.ping_at:
            state.ping_at = now + interval
            self._token += 1
            self._send_control(Ping(self._token, self.last_out, self.outbox.last_sent + 1))
