"""An AMQP 1.0 connection, without I/O: Proton's engine, the log-in, and what waits for an outcome."""

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import attrs

from ...messaging.agents.settings import Kind
from ...messaging.client.destinations import Destination
from .addresses import kind_of
from .engine import Collector, Condition, Connection, Event, ProtonException, Terminus, Transport, symbol
from .requests import Close, LogIn, MakeTemporary, Open, Request
from .sasl import SaslFlaw, SaslServer
from .terminus import capabilities

__all__ = ["INVALID", "AmqpConnection", "Failed", "Surroundings", "end_link", "refuse_link"]

LOG_IN_S: Final = 10.0
"""Time for the log-in."""
SILENCE_S: Final = 60.0
"""A client is given up that is silent for so long: it is asked to send something in half of it."""
MAX_FRAME: Final = 64 * 1024
CAPABILITIES: Final = ("ANONYMOUS-RELAY", "DELAYED_DELIVERY", "SHARED-SUBS", "sole-connection-for-container")
ALONE: Final = "sole-connection-for-container"
ESTABLISHMENT_FAILED: Final = symbol("amqp:connection-establishment-failed")
_READING: Final[Any] = (ProtonException, TypeError, ValueError, LookupError, OverflowError, RecursionError)
"""What Proton raises for values of a client that it cannot read."""
INVALID: Final = "amqp:invalid-field"

Failed = Callable[[str, str], None]
"""Is told why a request has failed: a condition of AMQP, and a sentence for the client."""


@attrs.frozen
class Surroundings:
    """What a connection knows of its server."""

    server: str
    """Its name."""
    max_message_bytes: int
    external: Callable[[], bool]
    """Whether the client has shown a certificate."""
    wall_ms: Callable[[], int]
    """The time, milliseconds since 1970."""


