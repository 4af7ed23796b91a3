"""Channels whose messages a test delivers one by one, without clock, network and disk."""

from collections import deque
from collections.abc import Callable, Collection, Sequence
from itertools import combinations
from typing import Any

from ...hachannel import (
    Channel,
    Deliver,
    Event,
    LeaseChanged,
    Log,
    LogRecord,
    MemoryLog,
    Message,
    Output,
    Settings,
    ViewEvent,
)
from ...hachannel.model.messages import Found, NewView
from ...hachannel.model.settings import Mode

__all__ = ["ManualCluster", "SlowLog", "founding", "half_founded", "returning", "slow_proposer", "with_disks"]

MAX_ROUNDS = 1000
"""The rounds after which `settle`, and the messages after which `until`, give up."""


class SlowLog(MemoryLog):
    """A log whose records become durable when the test calls `ManualCluster.sync`."""

    durable = True


class ManualCluster:
    """A few channels, and the messages in flight between them.

    Starts `replicas` channels with the given settings and logs, and connects them. `expected` replicas found
    the cluster; 0: all.
    """

    def __init__(
        self,
        replicas: int = 3,
        settings: Settings | None = None,
        logs: Sequence[Log | None] | None = None,
        expected: int = 0,
    ) -> None:
        self.now = 100.0
        """The reading of all clocks, in seconds."""
        self.settings = Settings() if settings is None else settings
        self.wires: dict[tuple[int, int], deque[Message]] = {}
        """The messages in flight by (sender, receiver)."""
        self.events: dict[int, list[Event]] = {}
        """The events of each channel so far."""
        self.notes: dict[int, list[str]] = {}
        """The notes of each channel so far."""
        self.records: dict[int, list[LogRecord]] = {}
        """The log records of each channel so far."""
        self.tokens: dict[int, int] = {}
        """The last token of each channel, for `sync`."""
        self.channels: dict[int, Channel] = {}
        self.expected = expected or replicas
        self.stops = True
        """Whether applications end at once what needs the lease; False: the test calls `lease_ended`."""
        for replica in range(replicas):
            self.start(replica, replicas, replica + 1, None if logs is None else logs[replica])
        for one in range(replicas):
            for other in range(one + 1, replicas):
                self.connect(one, other)

    def start(
        self, replica: int, replicas: int, incarnation: int, log: Log | None = None, *, fresh: bool = False
    ) -> None:
        """Start a process of a replica."""
        self.events[replica], self.notes[replica], self.records[replica] = [], [], []
        self.tokens[replica] = 0
        self.channels[replica] = Channel(
            replica,
            range(replicas),
            incarnation=incarnation,
            cluster="c",
            expected=self.expected,
            settings=self.settings,
            log=log,
            fresh=fresh,
        )
        self.channels[replica].start(self.now)
        self.flush(replica)

    def connect(self, one: int, other: int) -> None:
        """Connect two replicas; messages in flight between them are lost."""
        for here, there in ((one, other), (other, one)):
            self.wires[here, there] = deque()
        for here, there in ((one, other), (other, one)):
            incarnation = self.channels[there].state.me.incarnation
            self.channels[here].connected(self.now, there, incarnation)
            self.flush(here)

    def flush(self, replica: int) -> None:
        """Collect the output of a channel, and put its messages in flight."""
        output = self.channels[replica].drain()
        self._put(replica, output)
        if self.stops and LeaseChanged(False) in output.events:
            self.act(replica, lambda channel: channel.lease_ended(self.now))

    def _put(self, replica: int, output: Output) -> None:
        self.records[replica] += output.persist
        self.tokens[replica] = max(self.tokens[replica], output.token)
        self.events[replica] += output.events
        self.notes[replica] += output.notes
        for peer, message in output.messages:
            self.wires.setdefault((replica, peer), deque()).append(message)

    def act(self, replica: int, call: Callable[[Channel], Any]) -> Any:
        """Call a channel, collect its output, and return the result."""
        result = call(self.channels[replica])
        self.flush(replica)
        return result

    def tick(self, seconds: float, *replicas: int) -> None:
        """Let `seconds` pass, and tick the channels of the given replicas, or of all."""
        self.now += seconds
        for replica in replicas or self.channels:
            self.act(replica, lambda channel: channel.tick(self.now))

    def sync(self, *replicas: int) -> None:
        """Make durable what the channels of the given replicas, or of all, have written."""
        for replica in replicas or self.channels:
            self.channels[replica].persisted(self.now, self.tokens[replica])
            self.flush(replica)

    def waiting(self, here: int, there: int, kind: type[Any] | None = None) -> list[Any]:
        """Return the messages in flight from one replica to another, of one type or of any."""
        return [
            message
            for message in self.wires.get((here, there), ())
            if kind is None or isinstance(message, kind)
        ]

    def inject(self, here: int, there: int, message: Message) -> None:
        """Deliver a message that need not be in flight."""
        self.act(there, lambda channel: channel.receive(self.now, here, message))

    def deliver(self, here: int, there: int, count: int | None = None) -> None:
        """Deliver the messages in flight from one replica to another: all, or the first `count`."""
        wire = self.wires[here, there]
        for _ in range(len(wire) if count is None else count):
            self.inject(here, there, wire.popleft())

    def lose(self, here: int, there: int) -> list[Message]:
        """Lose the messages in flight from one replica to another, and return them."""
        lost = list(self.wires[here, there])
        self.wires[here, there].clear()
        return lost

    def silence(self, replica: int) -> None:
        """End a replica: its connections break, and it does not return."""
        for other in self.channels:
            if other != replica:
                self.act(other, lambda channel: channel.disconnected(self.now, replica, ended=True))
                self.wires[replica, other].clear()
                self.wires[other, replica].clear()
        del self.channels[replica]

    def part(self, *groups: Collection[int]) -> None:
        """Break all connections, and connect the replicas of each group; messages in flight are lost."""
        for one in self.channels:
            for other in self.channels:
                if one != other:
                    self._disconnect(one, other)
        for group in groups:
            for one, other in combinations(sorted(group), 2):
                self.connect(one, other)

    def _disconnect(self, here: int, there: int) -> None:
        self.act(here, lambda channel: channel.disconnected(self.now, there))
        self.lose(here, there)

    def isolate(self, *replicas: int) -> None:
        """Cut replicas off until the others, replica 0 among them, are in a view without them."""
        rest = [replica for replica in self.channels if replica not in replicas]

        for one in replicas:
            for other in rest:
                self._disconnect(one, other)
                self._disconnect(other, one)
        for _ in range(MAX_ROUNDS):
            self.settle(*rest)
            if self.channels[0].members == tuple(rest):
                return
            self.tick(0.05, *rest)
        raise AssertionError(self.channels[0].members)

    def settle(self, *replicas: int) -> None:
        """Deliver everything between all replicas, or some, until nothing is in flight."""
        among = set(replicas or self.channels)
        for _ in range(MAX_ROUNDS):
            pairs = [pair for pair, wire in self.wires.items() if wire and set(pair) <= among]
            if not pairs:
                return
            for here, there in pairs:
                self.deliver(here, there)
        ways = {pair: wire[0] for pair, wire in self.wires.items() if wire}
        raise AssertionError(f"messages without end: {ways}")

    def until(self, condition: Callable[[], Any], *replicas: int) -> None:
        """Deliver messages one by one, or let time pass when there are none, until a condition holds."""
        among = set(replicas or self.channels)
        for _ in range(MAX_ROUNDS):
            if condition():
                return
            ways = [pair for pair, wire in self.wires.items() if wire and set(pair) <= among]
            if ways:
                self.deliver(*ways[0], 1)
            else:
                self.tick(0.05, *replicas)
        raise AssertionError([channel.role for channel in self.channels.values()])

    def form(self) -> Channel:
        """Let the first view be founded. Returns the channel of the master."""
        for _ in range(100):
            self.settle()
            if all(channel.role in ("master", "slave") for channel in self.channels.values()):
                return self.channels[0]
            self.tick(0.01)
        raise AssertionError([channel.role for channel in self.channels.values()])

    def payloads(self, replica: int) -> list[bytes]:
        """Return the payloads that a replica has delivered."""
        return [event.payload for event in self.events[replica] if isinstance(event, Deliver)]

    def views(self, replica: int) -> list[ViewEvent]:
        """Return the view events of a replica."""
        return [event for event in self.events[replica] if isinstance(event, ViewEvent)]


