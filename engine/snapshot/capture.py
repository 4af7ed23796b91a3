"""The changes of an engine's state, as of one entry, for a store that holds the state before them."""

from collections.abc import Callable, Sequence

from ...agents import AgentId
from ..cell import AgentState, Cell

__all__ = ["Capture"]


class Capture:
    """The agents that have changed up to the entry `index`. Made by `Engine.capture`.

    The agents are encoded step by step while the engine applies entries; an agent that is about to change is
    encoded before. So the capture is as of one entry, and a step is short with any number of agents.
    """

    def __init__(
        self,
        index: int,
        header: bytes,
        full: bool,
        covered: Sequence[AgentId],
        find: Callable[[AgentId], Cell | None],
    ) -> None:
        self.index = index
        """The state is the one after this entry."""
        self.header = header
        """The state without its agents, for `Engine.load`."""
        self.full = full
        """True if the capture has all agents; otherwise the others are unchanged since the last capture."""
        self.covered = covered
        """All agents that are new, changed or deleted."""
        self.agents: list[AgentState] = []
        """Agents that are new or may have changed. Complete once `step` has returned True."""
        self.deleted: list[AgentId] = []
        """Agents that were deleted."""
        self.size_bytes = len(header)
        """Bytes of the header and of the agents encoded so far."""
        self.flaws: list[str] = []
        """The agents whose state cannot be stored any more, and why. Their last state that could be stored is
        kept, with the reactions since."""
        self.staged = False
        """True if the store has received the agents in parts before, so that it only deletes `deleted`."""
        self.written = False
        """True once the whole capture is in the store; the caller sets it."""
        self._find = find
        self._pending: dict[AgentId, None] = {}
        for identity in covered:
            if find(identity) is None:
                self.deleted.append(identity)
            else:
                self._pending[identity] = None

    @property
    def done(self) -> bool:
        """True once all agents are encoded."""
        return not self._pending

    def step(self, limit: int | None = None, max_bytes: int | None = None) -> bool:
        """Encode up to `limit` agents, or until `max_bytes` more are encoded; without limits, all of them.

        Return True once all agents are encoded.
        """
        stop = None if max_bytes is None else self.size_bytes + max_bytes
        while self._pending and limit != 0 and (stop is None or self.size_bytes < stop):
            cell = self._find(self._pending.popitem()[0])
            assert cell is not None
            self._encode(cell)
            limit = None if limit is None else limit - 1
        return self.done

    def before_change(self, cell: Cell) -> None:
        """Encode an agent that is about to change or to be removed, if it is still pending."""
        if cell.identity in self._pending:
            del self._pending[cell.identity]
            self._encode(cell)

    def _encode(self, cell: Cell) -> None:
        state, flaw = cell.stored()
        if flaw:
            self.flaws.append(flaw)
        self.size_bytes += len(state.state)
        self.agents.append(state)
