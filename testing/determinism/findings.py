"""What the guard reports: a place in the code of an agent where replicas may come to different results."""

from collections.abc import Sequence

import attrs

from .calls import ADVICE

__all__ = ["Finding", "NondeterministicReaction"]


@attrs.frozen
class Finding:
    """A line in the code of an agent that uses something which differs between replicas."""

    file: str
    line: int
    function: str
    """The function that the line belongs to."""
    kind: str
    """clock, randomness, environment, file, socket, process, thread, identity, hash, order or global."""
    used: str
    """What was used, for example ``time.time``."""
    agent: str
    """The class of the agent whose reaction it was."""
    notification: str
    """The type of the notification to which it reacted."""

    def __str__(self) -> str:
        return (
            f"{self.file}:{self.line}: {self.function} uses {self.used} while {self.agent} reacts to "
            f"{self.notification}; {ADVICE[self.kind]}"
        )


class NondeterministicReaction(AssertionError):
    """Raised for reactions that may differ between replicas. `findings` says where."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        self.findings = list(findings)
        lines = "\n".join(f"  {finding}" for finding in self.findings)
        super().__init__(f"replicas would come to different states:\n{lines}")
