"""The agreement of the replicas of a view on the versions of agent classes. Pure.

Each slave reports to the master which versions its program has. When all can run later versions than those in
use, the master submits the entry with which all of them switch.

| program of a replica | before the switch | at the switch |
|---|---|---|
| former version only | serves | stops: it lacks the class |
| both versions | serves, with the former version | upgrades its agents |
| later version only | votes, is no member | goes on, or gets the state from after the switch |
"""

from collections.abc import Callable
from typing import Final

from ...engine import Effects, Engine, common_versions, version_names
from ...hachannel import Channel, ViewEvent
from .digests import Classes, encode_direct
from .mastership import Mastership

__all__ = ["ClassSwitch"]

FIRST_PAUSE_S: Final = 1.0
LAST_PAUSE_S: Final = 30.0
"""Pauses before a replica that has only later versions asks for the state again, doubled from the first to
the last."""


class ClassSwitch:
    """Reports the classes of this process to the master, and as master begins a switch."""

    def __init__(
        self,
        me: int,
        engine: Engine,
        channel: Channel,
        mastership: Mastership,
        log: Callable[[str], None],
    ) -> None:
        """`log` takes a line for the log."""
        self._me = me
        self._engine = engine
        self._channel = channel
        self._mastership = mastership
        self._log = log
        self._view: ViewEvent | None = None
        self._reports: dict[int, dict[str, list[int]]] = {}
        """The reports of the slaves of the view."""
        self._own: dict[str, list[int]] = {}
        self._known = -1
        """The number of classes that were defined when `_own` was made."""
        self._refused: dict[str, int] | None = None
        """The last versions to which the server did not switch, since an agent could not be upgraded."""
        self._due = False
        self._served = False
        self._pause_s = 0.0

    def begin_view(self, view: ViewEvent) -> None:
        """Begin a view: a slave reports its classes to the master of it."""
        self._view = view
        self._reports.clear()
        self._due = True
        self._report()

    def received(self, replica: int, message: Classes) -> None:
        """Record, as the master, the classes of a slave of the view."""
        self._reports[replica] = message.versions
        self._due = True

    def applied(self, effects: Effects) -> None:
        """Process an applied entry, which may have imported other classes."""
        if effects.switched or effects.refused is not None:
            self._mastership.switching = False
            self._refused = effects.refused
            self._pause_s = 0.0
        if self._known != self._engine.program.definitions():
            self._due = True
            self._report()

    def pending(self, now: float, reason: str) -> None:
        """Process that an entry belongs to the time before the switch to the only classes of this process.

        The replica votes on, and gets the state of another one.
        """
        if self._channel.standing.unfit:
            return
        self._log(reason)
        pause_s = self._pause_s
        self._pause_s = min(max(2 * pause_s, FIRST_PAUSE_S), LAST_PAUSE_S)
        self._channel.disqualify(now, "it has other versions of agent classes than the others", pause_s)

    def check(self, now: float) -> None:
        """Begin a switch if this replica serves, and all members can run later versions than those in use."""
        serving = self._mastership.serving
        if serving != self._served:
            self._served, self._due = serving, True
        if not (self._due and serving) or self._mastership.switching:
            return
        self._due = False
        view, ahead = self._view, self._engine.classes.ahead
        if view is None or not self._reports.keys() >= set(view.members) - {self._me}:
            return
        if not ahead and not self._all_here(view):
            return
        common = common_versions([self._classes(), *(self._reports[each] for each in self._slaves(view))])
        versions = self._engine.classes.newer(common)
        if ahead and not ahead.items() <= versions.items():
            has = version_names(ahead)
            self.pending(now, f"this replica has only {has}, and other replicas of the view lack that")
        elif versions and versions != self._refused:
            self._log(f"all replicas can run {version_names(versions)}: the server switches to that")
            self._mastership.switch(versions)

    def _all_here(self, view: ViewEvent) -> bool:
        """Return whether all replicas of the cluster that hold agents are in the view."""
        holders = {seat.replica for seat in self._channel.seats if not seat.witness}
        return holders <= set(view.members)

    def _slaves(self, view: ViewEvent) -> list[int]:
        return [each for each in view.members if each != self._me]

    def _classes(self) -> dict[str, list[int]]:
        if self._known != self._engine.program.definitions():
            self._known = self._engine.program.definitions()
            self._own = self._engine.program.defined()
        return self._own

    def _report(self) -> None:
        view = self._view
        classes = self._classes()
        if view is not None and view.master != self._me and self._me in view.members:
            self._channel.send_direct(view.master, encode_direct(Classes(classes)))
