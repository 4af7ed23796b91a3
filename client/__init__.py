"""Clients: the session, and the blocking, asyncio and Twisted connections on it."""

from .aio import AsyncConnection, aconnect
from .blocking import Connection, connect
from .errors import (
    AuthenticationError,
    BadUrl,
    ConnectionClosed,
    ConnectionLost,
    FrameTooLarge,
    NotCreated,
    NotPermitted,
    ProtocolError,
    QuorateClientError,
    ReactionError,
    RequestTimeout,
    Unavailable,
    UnexpectedReply,
    UnhandledTypeError,
    UnknownAgentError,
)
from .events import SessionSettings
from .pending import Received

__all__ = [
    "AsyncConnection",
    "AuthenticationError",
    "BadUrl",
    "Connection",
    "ConnectionClosed",
    "ConnectionLost",
    "FrameTooLarge",
    "NotCreated",
    "NotPermitted",
    "ProtocolError",
    "QuorateClientError",
    "ReactionError",
    "Received",
    "RequestTimeout",
    "SessionSettings",
    "Unavailable",
    "UnexpectedReply",
    "UnhandledTypeError",
    "UnknownAgentError",
    "aconnect",
    "connect",
]
