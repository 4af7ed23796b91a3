"""The lines that agents write to the log: their form and their rate."""

from collections.abc import Sequence
from typing import Final

import attrs

from ..agents import AgentId
from .cell import Cell
from .error_text import printable

__all__ = ["MAX_AGENT_LINES_PER_S", "MAX_LINES_PER_S", "AgentLog"]

MAX_AGENT_LINES_PER_S: Final = 20
"""Lines of one agent within a second of the log's time; further ones are only counted."""
MAX_LINES_PER_S: Final = 100
"""Lines of all agents of a server within that second."""
_SECOND_NS: Final = 1_000_000_000


@attrs.define(eq=False)
class AgentLog:
    """Counts the lines of agents within one second of the log's time, and forms those that are not too many.

    Its counts are no part of the replicated state, and begin anew with a start.
    """

    _second: int = 0
    _written: int = 0
    _agents: dict[AgentId, int] = attrs.field(factory=dict[AgentId, int])
    _left_out: int = 0

    def lines(self, cell: Cell, texts: Sequence[str], dropped: int, now_ns: int) -> list[str]:
        """Return the lines for the log. `dropped` is the number of texts that the context did not keep."""
        found: list[str] = []
        second = now_ns // _SECOND_NS
        if second != self._second:
            self._second, self._written = second, 0
            self._agents.clear()
            if self._left_out:
                found.append(
                    f"{self._left_out} lines of agents were left out: agents write too many a second"
                )
                self._left_out = 0
        self._left_out += dropped
        name = f" {cell.name!r}" if cell.name else ""
        for text in texts:
            of_agent = self._agents.get(cell.identity, 0)
            if self._written >= MAX_LINES_PER_S or of_agent >= MAX_AGENT_LINES_PER_S:
                self._left_out += 1
                continue
            self._written += 1
            self._agents[cell.identity] = of_agent + 1
            found.append(f"agent {cell.identity}{name} ({cell.spec.name}): {printable(text)}")
        return found
