"""A mesh of daemons on virtual disks and a virtual network, with publishers and subscribers that move.

Everything happens in one thread, at times that a seed decides: `SimulatedMesh(seed)`. Connections between
daemons are FIFO, open after a while when the network allows it, and break with what is under way. A disk
makes changes durable after a while; a daemon's outputs leave then.
"""

import heapq
import itertools
import random
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial

import attrs

from ...client.driver import PortUser
from ...mesh.client.publisher import Publisher
from ...mesh.client.subscriber import Subscriber
from ...mesh.daemon import Daemon
from ...mesh.frames import Published
from ...mesh.messages import MeshMessage as PeerMessage
from ...mesh.messages import State, decode_message, encode_message
from ...mesh.model import Dot, MeshLimits, Uid
from ...mesh.state import Output
from .checks import MeshChecker, MeshViolation
from .memory_log import MemoryLog
from .simulated_clients import CLIENT_IDS, TICK_S, SimulatedPublisher, SimulatedSubscriber
from .simulated_port import SessionClient, SimulatedPort

__all__ = ["SimulatedDaemon", "SimulatedMesh"]


@attrs.define(eq=False)
class SimulatedDaemon:
    """A daemon and its machine."""

    id: int
    disk: MemoryLog
    daemon: Daemon | None = None
    """None while it does not run."""
    run: int = 0
    """The number of its starts."""
    waiting: deque[tuple[int, Output]] = attrs.field(factory=deque[tuple[int, Output]])
    """Outputs, and the changes of the disk that must be durable before each."""
    syncing: bool = False
    tick_at: float | None = None

    @property
    def up(self) -> bool:
        """Whether it runs."""
        return self.daemon is not None


@attrs.define(eq=False)
class _Connection:
    """A connection of two daemons, or of a client and a daemon."""

    ends: set[int]
    """The daemons at which it is open."""
    broken: bool = False
    arrives: dict[int, float] = attrs.field(factory=dict[int, float])
    """By receiver: when the last message arrives, so that none overtakes it."""


