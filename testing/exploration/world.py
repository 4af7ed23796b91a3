"""A cluster of real channels in which every event is chosen by the exploration.

There is no clock: an event lets time pass at a replica, by making all times older that it remembers. A closed
connection causes a suspicion at once; silence causes none. Applications do their work at once. A state can be
saved and restored; states share the objects that an event has not changed.
"""

from collections.abc import Callable, Iterable
from typing import Any

import attrs

from ...hachannel import Channel, Message, Settings
from ..channel.cluster_shape import Shape
from ..channel.world import World
from .cloning import canonical_form, clone, digest, shift_times
from .host import UNCOMPARED_HISTORY, ExploredChecks, ExploredHost, Pending
from .network import BUDGETED, Budget, Event, ExploredNetwork

__all__ = ["CALM", "ExploredWorld", "WorldState"]

CALM = Settings(
    heartbeat_s=0.01,
    suspect_s=1e6,
    verify_s=0.0,
    lease_s=0.02,
    retry_s=0.2,
    view_change_s=8.0,
    rank_delay_s=0.0,
    stall_s=1e6,
    boot_wait_s=0.0,
    transfer_pause_s=0.0,
    transfer_share=1.0,
    keep=8,
)
"""Settings with which one tick makes every repetition due, and no timeout."""

LATE_S = 20.0
"""The time, in seconds, after which everything that a replica waits for has timed out."""

# The cells of an application follow from its chain.
_UNCOMPARED = frozenset(
    {"world", "_clock", "checks", "host", "pending", "settings", "_settings", "_handlers", "syncs", "cells"}
)
"""Attributes of hosts in which equal states may differ: see `canonical_form`."""


@attrs.frozen(eq=False)
class WorldState:
    """A saved state of the whole world. It must not be changed."""

    hosts: tuple[ExploredHost, ...]
    digests: tuple[bytes, ...]
    connected: frozenset[tuple[int, int]]
    waiting: dict[tuple[int, int], tuple[Message, ...]]
    memory: list[dict[str, Any]]
    budget: Budget
    steps: float


