"""The session of a client with a mesh: it connects to any daemon, and goes on where it was. Pure.

No I/O, no clock, no randomness. The driver reports connections, bytes and time, and carries out what
`take_actions` returns; then it writes `data_to_send`. What the program is to know goes to a `SessionUser`.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, TypeAlias

import attrs
import msgspec

from ...client.attempts import ConnectionAttempts
from ...client.errors import (
    AuthenticationError,
    ConnectionClosed,
    ConnectionLost,
    ProtocolError,
    QuorateClientError,
    Unavailable,
)
from ...client.events import Connect, Disconnect, SessionSettings
from ...client.frames import VERSION, Bye, ByeCode, FrameBuffer, Hello, Ping, Pong, Welcome
from ...client.states import Connecting, Waiting
from ...client.url import Endpoint
from ..frames import (
    MAGIC,
    MAX_SERVER_FRAME,
    Acknowledge,
    Answer,
    Ask,
    Attached,
    ClientFrame,
    Deliver,
    Detach,
    Ended,
    Published,
    Refused,
    decode_server_frame,
    encode_frame,
)
from ..model import Dot
from .errors import refusal
from .publisher import Confirmation, Publisher
from .subscriber import MeshMessage, Subscriber

__all__ = ["MeshSession", "SessionUser", "Subscribed"]

NEW_S: Final = 5.0
"""For so long after it was connected, a daemon is thought not to have heard of a topic that it does not know,
if messages to it were acknowledged before."""
PING_S: Final = 3.0
SILENCE_S: Final = 10.0
"""A daemon that is silent for this long is taken for lost: it answers a ping at once."""
RETRY_S: Final = 0.5
"""The pause before a subscription is attached again to a daemon that does not know its topic yet."""

Action: TypeAlias = Connect | Disconnect


class SessionUser(Protocol):
    """The program's side of a session."""

    def opened(self) -> None:
        """The session is open for the first time."""
        ...

    def confirmed(self, topic: str, confirmation: Confirmation) -> None:
        """Messages to a topic were acknowledged or refused."""
        ...

    def order_lost(self, topic: str) -> None:
        """The order of messages to a topic with earlier ones cannot be kept."""
        ...

    def answered(self, request: int, result: Any, error: QuorateClientError | None) -> None:
        """A request was answered."""
        ...

    def attached(self, consumer: int, error: QuorateClientError | None) -> None:
        """A subscription was attached for the first time, or refused."""
        ...

    def received(self, consumer: int, messages: list[MeshMessage]) -> None:
        """Messages of a subscription have arrived."""
        ...

    def ended(self, consumer: int, error: QuorateClientError) -> None:
        """A subscription has ended."""
        ...

    def closed(self, error: QuorateClientError | None) -> None:
        """The session has ended."""
        ...


@attrs.define
class Subscribed:
    """One subscription of the session."""

    core: Subscriber
    window_bytes: int
    changed_from: list[Dot] = attrs.field(factory=list[Dot])
    attached: bool = False
    """It was attached at some time."""
    request: int = 0
    """The number of the Attach that is not answered."""
    retry_at: float | None = None


@attrs.define
class _Asked:
    frame: Ask | Detach
    sent_before: bool = False
    """It was sent over an earlier connection: it may have been carried out."""


