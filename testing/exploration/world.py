"""A cluster of real channels in which everything that happens is chosen from outside, event after event.

There is no clock: that time passes at a replica is an event, and makes whatever the replica remembers older.
A closed connection is a suspicion at once; silence is none. What the application has to do it does at once.
A place can be kept and gone back to: what an event does not touch is shared between the places.
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
"""With one tick everything that is repeated is due, and nothing that is given up."""

LATE_S = 20.0
"""After so much time whatever waits for others has given up."""

# The cells of an application follow from its chain.
_UNCOMPARED = frozenset(
    {"world", "_clock", "checks", "host", "pending", "settings", "_settings", "syncs", "cells"}
)
"""Attributes of hosts that do not tell two states apart: see `canonical_form`."""


@attrs.frozen(eq=False)
class WorldState:
    """A state of everything, kept to go back to. Nothing in it is changed any more."""

    hosts: tuple[ExploredHost, ...]
    digests: tuple[bytes, ...]
    connected: frozenset[tuple[int, int]]
    waiting: dict[tuple[int, int], tuple[Message, ...]]
    memory: list[dict[str, Any]]
    budget: Budget
    steps: float


class ExploredWorld(World):
    """A world whose events are chosen from outside. It is at one place at a time."""

    def __init__(
        self,
        shape: Shape,
        channel: Callable[..., Channel] = Channel,
        *,
        timed: bool = False,
        synced_at_once: bool = True,
    ) -> None:
        """timed: clocks agree, and time passes for all at once; there are leases.

        synced_at_once: what is written to a disk is durable at once; otherwise that is an event.
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
        """What replicas say is kept in `lines`."""
        self._acting = 0
        self._own: set[int] = set(range(shape.replicas))
        self._digests: list[bytes] = [b""] * shape.replicas
        self.touched: set[int] = set()
        """The replicas that the last event changed."""

    def trace(self, line: str) -> None:
        """Nothing, unless it is to be told."""
        if self.tracing:
            self.lines.append(line)

    def incarnation(self) -> int:
        """A number no other process of the replica that starts uses; the same in every order of events."""
        return self.explored[self._acting].life + 1

    def stamp(self) -> int:
        """What a master's clock reads."""
        return self.explored[self._acting].payloads

    # Places

    def own(self, replica: int) -> ExploredHost:
        """A replica that is about to change: a copy, where another place has it, too."""
        self.touched.add(replica)
        if replica not in self._own:
            self._own.add(replica)
            shared = (self, self.checks, self.pending, self.shape, self.shape.settings)
            self.explored[replica] = clone(self.explored[replica], {id(each): each for each in shared})
        return self.explored[replica]

    def keep(self) -> WorldState:
        """Where this world is. It goes on with copies."""
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

    def go(self, place: WorldState) -> None:
        """Be at a place that was kept."""
        self._own = set()
        self.explored[:] = place.hosts
        self._digests[:] = place.digests
        self.network.connected = place.connected
        self.network.waiting = dict(place.waiting)
        memo = {id(host): host for host in place.hosts}
        self.checks.restore([clone(each, memo) for each in place.memory])
        self.budget = place.budget
        self.now = place.steps
        self.pending.actions.clear()

    def print(self, place: WorldState) -> bytes:
        """What tells a place from others."""
        history = [
            [
                canonical_form(values[name], UNCOMPARED_HISTORY)
                for name in values
                if name not in UNCOMPARED_HISTORY
            ]
            for values in place.memory
        ]
        return digest(
            (
                place.digests,
                sorted(place.connected),
                sorted(place.waiting.items()),
                attrs.astuple(place.budget),
                self.checks.exits_by_view(),
                history,
            )
        )

    # Events

    def events(self) -> list[Event]:
        """What can happen next."""
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

    def happen(self, event: Event) -> None:
        """Let one event happen. Raises Violation."""
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
        self._hand(one, other, self.network.pop(one, other))

    def _hand(self, one: int, other: int, message: Message) -> None:
        if self.tracing:
            self.trace(str(message))
        self.own(other).deliver(one, message)

    def _lose(self, one: int, other: int) -> None:
        self.touched.add(other)
        self.network.pop(one, other)

    def _twice(self, one: int, other: int) -> None:
        self._hand(one, other, self.network.pop(one, other, keep=True))

    def _overtake(self, one: int, other: int) -> None:
        self._hand(one, other, self.network.pop(one, other, 1))

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
        self._pass([host.replica for host in self.explored if host.running] if self.timed else [one], 1.0)

    def _late(self, one: int, _: int) -> None:
        self._pass([one], LATE_S)

    def _pass(self, replicas: list[int], by_s: float) -> None:
        """Time passes."""
        hosts = [self.own(replica) for replica in replicas]
        for host in hosts:
            shift_times(host.channel, by_s, (self, self.checks, host))
        if self.timed:
            self.network.shift_marks(by_s)
        # A lease is over before the grants it is made of are.
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

    # The way to a place

    def do(self, *events: Event) -> None:
        """Let these happen, whatever the budget says."""
        for event in events:
            budget = self.budget
            self.happen(event)
            self.budget = budget

    def link_up(self, replicas: Iterable[int]) -> None:
        """Connect some replicas with each other, where they are not."""
        some, known = sorted(replicas), self.network.connected
        self.do(*[("connect", a, b) for a in some for b in some if a < b and (a, b) not in known])

    def hand_over(self, holds: Callable[[], bool] = lambda: False) -> bool:
        """Deliver what is under way, in order, until nothing is left or something holds; says whether."""
        while not holds() and self.network.waiting:
            self.do(("deliver", *min(self.network.waiting)))
        return holds()

    def settle(self, rounds: int = 6) -> None:
        """Deliver everything, and let a little time pass, so many times."""
        for _ in range(rounds):
            self.hand_over()
            self._everybody_ticks()
        self.hand_over()

    def until(self, holds: Callable[[], bool], rounds: int = 40) -> None:
        """Deliver, and let time pass, until something holds. Raises AssertionError."""
        for _ in range(rounds):
            if self.hand_over(holds):
                return
            self._everybody_ticks()
        roles = [(host.channel.role, host.channel.members) for host in self.explored if host.running]
        raise AssertionError(f"not within {rounds} rounds: {roles}")

    def _everybody_ticks(self) -> None:
        running = [host.replica for host in self.explored if host.running]
        self.do(*([("tick", -1, -1)] if self.timed else [("tick", one, one) for one in running]))
