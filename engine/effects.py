"""The effects of an entry: what is to be done outside of the engine."""

import attrs
import msgspec

from ..agents import AgentId, Note
from .reaction import Reaction

__all__ = ["Effects"]


@attrs.define
class Effects:
    """The outputs of one entry. Only the master carries them out, except `trace` and `reports`."""

    index: int
    emissions: list[tuple[str, AgentId, msgspec.Struct]] = attrs.field(factory=list)
    """(topic, agent, message) for the services."""
    replies: list[Note] = attrs.field(factory=list)
    """Replies to requests of services and administrators; `request` identifies the request."""
    network: dict[int, list[tuple[int, Note]]] = attrs.field(factory=dict)
    """By server, the numbered notifications to send to it."""
    net_acks: dict[int, tuple[int, int]] = attrs.field(factory=dict)
    """By server, its birth and the number up to which its notifications are recorded here."""
    births: dict[int, int] = attrs.field(factory=dict)
    """By server, the birth of a life that was not known before: `Engine.pending` has new numbers for it."""
    trace: list[Reaction] = attrs.field(factory=list)
    reports: list[str] = attrs.field(factory=list)
    """Lines for the log."""
    suppressed: int = 0
    """Number of lines over the limit, which are left out."""
