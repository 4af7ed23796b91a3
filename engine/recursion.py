"""The recursion limit that agent code sees: the same on every replica, in every role, for every caller.

Python counts nested calls from the bottom of the stack. A reaction near the limit would therefore end in
RecursionError on one replica and not on another, whose reactor calls the engine a few frames deeper. The
engine sets the limit relative to the present depth instead: before it applies an entry, and before it loads
an agent or runs a reaction again.
"""

import sys
from typing import Final

__all__ = ["FRAMES_TO_REACTION", "REACTION_DEPTH", "FixedDepth", "stack_depth"]

REACTION_DEPTH: Final = 1000
"""Calls that a reaction may nest, the call of the agent's method included."""
FRAMES_TO_REACTION: Final = 7
"""Calls from `Engine.apply` to an agent's method: _apply, _process, _turn, _deliver, react, _run, method."""


class FixedDepth:
    """Context manager. `REACTION_DEPTH` calls can nest from the frame `frames` calls below its body."""

    __slots__ = ("_former", "_frames")

    def __init__(self, frames: int) -> None:
        self._frames = frames
        self._former = 0

    def __enter__(self) -> None:
        self._former = sys.getrecursionlimit()
        sys.setrecursionlimit(stack_depth() - 1 + self._frames + REACTION_DEPTH)

    def __exit__(self, *_: object) -> None:
        sys.setrecursionlimit(self._former)


def stack_depth() -> int:
    """Return how many calls are nested now, the one of this function not included, as Python counts them.

    Counting frames is not enough: calls through some C functions count as well. Python tells the number only
    when it refuses a limit below it, and changes nothing then.
    """
    try:
        sys.setrecursionlimit(1)
    except RecursionError as error:
        return int(str(error).partition(" depth ")[2].partition(":")[0]) - 1
    raise RuntimeError("Python accepted a recursion limit of 1")
