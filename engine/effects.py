"""The effects of an entry: what is to be done outside of the engine."""

import attrs
import msgspec

from ..agents import AgentId, Note
from ..agents.thread_queue import Put
from .entry_outcome import difference, encode_outcome
from .reaction import Reaction

__all__ = ["Effects"]


@attrs.define
class Effects:
    """The outputs of one entry.

    Only the master carries them out, except `puts`, `trace`, `reports` and `agent_lines`.
    """

    index: int
    emissions: list[tuple[str, AgentId, msgspec.Struct]] = attrs.field(factory=lambda: [])
    """(topic, agent, message) for the services."""
    puts: list[Put] = attrs.field(factory=lambda: [])
    """Notifications for the queues of every replica's process, in order; carried out on all replicas."""
    replies: list[Note] = attrs.field(factory=lambda: [])
    """Replies to requests of services and administrators; `request` identifies the request."""
    network: dict[int, list[tuple[int, Note]]] = attrs.field(factory=lambda: {})
    """By server, the numbered notifications to send to it."""
    net_acks: dict[int, tuple[int, int]] = attrs.field(factory=lambda: {})
    """By server, its birth and the number up to which its notifications are recorded here."""
    overfull: set[int] = attrs.field(factory=set[int])
    """Servers of which more has arrived than may be held back: they must connect and send again."""
    births: dict[int, int] = attrs.field(factory=lambda: {})
    """By server, the birth of a life that was not known before: `Engine.pending` has new numbers for it."""
    origin: AgentId | None = None
    """The agent to which a service has posted the notification of the present turn; None in other turns."""
    congested: set[tuple[AgentId, int]] = attrs.field(factory=lambda: set())
    """The origins of this entry, and the servers, of which `Congested` is emitted already."""
    trace: list[Reaction] = attrs.field(factory=lambda: [])
    marks: list[int] = attrs.field(factory=lambda: [])
    """For each reaction of `trace` a mark of its result."""
    chain: bytes = b""
    """Hash of all reactions of the server up to the end of this entry."""
    switched: bool = False
    """True if the server uses other versions of agent classes from this entry on."""
    refused: dict[str, int] | None = None
    """Versions to which the server has not switched, because an agent cannot be upgraded; `reports` says
    why."""
    reports: list[str] = attrs.field(factory=lambda: [])
    """Lines for the log."""
    agent_lines: list[str] = attrs.field(factory=lambda: [])
    """Lines for the log that agents wrote. A recovery drops them: they were written before."""
    suppressed: int = 0
    """Number of lines over the limit, which are left out."""

    @property
    def outcome(self) -> bytes:
        """The outcome of the entry, to be compared when it is applied again; empty if it had no reaction."""
        return encode_outcome(self.chain, self.marks) if self.marks else b""

    def differs(self, recorded: bytes) -> str:
        """Return how this application of the entry differs from one whose `outcome` was recorded, or ""."""
        return difference(recorded, self.chain, self.marks, self.trace)
