"""The port of a driver whose server is in the same process: clock and timers of an event loop, and no TCP."""

from ..driver import Driver, Port
from ..errors import Unavailable
from ..url import Endpoint
from .link import LinkEnd, Schedule, new_link
from .server import LocalOffer, LocalServer
from .session import LocalSession

__all__ = ["LocalPort", "port_of"]


class _Offer(LocalOffer):
    """One attempt of a client to open a connection."""

    def __init__(self, port: "LocalPort", schedule: Schedule, server: LocalServer) -> None:
        self.mine, self._theirs = new_link(schedule, server.schedule)
        self._port = port
        self._schedule = schedule

    @property
    def waiting(self) -> bool:
        return not self.mine.closed

    def accepted(self) -> LinkEnd | None:
        if self.mine.closed:
            return None
        try:
            self._schedule(lambda: self._port.opened(self))
        except RuntimeError:
            return None
        return self._theirs

    def refused(self, reason: str) -> None:
        try:
            self._schedule(lambda: self._port.refused(self, reason))
        except RuntimeError:
            # The event loop of the client has ended, and the client with it.
            return


class LocalPort:
    """Clock and timers of another port, and a connection inside of the process."""

    def __init__(self, base: Port, driver: Driver, server: LocalServer, schedule: Schedule) -> None:
        """`schedule` calls a function in the thread of the driver."""
        self._base = base
        self._driver = driver
        self._server = server
        self._schedule = schedule
        self._offer: _Offer | None = None
        self._link: LinkEnd | None = None

    def seconds(self) -> float:
        """Return the clock of the event loop."""
        return self._base.seconds()

    def arm(self, deadline: float | None) -> None:
        """Set the timer to `deadline`, or stop it."""
        self._base.arm(deadline)

    def connect(self, endpoint: Endpoint) -> None:  # noqa: ARG002
        """Have the server open a connection as soon as it is master."""
        offer = self._offer = _Offer(self, self._schedule, self._server)
        self._server.open_link(offer)

    def opened(self, offer: _Offer) -> None:
        """Report to the driver that the connection of an offer is open."""
        if offer is not self._offer:
            return
        self._offer, link = None, offer.mine
        self._link = link
        driver = self._driver
        link.received, link.lost = driver.received, driver.lost
        link.paused, link.resumed = driver.pause, driver.resume
        driver.connected()

    def refused(self, offer: _Offer, reason: str) -> None:
        """End the session: the server will not be master in this process any more."""
        if offer is self._offer:
            self._offer = None
            self._driver.fail(Unavailable(reason))

    def disconnect(self) -> None:
        """Withdraw the offer, or close the connection."""
        offer, self._offer = self._offer, None
        link, self._link = (self._link if offer is None else offer.mine), None
        if link is not None:
            link.close("the client has closed the connection")

    def write(self, data: bytes) -> None:
        """Write on the connection."""
        if self._link is not None:
            self._link.write(data)


def port_of(driver: Driver, base: Port, schedule: Schedule) -> Port:
    """Return the port of a driver: `base`, or one without TCP if the server is in this process."""
    session = driver.session
    if isinstance(session, LocalSession):
        return LocalPort(base, driver, session.server, schedule)
    return base
