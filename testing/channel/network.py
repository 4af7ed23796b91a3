"""A simulated network of connections: messages arrive in order, and a broken connection loses the last ones.

Between two hosts there is at most one connection. A cut direction stalls, as TCP does. A broken connection
loses what has not arrived, and each side notices in its own time.
"""

import math
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Protocol

import attrs

from ...hachannel import Message
from ...hachannel.model.messages import encode_message
from .arguments import check_types

LEAST_BYTES_PER_S = 5000
"""The least throughput of a connection. Heartbeats alone need about half of it."""


class Scheduler(Protocol):
    """The virtual clock of a simulation."""

    now: float

    def at(self, time: float, action: Callable[[], None]) -> None:
        """Call `action` at a virtual time."""
        ...


class Endpoint(Protocol):
    """A process that can be connected."""

    incarnation: int

    def deliver(self, peer: int, message: Message) -> None:
        """Receive a message."""
        ...

    def up(self, peer: int, incarnation: int) -> None:
        """Learn of a new connection."""
        ...

    def down(self, peer: int) -> None:
        """Learn of the end of a connection."""
        ...


@attrs.define(eq=False)
class Connection:
    """One connection between the endpoints of two hosts."""

    ends: dict[int, Endpoint]
    open: dict[int, bool]
    """Whether the end at each host still believes that it is connected."""
    alive: bool = True
    drained: dict[int, float] = attrs.field(factory=dict[int, float])
    """The time until which messages of a broken connection still arrive at each host."""
    ready: dict[int, float] = attrs.field(factory=dict[int, float])
    """The arrival of the last message towards each host."""
    free: dict[int, float] = attrs.field(factory=dict[int, float])
    """The time at which the last message towards each host has left, where throughput is limited."""
    stalled: dict[int, list[Message]] = attrs.field(factory=dict[int, list[Message]])
    """Messages towards each host that wait for the end of a cut."""

    def delivers(self, host: int, time: float) -> bool:
        """Return whether a message that is due at `host` at `time` arrives."""
        return self.open[host] and (self.alive or time <= self.drained.get(host, -1.0))


