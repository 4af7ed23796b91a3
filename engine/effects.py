"""The effects of an entry: what is to be done outside of the engine."""

import attrs
import msgspec

from ..agents import AgentId, Note
from .reaction import Reaction

__all__ = ["Effects"]


@attrs.define
class Effects:
    """The outputs of one entry. All but `trace` and `reports` are acted on by the master only."""

    index: int
    emissions: list[tuple[str, AgentId, msgspec.Struct]] = attrs.field(factory=list)
    """(topic, agent, message) for the services."""
    replies: list[Note] = attrs.field(factory=list)
    """Notifications to what is not an agent; `request` tells whose."""
    network: dict[int, list[tuple[int, Note]]] = attrs.field(factory=dict)
    """Server to the numbered notifications that it has to get."""
    net_acks: dict[int, tuple[int, int]] = attrs.field(factory=dict)
    """Server to its birth and the number up to which its notifications are held here."""
    births: dict[int, int] = attrs.field(factory=dict)
    """Servers met in a life that was not known: `Engine.pending` is numbered anew for them."""
    trace: list[Reaction] = attrs.field(factory=list)
    reports: list[str] = attrs.field(factory=list)
    """Lines for the log."""
    suppressed: int = 0
    """Further lines, over the limit."""
