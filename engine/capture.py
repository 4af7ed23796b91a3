"""The changes of an engine's state, as of one entry, for a store that holds the state before them."""

from collections.abc import Callable, Iterable

from ..agents import AgentId
from .cell import Cell, Unstorable
from .directory import AgentState

__all__ = ["Capture"]


class Capture:
    """What has changed up to the entry `index`. Made by `Engine.capture`.

    The agents are encoded step by step while the engine goes on: one that is about to change is encoded
    before. So all of it is as of one entry, and no step takes long, however many agents there are.
    """

    def __init__(
        self,
        index: int,
        header: bytes,
        full: bool,
        pending: Iterable[AgentId],
        find: Callable[[AgentId], Cell | None],
    ) -> None:
        self.index = index
        """The state is the one after this entry."""
        self.header = header
        """All but the agents: `Engine.load` takes it."""
        self.full = full
        """There is nothing but these agents; else the others are as they were at the last capture."""
        self.agents: list[AgentState] = []
        """Agents that are new or may have changed. Complete once `step` has returned True."""
        self.deleted: list[AgentId] = []
        """Agents that are no more."""
        self.size_bytes = len(header)
        """Bytes of the header and of the agents encoded so far."""
        self.failed = ""
        """Why the capture came to nothing: an agent cannot be encoded. It must not be stored then."""
        self._find = find
        self._pending: dict[AgentId, None] = {}
        for identity in pending:
            if find(identity) is None:
                self.deleted.append(identity)
            else:
                self._pending[identity] = None

    @property
    def done(self) -> bool:
        """Nothing is left to encode."""
        return not self._pending

    def step(self, limit: int | None = None) -> bool:
        """Encode up to `limit` agents, all that are left without one. Returns True when all is done."""
        while self._pending and limit != 0:
            cell = self._find(next(iter(self._pending)))
            assert cell is not None
            self.before(cell)
            limit = None if limit is None else limit - 1
        return self.done

    def before(self, cell: Cell) -> None:
        """The agent is about to change or to go: encode it now if that was still to be done."""
        if cell.identity in self._pending:
            try:
                state = agent_state(cell)
            except Unstorable as error:
                self.failed = f"agent {cell.identity} cannot be saved: {error}"
                self._pending.clear()
                return
            del self._pending[cell.identity]
            self.size_bytes += len(state.state)
            self.agents.append(state)


def agent_state(cell: Cell) -> AgentState:
    """An agent as it is stored."""
    return AgentState(cell.identity, cell.name, cell.spec.name, cell.reactions, cell.state())
