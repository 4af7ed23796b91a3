"""Errors of groups."""

from ...client import QuorateClientError
from ..agents.protocol import GroupRefused, Reason

__all__ = [
    "CastTooLarge",
    "GroupError",
    "GroupFull",
    "MembershipEnded",
    "NoAnswer",
    "NoMembers",
    "NotAMember",
    "StateLost",
    "refusal",
]


class GroupError(QuorateClientError):
    """A group has refused something. The text is one sentence that says what to do."""


class GroupFull(GroupError):
    """The group has as many members, or as much waiting, as it can have."""


class CastTooLarge(GroupError):
    """A message, request or answer is larger than groups allow."""


class NoMembers(GroupError):
    """A request was made to a group without members, or all members that had it have gone."""


class NoAnswer(GroupError):
    """No member has answered a request in time."""


class NotAMember(GroupError):
    """The connection is no member of the group."""


class MembershipEnded(GroupError):
    """The membership has ended, and this program did not end it."""


class StateLost(GroupError):
    """No member has the state of the replicated application any more."""


_CLASSES: dict[str, type[GroupError]] = {
    Reason.FULL: GroupFull,
    Reason.NOT_A_MEMBER: NotAMember,
    Reason.NO_MEMBERS: NoMembers,
    Reason.NO_ANSWER: NoAnswer,
    Reason.TOO_LARGE: CastTooLarge,
}


def refusal(note: GroupRefused) -> GroupError:
    """Return the error for a refusal."""
    return _CLASSES.get(note.reason, GroupError)(note.text)
