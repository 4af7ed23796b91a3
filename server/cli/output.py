"""The standard output of a process that goes on when it cannot be written."""

import contextlib
import io
import sys
import threading
from collections.abc import Callable

import click

from ...output import drop_output

__all__ = ["Printer"]


class Printer:
    """Prints as long as that works. After the first failure it prints nothing more, and says so once."""

    def __init__(self, what: str) -> None:
        """`what` goes on then, with the verb: "the replicas go on"."""
        self._what = what
        self._lock = threading.Lock()
        self._failed = False
        if isinstance(sys.stdout, io.TextIOWrapper):
            # A character that the terminal cannot show is no reason to print no more.
            sys.stdout.reconfigure(errors="backslashreplace")

    def __call__(self, show: Callable[[], object]) -> None:
        """Call `show`, which prints on the standard output. Takes any thread; never fails because of it."""
        with self._lock:
            if self._failed:
                return
            try:
                show()
            except (OSError, ValueError, SystemExit) as error:
                # rich makes SystemExit of a broken pipe; a stream that was closed raises ValueError.
                self._failed = True
                drop_output()
                with contextlib.suppress(OSError, ValueError):
                    click.echo(f"quorate: {_unwritable(error)}: no more is printed; {self._what}", err=True)


def _unwritable(error: BaseException) -> str:
    """That the standard output cannot be written, and why."""
    reason = "nobody reads it any more"
    if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
        reason = error.strerror or str(error)
    return f"the standard output cannot be written ({reason})"
