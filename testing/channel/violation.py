"""The error that a checker raises."""

from typing import Any

__all__ = ["Violation"]


class Violation(AssertionError):
    """An invariant does not hold: which one, and at which virtual second."""

    def __init__(self, text: str, *, invariant: str = "", at: float = 0.0) -> None:
        super().__init__(text)
        self.invariant = invariant or text.partition(":")[0]
        """The name of the invariant: I4."""
        self.at = at
        self.seed: int | None = None
        """Of the run it was found in."""
        self.trace: list[str] = []
        """The last lines of the run."""
        self.result: Any = None
        """A `quorate.testing.Result`: what the run saw until then, where `simulate` ran it."""
