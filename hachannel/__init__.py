"""The HA channel: replicates opaque payloads from a master to its slaves, in one order, through failures.

The channel needs no event loop. The group, which runs it on Twisted, is imported when its names are first
used: commands and programs that need only the channel or its settings start without Twisted.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .model.errors import (
    ChangeRefused,
    ChannelError,
    NotMaster,
    NotYet,
    PayloadTooLarge,
    ProtocolError,
    TooFewCopies,
    WindowFull,
)
from .model.events import (
    Deliver,
    DirectReceived,
    Event,
    InstallPart,
    LeaseChanged,
    Output,
    ProvidePart,
    ProvideSnapshot,
    Stable,
    Stopped,
    ViewEvent,
)
from .model.log import Log, LogRecord, MemoryLog
from .model.messages import Message, decode_message, encode_message
from .model.settings import Settings
from .model.submitters import Source
from .model.view import Seat, View, ViewNumber, Voter
from .protocol.channel import Channel

if TYPE_CHECKING:
    from .group.group import Group
    from .group.handler import GroupError, GroupFailed, GroupHandler, GroupLimits, NotInGroup, QueueFull

__all__ = [
    "ChangeRefused",
    "Channel",
    "ChannelError",
    "Deliver",
    "DirectReceived",
    "Event",
    "Group",
    "GroupError",
    "GroupFailed",
    "GroupHandler",
    "GroupLimits",
    "InstallPart",
    "LeaseChanged",
    "Log",
    "LogRecord",
    "MemoryLog",
    "Message",
    "NotInGroup",
    "NotMaster",
    "NotYet",
    "Output",
    "PayloadTooLarge",
    "ProtocolError",
    "ProvidePart",
    "ProvideSnapshot",
    "QueueFull",
    "Seat",
    "Settings",
    "Source",
    "Stable",
    "Stopped",
    "TooFewCopies",
    "View",
    "ViewEvent",
    "ViewNumber",
    "Voter",
    "WindowFull",
    "decode_message",
    "encode_message",
]

_GROUP_MODULES = {
    "Group": ".group.group",
    **dict.fromkeys(
        ("GroupError", "GroupFailed", "GroupHandler", "GroupLimits", "NotInGroup", "QueueFull"),
        ".group.handler",
    ),
}


def __getattr__(name: str) -> Any:
    if name not in _GROUP_MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_GROUP_MODULES[name], __name__), name)