class SimulatedMesh:
    """A mesh. `step` and `run` let time pass."""

    def __init__(
        self,
        seed: int,
        daemons: int = 3,
        limits: MeshLimits | None = None,
        *,
        delay_s: float = 0.02,
        sync_s: float = 0.01,
    ) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.limits = limits or MeshLimits(chunk_bytes=300, push_bytes=2000, window_bytes=600)
        self.now = 0.0
        self.delay_s = delay_s
        self.sync_s = sync_s
        self.members = frozenset(range(daemons))
        self.checker = MeshChecker(self.members)
        self.nodes = {id: SimulatedDaemon(id, MemoryLog(id, self.checker)) for id in self.members}
        self.cut: set[frozenset[int]] = set()
        """Pairs of daemons that cannot connect."""
        self.clients: dict[int, SimulatedPublisher | SimulatedSubscriber | SessionClient] = {}
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._connections: dict[frozenset[int], _Connection] = {}
        self._client_numbers = itertools.count(1)
        self.checker.known_dots = self._known_dots
        for id in self.members:
            self.start(id)

    def _known_dots(self, id: int, topic: Uid) -> set[Dot]:
        directory = self.daemon(id).state.directory
        known = directory.topics.get(topic)
        return set() if known is None else set(directory.dots_of.get(known.name, ()))

    # Time

    @property
    def wall_ms(self) -> int:
        """The wall clock."""
        return 1_000_000 + int(self.now * 1000)

    def later(self, delay_s: float, function: Callable[[], None]) -> None:
        """Call a function after a time."""
        heapq.heappush(self._events, (self.now + delay_s, next(self._order), function))

    def step(self) -> bool:
        """Let the next event happen. Return False if there is none."""
        if not self._events:
            return False
        at, _, function = heapq.heappop(self._events)
        self.now = max(self.now, at)
        function()
        return True

    def run(self, seconds: float) -> None:
        """Let a time pass."""
        end = self.now + seconds
        while self._events and self._events[0][0] <= end:
            self.step()
        self.now = end

    def run_until(self, condition: Callable[[], bool], limit_s: float = 120.0) -> None:
        """Let time pass until a condition holds. Raises MeshViolation after `limit_s`."""
        end = self.now + limit_s
        while not condition():
            if self.now > end or not self.step():
                raise MeshViolation(f"what is waited for has not come in {limit_s} s (seed {self.seed})")

    def pause(self, mean_s: float) -> float:
        """Return a random time."""
        return self.random.expovariate(1 / mean_s) if mean_s else 0.0

    # Daemons

    def daemon(self, id: int) -> Daemon:
        """Return a daemon that runs."""
        daemon = self.nodes[id].daemon
        assert daemon is not None
        return daemon

    def start(self, id: int) -> None:
        """Start a daemon with what is on its disk."""
        node = self.nodes[id]
        assert node.daemon is None
        node.run += 1
        life = self.next_life(node)
        node.daemon = Daemon(
            id, life, self.members, node.disk, self.limits, now=self.now, wall_ms=self.wall_ms
        )
        states = node.daemon.state.streams.states
        self.checker.restarted(id, {stream: held.have for stream, held in states.items()})
        for other in self.nodes:
            if other != id:
                self._try_connect(id, other)

    def next_life(self, node: SimulatedDaemon) -> int:
        """Return the life with which a daemon starts."""
        return self.wall_ms * 100 + node.run

    def kill(self, id: int) -> None:
        """Kill a daemon: what is not on its disk is lost."""
        node = self.nodes[id]
        node.daemon = None
        node.run += 1
        node.waiting.clear()
        node.syncing = False
        node.tick_at = None
        node.disk.crash()
        for pair, connection in list(self._connections.items()):
            if id in pair:
                connection.ends.discard(id)
                self._break(pair)
        for client in self.clients.values():
            if client.at == id:
                client.lost()

    def _guarded(self, node: SimulatedDaemon, function: Callable[[], None]) -> Callable[[], None]:
        """Return a function that does nothing if the daemon has been killed meanwhile."""
        run = node.run

        def call() -> None:
            if node.run == run and node.up:
                function()

        return call

    def call(self, id: int, function: Callable[[Daemon], object]) -> object:
        """Give an input to a daemon, and carry out what it puts out."""
        node, daemon = self.nodes[id], self.daemon(id)
        try:
            return function(daemon)
        finally:
            output = daemon.take_output()
            for other, question in output.questions:
                self._transmit(id, other, encode_message(question))
            if output:
                node.waiting.append((node.disk.mark, output))
            if (node.disk.mark or node.waiting) and not node.syncing:
                node.syncing = True
                delay = self.pause(self.sync_s) if node.disk.mark else 0.0
                self.later(delay, self._guarded(node, lambda: self._synced(node, node.disk.mark)))
            self._arm(node)

    def _synced(self, node: SimulatedDaemon, changes: int) -> None:
        node.syncing = False
        node.disk.sync(changes)
        waiting, node.waiting = node.waiting, deque()
        for needed, output in waiting:
            if needed > changes:
                node.waiting.append((needed - changes, output))
            else:
                self._release(node, output)
        if (node.disk.mark or node.waiting) and not node.syncing:
            node.syncing = True
            self.later(
                self.pause(self.sync_s), self._guarded(node, lambda: self._synced(node, node.disk.mark))
            )

    def _release(self, node: SimulatedDaemon, output: Output) -> None:
        for to, message in output.messages:
            if isinstance(message, State):
                for daemon, row in message.rows:
                    if daemon == node.id:
                        for stream, number in row.have:
                            self.checker.has(node.id, stream, number)
            data = encode_message(message)
            for other in to:
                self._transmit(node.id, other, data)
        for client, frame in output.frames:
            receiver = self.clients[client // CLIENT_IDS]
            if isinstance(frame, Published):
                copies = min(self.limits.copies, len(self.daemon(node.id).state.directory.members))
                self.checker.acknowledged_by(node.id, frame.position, copies)
            if receiver.client_id == client:
                receiver.transmit_down(node.id, frame)

    def _arm(self, node: SimulatedDaemon) -> None:
        assert node.daemon is not None
        deadline = node.daemon.deadline()
        if deadline is None or (node.tick_at is not None and node.tick_at <= deadline):
            return
        node.tick_at = deadline

        def tick() -> None:
            node.tick_at = None
            self.call(node.id, lambda daemon: daemon.tick(self.now, self.wall_ms))

        self.later(max(0.0, deadline - self.now) + 1e-6, self._guarded(node, tick))

    # The network between daemons

    def cut_link(self, one: int, other: int) -> None:
        """Let two daemons not connect, and break their connection."""
        self.cut.add(frozenset((one, other)))
        self._break(frozenset((one, other)))

    def heal_link(self, one: int, other: int) -> None:
        """Let two daemons connect again."""
        self.cut.discard(frozenset((one, other)))
        self._try_connect(one, other)

    def partition(self, *parts: Iterable[int]) -> None:
        """Let daemons connect within each part, and not else."""
        where = {id: number for number, part in enumerate(parts) for id in part}
        for one, other in itertools.combinations(sorted(self.members), 2):
            if where.get(one) == where.get(other):
                self.heal_link(one, other)
            else:
                self.cut_link(one, other)

    def heal(self) -> None:
        """Let all daemons connect."""
        self.partition(self.members)

    def _try_connect(self, one: int, other: int) -> None:
        pair = frozenset((one, other))

        def attempt() -> None:
            if pair in self.cut or not (self.nodes[one].up and self.nodes[other].up):
                return
            old = self._connections.get(pair)
            if old is not None:
                if old.broken and old.ends:
                    # One side has not noticed the end of the connection before.
                    self.later(0.05, attempt)
                return
            self._connections[pair] = _Connection({one, other})
            for id, peer in ((one, other), (other, one)):
                self._opened(id, peer)

        self.later(self.pause(self.delay_s * 3), attempt)

    def _opened(self, id: int, peer: int) -> None:
        self.call(id, lambda daemon: daemon.connected(self.now, self.wall_ms, peer))

    def _break(self, pair: frozenset[int]) -> None:
        connection = self._connections.get(pair)
        if connection is None or connection.broken:
            if connection is not None and not connection.ends:
                self._connections.pop(pair)
            return
        connection.broken = True
        for id in list(connection.ends):
            self.later(self.pause(0.1), partial(self._noticed, pair, connection, id))
        if not connection.ends:
            self._connections.pop(pair)

    def _noticed(self, pair: frozenset[int], connection: _Connection, id: int) -> None:
        if id not in connection.ends:
            return
        connection.ends.discard(id)
        (other,) = pair - {id}
        if not connection.ends and self._connections.get(pair) is connection:
            del self._connections[pair]
        self.call(id, lambda daemon: daemon.disconnected(self.now, self.wall_ms, other))
        self._try_connect(id, other)

    def _transmit(self, sender: int, receiver: int, data: bytes) -> None:
        pair = frozenset((sender, receiver))
        connection = self._connections.get(pair)
        if connection is None or connection.broken or sender not in connection.ends:
            return
        at = max(self.now + self.pause(self.delay_s), connection.arrives.get(receiver, 0.0) + TICK_S)
        connection.arrives[receiver] = at

        def arrive() -> None:
            if connection.broken or receiver not in connection.ends:
                return
            message: PeerMessage = decode_message(data)
            self.call(receiver, lambda daemon: daemon.receive(self.now, self.wall_ms, sender, [message]))

        self.later(at - self.now, arrive)

    @property
    def connected(self) -> set[frozenset[int]]:
        """The pairs of daemons with a connection."""
        return {pair for pair, connection in self._connections.items() if not connection.broken}

    # Commands and clients

    def is_up(self, id: int) -> bool:
        """Return whether a daemon runs."""
        return self.nodes[id].up

    def publishers(self) -> list[SimulatedPublisher]:
        """Return all publishers."""
        return [each for each in self.clients.values() if isinstance(each, SimulatedPublisher)]

    def command(self, id: int, name: str, **arguments: object) -> object:
        """Carry out a command of an administrator. Raises Refusal."""
        return self.call(id, lambda daemon: daemon.command(self.now, self.wall_ms, name, dict(arguments)))

    def publisher(self, topic: str, at: int | None = None) -> "SimulatedPublisher":
        """Return a new publisher, connected to a daemon."""
        number = next(self._client_numbers)
        client = SimulatedPublisher(self, number, Publisher(topic, f"p{number}"))
        self.clients[number] = client
        if at is not None:
            client.connect(at)
        return client

    def port(self, user: PortUser) -> SimulatedPort:
        """Return the port of a driver, over which it connects to daemons."""
        number = next(self._client_numbers)
        client = self.clients[number] = SessionClient(self, number, user)
        return SimulatedPort(self, client, user)

    def subscriber(
        self, topic: str, name: str = "", at: int | None = None, *, acknowledges: bool = True
    ) -> "SimulatedSubscriber":
        """Return a new subscriber, connected to a daemon."""
        number = next(self._client_numbers)
        client = SimulatedSubscriber(
            self, number, Subscriber(topic, name, f"t{number}"), acknowledges=acknowledges
        )
        self.clients[number] = client
        if at is not None:
            client.connect(at)
        return client

    # The end

    def settle(self, limit_s: float = 300.0, *, members: bool = True) -> None:
        """Heal everything, and wait until nothing is to be done any more.

        members: all daemons belong to the mesh; otherwise only a while passes.
        """
        for id, node in self.nodes.items():
            if not node.up:
                self.start(id)
        self.heal()
        for client in self.clients.values():
            if client.at is None and not client.over and not isinstance(client, SessionClient):
                client.connect(self.random.choice(sorted(self.members)))
        if members:
            self.run_until(self._quiet, limit_s)
        else:
            self.run(10.0)

    def _quiet(self) -> bool:
        if len(self.connected) < len(self.nodes) * (len(self.nodes) - 1) // 2:
            return False
        if any(client.busy for client in self.clients.values()):
            return False
        daemons = [node.daemon for node in self.nodes.values()]
        if any(daemon is None or daemon.repair.lacking or daemon.publishing.held for daemon in daemons):
            return False
        return (
            not any(
                node.waiting
                or node.disk.mark
                or (node.daemon is not None and (node.daemon.has_news or node.daemon.state.touched))
                for node in self.nodes.values()
            )
            and not self._is_traffic()
        )

    def _is_traffic(self) -> bool:
        return any(
            max(connection.arrives.values(), default=0.0) > self.now
            for connection in self._connections.values()
        ) or any(client.traffic_until > self.now for client in self.clients.values())

    def check_end(self) -> None:
        """Check M6, M7, M8 and M10, after `settle`."""
        checker = self.checker
        directories: dict[int, tuple[object, ...]] = {}
        for id in sorted(self.nodes):
            directory = self.daemon(id).state.directory
            directories[id] = (
                tuple(sorted((uid, topic.name) for uid, topic in directory.topics.items())),
                tuple(sorted((dot, each.topic, each.name) for dot, each in directory.subscriptions.items())),
                tuple(sorted(directory.members)),
            )
        topics = {
            uid: topic.name for uid, topic in self.daemon(min(self.nodes)).state.directory.topics.items()
        }
        checker.check_directories(directories, topics)
        checker.check_regions({id: self.daemon(id).region for id in self.nodes})
        if any(len(self.daemon(id).region) != len(self.nodes) for id in self.nodes):
            raise MeshViolation("M10: a daemon does not know that all are connected")
        for client in self.clients.values():
            if isinstance(client, SimulatedSubscriber):
                client.check_end()
        held = {
            dot
            for client in self.clients.values()
            if isinstance(client, SimulatedSubscriber) and client.acknowledges and not client.over
            for dot in client.core.dots
        }
        # A subscription whose subscriber was told that the topic is deleted may go on elsewhere.
        if self.daemon(min(self.nodes)).state.directory.subscriptions.keys() <= held:
            for id in self.nodes:
                streams = self.daemon(id).state.streams.states
                checker.check_empty(id, {stream: each.have - each.floor for stream, each in streams.items()})
