"""Highly available agents that react to notifications, and the reliable messaging built from them."""

import importlib
import typing

from .agents import (
    ActivityCompleted,
    ActivityFailed,
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
    Pack,
    ReplyTo,
    Rows,
    UnknownAgent,
    reacts,
    upgrades,
)
from .client import (
    AsyncConnection,
    AuthenticationError,
    Connection,
    ConnectionClosed,
    ConnectionLost,
    NotCreated,
    NotPermitted,
    QuorateClientError,
    ReactionError,
    RequestTimeout,
    Unavailable,
    UnhandledTypeError,
    UnknownAgentError,
    aconnect,
    connect,
)
from .client.local import DirectSend, LocalServer, QueueGap, QueueItem, ThreadQueue, local_server

if typing.TYPE_CHECKING:
    from .server.processes.servers import Servers, ServersError

__all__ = [
    "ActivityCompleted",
    "ActivityFailed",
    "Agent",
    "AgentError",
    "AgentId",
    "AsyncConnection",
    "AuthenticationError",
    "Connection",
    "ConnectionClosed",
    "ConnectionLost",
    "Context",
    "Create",
    "CreateFailed",
    "Created",
    "Delete",
    "Deleted",
    "DirectSend",
    "ExceptionNotification",
    "LocalServer",
    "NotCreated",
    "NotPermitted",
    "Notification",
    "Opaque",
    "Pack",
    "QueueGap",
    "QueueItem",
    "QuorateClientError",
    "ReactionError",
    "ReplyTo",
    "RequestTimeout",
    "Rows",
    "Servers",
    "ServersError",
    "ThreadQueue",
    "Unavailable",
    "UnhandledTypeError",
    "UnknownAgent",
    "UnknownAgentError",
    "aconnect",
    "connect",
    "local_server",
    "reacts",
    "upgrades",
]

_LAZY: typing.Final = {
    "Servers": "quorate.server.processes.servers",
    "ServersError": "quorate.server.processes.servers",
}
"""Names that are imported when they are used: agents and clients do without servers."""


def __getattr__(name: str) -> typing.Any:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(module), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
