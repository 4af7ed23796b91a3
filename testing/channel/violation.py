"""The error that a checker raises."""

from typing import Any

__all__ = ["Violation"]


class Violation(AssertionError):
    """Raised when an invariant does not hold. The text names the invariant, the replica and what is wrong."""

    def __init__(self, text: str, *, invariant: str = "", at: float = 0.0) -> None:
        super().__init__(text)
        self.invariant = invariant or text.partition(":")[0]
        """The name of the invariant, such as I4."""
        self.at = at
        """The virtual time, in seconds."""
        self.seed: int | None = None
        """The seed of the run."""
        self.trace: list[str] = []
        """The last lines of the trace."""
        self.result: Any = None
        """The `quorate.testing.Result` of the run until then, if `simulate` ran it."""
