"""The members of a group, and the requests that wait for an answer of one of them. Pure."""

from collections.abc import Iterable

import attrs

from ...agents.ids import AgentId
from .items import MemberInfo
from .protocol import MemberStatus

__all__ = ["Joining", "Member", "OpenRequest", "found_member", "oldest"]

MAX_KEPT_BYTES = 1024 * 1024
"""Bytes of answers that are kept for a request until the oldest member has answered."""


@attrs.define
class Member:
    """A client that is a member."""

    user: str
    label: str
    joined: int
    """The item with which it became a member."""
    acked: int
    """It has everything up to this item."""
    home: int
    attempt: int
    """Number of its last handshake."""
    suspected: bool = False
    ready: bool = False

    def info(self, identity: AgentId) -> MemberInfo:
        """Return what the other members know of it."""
        return MemberInfo(identity, self.user, self.label, self.ready, self.suspected)

    def status(self, identity: AgentId) -> MemberStatus:
        """Return what administrators are shown."""
        return MemberStatus(
            identity, self.user, self.label, self.joined, self.acked, self.home, self.suspected, self.ready
        )


@attrs.define
class Joining:
    """A client that becomes a member as soon as its proxy has said where it is."""

    label: str
    request: int
    """The number under which it waits for the answer."""


@attrs.define
class OpenRequest:
    """A request that waits for an answer."""

    client: AgentId
    number: int
    """The number under which the client waits."""
    oldest: bool
    """The answer of the oldest member counts."""
    answers: dict[AgentId, bytes] = attrs.field(factory=dict[AgentId, bytes])
    """Answers of members that are not the oldest."""
    kept_bytes: int = 0

    def keep(self, member: AgentId, payload: bytes) -> None:
        """Keep an answer, in case that the member becomes the oldest. Without room it is dropped."""
        if member not in self.answers and self.kept_bytes + len(payload) <= MAX_KEPT_BYTES:
            self.answers[member] = payload
            self.kept_bytes += len(payload)


def oldest(members: dict[AgentId, Member], index: int) -> AgentId | None:
    """Return the oldest of the members that get the item `index`; None if there is none."""
    return next((each for each, member in members.items() if member.joined < index), None)


def found_member(members: dict[AgentId, Member], text: str) -> AgentId | str:
    """Return the member with that identifier, label or user, else a sentence that says why there is none."""
    for identity in members:
        if str(identity) == text:
            return identity
    named = [each for each, member in members.items() if text in (member.label, member.user)]
    if len(named) == 1:
        return named[0]
    if named:
        return f"{len(named)} members are called {text}; give the identifier of one: {_some(named)}"
    return f"there is no member {text}; the members are {_some(members) or 'none'}"


def _some(members: Iterable[AgentId]) -> str:
    texts = [str(each) for each in members]
    return ", ".join(texts[:10]) + (", ..." if len(texts) > 10 else "")
