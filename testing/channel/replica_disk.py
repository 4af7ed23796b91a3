"""The disk of a simulated replica, which keeps everything that it has confirmed."""

from ...hachannel import Deliver
from ...hachannel.journal.durable_log import Remembered
from ...hachannel.model.messages import PAYLOAD
from .application import App, Saved
from .disk import DiskError, SimulatedDisk, Write
from .violation import Violation

__all__ = ["Disk"]


class Disk(SimulatedDisk[Saved]):
    """The disk of one replica. A write that no journal could do raises Violation."""

    def __init__(self, incarnation: int, remembered: Remembered | None = None) -> None:
        super().__init__(Remembered() if remembered is None else remembered)
        self.incarnation = incarnation
        self.state = Saved(0, b"", {})
        self.spoiled = False
        """Whether something on it is corrupt: the next start refuses it."""
        self.full = False
        """Whether no space is left."""

    def put(self, write: Write[Saved]) -> None:
        """Make one write durable."""
        try:
            super().put(write)
        except DiskError as error:
            raise Violation(f"I17: {error}", invariant="I17") from None

    def save(self, state: Saved) -> None:
        """Keep a state of the application."""
        self.state = state

    def recover(self, app: App) -> list[Deliver]:
        """Load the saved state into an application, and return the committed entries after it."""
        app.load(self.state)
        entries = [self.entries[index] for index in range(self.saved + 1, self.remembered.commit + 1)]
        return [
            Deliver(entry.index, entry.stamp_ns, entry.payload, entry.source)
            for entry in entries
            if entry.kind == PAYLOAD
        ]
