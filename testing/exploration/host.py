"""Replicas of an exploration, which act only on events, and invariants that can be restored."""

from collections.abc import Callable
from typing import Any

import attrs

from ..channel.application_driver import ApplicationDriver
from ..channel.channel_driver import ChannelDriver
from ..channel.host import Host
from ..channel.machine import Machine
from ..channel.world import World
from ..checks import Checks, Process

__all__ = ["UNCOMPARED_HISTORY", "ExploredChecks", "ExploredHost", "Pending"]


@attrs.define(eq=False)
class Pending:
    """The actions that hosts have postponed, shared by all hosts of a world."""

    synced_at_once: bool
    """Writes are durable at once; False: a sync is an event of the exploration."""
    actions: list[tuple["ExploredHost", Callable[[], None]]] = attrs.field(
        factory=list[tuple["ExploredHost", Callable[[], None]]]
    )


class _ExploredMachine(Machine):
    host: "ExploredHost"

    def read_clock(self) -> float:
        """Return 0: an exploration has no clock, and shifts the times that a channel remembers."""
        return 0.0

    def sync_later(self) -> None:
        if self.host.pending.synced_at_once:
            self.host.postpone(self.sync)

    def sync(self) -> None:
        """Make the first waiting write durable."""
        host, disk = self.host, self.disk
        if disk is not None and disk.waiting:
            host.world.observer.synced(host, [disk.waiting[0]])
            token = disk.sync(1)
            if disk.waiting:
                self.sync_later()
            if token:
                host.driver.act(lambda: host.channel.persisted(0.0, token))


class _ExploredApplication(ApplicationDriver):
    host: "ExploredHost"

    def later(self, action: Callable[[], None]) -> None:
        self.host.postpone(action)


class _ExploredDriver(ChannelDriver):
    def set_alarm(self) -> None:
        """Set no alarm: the passing of time is an event."""


class ExploredHost(Host):
    """A replica without a clock. Its postponed actions run after the present event, or are events."""

    machine: _ExploredMachine

    def __init__(self, world: World, replica: int, pending: Pending) -> None:
        self.pending = pending
        self.payloads = 0
        """The number of payloads that its clients have submitted."""
        super().__init__(world, replica)

    def _parts(self) -> tuple[Machine, ApplicationDriver, ChannelDriver]:
        return _ExploredMachine(self), _ExploredApplication(self), _ExploredDriver(self)

    def postpone(self, action: Callable[[], None]) -> None:
        """Call `action` after the present event."""
        self.pending.actions.append((self, action))

    def payload(self) -> bytes:
        """Return a new payload; events at other replicas do not change it."""
        self.payloads += 1
        return b"%d.%d.%d" % (self.replica, self.life, self.payloads)

    def sync(self) -> None:
        """Make the first waiting write durable."""
        self.machine.sync()

    def tick(self) -> None:
        """Let the channel read the clock."""
        self.driver.act(lambda: self.channel.tick(0.0))


class ExploredChecks(Checks):
    """All invariants, over a history that can be saved and restored."""

    def begin(self, host: Host) -> Process:
        """Begin the history of a process; its number does not depend on events at other replicas."""
        process = super().begin(host)
        process.life = 100 * host.replica + host.life
        return process

    def memory(self) -> list[dict[str, Any]]:
        """Return everything that checkers remember. The caller copies it with `clone` before a change."""
        return [
            {name: value for name, value in vars(each).items() if name not in _NO_MEMORY}
            for each in (self, *self.checkers)
        ]

    def restore(self, memory: list[dict[str, Any]]) -> None:
        """Replace everything that checkers remember."""
        for each, values in zip((self, *self.checkers), memory, strict=True):
            vars(each).update(values)

    def exits_by_view(self) -> list[Any]:
        """Return for each active view the voters that have sent EXIT since: only these times matter."""
        return [
            (number, sorted(voter for voter, at in self.exits.items() if at >= since))
            for number, since in sorted(self.since.items())
        ]


_NO_MEMORY = frozenset({"world", "checkers", "past", "_on_started", "_on_accepting", "_on_activated"}) | {
    "_on_stepped",
    "_on_quiet",
    "_on_delivered",
}
UNCOMPARED_HISTORY = _NO_MEMORY | {
    "since",
    "exits",
    "counts",
    "seen",
    "_lives",
    "_granted",
    "_over",
    "observed",
}
"""Attributes of checkers in which equal states may differ: times, counts and caches."""
