"""The driver of a session, over a transport of any event loop."""

import logging
from collections.abc import Sequence
from typing import Final, Generic, Protocol, TypeVar

from ..tls import TlsFiles
from .errors import QuorateClientError
from .events import Connect, Disconnect, StillOpening
from .frames import ServerNote
from .pending import PendingRequests, Waiter
from .session import Session
from .url import Endpoint

__all__ = ["CLOSE_GRACE_S", "Driver", "Port", "PortUser", "SessionDriver", "TcpSession"]

_log: Final = logging.getLogger("quorate.client")

CLOSE_GRACE_S: Final = 2.0
"""Time for the last bytes to leave on a connection that is closed; then it is aborted."""


class Port(Protocol):
    """Clock, timer and TCP client of an event loop."""

    def seconds(self) -> float:
        """Return the monotonic clock of the loop."""
        ...

    def arm(self, deadline: float | None) -> None:
        """Call `Driver.tick` at `deadline` instead of the deadline set before; never if it is None."""
        ...

    def connect(self, endpoint: Endpoint) -> None:
        """Open a TCP connection, then call the driver's ``connected`` or ``attempt_failed``."""
        ...

    def disconnect(self) -> None:
        """Abort the TCP connection or the attempt, if there is one, and report nothing more of it."""
        ...

    def write(self, data: bytes) -> None:
        """Write on the open TCP connection."""
        ...


class PortUser(Protocol):
    """What a port reports to: a `Driver`, or that of another protocol."""

    @property
    def tls(self) -> TlsFiles | None:
        """How to encrypt connections; None: not at all."""
        ...

    def connected(self) -> None:
        """Report that the TCP connection is open."""
        ...

    def attempt_failed(self, reason: str) -> None:
        """Report that the TCP connection could not be opened."""
        ...

    def received(self, data: bytes) -> None:
        """Report bytes that were read."""
        ...

    def lost(self, reason: str) -> None:
        """Report that the TCP connection has ended without being asked to."""
        ...

    def tick(self) -> None:
        """Report that the deadline of `Port.arm` has come."""
        ...

    def pause(self) -> None:
        """Stop writing: the buffer of the transport is full."""
        ...

    def resume(self) -> None:
        """Write again: the buffer of the transport has room."""
        ...


class _NoPort:
    """A port that does nothing: that of a session that another process goes on with."""

    def seconds(self) -> float:
        return 0.0

    def arm(self, deadline: float | None) -> None:
        pass

    def connect(self, endpoint: Endpoint) -> None:
        pass

    def disconnect(self) -> None:
        pass

    def write(self, data: bytes) -> None:
        pass


class TcpSession(Protocol):
    """A session without I/O, as its driver feeds it: of this protocol, or of another one."""

    def start(self, now: float) -> None:
        """Begin to connect."""
        ...

    def connected(self, now: float) -> None:
        """Take note that the TCP connection is open."""
        ...

    def attempt_failed(self, now: float, reason: str) -> None:
        """Take note that the TCP connection could not be opened."""
        ...

    def received(self, now: float, data: bytes) -> None:
        """Take bytes that were read."""
        ...

    def lost(self, now: float, reason: str) -> None:
        """Take note that the TCP connection has ended without being asked to."""
        ...

    def tick(self, now: float) -> None:
        """Take note of the time."""
        ...


S = TypeVar("S", bound=TcpSession)


class SessionDriver(Generic[S]):
    """Feeds a session with bytes and time. `step`, of a subclass, carries out what follows."""

    tls: TlsFiles | None = None
    """How to encrypt connections; None: not at all. Set before `start`."""

    def __init__(self, session: S) -> None:
        self.session = session
        self.paused = False
        """The buffer of the transport is full."""
        self._port: Port | None = None

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
        """Report that the TCP connection is open."""
        self.paused = False
        self.session.connected(self.port.seconds())
        self.step()

    def attempt_failed(self, reason: str) -> None:
        """Report that the TCP connection could not be opened."""
        self.session.attempt_failed(self.port.seconds(), reason)
        self.step()

    def received(self, data: bytes) -> None:
        """Report bytes that were read."""
        self.session.received(self.port.seconds(), data)
        self.step()

    def lost(self, reason: str) -> None:
        """Report that the TCP connection has ended without being asked to."""
        self.session.lost(self.port.seconds(), reason)
        self.step()

    def tick(self) -> None:
        """Report that the deadline of `Port.arm` has come."""
        self.session.tick(self.port.seconds())
        self.step()

    def pause(self) -> None:
        """Stop writing: the buffer of the transport is full."""
        self.paused = True

    def resume(self) -> None:
        """Write again: the buffer of the transport has room."""
        self.paused = False
        self.step()

    def step(self) -> None:
        """Do what the session wants, and write its bytes."""
        raise NotImplementedError


class Driver(SessionDriver[Session]):
    """Feeds a session with bytes and time, and carries out its events."""

    def __init__(self, session: Session, pending: PendingRequests):
        super().__init__(session)
        self.pending = pending
        pending.on_received = session.inbox_window.received
        self._stepping = False

    def receive(self, waiter: Waiter) -> None:
        """Complete the waiter with the next notification of the inbox, and tell the server of the room."""
        self.pending.expect_notification(waiter)
        if self.session.inbox_window.due:
            self.step()

    def release(self, notes: Sequence[ServerNote]) -> None:
        """Count held notifications as processed, and tell the server of the room."""
        for note in notes:
            self.pending.on_received(note)
        if self.session.inbox_window.due:
            self.step()

    def close(self) -> None:
        """Close the session after what is queued."""
        self.session.close(self.port.seconds())
        self.step()

    def fail(self, error: QuorateClientError) -> None:
        """End the session at once, with that error."""
        self.session.abort(error)
        self.step()

    def abandon(self, error: QuorateClientError) -> None:
        """End the session without using the port any more, and without completing any waiter."""
        self._port = _NoPort()
        self._stepping = False
        self.session.abort(error)
        self.session.pop_events()
        self.pending.abandon(error)

    def step(self) -> None:
        """Carry out the events of the session, then write its bytes."""
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
                        case StillOpening(text):
                            _log.warning("%s", text)
                        case _:
                            self.pending.handle(event)
            while not self.paused and (data := session.data_to_send(port.seconds())):
                port.write(data)
        finally:
            self._stepping = False
        port.arm(session.deadline)
