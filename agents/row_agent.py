"""The form in which a server keeps a row of an agent: a small agent of its own, which nobody addresses."""

import attrs

from .agent import Agent, reacts
from .context import Context
from .envelope import Opaque
from .ids import AgentId

__all__ = ["RowAgent"]


@attrs.define
class RowAgent(Agent, name="quorate.row"):
    """One row. So rows are captured, compared, transferred, stored and recovered as agents are."""

    owner: AgentId
    attribute: str
    key: int | str
    value: bytes

    @reacts
    def refuse(self, ctx: Context, note: Opaque) -> None:
        """Refuse everything: a row changes with its agent only."""
        raise PermissionError(f"{ctx.agent} is a row of agent {self.owner}, and takes no {note.type}")
