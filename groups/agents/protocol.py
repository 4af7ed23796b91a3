"""Notifications between the clients of groups, the homes of these clients and the agents of groups."""

from enum import StrEnum
from typing import Final

import attrs

from ...agents import AgentId, Notification
from .items import MemberInfo, Page

__all__ = [
    "GROUPS",
    "MAX_ANSWER_BYTES",
    "MAX_CAST_BYTES",
    "MAX_DIRECTED_BYTES",
    "MAX_MEMBERS",
    "AnswerRequest",
    "Ask",
    "Asked",
    "Cast",
    "Casted",
    "DescribeGroup",
    "ExpelMember",
    "Expelled",
    "GroupAnswer",
    "GroupDescription",
    "GroupJoined",
    "GroupLeft",
    "GroupList",
    "GroupOpened",
    "GroupRefused",
    "HomeApplied",
    "HomeForgotten",
    "HomeLost",
    "HomeStatus",
    "JoinGroup",
    "LeaveGroup",
    "ListGroups",
    "MemberExpelled",
    "MemberStatus",
    "OpenGroup",
    "ReadStream",
    "Reason",
    "StateReady",
    "StreamAcks",
    "StreamRead",
    "group_address",
]

GROUPS: Final = "quorate.groups"
"""The name of the manager of the groups of a server."""
MAX_MEMBERS: Final = 1000
MAX_CAST_BYTES: Final = 64 * 1024
"""Largest message to all members, in bytes."""
MAX_DIRECTED_BYTES: Final = 256 * 1024
"""Largest message to some members, as a part of a state is, in bytes."""
MAX_ANSWER_BYTES: Final = 64 * 1024


def group_address(title: str) -> str:
    """Return the name of the agent of a group."""
    return f"group:{title}"


class Reason(StrEnum):
    """Why a group has refused something."""

    BAD_REQUEST = "bad-request"
    FULL = "full"
    NOT_A_MEMBER = "not-a-member"
    NO_MEMBERS = "no-members"
    NO_ANSWER = "no-answer"
    TOO_LARGE = "too-large"


@attrs.frozen
class GroupRefused(Notification, name="quorate.group.refused"):
    """Answer to any request: it is refused, and nothing has changed."""

    reason: str
    """One of `Reason`."""
    text: str
    """One sentence that says what to do."""


@attrs.frozen
class OpenGroup(Notification, name="quorate.group.open"):
    """Request to the manager: the agent of a group, which is made if there is none."""

    title: str


@attrs.frozen
class GroupOpened(Notification, name="quorate.group.opened"):
    """Answer to `OpenGroup`."""

    group: AgentId


@attrs.frozen
class JoinGroup(Notification, name="quorate.group.join"):
    """Request of a client to be a member. Answered with `GroupJoined` or `GroupRefused`."""

    label: str = ""


@attrs.frozen
class GroupJoined(Notification, name="quorate.group.joined"):
    """Answer to `JoinGroup`: the client is a member from the item `index` on, which is the view with it."""

    index: int
    view: int
    members: list[MemberInfo]
    """In the order in which they have joined."""
    had_state: bool
    """Whether a member ever had the state of an application that the group replicates."""


@attrs.frozen
class LeaveGroup(Notification, name="quorate.group.leave"):
    """Request of a member to be none. Answered with `GroupLeft`."""


@attrs.frozen
class GroupLeft(Notification, name="quorate.group.left"):
    """Answer to `LeaveGroup`: the item `index` is the view without the client."""

    index: int


@attrs.frozen
class Cast(Notification, name="quorate.group.cast"):
    """Messages for all members, from anybody. A request with a number is answered with `Casted`."""

    payloads: list[bytes]
    to: list[AgentId] = attrs.field(factory=list[AgentId])
    """The members that they are for; empty for all."""


@attrs.frozen
class Casted(Notification, name="quorate.group.casted"):
    """Answer to `Cast`: the messages are the items from `first` on."""

    first: int


@attrs.frozen
class Ask(Notification, name="quorate.group.ask"):
    """A message for all members that one of them answers: with `GroupAnswer`."""

    payload: bytes
    oldest: bool
    """The answer of the oldest member counts, not the first one."""
    timeout_s: float


@attrs.frozen
class AnswerRequest(Notification, name="quorate.group.answer"):
    """The answer of a member to the request that is item `index`."""

    index: int
    payload: bytes