class AmqpConnection:
    """One connection of a client, so far as it is alike for sending and receiving."""

    def __init__(self, now: float, surroundings: Surroundings) -> None:
        self.closed = False
        """Nothing is read or written any more."""
        self.container = ""
        """The name of the client, once it has said it."""
        self._server = surroundings.server
        self._max_bytes = surroundings.max_message_bytes
        self._wall_ms = surroundings.wall_ms
        self._started = now
        self._sasl = SaslServer(surroundings.external)
        self._collector = Collector()
        self._connection = Connection()
        self._connection.collect(self._collector)
        self._transport = Transport(Transport.SERVER)
        self._transport.max_frame_size = MAX_FRAME
        self._transport.idle_timeout = SILENCE_S
        self._transport.bind(self._connection)
        self._input = bytearray()
        self._requests: list[Request] = []
        self._pending: dict[int, tuple[Callable[[Any], None], Failed]] = {}
        """By token: what is done when the request is done, or has failed."""
        self._tokens = itertools.count(1)
        self._names = itertools.count(1)
        self._deadline = 0.0
        self._ending: str | None = None
        """The connection is closed as soon as all is written: why, for the log."""

    # What comes out

    def requests(self) -> list[Request]:
        """Return the requests since the last call, in their order."""
        requests, self._requests = self._requests, []
        return requests

    def data_to_send(self, now: float) -> bytes:
        """Return the bytes to write since the last call."""
        parts = [self._sasl.data_to_send()]
        if self._sasl.over and not self.closed:
            self._deadline = self._transport.tick(now)
            while (pending := self._transport.pending()) > 0:
                parts.append(self._transport.peek(pending) or b"")
                self._transport.pop(pending)
            self._feed()
            self._written()
        if self._ending is not None and not self.closed:
            self._close(self._ending)
        return b"".join(parts)

    @property
    def deadline(self) -> float | None:
        """When `tick` is to be called next; None: never."""
        if self.closed:
            return None
        if not self._sasl.over:
            return self._started + LOG_IN_S
        return self._deadline or None

    @property
    def waiting(self) -> int:
        """How many requests are not done: a service stops reading from a client with too many."""
        return len(self._pending)

    # What comes in

    def received(self, now: float, data: bytes) -> None:
        """Take bytes of the client. Proton learns of the time in `data_to_send`, which follows."""
        del now
        if self.closed:
            return
        if not self._sasl.over:
            try:
                found = self._sasl.received(data)
            except SaslFlaw as error:
                self._close(str(error))
                return
            if found is not None:
                self._requests.append(LogIn(found.user, found.password))
            return
        self._input += data
        self._feed()

    def tick(self, now: float) -> None:
        """Take note of the time: keep the connection alive, or give a silent client up."""
        if self.closed:
            return
        if self._sasl.over:
            self._deadline = self._transport.tick(now)
            self._events()
        elif now >= self._started + LOG_IN_S:
            self._close("the client has not logged in in time")

    def lost(self) -> None:
        """Take note that the connection is gone."""
        self.closed = True
        self._pending.clear()

    def logged_in(self) -> None:
        """Let the client in."""
        if not self.closed:
            self._input += self._sasl.let_in()
            self._feed()

    def refused(self, text: str) -> None:
        """Turn the client away. text: one sentence for it."""
        if self.closed:
            return
        if self._sasl.over:
            self._fail_connection("amqp:connection:forced", text)
        else:
            self._sasl.turn_away()
            self._close(text)

    def done(self, token: int, result: Any = None) -> None:
        """Take note that a request is done. result: of `MakeTemporary` the destination."""
        found = self._pending.pop(token, None)
        if found is not None and not self.closed:
            found[0](result)

    def failed(self, token: int, condition: str, text: str) -> None:
        """Take note that a request has failed. condition: of AMQP; text: one sentence for the client."""
        found = self._pending.pop(token, None)
        if found is not None and not self.closed:
            found[1](condition, text)

    # Proton

    def _feed(self) -> None:
        """Give Proton what came, as much as it takes."""
        try:
            while self._input and not self.closed:
                room = self._transport.capacity()
                if room <= 0:
                    break
                self._transport.push(bytes(self._input[:room]))
                del self._input[:room]
                self._events()
        except _READING as error:
            self._ending = self._ending or f"the client does not keep to AMQP 1.0: {error}"

    def _written(self) -> None:
        """Take note that all that was to be written is with the service."""

    def _events(self) -> None:
        while (event := self._collector.peek()) is not None:
            handler = self._handler_of(event.type)
            if handler is not None:
                handler(self, event)
            self._collector.pop()

    def _ask(self, request: Callable[[int], Request], done: Callable[[Any], None], failed: Failed) -> None:
        token = next(self._tokens)
        self._pending[token] = (done, failed)
        self._requests.append(request(token))

    def _handler_of(self, kind: Any) -> Callable[[Any, Any], None] | None:
        """Return the method for a kind of events of Proton."""
        return self._handlers.get(kind)

    def _close(self, reason: str) -> None:
        self.closed = True
        self._pending.clear()
        self._requests.append(Close(reason))

    # The connection

    def _open_connection(self, _: Any) -> None:
        connection = self._connection
        self.container = connection.remote_container or ""
        wanted: list[Any] = list(connection.remote_desired_capabilities or [])
        alone = ALONE in [str(each) for each in wanted]
        connection.container = f"quorate-{self._server}"
        connection.offered_capabilities = [symbol(each) for each in CAPABILITIES]
        connection.properties = {symbol("product"): "Quorate"}

        def failed(condition: str, text: str) -> None:
            connection.properties = {ESTABLISHMENT_FAILED: True}
            connection.open()
            info = {symbol("invalid-field"): symbol("container-id")} if condition == INVALID else None
            self._fail_connection(condition, text, info)

        container = self.container
        self._ask(lambda token: Open(token, container, alone), lambda _: connection.open(), failed)

    def _fail_connection(self, condition: str, text: str, info: Any = None) -> None:
        self._connection.condition = Condition(condition, text, info)
        self._connection.close()
        self._ending = text

    def _close_connection(self, _: Any) -> None:
        self._connection.close()
        self._ending = self._ending or ""

    def _transport_failed(self, _: Any) -> None:
        condition = self._transport.condition
        text = "the connection has failed" if condition is None else condition.description or condition.name
        self._ending = self._ending or f"the client does not keep to AMQP 1.0: {text}"

    def _dynamic(self, link: Any, terminus: Any, then: Callable[[Destination], None]) -> None:
        """Make the temporary destination that a client wants."""
        kind = kind_of(capabilities(terminus.capabilities)) or Kind.QUEUE
        self._ask(lambda token: MakeTemporary(token, kind), then, partial(refuse_link, link))

    _handlers: Final[dict[Any, Callable[[Any, Any], None]]] = {
        Event.CONNECTION_REMOTE_OPEN: _open_connection,
        Event.CONNECTION_REMOTE_CLOSE: _close_connection,
        Event.TRANSPORT_ERROR: _transport_failed,
    }


def refuse_link(link: Any, condition: str, text: str) -> None:
    """Answer an attach that fails: the link is open without a terminus, and closed at once."""
    own = link.source if link.is_sender else link.target
    own.type = Terminus.UNSPECIFIED
    link.open()
    end_link(link, condition, text)


def end_link(link: Any, condition: str, text: str) -> None:
    """Close a link, with the reason."""
    link.condition = Condition(condition, text)
    link.close()
