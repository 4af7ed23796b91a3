"""What a member of a group receives, one after the other, in the same order as all other members."""

import attrs

from ...agents.ids import AgentId
from ..agents.items import MemberInfo

__all__ = ["GroupEvent", "Member", "Message", "Ready", "Suspicion", "Trust", "View"]


@attrs.frozen
class Member:
    """A member of a group."""

    id: AgentId
    """The identifier of its connection, which no other member ever has."""
    user: str = attrs.field(eq=False, default="")
    label: str = attrs.field(eq=False, default="")
    """What it calls itself."""

    @classmethod
    def of(cls, info: MemberInfo) -> "Member":
        """Return the member that the server describes."""
        return cls(info.id, info.user, info.label)


# One is made for each message of each member, and attrs takes three times as long for a frozen one.
@attrs.define(eq=False)
class Message:
    """A message to the group."""

    index: int
    """Its place in the order of the group; the same at all members."""
    sender: AgentId
    """The identifier of the connection, or of the agent, that has sent it; it need not be a member."""
    payload: bytes
    view: int
    """Number of the view in which all members receive it."""
    request: bool = False
    """The sender waits for an answer: see `answer` of the membership."""
    directed: bool = False
    """It is for some members only."""


@attrs.frozen
class View:
    """The members from now on: messages after it, up to the next view, go to all of them and nobody else."""

    index: int
    number: int
    """That of the view before, and 1."""
    members: tuple[Member, ...]
    """In the order in which they have joined: the oldest first."""
    joined: tuple[Member, ...] = ()
    left: tuple[tuple[Member, str], ...] = ()
    """Each with the reason: ``left``, ``closed``, ``expired``, ``too slow``, or that it was expelled."""


@attrs.frozen
class Suspicion:
    """Nothing is heard from a member. It may be alive; it is a member until a view without it comes."""

    index: int
    member: Member


@attrs.frozen
class Trust:
    """A member that was suspected is heard again."""

    index: int
    member: Member


@attrs.frozen
class Ready:
    """A member has the state of the application that the group replicates, as of here."""

    index: int
    member: Member


GroupEvent = Message | View | Suspicion | Trust | Ready
