"""The one listener of a replica: every connection says hello first, then goes to whom it is for."""

import os
from collections.abc import Callable, Mapping
from typing import Any, Protocol, cast

import attrs
from twisted.internet.defer import Deferred, succeed
from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import Factory

from ...hachannel.transport.connection import Link, LinkSettings
from ...hachannel.transport.ports import DelayedCallPort, ListeningPort, ReactorPort
from ..errors import StartError
from .handshake import (
    HELLO_TIMEOUT_S,
    MAX_HELLO_BYTES,
    NONCE_BYTES,
    Acceptor,
    Hello,
    NotNow,
    ProtocolError,
    is_loopback,
)
from .rate_limit import RateLimit

MAX_CONNECTIONS = 512
"""Open connections of all purposes together."""


def _reason(error: CannotListenError) -> str:
    """Why a port cannot be listened on, without the number of the error."""
    return str(getattr(error.socketError, "strerror", None) or error.socketError)


class Purpose(Protocol):
    """Who serves the connections of one purpose."""

    def answer(self, hello: Hello) -> Mapping[str, Any]:
        """Return the fields of our own hello. Raises ProtocolError to refuse."""
        ...

    def begin(self, link: Link, hello: Hello, frames: list[bytes]) -> None:
        """Take over the link after the handshake and set its handler; `frames` came right behind."""
        ...


@attrs.define(eq=False)
class _Guest:
    """A connection that has not finished its hello."""

    front: "Listener"
    acceptor: Acceptor
    timeout: DelayedCallPort | None = None

    def frames(self, link: Link, bodies: list[bytes]) -> None:
        for position, body in enumerate(bodies):
            try:
                answers = self.acceptor.receive(body)
            except ProtocolError as error:
                if error.answer is not None:
                    link.send([error.answer])
                self.front.garbage(link, str(error), counted=not isinstance(error, NotNow))
                self.done()
                link.close()
                return
            if answers:
                link.send(answers)
            if self.acceptor.done:
                self.done()
                self.front.welcome(link, cast("Hello", self.acceptor.peer), bodies[position + 1 :])
                return

    def lost(self, link: Link, reason: str) -> None:
        if self.timeout is not None and self.acceptor.peer is None:
            self.front.garbage(link, f"no hello: {reason}", counted=link.heard_anything)
        self.done()

    def done(self) -> None:
        if self.timeout is not None and self.timeout.active():
            self.timeout.cancel()
        self.timeout = None


class _FrontLink(Link):
    front: "Listener"

    def connectionMade(self) -> None:  # noqa: N802
        super().connectionMade()
        self.front.arrived(self)

    def connectionLost(self, reason: Any = None) -> None:  # noqa: N802
        self.front.left()
        super().connectionLost(reason)


class _Nobody:
    def frames(self, link: Link, bodies: list[bytes]) -> None:
        del link, bodies

    def lost(self, link: Link, reason: str) -> None:
        del link, reason


NOBODY = _Nobody()
"""A handler for links that are about to be closed."""


class Listener(Factory):
    """Accepts connections on a replica's network port.

    `secret` as in the configuration. `log` gets lines about bad connections (limited), `count` the names of
    metrics: ``garbage`` for what was no acceptable hello, ``refused_connections`` above the limit.
    """

    noisy = False

    def __init__(
        self,
        reactor: ReactorPort,
        purposes: Mapping[str, Purpose],
        *,
        secret: str | None,
        log: Callable[[str], None],
        count: Callable[[str], None],
        settings: LinkSettings | None = None,
        max_connections: int = MAX_CONNECTIONS,
    ) -> None:
        self.connections = 0
        """Open connections of all purposes."""
        self._reactor = reactor
        self._purposes = purposes
        self._secret = secret
        self._limit = RateLimit(log)
        self._count = count
        self._settings = attrs.evolve(settings or LinkSettings(), max_frame_bytes=MAX_HELLO_BYTES)
        self._max_connections = max_connections
        self._port: ListeningPort | None = None

    def listen(self, port: int, interface: str = "") -> int:
        """Listen; return the port (useful when 0 was asked). Raises StartError when the port is taken."""
        try:
            self._port = self._reactor.listenTCP(port, self, interface=interface)
        except CannotListenError as error:
            raise StartError(
                f"Port {port} of the network cannot be listened on ({_reason(error)}); "
                "stop the program that uses it or change the port in the configuration."
            ) from None
        return int(self._port.getHost().port)

    def stop(self) -> "Deferred[Any]":
        """Stop listening. Open connections are left to their owners."""
        port, self._port = self._port, None
        return (port.stopListening() if port is not None else None) or succeed(None)

    def buildProtocol(self, addr: IAddress | None) -> Link:  # noqa: N802
        """Twisted: somebody connects."""
        del addr
        link = _FrontLink(self._reactor, self._settings, NOBODY)
        link.front = self
        return link

    def arrived(self, link: Link) -> None:
        """Of a link: open."""
        self.connections += 1
        if self.connections > self._max_connections:
            self._count("refused_connections")
            self._say(f"{link.peer} was refused: {self._max_connections} connections are open")
            link.drop("too many connections")
            return
        acceptor = Acceptor(
            self._answer,
            secret=self._secret,
            nonce=os.urandom(NONCE_BYTES),
            loopback=is_loopback(link.peer_host),
        )
        guest = _Guest(self, acceptor)
        link.handler = guest
        guest.timeout = self._reactor.callLater(HELLO_TIMEOUT_S, self._too_late, link, guest)

    def left(self) -> None:
        """Of a link: gone."""
        self.connections -= 1

    def welcome(self, link: Link, hello: Hello, frames: list[bytes]) -> None:
        """Of a guest: the hello is complete."""
        self._purposes[hello.purpose].begin(link, hello, frames)

    def garbage(self, link: Link, sentence: str, counted: bool = True) -> None:
        """Of a guest: what it said is not acceptable."""
        if counted:
            self._count("garbage")
            self._say(f"{link.peer} was turned away: {sentence}")

    def _answer(self, hello: Hello) -> Mapping[str, Any]:
        purpose = self._purposes.get(hello.purpose)
        if purpose is None:
            raise ProtocolError(f"Nothing for {hello.purpose} is served here.")
        return purpose.answer(hello)

    def _too_late(self, link: Link, guest: _Guest) -> None:
        guest.timeout = None
        self.garbage(link, f"it said no hello within {HELLO_TIMEOUT_S:g} s")
        link.drop("no hello")

    def _say(self, line: str) -> None:
        self._limit.line(self._reactor.seconds(), line)
