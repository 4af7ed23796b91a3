"""The file in which a replica that does not answer says what it runs, for commands on the same machine."""

import contextlib
import signal
from pathlib import Path
from typing import Final

import msgspec

from .private_files import private_opener
from .skip_orders import SkipOrder

__all__ = ["INTERRUPT_SIGNAL", "RunningReport", "read_running", "remove_running", "write_running"]

FILE = "running"
INTERRUPT_SIGNAL: Final = signal.SIGUSR2
"""Makes a replica write the file if it runs a reaction, and interrupts the reaction if it is to be skipped.

A signal, unlike an exception that another thread sets, also ends a sleep or a wait in C code, and its handler
can look in the reaction's own thread whether that reaction still runs."""


class RunningReport(msgspec.Struct, frozen=True):
    """The entry that a replica has been applying for long, and the reaction that it runs."""

    pid: int
    entry: int
    birth: int
    seconds: float | None
    """How long the entry had been running when this was written; None if that is unknown."""
    position: int = 0
    """The reaction; 0 if no code of an agent runs, and the fields below are empty."""
    agent: str = ""
    cls: str = ""
    type: str = ""
    sender: str = ""

    @property
    def sentence(self) -> str:
        """What runs, without full stop."""
        head = f"entry {self.entry} "
        head += "runs" if self.seconds is None else f"has been running for {self.seconds:.0f} s"
        if not self.position:
            return f"{head}, at present no code of an agent"
        cls = f" ({self.cls})" if self.cls else ""
        return (
            f"{head}: agent {self.agent}{cls} reacts to {self.type} from {self.sender}, "
            f"reaction {self.position}"
        )

    @property
    def reaction(self) -> SkipOrder | None:
        """The reaction, as an order to skip names it; None if no code of an agent runs."""
        return SkipOrder(self.entry, self.position, self.birth) if self.position else None


def write_running(directory: Path, report: RunningReport) -> None:
    """Replace the file of a replica. A disk that refuses leaves the old one."""
    fresh = directory / f"{FILE}.new"
    with contextlib.suppress(OSError):
        with open(fresh, "wb", opener=private_opener) as file:
            file.write(msgspec.json.encode(report))
        fresh.replace(directory / FILE)


def remove_running(directory: Path) -> None:
    """Remove the file: the replica answers again, or starts."""
    with contextlib.suppress(OSError):
        (directory / FILE).unlink()


def read_running(directory: Path) -> RunningReport | None:
    """Return what the file says; None if there is none, or it cannot be read."""
    try:
        return msgspec.json.decode((directory / FILE).read_bytes(), type=RunningReport)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
