"""Highly available agents that react to notifications, and the reliable messaging built from them."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
    from .client import (
        AsyncConnection,
        AuthenticationError,
        Connection,
        ConnectionClosed,
        ConnectionLost,
        QuorateClientError,
        ReactionError,
        RequestTimeout,
        Unavailable,
        UnhandledTypeError,
        UnknownAgentError,
        aconnect,
        connect,
    )
else:

    def __getattr__(name: str) -> Any:
        """Import what is asked for: who wants the channel alone, or a command, does not wait for the rest."""
        parts = ("agents", "client")
        if name in parts:
            return import_module(f".{name}", __name__)
        for part in parts if name in __all__ else ():
            module = import_module(f".{part}", __name__)
            if name in module.__all__:
                value = globals()[name] = getattr(module, name)
                return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
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
    "ExceptionNotification",
    "Notification",
    "Opaque",
    "QuorateClientError",
    "ReactionError",
    "ReplyTo",
    "RequestTimeout",
    "Unavailable",
    "UnhandledTypeError",
    "UnknownAgent",
    "UnknownAgentError",
    "aconnect",
    "connect",
    "reacts",
]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
