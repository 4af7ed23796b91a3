"""The network port of a replica: accepts connections, runs the handshake, and hands each to its handler."""

import os
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol, cast

import attrs
from twisted.internet.defer import Deferred, succeed
from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import Factory

from ...hachannel.transport.connection import Link, LinkSettings
from ...hachannel.transport.ports import DelayedCallPort, ListeningPort, ReactorPort
from ..errors import StartError
from .handshake import HELLO_TIMEOUT_S, NONCE_BYTES, Acceptor, is_loopback
from .hello import ADMIN, MAX_HELLO_BYTES, Hello, NotNow, ProtocolError
from .misdirected_client import client_refusal, is_client_hello
from .pending_connections import PendingConnections
from .rate_limit import RateLimit

MAX_CONNECTIONS = 512
"""Limit of connections after the handshake, all purposes together."""
MAX_ADMINISTRATORS = 32
"""Limit of the connections of administrators among them."""


def _reason(error: CannotListenError) -> str:
    """Return the text of the operating system's error, without its number."""
    cause: object = cast("Any", error).socketError
    return str(getattr(cause, "strerror", None) or cause)


class InboundHandler(Protocol):
    """Handler of the inbound connections of one purpose (CHANNEL, NETWORK or ADMIN)."""

    def answer(self, hello: Hello) -> Mapping[str, Any]:
        """Return the fields of this replica's hello in answer to `hello`. Raises ProtocolError to refuse."""
        ...

    def begin(self, link: Link, hello: Hello, frames: list[bytes]) -> None:
        """Serve the link after the handshake and set its handler; `frames` arrived behind the hello."""
        ...


@attrs.define(eq=False)
class _PendingHandshake:
    """Handler of a link whose handshake is not complete."""

    listener: "Listener"
    acceptor: Acceptor
    timeout: DelayedCallPort | None = None

    def frames(self, link: Link, bodies: list[bytes]) -> None:
        for position, body in enumerate(bodies):
            try:
                answers = self.acceptor.receive(body)
            except ProtocolError as error:
                if error.answer is not None:
                    link.send([error.answer])
                self.listener.reject(link, str(error), counted=not isinstance(error, NotNow))
                self.done()
                link.close()
                return
            if answers:
                link.send(answers)
            if self.acceptor.done:
                self.done()
                self.listener.handshake_done(link, cast("Hello", self.acceptor.peer), bodies[position + 1 :])
                return

    def lost(self, link: Link, reason: str) -> None:
        if self.timeout is not None and self.acceptor.peer is None:
            self.listener.reject(link, f"no hello: {reason}", counted=link.heard_anything)
        self.done()

    def done(self) -> None:
        if self.timeout is not None and self.timeout.active():
            self.timeout.cancel()
        self.timeout = None


class _AcceptedLink(Link):
    listener: "Listener"
    purpose = ""
    """That of the hello, once the handshake is complete."""

    def connectionMade(self) -> None:  # noqa: N802
        super().connectionMade()
        self.listener.link_opened(self)

    def dataReceived(self, data: bytes) -> None:  # noqa: N802
        # A client sends its hello in one write; one that arrives in parts only misses the advice.
        if not self.heard_anything and not self.closed and is_client_hello(data):
            self.listener.client_arrived(self)
        else:
            super().dataReceived(data)

    def connectionLost(self, reason: Any = None) -> None:  # noqa: N802
        self.listener.link_closed(self)
        super().connectionLost(reason)


class _DiscardFrames:
    def frames(self, link: Link, bodies: list[bytes]) -> None:
        del link, bodies

    def lost(self, link: Link, reason: str) -> None:
        del link, reason


DISCARD_FRAMES = _DiscardFrames()
"""Handler of links that are being closed."""


