"""Highly available agents that react to notifications, and the reliable messaging built from them."""

from .agents import (
    Agent,
    AgentError,
    AgentId,
    Context,
    Create,
    Created,
    CreateFailed,
    Delete,
    Deleted,
    ExceptionNotification,
    Notification,
    Opaque,
    ReplyTo,
    UnknownAgent,
    reacts,
)

__all__ = [
    "Agent",
    "AgentError",
    "AgentId",
    "Context",
    "Create",
    "CreateFailed",
    "Created",
    "Delete",
    "Deleted",
    "ExceptionNotification",
    "Notification",
    "Opaque",
    "ReplyTo",
    "UnknownAgent",
    "reacts",
]
