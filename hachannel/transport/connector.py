"""The connector: opens a connection and shakes hands on the dialing side. Twisted."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, cast

from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import Factory
from twisted.python.failure import Failure

from .addresses import Address
from .connection import Link, LinkSettings
from .name_lookup import resolve
from .ports import ClockPort, ReactorPort, TcpPort

__all__ = ["NOBODY_LISTENS", "NO_ADDRESS", "Handshake", "connect"]

NOBODY_LISTENS = "refused by other side"
"""Part of Twisted's reason for a failed attempt: nobody listens on the port of the other host."""
NO_ADDRESS = "DNS lookup failed"
"""Part of Twisted's reason for a failed attempt: the host name does not resolve."""


class Handshake(Protocol):
    """The handshake of a connection, on the dialing side."""

    @property
    def first(self) -> bytes:
        """The frame to send first."""
        ...

    @property
    def done(self) -> bool:
        """True when the connection may be used."""
        ...

    @property
    def fields(self) -> Mapping[str, Any]:
        """The fields of the other side's hello."""
        ...

    def receive(self, frame: bytes) -> list[bytes]:
        """Read a frame and return the frames to send. Raises an exception, a sentence, to end the attempt."""
        ...


class _Dialing:
    """An attempt to open a connection: TCP, then the handshake, then `opened`, or `failed` once."""

    def __init__(
        self,
        reactor: ClockPort,
        settings: LinkSettings,
        handshake: Handshake,
        opened: Callable[[Link, Mapping[str, Any], list[bytes]], None],
        failed: Callable[[str], None],
    ) -> None:
        self._handshake = handshake
        self._opened = opened
        self._failed = failed
        self.over = False
        self._link: Link | None = None
        self._reactor = reactor
        self._settings = settings
        self._timeout = reactor.callLater(settings.hello_timeout_s, self._fail, "no hello came in time")

    def connected(self, link: Link) -> None:
        self._link = link
        if self.over:
            link.drop("no longer wanted")
            return
        link.send([self._handshake.first])

    def frames(self, link: Link, bodies: list[bytes]) -> None:
        for position, body in enumerate(bodies):
            try:
                answers = self._handshake.receive(body)
            except Exception as error:
                self._fail(str(error))
                return
            if answers:
                link.send(answers)
            if self._handshake.done:
                self._finish()
                self._opened(link, self._handshake.fields, bodies[position + 1 :])
                return

    def lost(self, link: Link, reason: str) -> None:
        del link
        self._fail(reason)

    def cancel(self) -> None:
        """End the attempt without a report."""
        self._finish()
        if self._link is not None:
            self._link.abandon()
            cast("TcpPort", self._link.transport).abortConnection()

    def refused(self, reason: str) -> None:
        self._fail(reason)

    def _fail(self, reason: str) -> None:
        if self.over:
            return
        self.cancel()
        self._failed(reason)

    def _finish(self) -> None:
        self.over = True
        if self._timeout.active():
            self._timeout.cancel()


class _DialLink(Link):
    def __init__(self, reactor: ClockPort, settings: LinkSettings, dialing: _Dialing) -> None:
        super().__init__(reactor, settings, dialing)
        self._dialing = dialing

    def connectionMade(self) -> None:  # noqa: N802
        super().connectionMade()
        self._dialing.connected(self)


class _DialFactory(Factory):
    """Tries the addresses of a host, one after the other, until one accepts the TCP connection."""

    noisy = False

    def __init__(
        self, dialing: _Dialing, reactor: ReactorPort, settings: LinkSettings, address: Address
    ) -> None:
        host, port = address
        self._dialing = dialing
        self._reactor = reactor
        self._settings = settings
        self._port = port
        self.host_name = host
        """The host as it was named: its certificate must be for that."""
        self._left: list[str] = []
        self._reasons: list[str] = []

    def dial(self, addresses: Sequence[str]) -> None:
        """Begin with the first of the addresses, which are not empty."""
        self._left = list(addresses)
        self._dial_next()

    def unresolved(self, failure: Failure) -> None:
        """Fail, since the name of the host cannot be resolved."""
        self._dialing.refused(failure.getErrorMessage())

    def _dial_next(self) -> None:
        if self._dialing.over:
            return
        reactor, host = self._reactor, self._left.pop(0)
        try:
            reactor.connectTCP(host, self._port, self, timeout=self._settings.connect_timeout_s)
        except OSError as error:
            # The address cannot be tried, for example because this machine has no such interface.
            reactor.callLater(0, self._failed, error.strerror or str(error))

    def _failed(self, reason: str) -> None:
        if reason not in self._reasons:
            self._reasons.append(reason)
        if self._left:
            self._dial_next()
        else:
            self._dialing.refused("; ".join(self._reasons))

    def startedConnecting(self, connector: object) -> None:  # noqa: N802
        del connector

    def buildProtocol(self, addr: IAddress | None) -> Link:  # noqa: N802
        del addr
        return _DialLink(self._reactor, self._settings, self._dialing)

    def clientConnectionFailed(self, connector: object, reason: Failure) -> None:  # noqa: N802
        del connector
        self._failed(reason.getErrorMessage())

    def clientConnectionLost(self, connector: object, reason: Failure) -> None:  # noqa: N802
        del connector, reason


def connect(
    reactor: ReactorPort,
    address: Address,
    settings: LinkSettings,
    handshake: Handshake,
    opened: Callable[[Link, Mapping[str, Any], list[bytes]], None],
    failed: Callable[[str], None],
) -> Callable[[], None]:
    """Open a connection and shake hands. Return a function that cancels the attempt silently.

    opened: gets the link, the fields of the other side's hello and the frames that came with it; it must set
    the handler of the link. failed: gets the reason. Exactly one of them is called, later, unless the attempt
    is cancelled.
    """
    dialing = _Dialing(reactor, settings, handshake, opened, failed)
    factory = _DialFactory(dialing, reactor, settings, address)
    resolve(reactor, address[0]).addCallbacks(factory.dial, factory.unresolved)
    return dialing.cancel
