"""The checks of the arguments of a connection. Each error names the argument and says what is allowed."""

from typing import Final, cast

from ..agents.envelope import ReplyTo, check_address
from ..agents.ids import FACTORY_ADDRESS, AgentId
from ..agents.notification import Notification, encode
from .pending import ReplyTypes

__all__ = [
    "SendArguments",
    "credential",
    "reply_types",
    "request_arguments",
    "send_arguments",
]

MAX_CREDENTIAL_BYTES: Final = 1024
"""Most bytes of a user's name, and of a password."""

_ADDRESSES: Final = 'write a name ("alice"), a name on another server ("alice@s1") or an id ("#0.0.1025")'

SendArguments = tuple[AgentId | str, str, bytes, int]
"""Recipient, type name, payload and number of the request: the arguments of `Session.send`."""


def credential(name: str, value: object) -> str:
    """Return a user's name or a password.

    Raises TypeError unless it is text, ValueError if it cannot be sent; the error does not show the text.
    """
    if not isinstance(value, str):
        raise TypeError(f"{name} is {'None' if value is None else f'a {type(value).__name__}'}; give text")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise ValueError(
            f"{name} has half of a surrogate pair, which UTF-8 cannot hold; correct it"
        ) from None
    if size > MAX_CREDENTIAL_BYTES:
        raise ValueError(f"{name} has {size} bytes; give at most {MAX_CREDENTIAL_BYTES}")
    return value


def reply_types(reply: type[Notification] | ReplyTypes | None) -> ReplyTypes:
    """Return the classes that a caller accepts, as a tuple. Raises TypeError for anything else."""
    if reply is None:
        return ()
    types = cast("tuple[object, ...]", reply if isinstance(reply, tuple) else (reply,))
    for each in types:
        if not (isinstance(each, type) and issubclass(each, Notification)):
            raise TypeError(f"reply is {each!r}; give a notification class, or a tuple of such")
    return cast("ReplyTypes", types)


def send_arguments(
    to: AgentId | ReplyTo | str, notification: Notification, request: int = 0
) -> SendArguments:
    """Encode a notification. A `ReplyTo` as `to` gives both the address and the request.

    Raises TypeError or ValueError if `to` is no address or the notification cannot be encoded.
    """
    if isinstance(to, ReplyTo):
        to, request = to
    _check_recipient(to, request)
    payload = encode(notification)
    return to, notification.type_name, payload, request


def request_arguments(to: AgentId | str, notification: Notification, request: int) -> SendArguments:
    """Encode a notification that is a request.

    Raises as `send_arguments` does, and TypeError for a `ReplyTo`.
    """
    if isinstance(to, ReplyTo):
        raise TypeError(
            f"to is {to!r}, the address of an answer, and an answer gets none; send to it, or give its agent"
        )
    return send_arguments(to, notification, request)


def _check_recipient(to: object, request: object) -> None:
    """Raise TypeError or ValueError, naming the argument, unless `to` may be the address of an agent."""
    try:
        check_address(to, request)
        if isinstance(to, str) and to.startswith("#") and to.partition("@")[0] != FACTORY_ADDRESS:
            AgentId.parse(to)
    except (TypeError, ValueError) as error:
        raise type(error)(f"to cannot be used: {error}; {_ADDRESSES}") from None
    if isinstance(to, str):
        name, at, server = to.rpartition("@")
        if not to or (at and not (name and server)):
            raise ValueError(f"to is {to!r}, which names no agent; {_ADDRESSES}")
