"""Publishers and subscribers of a simulated mesh, which move from daemon to daemon."""

import itertools
from collections.abc import Callable
from typing import Protocol

from ...client.frames import FrameBuffer
from ...mesh.client.publisher import Confirmation, Publisher
from ...mesh.client.subscriber import MeshMessage, Subscriber, decode_cursor, encode_cursor
from ...mesh.daemon import Daemon
from ...mesh.frames import (
    Acknowledge,
    Attached,
    ClientFrame,
    Deliver,
    Ended,
    Published,
    Refused,
    ServerFrame,
    decode_client_frame,
    decode_server_frame,
    encode_frame,
)
from ...mesh.requests import User
from .checks import MeshChecker, MeshViolation

__all__ = ["CLIENT_IDS", "TICK_S", "SimulatedClient", "SimulatedPublisher", "SimulatedSubscriber"]

TICK_S = 1e-6
"""Least time between two events of one connection."""
CLIENT_IDS = 1_000_000
"""The connections of one client have identifiers from this many times its number on."""
USER = User("someone")


class ClientWorld(Protocol):
    """The simulated mesh, as its clients use it."""

    now: float
    delay_s: float
    checker: MeshChecker

    @property
    def wall_ms(self) -> int:
        """The wall clock."""
        ...

    def pause(self, mean_s: float) -> float:
        """Return a random time."""
        ...

    def later(self, delay_s: float, function: Callable[[], None]) -> None:
        """Call a function after a time."""
        ...

    def call(self, id: int, function: Callable[[Daemon], object]) -> object:
        """Give an input to a daemon."""
        ...

    def is_up(self, id: int) -> bool:
        """Return whether a daemon runs."""
        ...

    def publishers(self) -> "list[SimulatedPublisher]":
        """Return all publishers."""
        ...


class SimulatedClient:
    """What publishers and subscribers have in common: a connection to one daemon at a time."""

    def __init__(self, mesh: ClientWorld, number: int) -> None:
        self.mesh = mesh
        self.number = number
        self.at: int | None = None
        self.over = False
        self.traffic_until = 0.0
        self.requests = itertools.count(1)
        self._connection = 0
        self._up_at = self._down_at = 0.0

    @property
    def client_id(self) -> int:
        """Identifies the present connection to the daemon."""
        return self.number * CLIENT_IDS + self._connection

    def connect(self, daemon: int) -> None:
        """Connect to a daemon, if it runs."""
        if not self.mesh.is_up(daemon):
            return
        self.at = daemon
        self._connection += 1
        self.begin()

    def disconnect(self) -> None:
        """End the connection. What is under way is lost."""
        at, client = self.at, self.client_id
        self.lost()
        if at is not None and self.mesh.is_up(at):
            self.mesh.call(at, lambda daemon: daemon.client_lost(self.mesh.now, self.mesh.wall_ms, client))

    def lost(self) -> None:
        """Learn that the connection has ended."""
        self.at = None
        self._connection += 1

    def move(self, daemon: int) -> None:
        """Connect to another daemon."""
        self.disconnect()
        self.connect(daemon)

    def begin(self) -> None:
        """Begin with a connection."""
        raise NotImplementedError

    def receive(self, frame: ServerFrame) -> None:
        """Take a frame of the daemon."""
        raise NotImplementedError

    def send(self, frame: ClientFrame) -> None:
        """Send a frame to the daemon."""
        if self.at is None:
            return
        connection, at = self._connection, self.at
        self._up_at = max(self.mesh.now + self.mesh.pause(self.mesh.delay_s / 2), self._up_at + TICK_S)
        self.traffic_until = max(self.traffic_until, self._up_at)
        data = _through_the_wire(encode_frame(frame))

        def arrive() -> None:
            if self._connection == connection and self.mesh.is_up(at):
                decoded, client = decode_client_frame(data), self.client_id
                self.mesh.call(
                    at,
                    lambda daemon: daemon.client_frame(
                        self.mesh.now, self.mesh.wall_ms, client, USER, decoded
                    ),
                )

        self.mesh.later(self._up_at - self.mesh.now, arrive)

    def transmit_down(self, daemon: int, frame: ServerFrame) -> None:
        """Carry a frame from the daemon."""
        if self.at != daemon:
            return
        connection = self._connection
        self._down_at = max(self.mesh.now + self.mesh.pause(self.mesh.delay_s / 2), self._down_at + TICK_S)
        self.traffic_until = max(self.traffic_until, self._down_at)
        data = _through_the_wire(encode_frame(frame))

        def arrive() -> None:
            if self._connection == connection:
                self.receive(decode_server_frame(data))

        self.mesh.later(self._down_at - self.mesh.now, arrive)


