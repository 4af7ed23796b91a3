"""The HA channel: replicates opaque payloads from a master to its slaves, in one order, through failures."""

from .group.group import Group
from .group.handler import GroupError, GroupFailed, GroupHandler, GroupLimits, NotInGroup, QueueFull
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
