"""Output of a process that continues when its standard output cannot be written."""

import contextlib
import threading
from collections.abc import Callable

import click

from ...output import drop_output

__all__ = ["Printer"]


class Printer:
    """Prints until the standard output fails; reports that once on the standard error, and drops the rest."""

    def __init__(self, outcome: str) -> None:
        """`outcome` ends the report, for example "the replicas continue"."""
        self._outcome = outcome
        self._lock = threading.Lock()
        self._failed = False

    def __call__(self, show: Callable[[], object]) -> None:
        """Call `show`, which prints on the standard output. Thread-safe; never raises for a failed output."""
        with self._lock:
            if self._failed:
                return
            try:
                show()
            except (OSError, ValueError, SystemExit) as error:
                # rich turns a broken pipe into SystemExit; a closed stream raises ValueError.
                self._failed = True
                drop_output()
                with contextlib.suppress(OSError, ValueError):
                    click.echo(
                        f"quorate: {_failure(error)}: nothing more is printed; {self._outcome}", err=True
                    )


def _failure(error: BaseException) -> str:
    """Say why the standard output cannot be written."""
    reason = "its reader has gone"
    if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
        reason = error.strerror or str(error)
    return f"the standard output cannot be written ({reason})"
