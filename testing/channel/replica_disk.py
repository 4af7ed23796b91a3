"""What the machine of a simulated replica has: a disk that forgets nothing it has confirmed.

A disk that is asked for what no journal could do is a violation.
"""

from ...hachannel import Deliver
from ...hachannel.journal.durable_log import Remembered
from ...hachannel.model.messages import PAYLOAD
from .application import App, Saved
from .disk import DiskError, SimulatedDisk, Write
from .violation import Violation

__all__ = ["Disk"]


class Disk(SimulatedDisk[Saved]):
    """The disk of one replica, and whose voter's it is. What no journal could do is a Violation."""

    def __init__(self, incarnation: int, remembered: Remembered | None = None) -> None:
        super().__init__(Remembered() if remembered is None else remembered)
        self.incarnation = incarnation
        self.state = Saved(0, b"", {})
        self.spoiled = False
        """Something on it is not as it was written: the next start refuses it."""
        self.full = False

    def put(self, write: Write[Saved]) -> None:
        """One write is on the disk."""
        try:
            super().put(write)
        except DiskError as error:
            raise Violation(f"I17: {error}", invariant="I17") from None

    def save(self, state: Saved) -> None:
        """Keep the state."""
        self.state = state

    def recover(self, app: App) -> list[Deliver]:
        """Give an application the saved state; returns what is committed after it."""
        app.load(self.state)
        entries = [self.entries[index] for index in range(self.saved + 1, self.remembered.commit + 1)]
        return [
            Deliver(entry.index, entry.stamp_ns, entry.payload, entry.source)
            for entry in entries
            if entry.kind == PAYLOAD
        ]
