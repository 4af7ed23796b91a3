"""Every order of events in a small cluster, up to a bound: what random runs would have to be lucky to meet.

    python -m quorate.testing.exhaustive --states 20000

A cluster of real channels is brought to a place where much can go wrong. From there every message can be the
next one to arrive, every connection to break, every replica to crash, start again, or look at its clock, each
so often as a budget says. Places that were met before, on another way, are not left again. After every step
all invariants are checked.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import attrs

from ..hachannel import Channel, Message, Settings
from .channel_world import Host, Shape, Violation, World
from .checks import Checks
from .cloning import clone, fingerprint

__all__ = ["START_STATES", "Budget", "Explored", "explore"]

CALM = Settings(
    heartbeat_s=1.0,
    suspect_s=1e6,
    verify_s=0.0,
    retry_s=1.0,
    view_change_s=8.0,
    rank_delay_s=0.0,
    stall_s=1e6,
    boot_wait_s=1.0,
    keep=8,
)
"""A closed connection is a suspicion, and time passes only where it is an event."""

Event = tuple[str, int, int]


@attrs.define
class Budget:
    """How often each kind of event may still happen."""

    crash: int = 1
    cut: int = 1
    tick: int = 3
    submit: int = 1


@attrs.frozen
class Explored:
    """What an exploration saw."""

    name: str
    states: int
    """Different places."""
    steps: int
    depth: int
    """Of the longest way."""
    whole: bool
    """Nothing was left out within the budget and the depth."""


class Wires:
    """Connections whose messages wait to be handed over. Stands in for a network."""

    def __init__(self) -> None:
        self.hosts: dict[int, Host] = {}
        self.connected: set[tuple[int, int]] = set()
        self.waiting: dict[tuple[int, int], list[Message]] = {}
        self.sent = 0

    def add(self, host: int, endpoint: Host) -> None:
        """A process starts; it is not connected yet."""
        self.hosts[host] = endpoint

    def remove(self, host: int) -> None:
        """A process is gone: its peers notice, and what they sent is lost."""
        del self.hosts[host]
        for pair in sorted(pair for pair in self.connected if host in pair):
            self.close(*pair)

    def send(self, host: int, endpoint: Host, peer: int, message: Message) -> None:  # noqa: ARG002
        """Put a message on a connection."""
        if (min(host, peer), max(host, peer)) in self.connected:
            self.sent += 1
            self.waiting.setdefault((host, peer), []).append(message)

    def connect(self, one: int, other: int) -> None:
        """Both sides learn that there is a connection."""
        self.connected.add((one, other))
        for host, peer in ((one, other), (other, one)):
            self.hosts[host].up(peer, self.hosts[peer].incarnation)

    def close(self, one: int, other: int) -> None:
        """A connection breaks; both sides learn it at once."""
        self.connected.discard((one, other))
        self.waiting.pop((one, other), None)
        self.waiting.pop((other, one), None)
        for host, peer in ((one, other), (other, one)):
            if host in self.hosts:
                self.hosts[host].down(peer)


class SmallHost(Host):
    """A replica without a clock of its own: what it wants to do later is an event, or happens at once."""

    def _alarm(self) -> None:
        pass

    def _soon(self, action: Callable[[], None]) -> None:
        world = self.world
        assert isinstance(world, SmallWorld)
        world.soon.append(MethodCall(self, action))

    def tick(self) -> None:
        """Look at the clock."""
        self._act(lambda: self.channel.tick(self.world.now))


@attrs.define(eq=False)
class MethodCall:
    """What an application does a moment later."""

    host: SmallHost
    action: Callable[[], None]


class SmallWorld(World):
    """A world whose events are chosen from outside."""

    def __init__(self, shape: Shape, channel: Callable[..., Channel] = Channel) -> None:
        checks = Checks()
        super().__init__(0, shape, checks, channel)
        checks.world = self
        self.checks = checks
        self.wires = Wires()
        self.net: Any = self.wires
        self.soon: list[MethodCall] = []
        self.small = [SmallHost(self, replica) for replica in range(shape.replicas)]
        self.hosts = list[Host](self.small)
        self._payloads = 0

    def say(self, line: str) -> None:
        """Nothing: the way to a violation is the trace."""

    def events(self, budget: Budget) -> list[Event]:
        """What can happen next."""
        wires = self.wires
        found: list[Event] = [("deliver", *pair) for pair, queue in wires.waiting.items() if queue]
        running = [host.replica for host in self.small if host.running]
        for one in running:
            for other in running:
                if one < other and (one, other) not in wires.connected:
                    found.append(("connect", one, other))
        if budget.cut:
            found += [("cut", *pair) for pair in sorted(wires.connected)]
        if budget.crash:
            found += [("crash", one, one) for one in running]
        found += [("start", host.replica, host.replica) for host in self.small if not host.running]
        if budget.tick:
            found += [("tick", one, one) for one in running]
        if budget.submit:
            found += [("submit", one, one) for one in running if self.small[one].channel.can_submit]
        return found

    def happen(self, event: Event, budget: Budget) -> None:
        """Let one event happen. Raises Violation."""
        kind, one, other = event
        if kind in ("cut", "crash", "tick", "submit"):
            setattr(budget, kind, getattr(budget, kind) - 1)
        host = self.small[one]
        if kind == "deliver":
            message = self.wires.waiting[one, other].pop(0)
            self.small[other].deliver(one, message)
        elif kind == "connect":
            self.wires.connect(one, other)
        elif kind == "cut":
            self.wires.close(one, other)
        elif kind == "crash":
            host.crash()
        elif kind == "start":
            host.start()
        elif kind == "tick":
            self.now += 1.0
            host.tick()
        else:
            self._payloads += 1
            payload = b"%d" % self._payloads
            self.checks.submitted.add(payload)
            host.submit(payload)
        while self.soon:
            call = self.soon.pop(0)
            if call.host.running:
                call.action()
                call.host.settle()

    def settle(self) -> None:
        """Hand over everything, and let a little time pass, until all is quiet."""
        for _ in range(12):
            while pairs := [pair for pair, queue in self.wires.waiting.items() if queue]:
                self.happen(("deliver", *pairs[0]), Budget())
            for host in self.small:
                if host.running:
                    self.happen(("tick", host.replica, host.replica), Budget())

    def place(self, budget: Budget) -> Any:
        """What tells this state of the cluster from others."""
        hosts = [(host.running, host.channel if host.running else None) for host in self.small]
        return hash(fingerprint((hosts, self.wires.waiting, sorted(self.wires.connected), budget)))


def formed(replicas: int, settings: Settings, channel: Callable[..., Channel]) -> SmallWorld:
    """A cluster whose first view is active, with one entry committed."""
    world = SmallWorld(Shape(replicas=replicas, expected=replicas, settings=settings), channel)
    for host in world.small:
        host.start()
    for event in world.events(Budget(0, 0, 0, 0)):
        if event[0] == "connect":
            world.happen(event, Budget())
    world.settle()
    world.happen(("submit", 0, 0), Budget())
    world.settle()
    return world


def _quiet(channel: Callable[..., Channel]) -> tuple[SmallWorld, Budget]:
    """Three replicas, nothing under way."""
    return formed(3, CALM, channel), Budget(crash=1, cut=1, tick=2, submit=1)


def _majority(channel: Callable[..., Channel]) -> tuple[SmallWorld, Budget]:
    """Three replicas that commit by majority; an entry is on its way."""
    world = formed(3, attrs.evolve(CALM, mode="MAJORITY"), channel)
    world.happen(("submit", 0, 0), Budget())
    return world, Budget(crash=1, cut=2, tick=2, submit=0)


def _replacement(channel: Callable[..., Channel]) -> tuple[SmallWorld, Budget]:
    """One of three has crashed, and its new life is about to take its place."""
    world = formed(3, CALM, channel)
    world.happen(("crash", 2, 2), Budget())
    world.settle()
    world.happen(("start", 2, 2), Budget())
    for one in (0, 1):
        world.happen(("connect", one, 2), Budget())
    return world, Budget(crash=1, cut=1, tick=3, submit=0)


def _shrunk(channel: Callable[..., Channel]) -> tuple[SmallWorld, Budget]:
    """One of four is cut off; the view of the other three is younger than what it knows."""
    world = formed(4, attrs.evolve(CALM, mode="MAJORITY"), channel)
    for one in (0, 1, 2):
        world.happen(("cut", one, 3), Budget())
    world.settle()
    return world, Budget(crash=1, cut=2, tick=2, submit=1)


START_STATES: dict[str, Callable[[Callable[..., Channel]], tuple[SmallWorld, Budget]]] = {
    "quiet": _quiet,
    "majority": _majority,
    "replacement": _replacement,
    "shrunk": _shrunk,
}
"""Where explorations begin, by name."""


def explore(
    name: str,
    *,
    states: int = 2000,
    depth: int = 14,
    seed: int = 0,
    channel: Callable[..., Channel] = Channel,
) -> Explored:
    """Explore from a start state, depth first, in an order that the seed shuffles.

    states, depth: bounds. Raises Violation, whose trace is the way to it, KeyError for another name.
    """
    world, budget = START_STATES[name](channel)
    random = Random(seed)
    seen: dict[Any, int] = {world.place(budget): depth}
    steps = reached = 0
    whole = True

    def choices(here: SmallWorld, left: Budget) -> list[Event]:
        events = here.events(left)
        random.shuffle(events)
        return events

    way: list[Event] = []
    stack = [(world, budget, choices(world, budget))]
    while stack:
        here, left, events = stack[-1]
        if not events or len(seen) >= states:
            whole = whole and not events
            stack.pop()
            del way[-1:]
            continue
        event = events.pop()
        there, rest = clone((here, left))
        way.append(event)
        steps += 1
        try:
            there.happen(event, rest)
        except Violation as violation:
            violation.trace = [f"{kind} {one} {other}" for kind, one, other in way]
            raise
        place, remaining = there.place(rest), depth - len(way)
        reached = max(reached, len(way))
        if seen.get(place, -1) >= remaining:
            way.pop()
            continue
        seen[place] = remaining
        if remaining == 0:
            whole = False
            way.pop()
            continue
        stack.append((there, rest, choices(there, rest)))
    return Explored(name, len(seen), steps, reached, whole)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line. Returns 1 when an invariant is violated."""
    parser = argparse.ArgumentParser(description="Explore every order of events in a small cluster.")
    parser.add_argument("--states", type=int, default=20_000, help="different places at most, each")
    parser.add_argument("--depth", type=int, default=14, help="events after the start at most")
    parser.add_argument("--seed", type=int, default=0, help="shuffles the order")
    parser.add_argument("--start", choices=list(START_STATES), help="only from here")
    options = parser.parse_args(arguments)
    for name in START_STATES if options.start is None else [options.start]:
        try:
            found = explore(name, states=options.states, depth=options.depth, seed=options.seed)
        except Violation as violation:
            print("\n".join(violation.trace))
            print(f"{name}: {violation}")
            return 1
        end = "all within the budget" if found.whole else "cut off by the bounds"
        print(f"{name}: {found.states} states, {found.steps} steps, depth {found.depth}, {end}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
