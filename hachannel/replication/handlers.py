"""Message handlers: each part of a channel lists the types of messages that it receives. A leaf."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from ..model.messages import Message
from ..model.view import Voter

__all__ = ["Handler", "Handlers"]

Handler: TypeAlias = Callable[[float, Voter, Any], None]
"""Receives the time in monotonic seconds, the sender and the message."""

Handlers: TypeAlias = Mapping[type[Message], Handler]
"""Handlers by the type of their messages."""
