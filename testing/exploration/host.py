"""A replica whose clock, disk and application do what they are told, and invariants that can go back."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..channel.world import Host
from ..checks import Checks, Process

if TYPE_CHECKING:
    from .world import ExploredWorld

__all__ = ["NOT_OF_HISTORY", "ExploredChecks", "ExploredHost"]


class ExploredHost(Host):
    """A replica without a clock of its own: what it wants to do later is an event, or happens at once."""

    world: "ExploredWorld"
    payloads = 0
    """How many its clients have submitted."""

    def payload(self) -> bytes:
        """Another one, the same in every order of events elsewhere."""
        self.payloads += 1
        return b"%d.%d.%d" % (self.replica, self.life, self.payloads)

    def clock(self) -> float:
        """It is always now."""
        return 0.0

    def _alarm(self) -> None:
        pass

    def _soon(self, action: Callable[[], None]) -> None:
        self.world.soon.append((self, action))

    def _sync_later(self) -> None:
        if self.world.synced_at_once:
            self._soon(self.sync)

    def sync(self) -> None:
        """The first write that waits is on the disk."""
        disk = self.disk
        if disk is not None and disk.waiting:
            self.world.observer.synced(self, [disk.waiting[0]])
            token = disk.sync(1)
            if disk.waiting:
                self._sync_later()
            if token:
                self._act(lambda: self.channel.persisted(0.0, token))

    def tick(self) -> None:
        """Look at the clock."""
        self._act(lambda: self.channel.tick(0.0))


class ExploredChecks(Checks):
    """All invariants, over a history that can be kept and gone back to."""

    def begin(self, host: Host) -> Process:
        """A new process, known by what is the same whatever happened elsewhere."""
        process = super().begin(host)
        process.life = 100 * host.replica + host.life
        return process

    def memory(self) -> list[dict[str, Any]]:
        """Everything that is remembered; it is not to be changed, but copied with `clone`."""
        return [
            {name: value for name, value in vars(each).items() if name not in _NO_MEMORY}
            for each in (self, *self.checkers)
        ]

    def remember(self, memory: list[dict[str, Any]]) -> None:
        """Go back to what was remembered then."""
        for each, values in zip((self, *self.checkers), memory, strict=True):
            vars(each).update(values)

    def said_exit(self) -> list[Any]:
        """In each active view, who has said since that it does not follow: of times only that counts."""
        return [
            (number, sorted(voter for voter, at in self.exits.items() if at >= since))
            for number, since in sorted(self.since.items())
        ]


_NO_MEMORY = frozenset({"world", "checkers", "past", "_on_started", "_on_accepting", "_on_activated"}) | {
    "_on_stepped",
    "_on_quiet",
    "_on_delivered",
}
NOT_OF_HISTORY = _NO_MEMORY | {"since", "exits", "counts", "seen", "_lives", "_granted", "_over", "stood"}
"""Times and counts that tell histories apart and mean nothing, and what spares a check."""
