"""Connections of a group: the hello of both sides, and the listener. Twisted.

A member trusts whoever reaches its port and knows the name of the group: use it in a private network.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, cast

import attrs
from twisted.internet.defer import Deferred, succeed
from twisted.internet.error import CannotListenError, DNSLookupError
from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import Factory
from twisted.python.failure import Failure

from ..model.errors import ProtocolError
from ..transport.connection import Link, LinkSettings, is_own_address
from ..transport.direct_write import DirectWriteReactor
from ..transport.ports import DelayedCallPort, ListeningPort
from ..transport.transport import ChannelTransport
from .handler import GroupError
from .wire import MAX_HELLO_BYTES, Hello, Shared, encode_hello, encode_refusal, parse_hello

__all__ = ["Dialer", "Listener"]

MAX_GUESTS = 64
"""Connections that have not said hello; above, new ones are closed."""
TOO_MANY = "too many connections have not said hello"
MAX_LINES = 20
"""Lines in the log within AGAIN_S about members that are turned away, and as many about what is no member."""
LOOPBACK = "127.0.0.1"
AGAIN_S = 60.0
"""The same is told again after this time."""


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
        _check_group(self._hello, answer)
        self._answer = answer
        return []


class _Lines:
    """Which lines of one kind are due: the same one not again within AGAIN_S, and MAX_LINES then at most."""

    def __init__(self) -> None:
        self._told: dict[tuple[str, str], float] = {}
        """When (host, reason) was told last."""

    def due(self, now: float, host: str, reason: str) -> bool:
        """Whether to tell this; it counts as told then."""
        self._told = {each: at for each, at in self._told.items() if now - at < AGAIN_S}
        if (host, reason) in self._told or len(self._told) >= MAX_LINES:
            return False
        self._told[host, reason] = now
        return True


class _GuestLink(Link):
    listener: "Listener"

    def connectionMade(self) -> None:  # noqa: N802
        super().connectionMade()
        self.listener.arrived(self)


@attrs.define(eq=False)
class _Guest:
    """The handler of a connection that has not said hello."""

    listener: "Listener"
    timeout: DelayedCallPort | None = None

    def frames(self, link: Link, bodies: list[bytes]) -> None:
        self.listener.left(self)
        self.listener.hello(link, bodies)

    def lost(self, link: Link, reason: str) -> None:
        self.listener.left(self)
        if link.dropped:
            self.listener.dropped(link, reason)


class Listener(Factory):
    """Accepts the connections of other members and hands them to the transport."""

    noisy = False

    def __init__(
        self,
        mine: Hello,
        members: frozenset[int],
        transport: ChannelTransport,
        reactor: DirectWriteReactor,
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
        self._of_members, self._of_others = _Lines(), _Lines()
        """What is no member must not hide why a member is turned away."""
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
        if _interface(host) != LOOPBACK:
            self._look_at(host, port)

    def _look_at(self, host: str, port: int) -> None:
        """Say so if the others may not find this member at the host it was given."""

        def tell(reason: str) -> None:
            self._log(
                f"member {self._mine.replica} listens on all addresses of this machine, port {port}, since "
                f"its host {reason}: look at its address if others do not reach it"
            )

        def found(address: str) -> None:
            if not is_own_address(address):
                named = host if address == host else f"{host} is {address}, which"
                tell(f"{named} is no address of this machine")

        def unknown(failure: Failure) -> None:
            if isinstance(failure.value, DNSLookupError):
                tell(f"{host} does not resolve here")

        if ":" in host:
            found(host)
        elif self._reactor.resolve is not None:
            self._reactor.resolve(host).addCallbacks(found, unknown).addErrback(lambda _: None)

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
            link.drop(TOO_MANY)
            return
        self._guests.add(guest)
        guest.timeout = self._reactor.callLater(self._settings.hello_timeout_s, link.drop, "no hello")

    def left(self, guest: _Guest) -> None:
        """Of a guest: it has said hello, or is gone."""
        self._guests.discard(guest)
        if guest.timeout is not None and guest.timeout.active():
            guest.timeout.cancel()

    def dropped(self, link: Link, reason: str) -> None:
        """Of a guest: it was given up."""
        if self._port is None:
            return
        if reason != TOO_MANY:
            reason = f"it does not speak as a member does: {reason[0].lower()}{reason[1:].rstrip('.')}"
        self._tell_of_other(link, reason)

    def hello(self, link: Link, bodies: list[bytes]) -> None:
        """Of a guest: its first frames."""
        try:
            hello = parse_hello(bodies[0])
        except ProtocolError as error:
            self._refuse(link, str(error))
            self._tell_of_other(link, str(error))
            return
        try:
            self._check(hello)
            if hello.calls and not self._transport.called(hello.replica, hello.incarnation):
                raise ProtocolError(
                    f"a process that was started earlier runs as member {hello.replica} at the address that "
                    f"member {self._mine.replica} has for it: stop one of the two, or give every member the "
                    "same addresses"
                )
        except ProtocolError as error:
            self._refuse(link, str(error))
            self._tell(link, str(error), self._of_members, str(error))
            return
        link.send([encode_hello(self._mine)])
        if hello.calls:
            link.close()
        else:
            self._transport.accept(link, hello.replica, hello.incarnation, bodies[1:], hello.fields)

    def _refuse(self, link: Link, reason: str) -> None:
        link.send([encode_refusal(reason)])
        link.close()

    def _tell_of_other(self, link: Link, reason: str) -> None:
        # The numbers are those of what was sent: with other garbage they are others.
        self._tell(link, reason, self._of_others, re.sub(r"\d+", "", reason))

    def _tell(self, link: Link, reason: str, lines: _Lines, same: str) -> None:
        if lines.due(self._reactor.seconds(), link.peer_host, same):
            self._log(f"{link.peer} was turned away: {reason}")

    def _check(self, hello: Hello) -> None:
        _check_group(self._mine, hello)
        if hello.replica == self._mine.replica:
            raise ProtocolError(f"member {hello.replica} is already this one: give another id")
        if hello.replica not in self._members:
            raise ProtocolError(
                f"the group has no member {hello.replica}: give every member the same addresses"
            )
        mine = self._mine
        life = (hello.incarnation, hello.nonce)
        _check_life(hello.replica, life, self._transport.life(hello.replica))
        _check_life(mine.replica, (mine.incarnation, mine.nonce), (hello.knows, hello.knows_nonce))


def _check_group(mine: Hello, other: Hello) -> None:
    """Both belong to one group, in the same way. Raises ProtocolError, with words right on either side."""
    if other.group != mine.group:
        raise ProtocolError(
            "it is a member of another group: give every member the same name, or another port"
        )
    both = sorted((mine, other), key=lambda hello: hello.replica)
    if other.ids != mine.ids:
        said = " and ".join(
            f"member {hello.replica} knows the members {', '.join(map(str, hello.ids))}" for hello in both
        )
        raise ProtocolError(f"{said}: give every member the same addresses")
    if other.shared != mine.shared:
        names = Shared.__struct_fields__
        differ = [name for name in names if getattr(other.shared, name) != getattr(mine.shared, name)]
        said = " and ".join(
            f"member {hello.replica} has "
            + ", ".join(f"{name} {getattr(hello.shared, name)}" for name in differ)
            for hello in both
        )
        raise ProtocolError(f"{said}: give every member the same settings")


def _check_life(member: int, life: tuple[int, str], known: tuple[int, str]) -> None:
    """A life is (incarnation, nonce). known: the one that was connected last."""
    if life[0] < known[0]:
        raise ProtocolError(
            f"member {member} comes as an earlier life of itself than was here before: if another process "
            f"runs as member {member}, stop one of the two; if none does, its clock was set back: set it "
            f"right and start the member again, or give it an incarnation above {known[0]}"
        )
    if life[0] == known[0] and life[1] != known[1]:
        raise ProtocolError(
            f"member {member} comes with the incarnation {known[0]}, as another life of itself did before: "
            f"if another process runs as member {member}, stop one of the two; if none does, give every life "
            "a higher one, or none"
        )


def _interface(host: str) -> str:
    """A host that only this machine reaches is listened on there only."""
    if host == "localhost" or host.startswith("127."):
        return LOOPBACK
    return "::" if ":" in host else ""
