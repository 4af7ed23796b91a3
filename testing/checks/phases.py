"""The tables of phases are true."""

import attrs

from ...hachannel.phases import START, TABLES
from ..channel_world import Host
from .base import Checker, checker
from .history import History, Process, Step


@checker("phases", "A replica goes from phase to phase only as the tables say.")
class PhasesAllowed(Checker):
    """What docs/states.md shows is what happens."""

    def __init__(self, past: History) -> None:
        super().__init__(past)
        self._last: dict[int, dict[str, str]] = {}
        self.seen: dict[tuple[str, str, str], int] = past.moves
        """How often each (table, source, target)."""

    def started(self, host: Host, process: Process) -> None:  # noqa: ARG002
        """Before the first step."""
        self._last[host.replica] = dict.fromkeys(TABLES, START)

    def stepped(self, step: Step) -> None:
        """Compare with the step before."""
        host = step.host
        now = attrs.asdict(host.channel.phases)
        last, self._last[host.replica] = self._last[host.replica], now
        if now == last:
            return
        for name, table in TABLES.items():
            if not table.allows(last[name], now[name]):
                self.fail(host, f"{table.title}: {now[name]} after {last[name]}")
            if last[name] != now[name]:
                move = (name, last[name], now[name])
                self.seen[move] = self.seen.get(move, 0) + 1
