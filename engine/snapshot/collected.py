"""A state collected from the parts of a source, without its classes: for a place that only keeps it."""

from ...agents import AgentId
from ..cell import AgentState
from .header import SnapshotError
from .transfer import End, decode_part

__all__ = ["CollectedState"]


class CollectedState:
    """The agents of a state in the form in which they are stored.

    The first source sends the whole state; each further one, after `follow`, what has changed since.
    """

    def __init__(self) -> None:
        self.agents: dict[AgentId, AgentState] = {}
        self.end: End | None = None
        """The header and the digest, once the last part has come."""
        self._earlier: dict[AgentId, AgentState] = {}

    def follow(self) -> None:
        """Begin with the parts of the next source."""
        self._earlier, self.agents, self.end = self.agents, {}, None

    def accept(self, data: bytes) -> None:
        """Add the next part. Raises SnapshotError when it is damaged or does not fit what came before."""
        part = decode_part(data)
        if self.end is not None:
            raise SnapshotError("there is a part after the last one")
        for identity in part.kept:
            known = self._earlier.get(identity)
            if known is None:
                raise SnapshotError(f"agent {identity} is said to be in an earlier state, and is not")
            self.agents[identity] = known
        for state in part.agents:
            self.agents[state.identity] = state
        for identity in part.gone:
            self.agents.pop(identity, None)
        self.end = part.end