@attrs.define(kw_only=True)
class Weather:
    """The faults of the network that are always there. Times are virtual seconds, chances are from 0 to 1.

    Raises ValueError for a value that is not allowed.
    """

    delay_s: float = 0.002
    """The longest delay of an ordinary message."""
    slow_chance: float = 0.02
    """The chance that a message is slow."""
    slow_s: float = 0.05
    """The longest additional delay of a slow message."""
    duplicate_chance: float = 0.0
    """The chance that a message arrives twice."""
    loss_chance: float = 0.0
    """The chance that a message is lost while its connection stays open, which TCP does not do."""
    reorder_chance: float = 0.0
    """The chance that a message overtakes others, which TCP does not do."""
    notice_s: float = 0.05
    """The longest time until a side notices that a connection is broken."""
    reconnect_s: float = 0.03
    """The longest time until hosts try to connect again."""
    bytes_per_s: float = 0.0
    """The throughput of a connection in each direction, at least 5,000; 0, the default: no limit."""

    def __attrs_post_init__(self) -> None:
        check_types(self)
        for name in ("delay_s", "slow_s", "notice_s", "reconnect_s"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} is {getattr(self, name)}: seconds, from 0")
        if not (self.bytes_per_s == 0 or LEAST_BYTES_PER_S <= self.bytes_per_s < math.inf):
            raise ValueError(
                f"bytes_per_s is {self.bytes_per_s}: at least {LEAST_BYTES_PER_S}, or 0 for no limit"
            )
        for name in ("slow_chance", "duplicate_chance", "loss_chance", "reorder_chance"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is {getattr(self, name)}: a chance, from 0 to 1")


class Network:
    """All connections of a cluster.

    Messages in flight when a direction is cut arrive after the cut, behind those sent meanwhile. That is
    worse than TCP: replicas receive old messages after newer ones.
    """

    def __init__(self, scheduler: Scheduler, random: Random, weather: Weather) -> None:
        self._scheduler = scheduler
        self._random = random
        self.weather = weather
        self.cut: set[tuple[int, int]] = set()
        """Directions (sender, receiver) in which nothing arrives."""
        self.muted: type[Message] | None = None
        """The type of messages that are lost; choose one that is repeated."""
        self._hosts: dict[int, Endpoint] = {}
        self._connections: dict[tuple[int, int], Connection] = {}
        self._dialing: set[tuple[int, int]] = set()
        self.sent: Counter[type[Message]] = Counter()
        """The number of messages by type."""

    def add(self, host: int, endpoint: Endpoint) -> None:
        """Add a process that has started."""
        self._hosts[host] = endpoint
        for other in list(self._hosts):
            if other != host:
                self._dial(host, other)

    def remove(self, host: int) -> None:
        """Remove a process that has ended; its peers notice."""
        endpoint = self._hosts.pop(host)
        for pair, connection in list(self._connections.items()):
            if host in pair and connection.ends[host] is endpoint:
                connection.open[host] = False
                self.shut(pair)

    def _dial(self, one: int, other: int) -> None:
        """Connect two hosts as soon as it is possible."""
        pair = (min(one, other), max(one, other))
        if pair in self._dialing:
            return
        self._dialing.add(pair)
        self._later(self._random.uniform(0.001, self.weather.reconnect_s), lambda: self._attempt(pair))

    def _attempt(self, pair: tuple[int, int]) -> None:
        one, other = pair
        if one not in self._hosts or other not in self._hosts:
            self._dialing.discard(pair)
            return
        old = self._connections.get(pair)
        busy = old is not None and any(
            old.open[host] and old.ends[host] is self._hosts[host] for host in pair
        )
        if busy or pair in self.cut or (other, one) in self.cut:
            self._later(self.weather.reconnect_s, lambda: self._attempt(pair))
            return
        self._dialing.discard(pair)
        ends = {one: self._hosts[one], other: self._hosts[other]}
        connection = Connection(ends, {one: True, other: True})
        self._connections[pair] = connection
        for host, peer in ((one, other), (other, one)):
            self._later(self._delay(), self._opener(connection, host, peer))

    def _opener(self, connection: Connection, host: int, peer: int) -> Callable[[], None]:
        incarnation = connection.ends[peer].incarnation

        def opened() -> None:
            if connection.open[host] and self._hosts.get(host) is connection.ends[host]:
                connection.ready.setdefault(host, self._scheduler.now)
                connection.ends[host].up(peer, incarnation)

        connection.ready[host] = self._scheduler.now + 0.02
        return opened

    def shut(self, pair: tuple[int, int]) -> None:
        """Break a connection: the first part of what is in flight arrives, then each side notices."""
        connection = self._connections.get(pair)
        if connection is None or not connection.alive:
            return
        connection.alive = False
        now = self._scheduler.now
        for host, peer in (pair, pair[::-1]):
            if connection.open[host]:
                drained = self._random.uniform(now, max(connection.ready.get(host, now), now))
                connection.drained[host] = drained
                notice = max(now + self._random.uniform(0.0, self.weather.notice_s), drained)
                self._scheduler.at(notice, self._closer(connection, host, peer))

    def _closer(self, connection: Connection, host: int, peer: int) -> Callable[[], None]:
        def closed() -> None:
            if connection.open[host]:
                connection.open[host] = False
                if self._hosts.get(host) is connection.ends[host]:
                    connection.ends[host].down(peer)
                    self._dial(host, peer)

        return closed

    def connected_pairs(self) -> list[tuple[int, int]]:
        """Return the pairs of hosts whose connection is not broken."""
        return sorted(pair for pair, connection in self._connections.items() if connection.alive)

    def break_one(self) -> None:
        """Break a random connection."""
        pairs = self.connected_pairs()
        if pairs:
            self.shut(self._random.choice(pairs))

    def send(self, host: int, endpoint: Endpoint, peer: int, message: Message) -> None:
        """Send a message on the connection of two hosts, if this endpoint has one."""
        connection = self._connections.get((host, peer) if host < peer else (peer, host))
        if connection is None or connection.ends[host] is not endpoint or not connection.open[host]:
            return
        self.sent[type(message)] += 1
        if type(message) is self.muted:
            return
        weather = self.weather
        if weather.loss_chance and self._random.random() < weather.loss_chance:
            return
        if (host, peer) in self.cut or peer in connection.stalled:
            connection.stalled.setdefault(peer, []).append(message)
            return
        self._put(connection, host, peer, message)
        if weather.duplicate_chance and self._random.random() < weather.duplicate_chance:
            self._put(connection, host, peer, message)

    def _put(self, connection: Connection, host: int, peer: int, message: Message) -> None:
        now = self._scheduler.now
        if self.weather.bytes_per_s:
            begin = max(now, connection.free.get(peer, 0.0))
            now = begin + len(encode_message(message)) / self.weather.bytes_per_s
            connection.free[peer] = now
        time = now + self._delay()
        chance = self.weather.reorder_chance
        if not chance or self._random.random() >= chance:
            time = connection.ready[peer] = max(connection.ready.get(peer, 0.0), time)

        def arrive() -> None:
            if (host, peer) in self.cut or peer in connection.stalled:
                connection.stalled.setdefault(peer, []).append(message)
            elif connection.delivers(peer, time) and self._hosts.get(peer) is connection.ends[peer]:
                connection.ends[peer].deliver(host, message)

        self._scheduler.at(time, arrive)

    def mend(self, direction: tuple[int, int]) -> None:
        """End the cut of a direction: stalled messages arrive."""
        self.cut.discard(direction)
        host, peer = direction
        connection = self._connections.get((min(host, peer), max(host, peer)))
        if connection is not None and peer in connection.stalled:
            time = max(connection.ready.get(peer, 0.0), self._scheduler.now + self._delay())
            connection.ready[peer] = time
            self._scheduler.at(time, lambda: self._flush(connection, host, peer))

    def _flush(self, connection: Connection, host: int, peer: int) -> None:
        if (host, peer) in self.cut or not connection.alive:
            return
        for message in connection.stalled.pop(peer, []):
            if self._hosts.get(peer) is connection.ends[peer]:
                connection.ends[peer].deliver(host, message)

    def _delay(self) -> float:
        weather = self.weather
        delay = self._random.uniform(0.0002, weather.delay_s)
        if self._random.random() < weather.slow_chance:
            delay += self._random.uniform(0.0, weather.slow_s)
        return delay

    def _later(self, delay: float, action: Callable[[], None]) -> None:
        self._scheduler.at(self._scheduler.now + delay, action)
