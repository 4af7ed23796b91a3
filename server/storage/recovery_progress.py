"""The progress of a recovery, for the log and for whoever started the replica, and its interruption."""

import threading
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Final, Protocol, Self

from ...hachannel.model.messages import Entry
from ..errors import StartInterrupted

__all__ = ["FIRST_REPORT_S", "REPORT_INTERVAL_S", "ProgressHost", "RecoveryProgress"]

FIRST_REPORT_S: Final = 1.0
"""The first report, after the recovery began."""
REPORT_INTERVAL_S: Final = 10.0
"""The interval between two reports after that."""


class ProgressHost(Protocol):
    """The replica."""

    @property
    def interrupted(self) -> bool:
        """The replica was stopped while it starts."""
        ...

    def log(self, line: str) -> None:
        """Write a line to the log."""
        ...

    def announce(self, line: str) -> None:
        """Write a line to the log, and to whoever has started the replica. Called from another thread."""
        ...


class RecoveryProgress:
    """Iterates over entries, which the caller applies, and reports at intervals how many are done.

    A context manager. Iterating raises StartInterrupted before the next entry when the host is interrupted.
    """

    def __init__(self, entries: Sequence[Entry], host: ProgressHost) -> None:
        """`entries` are to be applied, in that order."""
        self.done = 0
        """The number of entries that are applied."""
        self._entries = entries
        self._host = host
        self._over = threading.Event()
        # A reaction may take long, and the reactor is blocked meanwhile: only a thread can report that.
        self._thread = threading.Thread(target=self._report, name="quorate-progress", daemon=True)

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
                progress = f"{self.done} of {len(self._entries)} entries"
                self._host.log(f"stopping: {progress} were applied again; the next start repeats that")
                raise StartInterrupted("The replica was stopped before it had started.")
            yield entry
            self.done += 1

    def _report(self) -> None:
        pause_s = FIRST_REPORT_S
        while not self._over.wait(pause_s):
            self._host.announce(
                f"recovers: {self.done} of the {len(self._entries)} entries committed after its saved state "
                "are applied again; it takes part when all are"
            )
            pause_s = REPORT_INTERVAL_S
