"""I15 in detail: what a state is made of, after a transfer in parts and after every entry that follows."""

from ...hachannel import Deliver, Event, InstallPart
from ..channel_app import Cell
from ..channel_world import Host
from .base import Checker, checker
from .history import History


@checker("I15", "Replicas that have applied the same entries have the same cells, however they got them.")
class EqualCells(Checker):
    """A chain over all entries would not show a cell that a transfer forgot."""

    def __init__(self, past: History) -> None:
        super().__init__(past)
        self._prints: dict[int, frozenset[tuple[int, Cell]]] = {}

    def delivered(self, host: Host, event: Event) -> None:
        """After each entry, and after the last part of a state."""
        if not isinstance(event, Deliver) and not (
            isinstance(event, InstallPart) and event.index is not None
        ):
            return
        index, cells = host.app.index, host.app.print
        if index and self._prints.setdefault(index, cells) != cells:
            self.fail(host, f"its cells differ after entry {index}")
