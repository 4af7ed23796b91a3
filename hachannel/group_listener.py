"""Connections of a group: the hello of both sides, and the listener. Twisted.

A member trusts whoever reaches its port and knows the name of the group: use it in a private network.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol, cast

import attrs
from twisted.internet.defer import Deferred, succeed
from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import Factory

from .errors import ProtocolError
from .group_types import GroupError
from .group_wire import MAX_HELLO_BYTES, Hello, encode_hello, encode_refusal, parse_hello
from .link import CallPort, Link, LinkSettings, ReactorPort
from .transport import ChannelTransport

__all__ = ["Dialer", "Listener", "ListeningPort", "ReactorWithListeners"]

MAX_GUESTS = 64
"""Connections that have not said hello; above, new ones are closed."""
MAX_LINES = 20
"""Lines in the log about bad connections; the rest is silent."""


class ListeningPort(Protocol):
    """The part of a listening port that is used here."""

    def stopListening(self) -> "Deferred[Any] | None":  # noqa: N802
        """Close the port."""
        ...


class ReactorWithListeners(ReactorPort, Protocol):
    """The part of the reactor that a listener uses."""

    def listenTCP(self, port: int, factory: Any, backlog: int = 50, interface: str = "") -> ListeningPort:  # noqa: N802
        """Listen on a port."""
        ...


class Dialer:
    """The connecting side's handshake: its hello, then the answer."""

    def __init__(self, hello: Hello) -> None:
        self._hello = hello
        self._answer: Hello | None = None

    @property
    def first(self) -> bytes:
        """The frame to send first."""
        return encode_hello(self._hello)

    @property
    def done(self) -> bool:
        """True when the connection may be used."""
        return self._answer is not None

    @property
    def fields(self) -> Mapping[str, Any]:
        """What the other side said of itself."""
        return {} if self._answer is None else self._answer.fields

    def receive(self, frame: bytes) -> list[bytes]:
        """Take the answer. Raises ProtocolError."""
        answer = parse_hello(frame)
        if answer.cluster != self._hello.cluster:
            raise ProtocolError("it is a member of another group, or was given other members")
        self._answer = answer
        return []


class _GuestLink(Link):
    listener: "Listener"

    def connectionMade(self) -> None:  # noqa: N802
        super().connectionMade()
        self.listener.arrived(self)


@attrs.define(eq=False)
class _Guest:
    """The handler of a connection that has not said hello."""

    listener: "Listener"
    timeout: CallPort | None = None

    def frames(self, link: Link, bodies: list[bytes]) -> None:
        self.listener.left(self)
        self.listener.hello(link, bodies)

    def lost(self, link: Link, reason: str) -> None:
        del link, reason
        self.listener.left(self)


class Listener(Factory):
    """Accepts the connections of other members and hands them to the transport."""

    noisy = False

    def __init__(
        self,
        mine: Hello,
        members: frozenset[int],
        transport: ChannelTransport,
        reactor: ReactorWithListeners,
        log: Callable[[str], None],
        settings: LinkSettings,
    ) -> None:
        self._mine = mine
        self._members = members
        self._transport = transport
        self._reactor = reactor
        self._log = log
        self._settings = attrs.evolve(settings, max_frame_bytes=MAX_HELLO_BYTES)
        self._guests: set[_Guest] = set()
        self._lines = 0
        self._port: ListeningPort | None = None

    def listen(self, host: str, port: int) -> None:
        """Listen at this member's address. Raises GroupError when the port is taken."""
        try:
            self._port = self._reactor.listenTCP(port, self, interface=_interface(host))
        except CannotListenError as error:
            raise GroupError(
                f"port {port} cannot be listened on ({error.socketError}): stop the program that uses it, or "
                "give this member another port"
            ) from None

    def stop(self) -> "Deferred[Any]":
        """Stop listening."""
        port, self._port = self._port, None
        return (port.stopListening() if port is not None else None) or succeed(None)

    def buildProtocol(self, addr: IAddress | None) -> Link:  # noqa: N802
        """Twisted: somebody connects."""
        del addr
        guest = _Guest(self)
        link = _GuestLink(self._reactor, self._settings, guest)
        link.listener = self
        return link

    def arrived(self, link: Link) -> None:
        """Of a link: open."""
        guest = cast("_Guest", link.handler)
        if len(self._guests) >= MAX_GUESTS:
            link.drop("too many connections without hello")
            return
        self._guests.add(guest)
        guest.timeout = self._reactor.callLater(self._settings.hello_timeout_s, link.drop, "no hello")

    def left(self, guest: _Guest) -> None:
        """Of a guest: it has said hello, or is gone."""
        self._guests.discard(guest)
        if guest.timeout is not None and guest.timeout.active():
            guest.timeout.cancel()

    def hello(self, link: Link, bodies: list[bytes]) -> None:
        """Of a guest: its first frames."""
        try:
            hello = parse_hello(bodies[0])
            self._check(hello)
        except ProtocolError as error:
            link.send([encode_refusal(str(error))])
            link.close()
            self._lines += 1
            if self._lines <= MAX_LINES:
                self._log(f"{link.peer} was turned away: {error}")
            return
        link.send([encode_hello(self._mine)])
        if hello.calls:
            link.close()
            self._transport.called(hello.replica, hello.incarnation)
        else:
            self._transport.accept(link, hello.replica, hello.incarnation, bodies[1:], hello.process)

    def _check(self, hello: Hello) -> None:
        if hello.cluster != self._mine.cluster:
            raise ProtocolError("it is a member of another group, or was given other members")
        if hello.replica == self._mine.replica or hello.replica not in self._members:
            raise ProtocolError(f"the group has no other member {hello.replica}")


def _interface(host: str) -> str:
    """A host that only this machine reaches is listened on there only."""
    if host == "localhost" or host.startswith("127."):
        return "127.0.0.1"
    return "::" if ":" in host else ""
