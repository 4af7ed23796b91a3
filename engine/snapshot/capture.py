"""The changes of an engine's state, as of one entry, for a store that holds the state before them."""

from collections.abc import Callable, Sequence

from ...agents import AgentId
from ..cell import AgentState, Cell

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
        covered: Sequence[AgentId],
        find: Callable[[AgentId], Cell | None],
    ) -> None:
        self.index = index
        """The state is the one after this entry."""
        self.header = header
        """All but the agents: `Engine.load` takes it."""
        self.full = full
        """There is nothing but these agents; else the others are as they were at the last capture."""
        self.covered = covered
        """All agents that it is about."""
        self.agents: list[AgentState] = []
        """Agents that are new or may have changed. Complete once `step` has returned True."""
        self.deleted: list[AgentId] = []
        """Agents that are no more."""
        self.size_bytes = len(header)
        """Bytes of the header and of the agents encoded so far."""
        self.flaws: list[str] = []
        """Agents whose state cannot be stored any more, and why: they are kept as of the last state that
        could be, with the reactions since."""
        self.staged = False
        """The agents, all of them but those in `deleted`, were given to the store before, as they came."""
        self.written = False
        """Set it when all of this is in the store; until then it may yet come to nothing."""
        self._find = find
        self._pending: dict[AgentId, None] = {}
        for identity in covered:
            if find(identity) is None:
                self.deleted.append(identity)
            else:
                self._pending[identity] = None

    @property
    def done(self) -> bool:
        """Nothing is left to encode."""
        return not self._pending

    def step(self, limit: int | None = None, max_bytes: int | None = None) -> bool:
        """Encode up to `limit` agents, or until `max_bytes` more are encoded; all that are left without them.

        Returns True when all is done.
        """
        stop = None if max_bytes is None else self.size_bytes + max_bytes
        while self._pending and limit != 0 and (stop is None or self.size_bytes < stop):
            cell = self._find(self._pending.popitem()[0])
            assert cell is not None
            self._encode(cell)
            limit = None if limit is None else limit - 1
        return self.done

    def before(self, cell: Cell) -> None:
        """The agent is about to change or to go: encode it now if that was still to be done."""
        if cell.identity in self._pending:
            del self._pending[cell.identity]
            self._encode(cell)

    def _encode(self, cell: Cell) -> None:
        state, flaw = cell.stored()
        if flaw:
            self.flaws.append(flaw)
        self.size_bytes += len(state.state)
        self.agents.append(state)