class SimulatedPublisher(SimulatedClient):
    """A publisher."""

    def __init__(self, mesh: ClientWorld, number: int, core: Publisher) -> None:
        super().__init__(mesh, number)
        self.core = core
        self.acknowledged: set[tuple[str, int]] = set()
        """(identifier with epoch, number) of the messages that a daemon has acknowledged."""
        self.refusals: list[Refused] = []
        self.confirmations: list[Confirmation] = []

    @property
    def busy(self) -> bool:
        """Whether it waits for acknowledgements."""
        return not self.over and bool(self.core.unacknowledged)

    def publish(self, *bodies: bytes) -> None:
        """Publish messages."""
        self.core.add(bodies)
        if self.at is not None:
            self._send()

    def begin(self) -> None:
        """Begin with a connection."""
        self.core.connected()
        self._send()

    def _send(self) -> None:
        for frame in self.core.frames(self.requests):
            self.send(frame)

    def receive(self, frame: ServerFrame) -> None:
        """Take a frame."""
        match frame:
            case Published():
                waiting = [number for number, _ in self.core.waiting]
                name = self.core.name
                confirmation = self.core.published(frame)
                if confirmation is not None:
                    left = {number for number, _ in self.core.waiting}
                    self.acknowledged |= {(name, number) for number in waiting if number not in left}
                    self.confirmations.append(confirmation)
            case Refused():
                self.refusals.append(frame)
                confirmation = self.core.refused(frame)
                if confirmation is not None:
                    self.confirmations.append(confirmation)
                self._send()
            case _:
                pass


class SimulatedSubscriber(SimulatedClient):
    """A subscriber, which acknowledges what it gets after a while."""

    def __init__(self, mesh: ClientWorld, number: int, core: Subscriber, *, acknowledges: bool) -> None:
        super().__init__(mesh, number)
        self.core = core
        self.acknowledges = acknowledges
        self.messages: list[MeshMessage] = []
        self.ended: Ended | None = None
        self.attached = False
        self._last: dict[str, int] = {}

    @property
    def busy(self) -> bool:
        """Whether it has something to acknowledge."""
        return not self.over and self.acknowledges and bool(self.core.unacknowledged)

    def begin(self) -> None:
        """Begin with a connection."""
        self.attached = False
        self.send(self.core.attach(next(self.requests), 1, 0))

    def restart(self, *, cursor: bool) -> None:
        """Begin again as another process: with the cursor, or with nothing but the name."""
        self.disconnect()
        saved = None
        if cursor and self.core.cursor is not None:
            saved = decode_cursor(encode_cursor(self.core.cursor))
        elif not cursor:
            self._last = {}
        if saved is not None:
            self._last = dict(saved.publishers)
        self.core = Subscriber(self.core.topic, self.core.name, f"t{self.number} again", cursor=saved)

    def receive(self, frame: ServerFrame) -> None:
        """Take a frame."""
        match frame:
            case Attached():
                self.core.attached(frame.dots)
                self.attached = True
            case Deliver():
                messages = self.core.receive(frame)
                who = f"subscriber {self.number}"
                self.mesh.checker.delivered(who, self.core.dots, self._last, messages)
                self.messages += messages
                self._send_acknowledgement(self.core.acknowledge_repeated(1))
                if self.acknowledges:
                    self.mesh.later(self.mesh.pause(self.mesh.delay_s), self.acknowledge)
            case Ended():
                self.ended = frame
                self.over = True
            case Refused():
                if frame.code in ("ended", "no topic"):
                    self.ended = Ended(1, frame.code, frame.text)
                    self.over = True
            case _:
                pass

    def acknowledge(self) -> None:
        """Acknowledge everything."""
        self._send_acknowledgement(self.core.acknowledge(1))

    def _send_acknowledgement(self, frame: Acknowledge | None) -> None:
        if frame is None:
            return
        for dot in self.core.dots:
            known = self.mesh.checker.acknowledged[dot]
            for stream, number in frame.positions:
                known[stream] = max(known.get(stream, 0), number)
        self.send(frame)

    def check_end(self) -> None:
        """Check M6."""
        if self.over or not self.core.name:
            return
        checker = self.mesh.checker
        got = {(each.stream, each.position) for each in self.messages}
        names: set[tuple[str, int]] = set()
        for stream, position in got:
            record = checker.record(stream, position)
            names.add((record.publisher, record.number))
        acknowledged: set[tuple[str, int]] = set()
        for client in self.mesh.publishers():
            acknowledged |= client.acknowledged
        for key, place in checker.due(self.core.dots, self.core.topic).items():
            if key in acknowledged and key not in names and not checker.lost_disks:
                raise MeshViolation(f"M6: subscriber {self.number} never got {key}, at {place}")


def _through_the_wire(data: bytes) -> bytes:
    buffer = FrameBuffer(1 << 24)
    buffer.feed(data)
    body = buffer.next()
    assert body is not None
    return body
