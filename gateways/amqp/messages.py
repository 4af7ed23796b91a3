"""Messages of AMQP and of the server.

What all clients understand is translated: the body, the properties, priority, times, the group. What only
AMQP knows is kept in a column of its own, ``amqp``, so that an AMQP client gets the very types that another
has sent. The numbers of JMS are those of its mapping to AMQP, which Qpid JMS follows.
"""

import json
from typing import Any, Final, cast

import attrs

from ...agents import ColumnValue
from ...messaging.agents.protocol import DEFAULT_PRIORITY, MAX_PRIORITY, PROPERTY_PREFIX
from ...messaging.client.bodies import Body, encode_body
from ...messaging.client.destinations import Destination
from ...messaging.client.message import Message
from .addresses import KINDS, capability_of, kind_of, parse_address
from .engine import Message as AmqpMessage
from .engine import byte, is_list, is_map, symbol
from .values import Unknown, plain, typed

__all__ = ["BadMessage", "Incoming", "decode_message", "encode_message"]

RESIDUE: Final = "amqp"
CONTENT_TYPE: Final = "content-type"
JMS_KIND: Final[Any] = symbol("x-opt-jms-msg-type")
JMS_TO: Final[Any] = symbol("x-opt-jms-dest")
JMS_REPLY_TO: Final[Any] = symbol("x-opt-jms-reply-to")
DELIVERY_TIME: Final[Any] = symbol("x-opt-delivery-time")
DELIVERY_DELAY: Final[Any] = symbol("x-opt-delivery-delay")
_JMS_OF_ENCODING: Final = {"text": 5, "map": 2, "stream": 4}
_JMS_BYTES: Final = 3
_NO_SYMBOL: Final[Any] = symbol("None")
"""What Proton says of a symbol that is not there."""
_KEPT: Final = {
    "i": "id",
    "u": "user_id",
    "e": "content_encoding",
    "q": "group_sequence",
    "g": "reply_to_group_id",
    "t": "creation_time",
}
"""Fields that only AMQP has, by their letters in the column."""


class BadMessage(ValueError):
    """A message that cannot be taken. The text is one sentence for the client."""


@attrs.frozen
class Incoming:
    """A message of a client."""

    body: bytes
    columns: dict[str, ColumnValue]
    to: Destination | None
    """Where it says that it goes, for clients that say it in each message."""


def decode_message(data: bytes, wall_ms: int) -> Incoming:
    """Return a message that came as bytes. wall_ms: the time, milliseconds since 1970. Raises BadMessage."""
    raw = AmqpMessage()
    try:
        raw.decode(data)
    except Exception as error:  # Proton raises whatever comes, for bytes that are no message
        raise BadMessage("the message cannot be read: it has no sections of AMQP 1.0") from error
    annotations, properties = _map(raw.annotations, "message annotations"), _map(raw.properties, "properties")
    residue: dict[str, Any] = {}
    columns = _header(raw, annotations, wall_ms)
    columns |= _properties(raw, annotations, properties, residue)
    encoding, body = _body(raw, data, residue)
    if encoding is not None:
        columns["encoding"] = encoding
    kind = annotations.get(JMS_KIND)
    if isinstance(kind, int) and kind != _JMS_OF_ENCODING.get(encoding or "", _JMS_BYTES):
        residue["k"] = int(kind)
    if residue:
        columns[RESIDUE] = json.dumps(residue, ensure_ascii=False, separators=(",", ":"))
    return Incoming(body, columns, _address(raw.address, annotations.get(JMS_TO), "to"))


def _map(section: Any, name: str) -> dict[Any, Any]:
    """Return a section of a message that is a map, or nothing."""
    if not section:
        return {}
    if not is_map(section):
        raise BadMessage(f"the section {name} of the message is no map")
    return section


def _header(raw: Any, annotations: dict[Any, Any], wall_ms: int) -> dict[str, ColumnValue]:
    columns: dict[str, ColumnValue] = {}
    if raw.priority != DEFAULT_PRIORITY:
        columns["priority"] = min(int(raw.priority), MAX_PRIORITY)
    if not raw.durable:
        columns["mode"] = "NON_PERSISTENT"
    ttl_ms = round(raw.ttl * 1000)
    if not ttl_ms and raw.expiry_time:
        ttl_ms = max(1, round(raw.expiry_time * 1000) - wall_ms)
    if ttl_ms:
        columns["ttl"] = ttl_ms
    at, delay = annotations.get(DELIVERY_TIME), annotations.get(DELIVERY_DELAY)
    if isinstance(at, int) and at > wall_ms:
        columns["delay"] = int(at) - wall_ms
    elif isinstance(delay, int) and delay > 0:
        columns["delay"] = int(delay)
    return columns


def _properties(
    raw: Any, annotations: dict[Any, Any], properties: dict[Any, Any], residue: dict[str, Any]
) -> dict[str, ColumnValue]:
    columns: dict[str, ColumnValue] = {}
    if raw.subject is not None:
        columns["type"] = raw.subject
    if raw.group_id:
        columns["group"] = raw.group_id
    if raw.correlation_id is not None:
        _keep(residue, "c", raw.correlation_id)
        columns["correlation"] = _text(raw.correlation_id)
        if residue["c"] == columns["correlation"]:
            del residue["c"]
    reply = _address(raw.reply_to, annotations.get(JMS_REPLY_TO), "reply-to")
    if reply is not None:
        columns["reply"] = reply.address
    for letter, name in _KEPT.items():
        value = getattr(raw, name)
        if value and value != _NO_SYMBOL:
            _keep(residue, letter, value)
    if raw.content_type and raw.content_type != _NO_SYMBOL:
        columns[PROPERTY_PREFIX + CONTENT_TYPE] = str(raw.content_type)
    codes: dict[str, Any] = {}
    for key, value in properties.items():
        try:
            each, code = plain(value)
        except Unknown as error:
            raise BadMessage(f"the property {key} is {error}; give a number, text or a bool") from None
        if each is None:
            continue
        if isinstance(each, bytes | list | dict) or (isinstance(each, int) and not -(2**63) <= each < 2**63):
            raise BadMessage(f"the property {key} is no number of 64 bits, no text and no bool")
        columns[f"{PROPERTY_PREFIX}{key}"] = each
        if code is not None:
            codes[str(key)] = code
    if codes:
        residue["p"] = codes
    return columns


