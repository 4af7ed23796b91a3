"""Groups of clients: one order of messages, views and suspicions at all members. Source: JMSGroups.

`Group` is a group as a blocking connection uses it, `AsyncGroup` one for asyncio or Twisted. The guide is
docs/client-groups.md.
"""

from .client.awaiting import AsyncGroup, AsyncMembership
from .client.blocking import Group, Membership
from .client.errors import (
    CastTooLarge,
    GroupError,
    GroupFull,
    MembershipEnded,
    NoAnswer,
    NoMembers,
    NotAMember,
    StateLost,
)
from .client.events import GroupEvent, Member, Message, Ready, Suspicion, Trust, View
from .client.replicated import Application, Replicated, replicate

__all__ = [
    "Application",
    "AsyncGroup",
    "AsyncMembership",
    "CastTooLarge",
    "Group",
    "GroupError",
    "GroupEvent",
    "GroupFull",
    "Member",
    "Membership",
    "MembershipEnded",
    "Message",
    "NoAnswer",
    "NoMembers",
    "NotAMember",
    "Ready",
    "Replicated",
    "StateLost",
    "Suspicion",
    "Trust",
    "View",
    "replicate",
]
