"""The phases of a replica follow the tables of docs/states.md."""

from ...hachannel.protocol.phases import START, TABLES, Phases
from ..channel.host import Host
from .base import Checker, checker
from .history import History, Process, Step


@checker("phases", "A replica goes from phase to phase only as the tables say.")
class PhaseTransitions(Checker):
    """Every move between phases is one that the tables allow."""

    skips_quiet_steps = True

    def __init__(self, past: History) -> None:
        super().__init__(past)
        self._last: dict[int, Phases] = {}
        self.seen: dict[tuple[str, str, str], int] = past.moves
        """The number of each move: (table, from, to)."""

    def started(self, host: Host, process: Process) -> None:  # noqa: ARG002
        """A process starts in the first phase of each table."""
        self._last[host.replica] = Phases(**dict.fromkeys(TABLES, START))

    def stepped(self, step: Step) -> None:
        """Compare the phases with those after the last step."""
        host = step.host
        now = host.channel.phases
        last, self._last[host.replica] = self._last[host.replica], now
        if now == last:
            return
        for name, table in TABLES.items():
            source, target = getattr(last, name), getattr(now, name)
            if not table.allows(source, target):
                self.fail(host, f"{table.title}: {target} after {source}")
            if source != target:
                move = (name, source, target)
                self.seen[move] = self.seen.get(move, 0) + 1
