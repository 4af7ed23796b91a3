"""The programming interface of agents: agents, notifications and the context of a reaction."""

from .agent import Agent, AgentError, AgentSpec, agent_named, agent_spec, reacts
from .builtin import (
    FAILURES,
    Create,
    Created,
    CreateFailed,
    Delete,
    Deleted,
    ExceptionNotification,
    RefuseCreate,
    UnknownAgent,
)
from .context import MAX_NOTIFICATION_BYTES, Context, Outcome
from .envelope import Note, Opaque, ReplyTo
from .ids import (
    FIRST_CONNECTION_STAMP,
    FIRST_FREE_STAMP,
    FIRST_PAGE_STAMP,
    Address,
    AgentId,
    connection_manager,
    factory,
    outside,
)
from .notification import Notification, decode, encode, known_type, type_name
from .state_types import decoder

__all__ = [
    "FAILURES",
    "FIRST_CONNECTION_STAMP",
    "FIRST_FREE_STAMP",
    "FIRST_PAGE_STAMP",
    "MAX_NOTIFICATION_BYTES",
    "Address",
    "Agent",
    "AgentError",
    "AgentId",
    "AgentSpec",
    "Context",
    "Create",
    "CreateFailed",
    "Created",
    "Delete",
    "Deleted",
    "ExceptionNotification",
    "Note",
    "Notification",
    "Opaque",
    "Outcome",
    "RefuseCreate",
    "ReplyTo",
    "UnknownAgent",
    "agent_named",
    "agent_spec",
    "connection_manager",
    "decode",
    "decoder",
    "encode",
    "factory",
    "known_type",
    "outside",
    "reacts",
    "type_name",
]
