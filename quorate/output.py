"""The standard output when it cannot be written any more."""

import contextlib
import os
import sys

__all__ = ["drop_output"]


def drop_output() -> None:
    """Write nothing more to the standard output: what is still buffered must not raise again at exit."""
    # AttributeError: there is none.
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
