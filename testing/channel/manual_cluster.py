"""Channels whose messages are handed over one by one, for tests that write a sequence down."""

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
"""So often all on the wires is delivered before `settle` gives up, or one message before `until` does."""


class SlowLog(MemoryLog):
    """A log that is durable only when the test says so: see `Hand.sync`."""

    durable = True


class ManualCluster:
    """A few channels, connected to each other, and what is on its way between them."""

    def __init__(
        self,
        replicas: int = 3,
        settings: Settings | None = None,
        logs: Sequence[Log | None] | None = None,
        expected: int = 0,
    ) -> None:
        self.now = 100.0
        self.settings = Settings() if settings is None else settings
        self.wires: dict[tuple[int, int], deque[Message]] = {}
        self.events: dict[int, list[Event]] = {}
        self.notes: dict[int, list[str]] = {}
        self.records: dict[int, list[LogRecord]] = {}
        self.tokens: dict[int, int] = {}
        self.channels: dict[int, Channel] = {}
        self.expected = expected or replicas
        self.stops = True
        """Applications end at once what needs the lease; False: the test says when."""
        for replica in range(replicas):
            self.start(replica, replicas, replica + 1, None if logs is None else logs[replica])
        for one in range(replicas):
            for other in range(one + 1, replicas):
                self.connect(one, other)

    def start(
        self, replica: int, replicas: int, incarnation: int, log: Log | None = None, *, fresh: bool = False
    ) -> None:
        """Start a process."""
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
        """Connect two processes; what was on its way is lost."""
        for here, there in ((one, other), (other, one)):
            self.wires[here, there] = deque()
        for here, there in ((one, other), (other, one)):
            incarnation = self.channels[there].state.me.incarnation
            self.channels[here].connected(self.now, there, incarnation)
            self.flush(here)

    def flush(self, replica: int) -> None:
        """Put what a channel sends on the wires."""
        output = self.channels[replica].take()
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
        """Do something to a channel."""
        result = call(self.channels[replica])
        self.flush(replica)
        return result

    def tick(self, seconds: float, *replicas: int) -> None:
        """Time passes, for all or for some."""
        self.now += seconds
        for replica in replicas or self.channels:
            self.act(replica, lambda channel: channel.tick(self.now))

    def sync(self, *replicas: int) -> None:
        """What was given to the disks of all, or some, is on them."""
        for replica in replicas or self.channels:
            self.channels[replica].persisted(self.now, self.tokens[replica])
            self.flush(replica)

    def waiting(self, here: int, there: int, kind: type[Any] | None = None) -> list[Any]:
        """What is on its way, of one type or any."""
        return [
            message
            for message in self.wires.get((here, there), ())
            if kind is None or isinstance(message, kind)
        ]

    def give(self, here: int, there: int, message: Message) -> None:
        """Deliver a message that need not be on its way."""
        self.act(there, lambda channel: channel.receive(self.now, here, message))

    def deliver(self, here: int, there: int, count: int | None = None) -> None:
        """Deliver what is on its way from one to another, or the first few."""
        wire = self.wires[here, there]
        for _ in range(len(wire) if count is None else count):
            self.give(here, there, wire.popleft())

    def lose(self, here: int, there: int) -> list[Message]:
        """Lose what is on its way; returns it."""
        lost = list(self.wires[here, there])
        self.wires[here, there].clear()
        return lost

    def silence(self, replica: int) -> None:
        """A replica is gone: the connections with it break, and stay so."""
        for other in self.channels:
            if other != replica:
                self.act(other, lambda channel: channel.disconnected(self.now, replica, ended=True))
                self.wires[replica, other].clear()
                self.wires[other, replica].clear()
        del self.channels[replica]

    def part(self, *groups: Collection[int]) -> None:
        """Connections are left within these groups only, and made anew there; what was on its way is lost."""
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
        """These lose their connections with all others, and the others, replica 0 among them, go on."""
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
        """Deliver everything between all, or some, until nothing is on its way."""
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
        """Deliver message by message between all, or some, or let time pass, until something holds."""
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
        """Let the first view be founded; returns the master's channel."""
        for _ in range(100):
            self.settle()
            if all(channel.role in ("master", "slave") for channel in self.channels.values()):
                return self.channels[0]
            self.tick(0.01)
        raise AssertionError([channel.role for channel in self.channels.values()])

    def payloads(self, replica: int) -> list[bytes]:
        """What a replica delivered."""
        return [event.payload for event in self.events[replica] if isinstance(event, Deliver)]

    def views(self, replica: int) -> list[ViewEvent]:
        """The view events of a replica."""
        return [event for event in self.events[replica] if isinstance(event, ViewEvent)]


def with_disks() -> ManualCluster:
    """Three replicas, each with a `SlowLog` that has everything, are members of the first view."""
    hand = ManualCluster(logs=[SlowLog(), SlowLog(), SlowLog()])
    for _ in range(40):
        hand.settle()
        hand.sync()
        hand.tick(0.01)
    hand.settle()
    hand.sync()
    assert [channel.role for channel in hand.channels.values()] == ["master", "slave", "slave"]
    return hand


def founding(
    mode: Mode = "ALL", view_change_s: float = 1.0, replicas: int = 3, expected: int = 0
) -> ManualCluster:
    """A view of the first replicas is to be the first one: replica 0, which proposes it, tells the others.

    expected: how many found a cluster, 0 for all; the rest is not connected yet.
    """
    hand = ManualCluster(replicas, Settings(mode=mode, view_change_s=view_change_s), expected=expected)
    founders = range(hand.expected)
    if hand.expected < replicas:
        hand.part(founders)
    _until(hand, founders, Found)
    return hand


def slow_proposer() -> ManualCluster:
    """The proposer of a first view, replica 0, has noted that it may be active; not yet on its disk."""
    hand = ManualCluster(logs=[SlowLog(), None, None])
    for _ in range(100):
        hand.settle()
        if hand.channels[0].state.foreseen:
            break
        hand.sync(0)
        hand.tick(0.05)
    return hand


def half_founded(hand: ManualCluster, founders: Sequence[int], one: int) -> None:
    """The first of these proposes a first view, and `one` is the only other one that accepts it."""
    hand.part(founders)
    _until(hand, founders, NewView)
    hand.deliver(founders[0], one)


def _until(hand: ManualCluster, founders: Sequence[int], kind: type[Message]) -> None:
    """Let them go on until the first one has such a message on its way to all others, and no further."""
    ways = [(one, other) for one in founders for other in founders]
    for _ in range(MAX_ROUNDS):
        if all(hand.waiting(founders[0], other, kind) for other in founders[1:]):
            return
        busy = [way for way in ways if hand.waiting(*way) and not hand.waiting(*way, kind)]
        if busy:
            hand.deliver(*busy[0], 1)
        else:
            hand.tick(0.1, *founders)
    raise AssertionError("no view")


def returning(replicas: int, settings: Settings) -> ManualCluster:
    """The last replica is back at a master whose log no longer reaches to what it has; it needs the state.

    `keep` is to be 0. The others have 200 entries.
    """
    hand = ManualCluster(replicas, settings)
    hand.form()
    rest, last = range(replicas - 1), replicas - 1
    hand.isolate(last)
    for _ in range(20):
        for _ in range(10):
            hand.act(0, lambda channel: channel.submit(hand.now, 0, b"x"))
        hand.settle(*rest)
        hand.tick(0.05, *rest)
    for other in rest:
        hand.connect(other, last)
    for _ in range(5):
        hand.settle()
        hand.tick(0.05)
    return hand
