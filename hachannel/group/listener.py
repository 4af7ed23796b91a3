"""The listener of a group: it accepts the connections of other members. Twisted.

A member trusts every process that reaches its port and knows the name of the group: use a private network.
"""

import re
from collections.abc import Callable
from typing import Any, cast

import attrs
from twisted.internet.defer import Deferred, succeed
from twisted.internet.error import CannotListenError, DNSLookupError
from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import Factory
from twisted.python.failure import Failure

from ..model.errors import ProtocolError
from ..transport.addresses import Address, is_loopback_host, is_own_address, listening_interface
from ..transport.connection import Link, LinkSettings
from ..transport.direct_write import DirectWriteReactor
from ..transport.name_lookup import resolve
from ..transport.ports import DelayedCallPort, ListeningPort
from ..transport.transport import ChannelTransport
from .handler import GroupError
from .handshake import check_peer
from .wire import MAX_HELLO_BYTES, Hello, encode_hello, encode_refusal, parse_hello

__all__ = ["Listener"]

MAX_GUESTS = 64
"""Connections that may be open without a hello; with more, new ones are closed."""
TOO_MANY = "too many connections have not said hello"
MAX_LINES = 20
"""Largest number of log lines within REPEAT_S about refused members, and about other processes."""
REPEAT_S = 60.0
"""Pause before an equal line is logged again, in seconds."""


class _LogLimit:
    """Limits lines of one kind: each at most once within REPEAT_S, and at most MAX_LINES in that time."""

    def __init__(self) -> None:
        self._logged: dict[tuple[str, str], float] = {}
        """Time when each (host, reason) was logged last, in seconds."""

    def allows(self, now: float, host: str, reason: str) -> bool:
        """Return whether a line may be logged now; if so it counts as logged."""
        self._logged = {each: at for each, at in self._logged.items() if now - at < REPEAT_S}
        if (host, reason) in self._logged or len(self._logged) >= MAX_LINES:
            return False
        self._logged[host, reason] = now
        return True


class _GuestLink(Link):
    listener: "Listener"

    def connectionMade(self) -> None:  # noqa: N802
        super().connectionMade()
        self.listener.arrived(self)


@attrs.define(eq=False)
class _Guest:
    """The handler of a connection that has not sent a hello."""

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
        address: Address,
        transport: ChannelTransport,
        reactor: DirectWriteReactor,
        log: Callable[[str], None],
        settings: LinkSettings,
    ) -> None:
        """mine: the hello of this member. address: of this member, as the others know it."""
        self._mine = mine
        self._address = address
        self._transport = transport
        self._reactor = reactor
        self._log = log
        self._settings = attrs.evolve(settings, max_frame_bytes=MAX_HELLO_BYTES)
        self._guests: set[_Guest] = set()
        # Each kind has its own limit, so that strangers do not hide why a member is refused.
        self._member_lines, self._stranger_lines = _LogLimit(), _LogLimit()
        self._port: ListeningPort | None = None

    def listen(self) -> None:
        """Listen at this member's address. Raises GroupError if the port is in use."""
        host, port = self._address
        try:
            self._port = self._reactor.listenTCP(port, self, interface=listening_interface(host))
        except CannotListenError as error:
            raise GroupError(
                f"port {port} cannot be listened on ({error.socketError}): stop the program that uses it, or "
                "give this member another port"
            ) from None
        if not is_loopback_host(host) and self._reactor.nameResolver is not None:
            self._check_own_host(host, port)

    def _check_own_host(self, host: str, port: int) -> None:
        """Log a line if the others may not reach this member at its host."""

        def warn(reason: str) -> None:
            self._log(
                f"member {self._mine.replica} listens on all addresses of this machine, port {port}, since "
                f"its host {reason}: look at its address if others do not reach it"
            )

        def found(addresses: list[str]) -> None:
            if not any(map(is_own_address, addresses)):
                named = host if addresses == [host] else f"{host} is {' and '.join(addresses)}, which"
                warn(f"{named} is no address of this machine")

        def unknown(failure: Failure) -> None:
            if isinstance(cast("Any", failure).value, DNSLookupError):
                warn(f"{host} does not resolve here")

        resolve(self._reactor, host).addCallbacks(found, unknown).addErrback(lambda _: None)

    def stop(self) -> "Deferred[Any]":
        """Stop listening. The Deferred fires when the port is closed."""
        port, self._port = self._port, None
        return (port.stopListening() if port is not None else None) or succeed(None)

    def buildProtocol(self, addr: IAddress | None) -> Link:  # noqa: N802
        """Twisted: make the protocol of a connection."""
        del addr
        guest = _Guest(self)
        link = _GuestLink(self._reactor, self._settings, guest)
        link.listener = self
        return link

    def arrived(self, link: Link) -> None:
        """Wait for the hello of a connection that is open now."""
        guest = cast("_Guest", link.handler)
        if len(self._guests) >= MAX_GUESTS:
            link.drop(TOO_MANY)
            return
        self._guests.add(guest)
        guest.timeout = self._reactor.callLater(self._settings.hello_timeout_s, link.drop, "no hello")

    def left(self, guest: _Guest) -> None:
        """Forget a guest that has sent its hello, or is gone."""
        self._guests.discard(guest)
        if guest.timeout is not None and guest.timeout.active():
            guest.timeout.cancel()

    def dropped(self, link: Link, reason: str) -> None:
        """Log why the connection of a guest was broken by this side."""
        if self._port is None:
            return
        if reason != TOO_MANY:
            reason = f"it does not speak as a member does: {reason[0].lower()}{reason[1:].rstrip('.')}"
        self._log_stranger(link, reason)

    def hello(self, link: Link, bodies: list[bytes]) -> None:
        """Read the first frames of a guest: pass its connection to the transport, or refuse it."""
        try:
            hello = parse_hello(bodies[0])
        except ProtocolError as error:
            self._refuse(link, str(error))
            self._log_stranger(link, str(error))
            return
        try:
            check_peer(self._mine, hello, self._transport.life(hello.replica))
            if hello.calls and not self._transport.called(hello.replica, hello.incarnation):
                raise ProtocolError(
                    f"a process that was started earlier runs as member {hello.replica} at the address that "
                    f"member {self._mine.replica} has for it: stop one of the two, or give every member the "
                    "same addresses"
                )
        except ProtocolError as error:
            self._refuse(link, str(error))
            self._log_refusal(link, str(error), self._member_lines, str(error))
            return
        link.send([encode_hello(self._mine)])
        if hello.calls:
            link.close()
        else:
            self._transport.accept(link, hello.replica, hello.incarnation, bodies[1:], hello.fields)

    def _refuse(self, link: Link, reason: str) -> None:
        link.send([encode_refusal(reason)])
        link.close()

    def _log_stranger(self, link: Link, reason: str) -> None:
        # Numbers in the reason come from the received bytes, and differ each time.
        self._log_refusal(link, reason, self._stranger_lines, re.sub(r"\d+", "", reason))

    def _log_refusal(self, link: Link, reason: str, limit: _LogLimit, key: str) -> None:
        """Log a refusal, unless the limit has had the same key recently."""
        if limit.allows(self._reactor.seconds(), link.peer_host, key):
            self._log(f"{link.peer} was turned away: {reason}")
