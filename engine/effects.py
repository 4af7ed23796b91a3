"""What applying an entry leaves to be done outside of the engine."""

import attrs
import msgspec

from ..agents import AgentId, Note
from .trace import Reaction

__all__ = ["Effects"]


@attrs.define
class Effects:
    """The outputs of one entry. All but `trace` and `reports` are acted on by the master only."""

    index: int
    emissions: list[tuple[str, AgentId, msgspec.Struct]] = attrs.field(
        factory=list[tuple[str, AgentId, msgspec.Struct]]
    )
    """(topic, agent, message) for the services."""
    replies: list[Note] = attrs.field(factory=list[Note])
    """Notifications to what is not an agent; `request` tells whose."""
    network: dict[int, list[tuple[int, Note]]] = attrs.field(factory=dict[int, list[tuple[int, Note]]])
    """Server to the numbered notifications that it has to get."""
    net_acks: dict[int, tuple[int, int]] = attrs.field(factory=dict[int, tuple[int, int]])
    """Server to its birth and the number up to which its notifications are held here."""
    births: dict[int, int] = attrs.field(factory=dict[int, int])
    """Servers met in a life that was not known: `Engine.pending` is numbered anew for them."""
    trace: list[Reaction] = attrs.field(factory=list[Reaction])
    reports: list[str] = attrs.field(factory=list[str])
    """Lines for the log."""
    suppressed: int = 0
    """Further lines, over the limit."""
