"""Drives a session over a transport that a face provides. No thread and no event loop in here."""

from typing import Protocol

from .events import Connect, Disconnect
from .pending import PendingRequests
from .session import Session
from .url import Endpoint

__all__ = ["Driver", "Port"]


class Port(Protocol):
    """Clock, timer and TCP client of an event loop."""

    def seconds(self) -> float:
        """Return the monotonic clock of the loop."""
        ...

    def arm(self, deadline: float | None) -> None:
        """Have `Driver.tick` called at that time, instead of at the time given before."""
        ...

    def connect(self, endpoint: Endpoint) -> None:
        """Open a TCP connection, then call the driver's ``connected`` or ``attempt_failed``."""
        ...

    def disconnect(self) -> None:
        """Drop the TCP connection or the attempt, if there is one, and report nothing more of it."""
        ...

    def write(self, data: bytes) -> None:
        """Write on the open TCP connection."""
        ...


class Driver:
    """Calls the session with the time, and does what it asks for."""

    def __init__(self, session: Session, pending: PendingRequests):
        self.session = session
        self.pending = pending
        self.paused = False
        self._port: Port | None = None
        self._stepping = False

    def start(self, port: Port) -> None:
        """Begin to connect."""
        self._port = port
        self.session.start(port.seconds())
        self.step()

    @property
    def port(self) -> Port:
        """The port that `start` was given."""
        assert self._port is not None
        return self._port

    def connected(self) -> None:
        """The port has connected."""
        self.paused = False
        self.session.connected(self.port.seconds())
        self.step()

    def attempt_failed(self, reason: str) -> None:
        """The port could not connect."""
        self.session.attempt_failed(self.port.seconds(), reason)
        self.step()

    def received(self, data: bytes) -> None:
        """The port has read."""
        self.session.received(self.port.seconds(), data)
        self.step()

    def lost(self, reason: str) -> None:
        """The port's connection has ended by itself."""
        self.session.lost(self.port.seconds(), reason)
        self.step()

    def tick(self) -> None:
        """The port's timer has come."""
        self.session.tick(self.port.seconds())
        self.step()

    def pause(self) -> None:
        """The port's transport holds enough to write."""
        self.paused = True

    def resume(self) -> None:
        """The port's transport takes more."""
        self.paused = False
        self.step()

    def close(self) -> None:
        """Close in order."""
        self.session.close(self.port.seconds())
        self.step()

    def step(self) -> None:
        """Do what the session asks for, and write what gathered."""
        if self._stepping:
            return
        self._stepping = True
        session, port = self.session, self.port
        try:
            while events := session.pop_events():
                for event in events:
                    match event:
                        case Connect(endpoint):
                            port.connect(endpoint)
                        case Disconnect():
                            port.disconnect()
                        case _:
                            self.pending.handle(event)
            while not self.paused and (data := session.data_to_send(port.seconds())):
                port.write(data)
        finally:
            self._stepping = False
        port.arm(session.deadline)
