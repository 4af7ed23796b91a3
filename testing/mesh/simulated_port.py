"""The port of a real session of a client in a simulated mesh: TCP connections to daemons, and the clock."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...client.driver import PortUser
from ...client.frames import VERSION, FrameBuffer, Hello, Ping, Pong, Welcome
from ...client.url import Endpoint
from ...mesh.frames import (
    Acknowledge,
    Attach,
    Attached,
    ClientFrame,
    ServerFrame,
    decode_client_frame,
    encode_frame,
)
from ...mesh.model import Dot, Stream
from .simulated_clients import TICK_S, SimulatedClient

if TYPE_CHECKING:
    from .simulated_mesh import SimulatedMesh

__all__ = ["SessionClient", "SimulatedPort"]


class SessionClient(SimulatedClient):
    """The client of a mesh behind a driver of a session."""

    def __init__(self, mesh: "SimulatedMesh", number: int, user: PortUser) -> None:
        super().__init__(mesh, number)
        self._user = user
        self._buffer = FrameBuffer(1 << 24)
        self._dots: dict[int, list[Dot]] = {}
        """By consumer: its subscriptions, whose acknowledgements the checker is to know."""

    @property
    def busy(self) -> bool:
        """Whether it has something to do: its driver knows, this end does not."""
        return False

    def begin(self) -> None:
        """Begin with a connection."""
        self._buffer = FrameBuffer(1 << 24)
        self._user.connected()

    def write(self, data: bytes) -> None:
        """Send bytes to the daemon."""
        self._buffer.feed(data)
        while (body := self._buffer.next()) is not None:
            frame = decode_client_frame(body)
            # The service for clients answers these two, not the daemon.
            if isinstance(frame, Hello):
                self._answer(Welcome(VERSION, str(self.at), [], 60.0, 1 << 22, 0))
            elif isinstance(frame, Ping):
                self._answer(Pong(frame.token))
            else:
                self._note(frame)
                self.send(frame)

    def _note(self, frame: ClientFrame) -> None:
        positions: Iterable[tuple[Stream, int]] = ()
        if isinstance(frame, Attach) and frame.cursor is not None:
            self._dots[frame.consumer] = frame.cursor.dots
            positions = frame.cursor.positions.items()
        elif isinstance(frame, Acknowledge):
            positions = frame.positions
        for stream, number in positions:
            assert isinstance(frame, Attach | Acknowledge)
            for dot in self._dots.get(frame.consumer, ()):
                known = self.mesh.checker.acknowledged[dot]
                known[stream] = max(known.get(stream, 0), number)

    def _answer(self, frame: Welcome | Pong) -> None:
        if self.at is not None:
            self.transmit_down(self.at, frame)

    def receive(self, frame: ServerFrame) -> None:
        """Take a frame of the daemon."""
        if not self.over:
            if isinstance(frame, Attached):
                self._dots[frame.consumer] = [*self._dots.get(frame.consumer, ()), *frame.dots]
            self._user.received(encode_frame(frame))

    def lost(self) -> None:
        """Learn that the connection has ended: the daemon was killed, or the network was cut."""
        was_open = self.at is not None
        super().lost()
        if was_open and not self.over:
            self.mesh.later(0.0, lambda: None if self.over else self._user.lost("the connection was lost"))


class SimulatedPort:
    """A port, over which a driver connects to daemons: at port 1 there is daemon 0, at 2 daemon 1."""

    def __init__(self, mesh: "SimulatedMesh", client: SessionClient, user: PortUser) -> None:
        self._mesh = mesh
        self._client = client
        self._user = user
        self._armed: float | None = None
        self._attempts = 0

    def seconds(self) -> float:
        """Return the virtual clock."""
        return self._mesh.now

    def arm(self, deadline: float | None) -> None:
        """Have the driver called at a time."""
        if self._armed == deadline:
            return
        self._armed = deadline
        if deadline is not None:
            # A little later: the sum of the times may be rounded down.
            delay_s = max(0.0, deadline - self._mesh.now) + TICK_S
            self._mesh.later(delay_s, lambda: self._due(deadline))

    def _due(self, deadline: float) -> None:
        if self._armed == deadline and not self._client.over:
            self._armed = None
            self._user.tick()

    def connect(self, endpoint: Endpoint) -> None:
        """Open a connection after a while, or report that it could not be opened."""
        self._attempts += 1
        attempt = self._attempts

        def attempted() -> None:
            if attempt != self._attempts or self._client.over:
                return
            if self._mesh.is_up(endpoint[1] - 1):
                self._client.connect(endpoint[1] - 1)
            else:
                self._user.attempt_failed("the daemon is down")

        self._mesh.later(self._mesh.pause(self._mesh.delay_s), attempted)

    def disconnect(self) -> None:
        """End the connection, or the attempt, and report nothing."""
        self._attempts += 1
        over, self._client.over = self._client.over, True
        self._client.disconnect()
        self._client.over = over

    def write(self, data: bytes) -> None:
        """Send bytes to the daemon."""
        self._client.write(data)

    def end(self) -> None:
        """End with the process of the client: nothing of it reaches anybody any more."""
        self.disconnect()
        self._client.over = True
