"""Messages of STOMP and of the server: what a header becomes, and what a message has as headers."""

import json
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from ...agents import ColumnValue
from ...messaging.agents.protocol import MAX_PRIORITY, PROPERTY_PREFIX
from ...messaging.client.bodies import decode_body
from ...messaging.client.consumer import ConsumerOptions
from ...messaging.client.destinations import Destination, Queue, Topic
from ...messaging.client.message import Message

__all__ = [
    "columns_of",
    "consumer_options",
    "destination_name",
    "headers_of",
    "parse_destination",
    "temporary_kind",
]

QUEUE: Final = "/queue/"
TOPIC: Final = "/topic/"
TEMPORARY: Final[Mapping[str, type[Queue] | type[Topic]]] = {"/temp-queue/": Queue, "/temp-topic/": Topic}
"""Destinations that a connection names for itself, and that end with it."""
TEXT: Final = ("text/", "application/json", "application/xml")
"""Types of contents that are text for other clients of the server."""
MAX_WINDOW: Final = 10_000
MAX_SPAN_MS: Final = 10 * 365 * 24 * 3600 * 1000

_OWN: Final = frozenset(
    {
        *(
            "destination",
            "receipt",
            "transaction",
            "content-length",
            "id",
            "message-id",
            "subscription",
            "ack",
        ),
        *(
            "correlation-id",
            "reply-to",
            "type",
            "priority",
            "persistent",
            "expires",
            "expiration",
            "timestamp",
        ),
        *("redelivered", "delivery-count", "JMSXGroupID", "key", "duplicate-id", "delay"),
    }
)
"""Headers with a meaning; all others are properties of the message."""


def parse_destination(text: str) -> Destination:
    """Return the destination of a header: ``/queue/orders``, ``/topic/prices``. Raises ValueError."""
    for prefix, kind in ((QUEUE, Queue), (TOPIC, Topic)):
        if text.startswith(prefix):
            return kind(text.removeprefix(prefix))
    raise ValueError(f"{text[:80]!r} is not a destination; write {QUEUE}NAME or {TOPIC}NAME")


def temporary_kind(text: str) -> type[Queue] | type[Topic] | None:
    """Return what a temporary destination is, as ``/temp-queue/answers``; None for any other destination."""
    return next((kind for prefix, kind in TEMPORARY.items() if text.startswith(prefix)), None)


def destination_name(destination: Destination) -> str:
    """Return a destination as a header has it."""
    return f"{TOPIC if isinstance(destination, Topic) else QUEUE}{destination.title}"


def columns_of(
    headers: Mapping[str, str], body: bytes, wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
) -> dict[str, ColumnValue]:
    """Return what a message has beside its body. Raises ValueError for a header that is not understood."""
    columns: dict[str, ColumnValue] = {}
    texts = {
        "correlation": "correlation-id",
        "type": "type",
        "group": "JMSXGroupID",
        "key": "key",
        "duplicate": "duplicate-id",
    }
    for column, name in texts.items():
        if name in headers:
            columns[column] = headers[name]
    if "reply-to" in headers:
        columns["reply"] = parse_destination(headers["reply-to"]).address
    if "priority" in headers:
        columns["priority"] = _whole(headers, "priority", MAX_PRIORITY)
    if headers.get("persistent", "true").lower() == "false":
        columns["mode"] = "NON_PERSISTENT"
    if _whole(headers, "expires", 10**15):
        columns["ttl"] = max(1, _whole(headers, "expires", 10**15) - wall_ms())
    if "expiration" in headers:
        columns["ttl"] = max(1, _whole(headers, "expiration", MAX_SPAN_MS))
    if _whole(headers, "delay", MAX_SPAN_MS):
        columns["delay"] = _whole(headers, "delay", MAX_SPAN_MS)
    kind = headers.get("content-type", "")
    if _is_text(kind, "content-length" in headers, body):
        columns["encoding"] = "text"
    for name, value in headers.items():
        if name not in _OWN:
            columns[PROPERTY_PREFIX + name] = value
    return columns


def _is_text(kind: str, measured: bool, body: bytes) -> bool:
    """Return whether a body is text: as its type says, else if it came without its length."""
    if not kind.startswith(TEXT) and (kind or measured):
        return False
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


def _whole(headers: Mapping[str, str], name: str, most: int) -> int:
    text = headers.get(name, "0").strip()
    if not (text.isascii() and text.isdigit() and len(text) < 17 and int(text) <= most):
        raise ValueError(f"the header {name} is {text[:80]!r}; give a number from 0 to {most}")
    return int(text)


def headers_of(message: Message) -> tuple[dict[str, str], bytes]:
    """Return the headers of a message, without those of its subscription, and its body."""
    headers = {name: _text(value) for name, value in message.properties.items()}
    body, kind = _body(message)
    if kind:
        headers.setdefault("content-type", kind)
    values: dict[str, Any] = {
        "correlation-id": message.correlation_id,
        "type": message.type,
        "JMSXGroupID": message.group,
        "reply-to": None if message.reply_to is None else destination_name(message.reply_to),
        "expires": None if message.expires_s is None else round(message.expires_s * 1000),
        "redelivered": "true" if message.redelivered else None,
    }
    headers |= {name: str(value) for name, value in values.items() if value is not None}
    headers["message-id"] = message.id
    headers["priority"] = str(message.priority)
    headers["timestamp"] = str(round(message.timestamp_s * 1000))
    if message.redelivered:
        headers["delivery-count"] = str(message.delivery_count)
    return headers, body


def _body(message: Message) -> tuple[bytes, str]:
    encoding = message.encoding
    if encoding is None or encoding == "text":
        return message.data, "" if encoding is None else "text/plain;charset=utf-8"
    if encoding in ("map", "stream"):
        text = json.dumps(decode_body(encoding, message.data), default=str, ensure_ascii=False)
        return text.encode(), "application/json"
    return message.data, "application/octet-stream"


def _text(value: ColumnValue) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def consumer_options(headers: Mapping[str, str], client_id: str) -> ConsumerOptions:
    """Return what a SUBSCRIBE frame asks for. Raises ValueError."""
    name = headers.get("activemq.subscriptionName", "")
    durable = name or (headers.get("id", "") if headers.get("durable", "").lower() == "true" else "")
    window = headers.get("prefetch-count", headers.get("activemq.prefetchSize", ""))
    options: dict[str, Any] = {}
    if window:
        options["window"] = max(1, _whole({"prefetch-count": window}, "prefetch-count", MAX_WINDOW))
    return ConsumerOptions(
        selector=headers.get("selector", ""),
        durable=durable,
        client_id=client_id if durable else "",
        no_local=headers.get("no-local", headers.get("activemq.noLocal", "")).lower() == "true",
        exclusive=headers.get("exclusive", headers.get("activemq.exclusive", "")).lower() == "true",
        **options,
    )
