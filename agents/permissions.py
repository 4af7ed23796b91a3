"""What the client of a proxy may ask for, as the service that let it in has said."""

from collections.abc import Sequence

import attrs

from .builtin import Create
from .client_addresses import names_id, refusal
from .context import Context
from .ids import AgentId, factory
from .lifecycle import REMOTE_TYPES
from .rights import Grant, allows, needed_right, opens

__all__ = ["MAX_OPENED", "Permissions"]

MAX_OPENED = 4096
"""Destinations that a client may open while rights are set: they are looked at again when those change."""


@attrs.define
class Permissions:
    """The rights of one user, a part of the state of its proxy."""

    user: str
    administrator: bool = False
    """Whether the user may create and administer agents, as of the last opening."""
    grants: list[Grant] | None = None
    """The rows that concern the user; None: no rights are set, and everything may be asked for."""
    opened: dict[str, None] = attrs.field(factory=dict[str, None])
    """``right name`` of what the client has opened."""

    def refusal(self, ctx: Context, to: AgentId | str, type: str, payload: bytes) -> tuple[str, bool]:
        """Return why the client may not send this, "" when it may, and whether a right is missing."""
        if to == ctx.agent:
            return "", False
        if isinstance(to, AgentId) and (to != factory(to.host) or type not in REMOTE_TYPES):
            text = refusal(to)
            return (text, False) if text else self._by_rights(str(to), type)
        if isinstance(to, str):
            return self._by_rights(_plain(ctx, to), type)
        if not self.administrator:
            return (
                f"user {self.user} may not create or administer agents; the property administrators of the "
                "server names the users who may",
                True,
            )
        if type == Create.type_name and names_id(payload):
            return "a client may not choose the id of an agent; leave it to the server", False
        return "", False

    def _by_rights(self, name: str, type: str) -> tuple[str, bool]:
        if self.grants is None:
            return "", False
        right = needed_right(name, type)
        if right is None:
            return "", False
        if not allows(self.grants, right, name):
            return f"user {self.user} has no right to {_doing(right, name)}", True
        if opens(type):
            if len(self.opened) >= MAX_OPENED and f"{right} {name}" not in self.opened:
                return f"a connection may open {MAX_OPENED} destinations; use another one for more", False
            self.opened[f"{right} {name}"] = None
        return "", False

    def renew(self, administrator: bool, grants: Sequence[Grant] | None) -> str:
        """Take the present rights. Return why the client may not go on with what it has opened, or ""."""
        self.administrator = administrator
        self.grants = None if grants is None else list(grants)
        for each in self.opened:
            right, name = each.split(" ", 1)
            if self.grants is not None and not allows(self.grants, right, name):
                return f"user {self.user} has no right any more to {_doing(right, name)}"
        return ""


def _plain(ctx: Context, name: str) -> str:
    """Return a name without that of this server, which an address may have or not. Raises ValueError."""
    agent, at, server = name.rpartition("@")
    if not at:
        return name
    if ctx.factory(server).host == ctx.agent.host:
        return agent
    # Patterns name servers as the configuration does.
    return name if not server.isdigit() else f"{agent}@number {server}"


def _doing(right: str, name: str) -> str:
    return f"{right} {'from' if right == 'receive' else 'to' if right == 'send' else 'at'} {name}"
