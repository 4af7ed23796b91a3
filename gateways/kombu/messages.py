"""Messages of Kombu, and how they are kept: their bodies as they are, all else in columns.

Programs in Python, STOMP and AMQP read the body, the priority, the content type and the name of the task.
They may send tasks, too: a message without the column of Kombu gets its headers from its properties.
"""

import contextlib
from collections.abc import Mapping
from typing import Any, Final, TypeGuard, cast

import attrs

from ...agents import ColumnValue
from ...messaging.agents.protocol import MAX_PRIORITY, PROPERTY_PREFIX
from ...messaging.client.message import Message
from .facade import dumps, loads

__all__ = ["Received", "Sent", "received", "sent"]

KEPT: Final = "kombu"
"""The column with what only Kombu has."""
CONTENT_TYPE: Final = "content-type"
TRANSIENT: Final = 1
"""The delivery mode of messages for which nobody waits."""
_OTHER_TYPES: Final = {None: ("application/data", "binary"), "text": ("text/plain", "utf-8")}
"""By the encoding of a body: the content type and encoding of what others have sent."""
_PARTS: Final[Mapping[str, Any]] = {"h": {}, "p": {}, "e": "", "x": "", "k": ""}
"""What the column has: headers, properties, encoding, exchange and routing key."""


@attrs.frozen
class Sent:
    """A message that is to be sent."""

    body: bytes
    columns: dict[str, ColumnValue]
    transient: bool
    """Whether its sender does not wait until the destination has it."""


@attrs.frozen
class Received:
    """The parts of a message for Kombu."""

    body: bytes
    content_type: str
    content_encoding: str
    headers: dict[str, Any]
    properties: dict[str, Any]
    exchange: str
    routing_key: str


def sent(message: Mapping[str, Any], exchange: str, routing_key: str) -> Sent:
    """Return what to send for a message that a channel has prepared."""
    properties = dict(message["properties"])
    headers = message["headers"]
    body = message["body"]
    priority = properties.pop("priority", None) or 0
    transient = properties.get("delivery_mode") == TRANSIENT
    columns: dict[str, ColumnValue] = {"priority": max(0, min(int(priority), MAX_PRIORITY))}
    if transient:
        columns["mode"] = "NON_PERSISTENT"
    if properties.get("expiration"):
        columns["ttl"] = max(1, int(properties["expiration"]))
    if isinstance(properties.get("correlation_id"), str):
        columns["correlation"] = properties.pop("correlation_id")
    if isinstance(headers.get("task"), str):
        columns["type"] = headers["task"]
    if message["content_type"]:
        columns[PROPERTY_PREFIX + CONTENT_TYPE] = str(message["content_type"])
    kept = {
        "h": headers,
        "p": properties,
        "e": message["content_encoding"] or "",
        "x": exchange,
        "k": routing_key,
    }
    columns[KEPT] = dumps({name: value for name, value in kept.items() if value})
    if message["content_encoding"] == "utf-8" and "compression" not in headers:
        # Others read it as text.
        columns["encoding"] = "text"
    return Sent(body.encode() if isinstance(body, str) else bytes(body), columns, transient)


def received(message: Message, queue: str) -> Received:
    """Return the parts of a message. queue: where it was received."""
    kept = _kept(message)
    properties = message.properties
    content_type, encoding = _OTHER_TYPES.get(message.encoding, ("application/data", "binary"))
    content_type = str(properties.pop(CONTENT_TYPE, content_type))
    body = message.data
    if kept is not None:
        headers, encoding = kept.get("h", {}), kept.get("e", encoding)
        found: dict[str, Any] = kept.get("p", {})
        exchange, key = kept.get("x", ""), kept.get("k", "")
    else:
        headers = dict(properties)
        if message.type is not None:
            headers.setdefault("task", message.type)
        if message.encoding in ("map", "stream"):
            # A body that cannot be read stays as it is: the worker says what it got.
            with contextlib.suppress(ValueError, TypeError):
                body = dumps(message.body).encode()
                content_type, encoding = "application/json", "utf-8"
        found = {}
        if message.reply_to is not None:
            found["reply_to"] = message.reply_to.title
        exchange, key = "", queue
    found["priority"] = message.priority
    if message.correlation_id is not None:
        found["correlation_id"] = message.correlation_id
    return Received(body, content_type, encoding, headers, found, exchange, key)


def _kept(message: Message) -> dict[str, Any] | None:
    """Return what only Kombu has; None for a message of another program, whatever it has put there."""
    try:
        kept: Any = loads(message.kept(KEPT) or "")
    except ValueError:
        return None
    return kept if _is_whole(kept) else None


def _is_whole(kept: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(kept, dict) and all(
        isinstance(cast("Any", kept).get(name, empty), type(empty)) for name, empty in _PARTS.items()
    )
