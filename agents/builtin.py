"""Notifications that the platform itself sends and understands."""

from typing import Final

import attrs

from .ids import AgentId
from .notification import Notification

__all__ = [
    "FAILURES",
    "Create",
    "CreateFailed",
    "Created",
    "Delete",
    "Deleted",
    "ExceptionNotification",
    "RefuseCreate",
    "UnknownAgent",
]


@attrs.frozen
class ExceptionNotification(Notification, name="quorate.exception"):
    """Report to the sender that the recipient's reaction failed and was undone."""

    agent: AgentId
    """The agent that failed."""
    type: str
    """The type of the notification that it failed on."""
    error: str
    """The exception's class, for example ``ValueError``; ``Unhandled`` if the agent has no handler."""
    message: str
    """The text of the exception."""


@attrs.frozen
class UnknownAgent(Notification, name="quorate.unknown-agent"):
    """Report to the sender that there is no such agent."""

    agent: str
    """The address as it was given."""
    type: str
    """The type of the notification that could not be delivered."""


@attrs.frozen
class Create(Notification, name="quorate.create"):
    """Request to a factory agent to create an agent. Answered with `Created` or `CreateFailed`."""

    class_name: str
    """``module:Class`` of the agent, importable on every replica of the server."""
    name: str | None = None
    """A name, unique on the server."""
    state: bytes = b""
    """Initial attributes as a MessagePack map; missing ones get their defaults."""
    id: AgentId | None = None
    """The id of the agent, if the requester has chosen it; None: the factory chooses it."""
    key: str = ""
    """Makes the request idempotent: the same key gets the same agent."""
    once: bool = False
    """Answer with the agent of that name or id, if it exists and has that class, instead of failing."""
    version: int = 0
    """The version of a class with a name; an agent or the master gives it. The server creates the version
    that it uses, if it uses one already. 0: not known."""


@attrs.frozen
class Created(Notification, name="quorate.created"):
    """Answer to `Create`: the agent exists."""

    id: AgentId


@attrs.frozen
class CreateFailed(Notification, name="quorate.create-failed"):
    """Answer to `Create`: the agent was not created."""

    class_name: str
    reason: str
    """One sentence that says what to do."""


@attrs.frozen
class RefuseCreate(Notification, name="quorate.refuse-create"):
    """Replacement of a `Create` whose class the master cannot load. Answered with `CreateFailed`.

    The master alone tries to load the class, so every replica gives the same answer.
    """

    class_name: str
    reason: str
    """One sentence that says what to do."""
    key: str = ""
    """The key of the `Create`: an agent that was created with it before is the answer."""


@attrs.frozen
class Delete(Notification, name="quorate.delete"):
    """Request to a factory agent to delete an agent. Answered with `Deleted` or `UnknownAgent`."""

    agent: str
    """Its id or name, as text."""


@attrs.frozen
class Deleted(Notification, name="quorate.deleted"):
    """Answer to `Delete`: the agent was deleted."""

    id: AgentId


FAILURES: Final = frozenset(cls.type_name for cls in (ExceptionNotification, UnknownAgent, CreateFailed))
"""Types that report a failure. When such a notification cannot be delivered, no further report is sent."""