class ExploredWorld(World):
    """A world whose events the caller chooses. It is in one state at a time."""

    def __init__(
        self,
        shape: Shape,
        channel: Callable[..., Channel] = Channel,
        *,
        timed: bool = False,
        synced_at_once: bool = True,
    ) -> None:
        """timed: all clocks agree, time passes for all replicas at once, and there are leases.

        synced_at_once: writes are durable at once; otherwise a sync is an event.
        """
        self.checks = ExploredChecks()
        super().__init__(0, shape, self.checks, channel)
        self.checks.world = self
        self.timed = timed
        self.pending = Pending(synced_at_once)
        self.explored = [ExploredHost(self, replica, self.pending) for replica in range(shape.replicas)]
        self.hosts: Any = self.explored
        self.network = ExploredNetwork(self.explored, self.own, timed=timed)
        self.net: Any = self.network
        self.budget = Budget()
        self.tracing = False
        """Whether `lines` gets the trace."""
        self._acting = 0
        self._own: set[int] = set(range(shape.replicas))
        self._digests: list[bytes] = [b""] * shape.replicas
        self.touched: set[int] = set()
        """The replicas that the last event changed."""

    def trace(self, line: str) -> None:
        """Add a line to the trace while `tracing`."""
        if self.tracing:
            self.lines.append(line)

    def incarnation(self) -> int:
        """Return a number that no other process of the acting replica has, whatever the order of events."""
        return self.explored[self._acting].life + 1

    def stamp(self) -> int:
        """Return the time stamp of an entry."""
        return self.explored[self._acting].payloads

    # States

    def own(self, replica: int) -> ExploredHost:
        """Return a replica that is about to change: a copy if another state has it, too."""
        self.touched.add(replica)
        if replica not in self._own:
            self._own.add(replica)
            shared = (self, self.checks, self.pending, self.shape, self.shape.settings)
            self.explored[replica] = clone(self.explored[replica], {id(each): each for each in shared})
        return self.explored[replica]

    def save(self) -> WorldState:
        """Return the present state. The world continues with copies."""
        for replica in self._own:
            self._digests[replica] = digest(canonical_form(self.explored[replica], _UNCOMPARED))
        self._own = set()
        memory = self.checks.memory()
        network = self.network
        return WorldState(
            tuple(self.explored),
            tuple(self._digests),
            network.connected,
            dict(network.waiting),
            memory,
            self.budget,
            self.now,
        )

    def restore(self, state: WorldState) -> None:
        """Return to a saved state."""
        self._own = set()
        self.explored[:] = state.hosts
        self._digests[:] = state.digests
        self.network.connected = state.connected
        self.network.waiting = dict(state.waiting)
        memo = {id(host): host for host in state.hosts}
        self.checks.restore([clone(each, memo) for each in state.memory])
        self.budget = state.budget
        self.now = state.steps
        self.pending.actions.clear()

    def fingerprint(self, state: WorldState) -> bytes:
        """Return a hash that is equal for equal states."""
        history = [
            [
                canonical_form(values[name], UNCOMPARED_HISTORY)
                for name in values
                if name not in UNCOMPARED_HISTORY
            ]
            for values in state.memory
        ]
        return digest(
            (
                state.digests,
                sorted(state.connected),
                sorted(state.waiting.items()),
                attrs.astuple(state.budget),
                self.checks.exits_by_view(),
                history,
            )
        )

    # Events

    def events(self) -> list[Event]:
        """Return the events that are possible next."""
        network, budget = self.network, self.budget
        running = [host.replica for host in self.explored if host.running]
        found: list[Event] = []
        for pair, queue in sorted(network.waiting.items()):
            found.append(("deliver", *pair))
            found += [(kind, *pair) for kind in ("lose", "twice") if getattr(budget, kind)]
            if budget.overtake and len(queue) > 1:
                found.append(("overtake", *pair))
        for one in running if not budget.apart else ():
            found += [("connect", one, o) for o in running if one < o and (one, o) not in network.connected]
        if budget.cut:
            found += [("cut", *pair) for pair in sorted(network.connected)]
        for host in self.explored:
            one, waits = host.replica, 0 if host.disk is None else len(host.disk.waiting)
            if not host.running:
                found += [("start", one, one)] * (not budget.stay and not host.retired)
                continue
            if waits:
                found.append(("sync", one, one))
            if budget.crash:
                found += [("crash", one, survive) for survive in range(waits + 1)]
            if not self.timed:
                found += [(kind, one, one) for kind in ("tick", "late") if getattr(budget, kind)]
            if budget.submit and host.channel.can_submit:
                found.append(("submit", one, one))
            if budget.remove and host.channel.can_submit and len(host.channel.members) > 2:
                found.append(("remove", one, host.channel.members[-1]))
            if budget.forward and host.channel.can_forward and host.channel.role in ("slave", "changing"):
                found.append(("forward", one, one))
        if self.timed and budget.tick:
            found.append(("tick", -1, -1))
        if budget.outage and running:
            found.append(("outage", -1, -1))
        return found

    def execute(self, event: Event) -> None:
        """Execute one event. Raises Violation."""
        kind, one, other = event
        self.now += 1.0
        self.touched = set()
        if kind in BUDGETED:
            self.budget = self.budget.less(kind)
        getattr(self, f"_{kind}")(one, other)
        while self.pending.actions:
            host, action = self.pending.actions.pop(0)
            if host.running:
                action()
                host.settle()

    def _deliver(self, one: int, other: int) -> None:
        self._receive(one, other, self.network.pop(one, other))

    def _receive(self, one: int, other: int, message: Message) -> None:
        if self.tracing:
            self.trace(str(message))
        self.own(other).deliver(one, message)

    def _lose(self, one: int, other: int) -> None:
        self.touched.add(other)
        self.network.pop(one, other)

    def _twice(self, one: int, other: int) -> None:
        self._receive(one, other, self.network.pop(one, other, keep=True))

    def _overtake(self, one: int, other: int) -> None:
        self._receive(one, other, self.network.pop(one, other, 1))

    def _connect(self, one: int, other: int) -> None:
        self.network.connect(one, other)

    def _cut(self, one: int, other: int) -> None:
        self.network.close(one, other)

    def _start(self, one: int, _: int) -> None:
        self._acting = one
        self.own(one).start()

    def _crash(self, one: int, survive: int) -> None:
        host = self.own(one)
        host.crash(survive if host.disk is not None and host.disk.waiting else 0)

    def _outage(self, *_: int) -> None:
        for host in list(self.explored):
            if host.running:
                self.own(host.replica).crash(0)

    def _sync(self, one: int, _: int) -> None:
        self.own(one).sync()

    def _tick(self, one: int, _: int) -> None:
        self._let_time_pass(
            [host.replica for host in self.explored if host.running] if self.timed else [one], 1.0
        )

    def _late(self, one: int, _: int) -> None:
        self._let_time_pass([one], LATE_S)

    def _let_time_pass(self, replicas: list[int], by_s: float) -> None:
        """Make all times that these replicas remember older, then let them read their clocks."""
        hosts = [self.own(replica) for replica in replicas]
        for host in hosts:
            shift_times(host.channel, by_s, (self, self.checks, host))
        if self.timed:
            self.network.shift_marks(by_s)
        # A lease ends before the grants that it consists of.
        for host in sorted(hosts, key=lambda host: not host.channel.lease.held):
            host.tick()

    def _submit(self, one: int, _: int) -> None:
        host, self._acting = self.own(one), one
        payload = host.payload()
        self.checks.submitted.add(payload)
        host.submit(payload)

    def _remove(self, one: int, other: int) -> None:
        self._acting = one
        host = self.own(one)
        host.channel.remove(0.0, other)
        host.settle()

    def _forward(self, one: int, _: int) -> None:
        host = self.own(one)
        host.forward(host.payload())

    # Steps to a start state

    def prepare(self, *events: Event) -> None:
        """Execute events without using the budget."""
        for event in events:
            budget = self.budget
            self.execute(event)
            self.budget = budget

    def connect_all(self, replicas: Iterable[int]) -> None:
        """Connect some replicas with each other, unless they are connected."""
        some, known = sorted(replicas), self.network.connected
        self.prepare(*[("connect", a, b) for a in some for b in some if a < b and (a, b) not in known])

    def deliver_all(self, holds: Callable[[], bool] = lambda: False) -> bool:
        """Deliver messages in order until none is left or a condition holds. Return whether it holds."""
        while not holds() and self.network.waiting:
            self.prepare(("deliver", *min(self.network.waiting)))
        return holds()

    def settle(self, rounds: int = 6) -> None:
        """Deliver everything and let a little time pass, `rounds` times."""
        for _ in range(rounds):
            self.deliver_all()
            self._tick_all()
        self.deliver_all()

    def until(self, holds: Callable[[], bool], rounds: int = 40) -> None:
        """Deliver messages and let time pass until a condition holds. Raises AssertionError."""
        for _ in range(rounds):
            if self.deliver_all(holds):
                return
            self._tick_all()
        roles = [(host.channel.role, host.channel.members) for host in self.explored if host.running]
        raise AssertionError(f"not within {rounds} rounds: {roles}")

    def _tick_all(self) -> None:
        running = [host.replica for host in self.explored if host.running]
        self.prepare(*([("tick", -1, -1)] if self.timed else [("tick", one, one) for one in running]))