def _keep(residue: dict[str, Any], letter: str, value: Any) -> None:
    """Keep a value of any scalar type: as it is in JSON, or with its code."""
    try:
        each, code = plain(value)
    except Unknown:
        return
    if isinstance(each, bytes):
        residue[letter] = ["x", each.hex()]
    else:
        residue[letter] = each if code is None else [code, each]


def _kept(value: Any) -> Any:
    if not is_list(value):
        return typed(value)
    code, each = value
    return bytes.fromhex(each) if code == "x" else typed(each, code)


def _text(value: Any) -> str:
    return cast("bytes", plain(value)[0]).hex() if isinstance(value, bytes | memoryview) else str(value)


def _address(address: str | None, kind: Any, field: str) -> Destination | None:
    if not address:
        return None
    said = kind_of([KINDS[kind]]) if isinstance(kind, int) and 0 <= kind < len(KINDS) else None
    try:
        return parse_address(address, said)
    except ValueError as error:
        raise BadMessage(f"the field {field}: {error}") from None


def _body(raw: Any, data: bytes, residue: dict[str, Any]) -> tuple[str | None, bytes]:
    """Return the encoding and the bytes of a body. What has no like here stays as it came."""
    if raw.body is None:
        residue["b"] = "null"
        return None, b""
    try:
        found: tuple[Any, Any] = plain(raw.body)
        body, code = found
        if not isinstance(body, bytes | str | list | dict):
            raise Unknown("a single value")
        encoding, encoded = encode_body(cast("Body", body))
    except (Unknown, TypeError, ValueError, OverflowError):
        residue["b"] = "raw"
        return None, data
    if code is not None:
        residue["v"] = code
    if isinstance(body, bytes) and not raw.inferred:
        residue["b"] = "value"
    elif isinstance(body, list) and raw.inferred:
        residue["b"] = "sequence"
    return encoding, encoded


def encode_message(message: Message, now_ms: int) -> bytes:
    """Return a message as a client gets it."""
    residue: dict[str, Any] = json.loads(message.kept(RESIDUE) or "{}")
    raw = AmqpMessage()
    _fill_body(raw, message, residue)
    raw.durable = message.persistent
    raw.priority = message.priority
    raw.delivery_count = message.delivery_count - 1
    raw.first_acquirer = not message.redelivered
    if message.expires_s is not None:
        raw.expiry_time = message.expires_s
        raw.ttl = max(1, round(message.expires_s * 1000) - now_ms) / 1000
    _fill_properties(raw, message, residue)
    kind = residue.get("k", _JMS_OF_ENCODING.get(message.encoding or "", _JMS_BYTES))
    annotations: dict[Any, Any] = {JMS_KIND: byte(kind), JMS_TO: _number(message.destination)}
    if message.reply_to is not None:
        annotations[JMS_REPLY_TO] = _number(message.reply_to)
    raw.annotations = annotations
    encoded: bytes = raw.encode()
    return encoded


def _number(destination: Destination) -> Any:
    return byte(KINDS.index(capability_of(destination)))


def _fill_body(raw: Any, message: Message, residue: dict[str, Any]) -> None:
    form = residue.get("b")
    if form == "null":
        return
    if form == "raw":
        came = AmqpMessage()
        came.decode(message.data)
        raw.body, raw.inferred = came.body, came.inferred
        # Bytes of the body lie in its memory.
        raw.came = came
        return
    if message.encoding in ("text", "map", "stream"):
        raw.body = typed(message.body, residue.get("v"))
        raw.inferred = form == "sequence"
    else:
        raw.body = message.data
        raw.inferred = form != "value"
    if CONTENT_TYPE not in message.properties and raw.inferred and isinstance(raw.body, bytes):
        raw.content_type = symbol("application/octet-stream")


def _fill_properties(raw: Any, message: Message, residue: dict[str, Any]) -> None:
    raw.id = message.id
    raw.creation_time = message.timestamp_s
    for letter, name in _KEPT.items():
        if letter in residue:
            value = _kept(residue[letter])
            setattr(raw, name, value)
    raw.address = message.destination.title
    if message.reply_to is not None:
        raw.reply_to = message.reply_to.title
    if message.type is not None:
        raw.subject = message.type
    if message.group is not None:
        raw.group_id = message.group
    if message.correlation_id is not None:
        raw.correlation_id = _kept(residue["c"]) if "c" in residue else message.correlation_id
    codes = residue.get("p", {})
    properties = dict(message.properties)
    content_type = properties.pop(CONTENT_TYPE, None)
    if content_type is not None:
        raw.content_type = symbol(str(content_type))
    reason, origin = message.dead_reason, message.dead_origin
    if reason is not None:
        properties |= {"JMS_QUORATE_dead_reason": reason, "JMS_QUORATE_dead_origin": origin}
    raw.properties = {name: typed(value, codes.get(name)) for name, value in properties.items()}
