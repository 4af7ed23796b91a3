"""Handling of a standard output that cannot be written any more."""

import contextlib
import os
import sys

__all__ = ["drop_output"]


def drop_output() -> None:
    """Redirect the standard output to nowhere, so that buffered text does not raise again at exit."""
    # AttributeError: the process has no standard output.
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