class Listener(Factory):
    """Accepts connections on a replica's network port.

    `handlers` maps a purpose to its handler; `secret` is the property of that name, None if there is none.
    `log` gets lines about bad connections, limited in number. `count` gets the name of a metric to increase:
    ``garbage`` for a first frame that is no acceptable hello, ``refused_connections`` above a limit.
    `client_port` is the port that a client program that connects here is told to use; None if there is none.
    `check_source` gets each hello and the numeric address from which it comes, and raises ProtocolError to
    refuse it; `check_certificate` does the same with the transport of Twisted, which knows the certificate
    that TLS has proven. `is_known` returns whether a numeric address is one of the configuration: those have
    places of their own among the connections whose handshake is not complete, see `PendingConnections`.
    """

    noisy = False

    def __init__(
        self,
        reactor: ReactorPort,
        handlers: Mapping[str, InboundHandler],
        *,
        secret: str | None,
        log: Callable[[str], None],
        count: Callable[[str], None],
        settings: LinkSettings | None = None,
        max_connections: int = MAX_CONNECTIONS,
        client_port: int | None = None,
        check_source: Callable[[Hello, str], None] | None = None,
        check_certificate: Callable[[Hello, Any], None] | None = None,
        is_known: Callable[[str], bool] | None = None,
    ) -> None:
        self.connections = 0
        """Connections that are open now, all purposes together."""
        self._reactor = reactor
        self._handlers = handlers
        self._secret = secret
        self._limit = RateLimit(log)
        self._count = count
        self._settings = attrs.evolve(settings or LinkSettings(), max_frame_bytes=MAX_HELLO_BYTES)
        self._max_connections = max_connections
        self._client_port = client_port
        self._check_source = check_source
        self._check_certificate = check_certificate
        self._is_known = is_known or is_loopback
        self._pending: PendingConnections[Link] = PendingConnections()
        self._served: Counter[str] = Counter()
        """Connections after the handshake, by purpose."""
        self._port: ListeningPort | None = None

    def listen(self, port: int, interface: str = "") -> int:
        """Listen on `port` (0: any free one) and return its number.

        Raises StartError when the port cannot be listened on.
        """
        try:
            self._port = self._reactor.listenTCP(port, self, interface=interface)
        except CannotListenError as error:
            raise StartError(
                f"Port {port} of the network cannot be listened on ({_reason(error)}); "
                "stop the program that uses it or change the port in the configuration."
            ) from None
        return int(self._port.getHost().port)

    def stop(self) -> "Deferred[Any]":
        """Stop listening. Open connections stay with their handlers."""
        port, self._port = self._port, None
        return (port.stopListening() if port is not None else None) or succeed(None)

    def buildProtocol(self, addr: IAddress | None) -> Link:  # noqa: N802
        """Make the link of an accepted connection; called by Twisted."""
        del addr
        link = _AcceptedLink(self._reactor, self._settings, DISCARD_FRAMES)
        link.listener = self
        return link

    def link_opened(self, link: Link) -> None:
        """Start the handshake of an accepted link. Without a free place, the oldest that waits is closed."""
        self.connections += 1
        oldest = self._pending.add(link, link.peer_host, known=self._is_known(link.peer_host))
        if oldest is not None:
            self._count("refused_connections")
            self._log_limited(f"{oldest.peer} was turned away: too many connections have sent no hello")
            cast("_PendingHandshake", oldest.handler).done()
            oldest.abort()
        acceptor = Acceptor(
            partial(self._answer, link),
            secret=self._secret,
            nonce=os.urandom(NONCE_BYTES),
            loopback=is_loopback(link.peer_host),
        )
        pending = _PendingHandshake(self, acceptor)
        link.handler = pending
        pending.timeout = self._reactor.callLater(HELLO_TIMEOUT_S, self._handshake_timed_out, link, pending)

    def client_arrived(self, link: Link) -> None:
        """Turn away a client program that has connected to this port, and tell it the port for clients."""
        cast("_PendingHandshake", link.handler).done()
        self.reject(link, "it is a client program, and this is a network port")
        link.write([client_refusal(self._client_port)])
        link.close()

    def link_closed(self, link: _AcceptedLink) -> None:
        """Count an accepted link as closed."""
        self.connections -= 1
        self._pending.remove(link)
        if link.purpose:
            self._served[link.purpose] -= 1

    def handshake_done(self, link: Link, hello: Hello, frames: list[bytes]) -> None:
        """Hand a link whose handshake is complete to the handler of its purpose."""
        self._pending.remove(link)
        cast("_AcceptedLink", link).purpose = hello.purpose
        self._served[hello.purpose] += 1
        self._handlers[hello.purpose].begin(link, hello, frames)

    def reject(self, link: Link, sentence: str, counted: bool = True) -> None:
        """Log, and count as garbage, a handshake that is not acceptable; not `counted`: neither."""
        if counted:
            self._count("garbage")
            self._log_limited(f"{link.peer} was turned away: {sentence}")

    def _answer(self, link: Link, hello: Hello) -> Mapping[str, Any]:
        source = link.peer_host
        handler = self._handlers.get(hello.purpose)
        if handler is None:
            raise ProtocolError(f"Nothing for {hello.purpose} is served here.")
        if self._check_source is not None:
            self._check_source(hello, source)
        if self._check_certificate is not None:
            self._check_certificate(hello, link.transport)
        served = self._served
        if served.total() >= self._max_connections or (
            hello.purpose == ADMIN and served[ADMIN] >= MAX_ADMINISTRATORS
        ):
            self._count("refused_connections")
            self._log_limited(f"{source} was refused: {served[hello.purpose]} for {hello.purpose} are open")
            raise NotNow("Too many connections are open here; try again later.")
        return handler.answer(hello)

    def _handshake_timed_out(self, link: Link, pending: _PendingHandshake) -> None:
        pending.timeout = None
        self.reject(link, f"no hello came within {HELLO_TIMEOUT_S:g} s")
        link.drop("no hello")

    def _log_limited(self, line: str) -> None:
        self._limit.line(self._reactor.seconds(), line)
