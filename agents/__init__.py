"""The programming interface of agents: agents, notifications and the context of a reaction."""

from .agent import (
    Agent,
    AgentError,
    AgentSpec,
    agent_named,
    agent_spec,
    agent_upgrading,
    agent_versions,
    reacts,
)
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
from .lifecycle import AgentPage, AgentRow, ListAgents, Pause, Paused, Resume, Resumed
from .notification import Notification, decode, encode, known_type, read, type_name
from .state_types import decoder
from .upgrade import UpgradeError, upgrades

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
    "AgentPage",
    "AgentRow",
    "AgentSpec",
    "Context",
    "Create",
    "CreateFailed",
    "Created",
    "Delete",
    "Deleted",
    "ExceptionNotification",
    "ListAgents",
    "Note",
    "Notification",
    "Opaque",
    "Outcome",
    "Pause",
    "Paused",
    "RefuseCreate",
    "ReplyTo",
    "Resume",
    "Resumed",
    "UnknownAgent",
    "UpgradeError",
    "agent_named",
    "agent_spec",
    "agent_upgrading",
    "agent_versions",
    "connection_manager",
    "decode",
    "decoder",
    "encode",
    "factory",
    "known_type",
    "outside",
    "reacts",
    "read",
    "type_name",
    "upgrades",
]
