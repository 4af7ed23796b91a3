"""The reaction that the engine runs now, for other threads to read, and the administrator's orders to skip.

A reaction that does not end stops its server: it runs in the only thread that could do anything else. Another
thread reads here what runs, and adds an order to skip it; a signal handler, which runs in the engine's thread
at any point of the reaction, then calls `interrupt`. A reaction that is skipped fails like one that raises.

The result must not depend on when the order came. A reaction is therefore skipped if the order is known
before it runs, at any point of it, or when it has just ended; and each of these has the same outcome.
"""

from collections.abc import Mapping
from typing import Final, Protocol

from ..agents import AgentId, AgentSpec, Note

__all__ = ["SKIPPED", "CurrentReaction", "RunningAgent", "Skipped"]

SKIPPED: Final = "skipped by the administrator"


class Skipped(BaseException):
    """Raised in place of a reaction that the administrator skips, or within it."""

    def __init__(self) -> None:
        super().__init__(SKIPPED)


class RunningAgent(Protocol):
    """The agent whose reaction runs: a `Cell`."""

    identity: AgentId
    name: str | None
    spec: AgentSpec


_NONE: Final[Mapping[int, tuple[int, int]]] = {}


class CurrentReaction:
    """What an engine runs at this moment. The engine's thread writes `entry` and `running`, others `skips`.

    `running` is set while code of an agent runs: only then may `interrupt` raise.
    """

    __slots__ = ("birth", "entry", "running", "skipped", "skips")

    def __init__(self) -> None:
        self.entry = 0
        """The entry that is being applied; 0 between entries."""
        self.birth = 0
        """The birth of the engine's state, see `EngineState`: another life has other entries."""
        self.running: tuple[int, Note, RunningAgent | None] | None = None
        """Position, notification and agent of the reaction, another tuple for each; None between reactions.
        The agent is None when the factory creates one."""
        self.skips: Mapping[int, tuple[int, int]] = _NONE
        """Orders to skip: entry and birth, by the position of the reaction. Replaced as a whole, never
        changed."""
        self.skipped = 0
        """The position of the last reaction that was skipped; 0: none was."""

    @property
    def to_skip(self) -> bool:
        """Whether the running reaction is to be skipped."""
        running = self.running
        return running is not None and self.skips.get(running[0]) == (self.entry, self.birth)

    def check(self, position: int) -> None:
        """Raise Skipped if the reaction at this position is to be skipped."""
        if self.skips.get(position) == (self.entry, self.birth):
            self.skipped = position
            raise Skipped

    def interrupt(self) -> None:
        """Raise Skipped if the running reaction is to be skipped. Called in the engine's thread."""
        if self.to_skip:
            raise Skipped
