"""How far a replica is that applies again what its disk has, and whether it is to go on with that."""

import threading
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Final, Protocol, Self

from ...hachannel.model.messages import Entry
from ..errors import StartInterrupted

__all__ = ["ProgressHost", "RecoveryProgress"]

FIRST_S: Final = 1.0
"""What has lasted so long is told."""
AGAIN_S: Final = 10.0
"""And how far it is, every so often."""


class ProgressHost(Protocol):
    """The replica."""

    @property
    def interrupted(self) -> bool:
        """The start is to be given up."""
        ...

    def log(self, line: str) -> None:
        """Write a line to the log."""
        ...

    def tell(self, line: str) -> None:
        """Write a line to the log, and to whoever has started the replica. Called from another thread."""
        ...


class RecoveryProgress:
    """Iterates over entries that are applied meanwhile, and tells now and then how far that is.

    A context manager. Iterating raises StartInterrupted before the next entry when the host is interrupted.
    """

    def __init__(self, entries: Sequence[Entry], host: ProgressHost) -> None:
        """`entries` to apply."""
        self.done = 0
        """Entries that were applied."""
        self._entries = entries
        self._host = host
        self._over = threading.Event()
        # A reaction may take any time, in which the reactor does nothing: only a thread can say so.
        self._thread = threading.Thread(target=self._watch, name="quorate-progress", daemon=True)

    def __enter__(self) -> Self:
        if self._entries:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._entries:
            self._thread.join()

    def __iter__(self) -> Iterator[Entry]:
        for entry in self._entries:
            if self._host.interrupted:
                far = f"{self.done} of {len(self._entries)} entries"
                self._host.log(f"stopping: {far} were applied again, the next start begins anew with them")
                raise StartInterrupted("The replica was stopped before it had started.")
            yield entry
            self.done += 1

    def _watch(self) -> None:
        pause_s = FIRST_S
        while not self._over.wait(pause_s):
            self._host.tell(
                f"applies again what was committed after it saved its state: {self.done} of "
                f"{len(self._entries)} entries are done; it takes part after that"
            )
            pause_s = AGAIN_S
