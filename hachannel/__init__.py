"""The HA channel: replicates opaque payloads from a master to its slaves, in one order, through failures."""

from .channel import Channel
from .errors import (
    ChangeRefused,
    ChannelError,
    NotMaster,
    NotYet,
    PayloadTooLarge,
    ProtocolError,
    TooFewCopies,
    WindowFull,
)
from .events import (
    Deliver,
    Event,
    InstallPart,
    LeaseChanged,
    Output,
    ProvidePart,
    ProvideSnapshot,
    Stable,
    Stopped,
    Told,
    ViewEvent,
)
from .log import Log, LogRecord, MemoryLog
from .messages import Message, decode_message, encode_message
from .origins import Source
from .settings import Settings
from .view import Seat, View, ViewNumber, Voter

__all__ = [
    "ChangeRefused",
    "Channel",
    "ChannelError",
    "Deliver",
    "Event",
    "InstallPart",
    "LeaseChanged",
    "Log",
    "LogRecord",
    "MemoryLog",
    "Message",
    "NotMaster",
    "NotYet",
    "Output",
    "PayloadTooLarge",
    "ProtocolError",
    "ProvidePart",
    "ProvideSnapshot",
    "Seat",
    "Settings",
    "Source",
    "Stable",
    "Stopped",
    "Told",
    "TooFewCopies",
    "View",
    "ViewEvent",
    "ViewNumber",
    "Voter",
    "WindowFull",
    "decode_message",
    "encode_message",
]
