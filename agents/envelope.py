"""The envelope in which a notification travels between socket, log and engine."""

from typing import NamedTuple

import msgspec

from .ids import AgentId

__all__ = ["Note", "Opaque", "ReplyTo"]


class Note(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """An addressed, encoded notification. Its payload is not looked into on the way."""

    to: AgentId | str
    """The recipient: an id, or a name as in `Address`."""
    sender: AgentId
    """Who gets the replies and the errors."""
    type: str
    """Name of the notification's type, ``module:Class``."""
    payload: bytes
    """The notification in MessagePack."""
    request: int = 0
    """Identifies a request to its sender; replies carry it back. 0: not a request."""


class Opaque(NamedTuple):
    """A notification left encoded. A handler annotated with it gets whatever no other handler takes."""

    type: str
    payload: bytes
    request: int


class ReplyTo(NamedTuple):
    """Where the answer to a request goes. It may be kept in an agent's state and used later."""

    agent: AgentId
    request: int
