"""The envelope of a notification between socket, log and engine."""

from typing import Final, NamedTuple

import msgspec

from .ids import AgentId

__all__ = ["MAX_REQUEST", "Note", "Opaque", "ReplyTo", "check_address"]

MAX_REQUEST: Final = (1 << 63) - 1
"""Largest number of a request, and largest number in an agent id."""


class Note(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """An addressed, encoded notification. Its payload is not decoded on the way."""

    to: AgentId | str
    """The recipient: an id, or a name as in `Address`."""
    sender: AgentId
    """The agent that gets the replies and the errors."""
    type: str
    """Name of the notification's type: ``bank.deposit/1`` or ``module:Class``."""
    payload: bytes
    """The notification in MessagePack."""
    request: int = 0
    """Identifies a request to its sender; replies carry it back. 0: not a request."""
    cause: int = 0
    """The position, on the server of `sender`, of the reaction that has sent it; negative if that reaction
    has set a timer, which is this; 0 if it came from outside."""


class Opaque(NamedTuple):
    """A notification left encoded. A reaction annotated with it gets all other types."""

    type: str
    payload: bytes
    request: int


class ReplyTo(NamedTuple):
    """Address of the answer to a request. It may be kept in an agent's state and used later."""

    agent: AgentId
    request: int


def check_address(to: object, request: object = 0) -> None:
    """Raise TypeError or ValueError unless a note with this address and number of a request can be read.

    An address of another type could be encoded all the same, but not be read again: another server would
    refuse it each time it is sent, and this server when it starts.
    """
    if isinstance(to, AgentId):
        creator, host, stamp = to
        if not (type(creator) is type(host) is type(stamp) is int):
            raise TypeError(f"{tuple(to)!r} is not the id of an agent: its three parts are integers")
        if not (0 <= creator <= MAX_REQUEST and 0 <= host <= MAX_REQUEST and 0 <= stamp <= MAX_REQUEST):
            raise ValueError(f"{tuple(to)!r} is not the id of an agent: a part of it is out of range")
    elif not isinstance(to, str):
        raise TypeError(f"{to!r} is not an address; give an AgentId, a name or ctx.reply_to")
    elif not to.isascii():
        try:
            to.encode()
        except UnicodeEncodeError:
            raise ValueError(f"{to!r} is not an address: it has half of a surrogate pair") from None
    if type(request) is not int:
        raise TypeError(f"{request!r} is not the number of a request; give an integer")
    if not 0 <= request <= MAX_REQUEST:
        raise ValueError(f"{request} is not the number of a request")