@attrs.frozen
class GroupAnswer(Notification, name="quorate.group.answered"):
    """Answer to `Ask`."""

    index: int
    member: AgentId
    payload: bytes


@attrs.frozen
class Asked(Notification, name="quorate.group.asked"):
    """Timer of a group, sent to itself: a request has waited for its answer for as long as it may."""

    index: int


@attrs.frozen
class StateReady(Notification, name="quorate.group.state-ready"):
    """Notice of a member: it has the state of the application."""


@attrs.frozen
class Expelled(Notification, name="quorate.group.expelled"):
    """Notice to a client: it is no member any more."""

    group: AgentId
    reason: str


@attrs.frozen
class ReadStream(Notification, name="quorate.group.read-stream"):
    """Request of a home: what a member that has connected there has not got. Answered with `StreamRead`."""

    member: AgentId | None
    """None: what the home itself has not filed."""
    after: int
    """The member has everything up to this item."""
    below: int
    """The home has the items from this one on; 0: none."""


@attrs.frozen
class StreamRead(Notification, name="quorate.group.stream-read"):
    """Answer to `ReadStream`."""

    member: bool
    """Whether the client is a member."""
    pages: list[tuple[int, Page]]
    """Pages with the index of their first item: from the one that has the item after `after` on."""
    last: int
    """The last item of the group."""
    more: bool
    """There are more pages before `below`: ask again from the end of these."""


@attrs.frozen
class StreamAcks(Notification, name="quorate.group.stream-acks"):
    """Notice of a home: what its clients have received."""

    acks: list[tuple[AgentId, int]]


@attrs.frozen
class HomeApplied(Notification, name="quorate.group.home-applied"):
    """Notice of a home, with ``context="local"``: it has filed everything up to an item."""

    home: int
    upto: int


@attrs.frozen
class HomeLost(Notification, name="quorate.group.home-lost"):
    """Notice that a home does not have what its members lack: they leave in one view.

    Of the home itself, whose disk was lost, or of an administrator, who gives up a replica. Answered with
    `HomeForgotten` if it is a request.
    """

    home: int
    reason: str


@attrs.frozen
class HomeForgotten(Notification, name="quorate.group.home-forgotten"):
    """Answer to `HomeLost`."""

    home: int


@attrs.frozen
class ListGroups(Notification, name="quorate.group.list"):
    """Request to the manager. Answered with `GroupList`."""


@attrs.frozen
class GroupList(Notification, name="quorate.group.listed"):
    """Answer to `ListGroups`: all groups by their titles, in order."""

    groups: list[tuple[str, AgentId]]
    local: bool = False
    """The contexts of members are on the disks of their homes."""


@attrs.frozen
class DescribeGroup(Notification, name="quorate.group.describe"):
    """Request to a group. Answered with `GroupDescription`."""


@attrs.frozen
class MemberStatus:
    """A member for people who administer the server."""

    id: AgentId
    user: str
    label: str
    joined: int
    """The item with which it became a member."""
    acked: int
    """It has everything up to this item."""
    home: int
    suspected: bool
    ready: bool


@attrs.frozen
class HomeStatus:
    """A home of members, with ``context="local"``, for people who administer the server."""

    home: int
    held: int
    """Items that it has not filed."""
    away: bool


@attrs.frozen
class GroupDescription(Notification, name="quorate.group.described"):
    """Answer to `DescribeGroup`."""

    title: str
    view: int
    last: int
    """The last item."""
    stored_items: int
    """Items that some member has not acknowledged."""
    stored_bytes: int
    casts: int
    """Messages so far."""
    suspicions: int
    false_suspicions: int
    """Suspicions after which the member was trusted again."""
    holding: bool
    """Casts are answered late, because a member does not keep up."""
    requests: int
    """Requests without an answer."""
    members: list[MemberStatus]
    homes: list[HomeStatus] = attrs.field(factory=list[HomeStatus])


@attrs.frozen
class ExpelMember(Notification, name="quorate.group.expel"):
    """Order of an administrator: a client is a member no longer. Answered with `MemberExpelled`."""

    member: str
    """The identifier of its connection, or its label or user if no other member has it."""


@attrs.frozen
class MemberExpelled(Notification, name="quorate.group.member-expelled"):
    """Answer to `ExpelMember`."""

    member: AgentId
    view: int
