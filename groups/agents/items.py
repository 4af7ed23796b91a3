"""What a group delivers to its members: items in one order, stored and sent as encoded pages.

A page holds consecutive items of one kind. It is encoded once, by the agent of the group, and the same bytes
go to the disk, and to every member. The indices of items count from 1 in each group.
"""

from typing import Final

import msgspec

from ...agents.ids import AgentId

__all__ = [
    "GROUPS_TOPIC",
    "SKIPPED",
    "Appended",
    "Begun",
    "Casts",
    "HomeState",
    "Item",
    "MemberInfo",
    "Page",
    "Ready",
    "Removed",
    "Suspected",
    "Trusted",
    "ViewChange",
    "decode_item",
    "encode_item",
]

GROUPS_TOPIC: Final = "quorate.groups"
"""Topic of what agents of groups emit for the homes of their members."""


class MemberInfo(msgspec.Struct, array_like=True, frozen=True):
    """A member, as the members of its group see it."""

    id: AgentId
    """The identifier of its connection."""
    user: str
    label: str
    """What the member calls itself; need not be unique."""
    ready: bool = False
    """Whether it has the state of the application that the group replicates."""
    suspected: bool = False


class Casts(msgspec.Struct, array_like=True, frozen=True, tag=0):
    """Messages of one sender, each an item."""

    sender: AgentId
    payloads: list[bytes]
    request: bool = False
    """The sender waits for the answer of a member."""
    directed: bool = False
    """They are for some members only; the others get `Skipped` in their place."""


class ViewChange(msgspec.Struct, array_like=True, frozen=True, tag=1):
    """Members that have joined or left, which makes a view."""

    number: int
    """The number of the view: that of the one before, and 1."""
    joined: list[MemberInfo]
    left: list[tuple[AgentId, str]]
    """Each with the reason."""


class Suspected(msgspec.Struct, array_like=True, frozen=True, tag=2):
    """Nothing is heard from a member. It stays a member unless a view without it follows."""

    member: AgentId


class Trusted(msgspec.Struct, array_like=True, frozen=True, tag=3):
    """A member that was suspected is heard again."""

    member: AgentId


class Ready(msgspec.Struct, array_like=True, frozen=True, tag=4):
    """A member has the state of the application, as of this item."""

    member: AgentId


class Skipped(msgspec.Struct, array_like=True, frozen=True, tag=5):
    """Items that were for other members only."""


Item = Casts | ViewChange | Suspected | Trusted | Ready | Skipped

encode_item = msgspec.msgpack.Encoder().encode
decode_item = msgspec.msgpack.Decoder(Item).decode
SKIPPED: Final = encode_item(Skipped())


class Page(msgspec.Struct, array_like=True, frozen=True):
    """Consecutive items as they are stored: those from an index on."""

    count: int
    data: bytes
    """One encoded `Item`."""
    to: list[AgentId]
    """The members that it is for; empty: all that were in the view."""


class Appended(msgspec.Struct, array_like=True, frozen=True):
    """Emitted by a group: items were ordered."""

    first: int
    page: Page


class Begun(msgspec.Struct, array_like=True, frozen=True):
    """Emitted by a group: a client is a member, and gets the items after an index."""

    member: AgentId
    after: int
    home: int
    """The replica that the client is connected to."""
    first: bool = False
    """With ``context="local"``: the home had no members, and has nothing to have kept."""


class HomeState(msgspec.Struct, array_like=True, frozen=True):
    """Emitted by a group with ``context="local"`` for a home that begins: what it is to have."""

    home: int
    members: list[tuple[AgentId, int]]
    """Its members, with the items with which they have joined."""
    applied: int
    """What comes after this item is held for the home."""
    confirmed: bool
    """The home has said that it has filed everything up to there; otherwise it perhaps never began."""


class Removed(msgspec.Struct, array_like=True, frozen=True):
    """Emitted by a group: a client is no member any more, and gets nothing more."""

    member: AgentId