def with_disks() -> ManualCluster:
    """Return three members of a first view, each with a `SlowLog` in which everything is durable."""
    cluster = ManualCluster(logs=[SlowLog(), SlowLog(), SlowLog()])
    for _ in range(40):
        cluster.settle()
        cluster.sync()
        cluster.tick(0.01)
    cluster.settle()
    cluster.sync()
    assert [channel.role for channel in cluster.channels.values()] == ["master", "slave", "slave"]
    return cluster


def founding(
    mode: Mode = "ALL", view_change_s: float = 1.0, replicas: int = 3, expected: int = 0
) -> ManualCluster:
    """Return a cluster whose first view is about to be founded: replica 0 has sent Found to the other
    founders.

    expected: the number of founders, 0 for all; the other replicas are not connected.
    """
    cluster = ManualCluster(replicas, Settings(mode=mode, view_change_s=view_change_s), expected=expected)
    founders = range(cluster.expected)
    if cluster.expected < replicas:
        cluster.part(founders)
    _until(cluster, founders, Found)
    return cluster


def slow_proposer() -> ManualCluster:
    """Return a cluster whose first view may be active: replica 0, its proposer, has noted it, not durably."""
    cluster = ManualCluster(logs=[SlowLog(), None, None])
    for _ in range(100):
        cluster.settle()
        if cluster.channels[0].state.foreseen:
            break
        cluster.sync(0)
        cluster.tick(0.05)
    return cluster


def half_founded(cluster: ManualCluster, founders: Sequence[int], one: int) -> None:
    """Let the first founder propose a first view, and only `one` of the others receive it."""
    cluster.part(founders)
    _until(cluster, founders, NewView)
    cluster.deliver(founders[0], one)


def _until(cluster: ManualCluster, founders: Sequence[int], kind: type[Message]) -> None:
    """Run the founders until the first one has a message of this type in flight to all others."""
    ways = [(one, other) for one in founders for other in founders]
    for _ in range(MAX_ROUNDS):
        if all(cluster.waiting(founders[0], other, kind) for other in founders[1:]):
            return
        busy = [way for way in ways if cluster.waiting(*way) and not cluster.waiting(*way, kind)]
        if busy:
            cluster.deliver(*busy[0], 1)
        else:
            cluster.tick(0.1, *founders)
    raise AssertionError("no view")


def returning(replicas: int, settings: Settings) -> ManualCluster:
    """Return a cluster whose last replica returns, and lacks more than the master's log has.

    `settings.keep` must be 0. The other replicas have 200 entries.
    """
    cluster = ManualCluster(replicas, settings)
    cluster.form()
    rest, last = range(replicas - 1), replicas - 1
    cluster.isolate(last)
    for _ in range(20):
        for _ in range(10):
            cluster.act(0, lambda channel: channel.submit(cluster.now, 0, b"x"))
        cluster.settle(*rest)
        cluster.tick(0.05, *rest)
    for other in rest:
        cluster.connect(other, last)
    for _ in range(5):
        cluster.settle()
        cluster.tick(0.05)
    return cluster
