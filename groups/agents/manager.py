"""The manager of the groups of a server: makes the agent of a group when somebody asks for it first."""

from typing import Final

import attrs

from ...agents import Agent, AgentId, Context, CreateFailed, outside, reacts
from ...agents.presence import HomeBegun, HomeLimits, HomesChanged
from .protocol import (
    GroupList,
    GroupOpened,
    GroupRefused,
    HomeForgotten,
    HomeLost,
    ListGroups,
    OpenGroup,
    Reason,
    group_address,
)
from .topic import GroupTopic

__all__ = ["MAX_GROUPS", "MAX_TITLE", "GroupManager"]

MAX_GROUPS: Final = 10_000
MAX_TITLE: Final = 100
"""Most characters of the name of a group."""


@attrs.define
class GroupManager(Agent, name="quorate.group-manager"):
    """Knows all groups, and tells them which replicas their members may be connected to."""

    groups: dict[str, AgentId] = attrs.field(factory=dict[str, AgentId])
    """By title."""
    view: list[int] = attrs.field(factory=list[int])
    """The number of the last view of the replicas."""
    local: bool = False
    """The contexts of members are on the disks of their homes."""
    limits: HomeLimits = attrs.field(factory=HomeLimits)

    @reacts
    def open(self, ctx: Context, note: OpenGroup) -> None:
        """Answer with the agent of a group; make it if there is none."""
        title = note.title
        found = self.groups.get(title)
        if found is None:
            flaw = title_flaw(title)
            if flaw or len(self.groups) >= MAX_GROUPS:
                reason = Reason.BAD_REQUEST if flaw else Reason.FULL
                text = flaw or f"the server has {MAX_GROUPS} groups already; use one of them"
                ctx.send(ctx.reply_to, GroupRefused(reason, text))
                return
            state = {"title": title, "local": self.local, "limits": self.limits}
            found = ctx.create(GroupTopic, name=group_address(title), state=state)
            self.groups[title] = found
        ctx.send(ctx.reply_to, GroupOpened(found))

    @reacts
    def not_created(self, ctx: Context, note: CreateFailed) -> None:
        """Log that a group cannot be used, because another agent has its name."""
        ctx.log(f"a group was not made: {note.reason}")

    @reacts
    def list_groups(self, ctx: Context, _: ListGroups) -> None:
        """Answer with all groups."""
        ctx.send(ctx.reply_to, GroupList(sorted(self.groups.items()), self.local))

    @reacts
    def homes_changed(self, ctx: Context, note: HomesChanged) -> None:
        """Tell all groups which replicas there are."""
        if ctx.sender != outside(ctx.agent.host):
            raise PermissionError("only the server knows its replicas")
        if note.view > self.view:
            self.view = note.view
            self.limits = note.limits
            for found in self.groups.values():
                ctx.send(found, note)

    @reacts
    def home_begun(self, ctx: Context, note: HomeBegun) -> None:
        """Tell all groups that a replica has none of its former clients."""
        if ctx.sender != outside(ctx.agent.host):
            raise PermissionError("only the server knows its replicas")
        self.limits = note.limits
        for found in self.groups.values():
            ctx.send(found, note)

    @reacts
    def home_lost(self, ctx: Context, note: HomeLost) -> None:
        """Have all groups give up the members of a replica, as an administrator orders."""
        if ctx.sender != outside(ctx.agent.host):
            raise PermissionError("only administrators of the server give up a replica")
        for found in self.groups.values():
            ctx.send(found, note)
        ctx.send(ctx.reply_to, HomeForgotten(note.home))

    @reacts
    def forgotten(self, _: Context, __: HomeForgotten) -> None:
        """Ignore the answers of groups."""


def title_flaw(title: str) -> str:
    """Return why a group cannot have this name, as one sentence; "" if it can."""
    if not title or len(title) > MAX_TITLE or not title.isprintable() or "@" in title:
        return f"{title[:MAX_TITLE]!r} is not the name of a group; give 1 to {MAX_TITLE} characters without @"
    return ""