class MeshSession:
    """The session. It has one publisher for each topic, and any number of subscriptions."""

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        user: str,
        password: str,
        identifier: str,
        program: SessionUser,
        settings: SessionSettings,
        jitter: Callable[[], float],
    ) -> None:
        """identifier: of the publishers, different from that of every other client."""
        self._user, self._password = user, password
        self.identifier = identifier
        self.program = program
        self.publishers: dict[str, Publisher] = {}
        self.subscriptions: dict[int, Subscribed] = {}
        self.daemon = ""
        """The identifier of the daemon that the session is connected with; "" without a connection."""
        self.closed = False
        self.error: QuorateClientError | None = None
        self._attempts = ConnectionAttempts(endpoints, settings, jitter)
        self._state: Connecting | Waiting | None = None
        self._endpoint: Endpoint = endpoints[0]
        self._opened_at = 0.0
        self._was_open = False
        self._open = False
        self._greeting = False
        self._buffer = FrameBuffer(MAX_SERVER_FRAME)
        self._actions: list[Action] = []
        self._out: list[ClientFrame] = []
        self._requests = itertools.count(1)
        self._consumers = itertools.count(1)
        self._asked: dict[int, _Asked] = {}
        self._heard = self._pinged = 0.0
        self._token = 0

    # The driver

    def start(self, now: float) -> None:
        """Begin to connect."""
        self._try(self._attempts.start(now))

    def take_actions(self) -> list[Action]:
        """Return what the driver is to do, in order."""
        actions, self._actions = self._actions, []
        return actions

    def data_to_send(self) -> bytes:
        """Return bytes to write on the connection; b"" for none."""
        if not self._open:
            # A Hello is all that may go out before the connection is open.
            out, self._out = self._out, []
            return b"".join(map(encode_frame, out))
        for publisher in self.publishers.values():
            self._out.extend(publisher.frames(self._requests))
        out, self._out = self._out, []
        return b"".join(map(encode_frame, out))

    @property
    def deadline(self) -> float | None:
        """The time at which `tick` is to be called; None: at none."""
        if self.closed:
            return None
        state = self._state
        if isinstance(state, Waiting):
            return state.until
        if state is not None:
            return state.deadline
        retries = [each.retry_at for each in self.subscriptions.values() if each.retry_at is not None]
        retries += [each.again_at for each in self.publishers.values() if each.again_at is not None]
        return min([self._pinged + PING_S, *retries])

    def connected(self, now: float) -> None:
        """The TCP connection is open."""
        self._buffer = FrameBuffer(MAX_SERVER_FRAME)
        self._greeting = True
        self._heard = self._pinged = now
        self._state = Connecting(self._endpoint, now + self._attempts.handshake_timeout_s)
        self._out = [Hello(MAGIC, VERSION, self._user, self._password)]

    def attempt_failed(self, now: float, reason: str) -> None:
        """The TCP connection could not be opened."""
        self._try(self._attempts.failed(now, self._endpoint, reason))

    def lost(self, now: float, reason: str) -> None:
        """The TCP connection has ended."""
        self._greeting = False
        if not self._open:
            self.attempt_failed(now, reason)
            return
        self._leave(now, reason, silent=False)

    def tick(self, now: float) -> None:
        """The deadline has come."""
        state = self._state
        if isinstance(state, Waiting):
            self._try(self._attempts.begin_round(now))
        elif state is not None:
            self._actions.append(Disconnect())
            self._greeting = False
            self._try(self._attempts.failed(now, self._endpoint, "no answer in time"))
        elif now - self._heard > SILENCE_S:
            self._actions.append(Disconnect())
            self._leave(now, f"nothing was heard for {SILENCE_S:g} s", silent=True)
        else:
            for consumer, each in self.subscriptions.items():
                if each.retry_at is not None and now >= each.retry_at:
                    self._attach(consumer, each)
            for publisher in self.publishers.values():
                if publisher.again_at is not None and now >= publisher.again_at:
                    publisher.again_at = None
            if now - self._pinged >= PING_S:
                self._pinged = now
                self._token += 1
                self._out.append(Ping(self._token))

    def received(self, now: float, data: bytes) -> None:
        """Bytes have arrived."""
        self._heard = now
        self._buffer.feed(data)
        try:
            while not self.closed and (body := self._buffer.next()) is not None:
                self._receive(now, body)
        except (ProtocolError, msgspec.MsgspecError, ValueError) as error:
            self._actions.append(Disconnect())
            self._end(ProtocolError(f"the daemon sent what cannot be understood: {error}"))

    def close(self) -> None:
        """End the session."""
        self._actions.append(Disconnect())
        self._end(None)

    def _try(self, state: Connecting | Waiting | None) -> None:
        self._state = state
        if state is None:
            kind = ConnectionLost if self._was_open else Unavailable
            self._end(kind(f"no daemon answered in time: {self._attempts.failures()}"))
        elif isinstance(state, Connecting):
            self._endpoint = state.endpoint
            self._actions.append(Connect(state.endpoint))

    def _leave(self, now: float, reason: str, *, silent: bool) -> None:
        self._open = False
        self.daemon = ""
        self._out.clear()
        for asked in self._asked.values():
            asked.sent_before = True
        self._try(self._attempts.restart(now, self._endpoint, self._opened_at, reason, silent=silent))

    def _end(self, error: QuorateClientError | None) -> None:
        if self.closed:
            return
        self.closed, self.error, self._open, self._state = True, error, False, None
        reason = error or ConnectionClosed("the connection to the mesh was closed")
        for request in list(self._asked):
            del self._asked[request]
            self.program.answered(request, None, reason)
        for consumer in list(self.subscriptions):
            del self.subscriptions[consumer]
            self.program.ended(consumer, reason)
        self.program.closed(error)

    # Frames

    def _receive(self, now: float, body: bytes) -> None:
        frame = decode_server_frame(body)
        match frame:
            case Welcome():
                self._welcomed(now, frame)
            case Bye():
                self._refused_hello(now, frame)
            case Published():
                self._published(frame)
            case Refused():
                self._refused(now, frame)
            case Attached():
                self._attached(frame)
            case Deliver():
                self._delivered(frame)
            case Ended():
                if self.subscriptions.pop(frame.consumer, None) is not None:
                    error = refusal(Refused(0, frame.code, frame.text))
                    self.program.ended(frame.consumer, error)
            case Answer():
                if self._asked.pop(frame.request, None) is not None:
                    self.program.answered(frame.request, frame.result, None)
            case Pong():
                pass

    def _welcomed(self, now: float, frame: Welcome) -> None:
        if not self._greeting:
            raise ProtocolError("a second Welcome")
        self._greeting = False
        self._attempts.succeeded(self._endpoint, frame.replicas)
        self._state = None
        self._open, self._opened_at, self._pinged = True, now, now
        self.daemon = frame.connection
        self._out.clear()
        for publisher in self.publishers.values():
            publisher.connected()
        for consumer, each in self.subscriptions.items():
            self._attach(consumer, each)
        for asked in self._asked.values():
            self._out.append(asked.frame)
        if not self._was_open:
            self._was_open = True
            self.program.opened()

    def _refused_hello(self, now: float, frame: Bye) -> None:
        self._actions.append(Disconnect())
        self._greeting = False
        if frame.code == ByeCode.AUTHENTICATION:
            self._end(AuthenticationError(frame.text))
        elif frame.code in (ByeCode.PROTOCOL, ByeCode.VERSION):
            self._end(ProtocolError(f"this is no daemon of a mesh: {frame.text}"))
        elif self._open:
            self._leave(now, frame.text, silent=True)
        else:
            self._try(self._attempts.failed(now, self._endpoint, frame.text))

    # Publishing

    def publish(self, topic: str, bodies: Sequence[bytes]) -> tuple[int, int]:
        """Publish messages. Return the numbers of the first and the last one in the topic."""
        publisher = self.publishers.get(topic)
        if publisher is None:
            publisher = self.publishers[topic] = Publisher(topic, self.identifier)
        return publisher.add(bodies)

    def _published(self, frame: Published) -> None:
        for topic, publisher in self.publishers.items():
            if frame.request in publisher.requests:
                confirmation = publisher.published(frame)
                if confirmation is not None:
                    self.program.confirmed(topic, confirmation)
                return

    def _refused(self, now: float, frame: Refused) -> None:
        if frame.code == "forgotten":
            # Another daemon takes it.
            self._actions.append(Disconnect())
            self._leave(now, frame.text, silent=True)
            return
        for topic, publisher in self.publishers.items():
            if frame.request in publisher.requests:
                fresh = now - self._opened_at < NEW_S
                if frame.code == "no topic" and fresh and self._is_known(publisher):
                    publisher.later(now + RETRY_S)
                    return
                lost = publisher.orders_lost
                confirmation = publisher.refused(frame)
                if publisher.orders_lost > lost:
                    self.program.order_lost(topic)
                if confirmation is not None:
                    self.program.confirmed(topic, confirmation)
                return
        asked = self._asked.pop(frame.request, None)
        if asked is not None:
            done = asked.sent_before and _is_done(asked.frame, frame.code)
            self.program.answered(frame.request, None, None if done else refusal(frame))
            return
        for consumer, each in self.subscriptions.items():
            if each.request == frame.request:
                self._attach_refused(now, consumer, each, frame)
                return

    def _is_known(self, publisher: Publisher) -> bool:
        """Return whether a daemon has known the topic of a publisher before."""
        if publisher.acknowledged or publisher.epoch > 1:
            return True
        return any(
            each.attached and each.core.topic == publisher.topic for each in self.subscriptions.values()
        )

    # Subscriptions

    def subscribe(self, subscriber: Subscriber, window_bytes: int, changed_from: Sequence[Dot] = ()) -> int:
        """Begin with a subscription. Return its number."""
        consumer = next(self._consumers)
        each = self.subscriptions[consumer] = Subscribed(subscriber, window_bytes, list(changed_from))
        if self._open:
            self._attach(consumer, each)
        return consumer

    def _attach(self, consumer: int, each: Subscribed) -> None:
        each.retry_at = None
        each.request = next(self._requests)
        self._out.append(each.core.attach(each.request, consumer, each.window_bytes, each.changed_from))

    def _attached(self, frame: Attached) -> None:
        each = self.subscriptions.get(frame.consumer)
        if each is None:
            return
        each.core.attached(frame.dots)
        each.changed_from.clear()
        if not each.attached:
            each.attached = True
            self.program.attached(frame.consumer, None)

    def _attach_refused(self, now: float, consumer: int, each: Subscribed, frame: Refused) -> None:
        if each.attached and frame.code == "no topic":
            # This daemon may not have heard of the topic yet.
            each.retry_at = now + RETRY_S
            return
        del self.subscriptions[consumer]
        if each.attached:
            self.program.ended(consumer, refusal(frame))
        else:
            self.program.attached(consumer, refusal(frame))

    def _delivered(self, frame: Deliver) -> None:
        each = self.subscriptions.get(frame.consumer)
        if each is None:
            return
        messages = each.core.receive(frame)
        self._acknowledge(each.core.acknowledge_repeated(frame.consumer))
        if messages:
            self.program.received(frame.consumer, messages)

    def acknowledge(self, consumer: int, message: MeshMessage | None = None) -> None:
        """Acknowledge what a subscription has received, up to a message or all of it."""
        each = self.subscriptions.get(consumer)
        if each is not None:
            self._acknowledge(each.core.acknowledge(consumer, message))

    def _acknowledge(self, frame: Acknowledge | None) -> None:
        if frame is not None and self._open:
            self._out.append(frame)

    def detach(self, consumer: int, *, end: bool) -> int:
        """Receive no more; with `end` the subscription ends. Return the number of the request."""
        self.subscriptions.pop(consumer, None)
        return self._request(lambda request: Detach(request, consumer, end))

    # Requests

    def ask(self, what: str, topic: str = "", name: str = "", options: Any = None) -> int:
        """Ask a daemon. Return the number of the request."""
        return self._request(lambda request: Ask(request, what, topic, options, name))

    def _request(self, frame: Callable[[int], Ask | Detach]) -> int:
        request = next(self._requests)
        asked = self._asked[request] = _Asked(frame(request))
        if self._open:
            self._out.append(asked.frame)
        return request

    def forget(self, request: int) -> None:
        """Wait for an answer no longer."""
        self._asked.pop(request, None)


def _is_done(frame: Ask | Detach, code: str) -> bool:
    """Return whether a request that was sent twice was carried out the first time."""
    if not isinstance(frame, Ask):
        return False
    return (frame.what, code) in {("create", "exists"), ("delete", "no topic"), ("unsubscribe", "ended")}
