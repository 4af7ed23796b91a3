"""Notifications and states of agents as JSON has them, and notifications made of JSON. Pure."""

import contextlib
from typing import Any, cast

import msgspec

from ...agents import AgentId, Notification, encode
from ...agents.fields import field_names
from ...agents.notification import known_type, read

__all__ = ["payload_of", "plain", "shown"]


def plain(payload: bytes) -> Any:
    """Decode a MessagePack payload into values that JSON has (bytes become base64). Raises ValueError."""
    if not payload:
        return None
    try:
        return msgspec.to_builtins(msgspec.msgpack.decode(payload), str_keys=True)
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"The answer of the server cannot be shown: {error}.") from None


def shown(type_name: str, payload: bytes) -> Any:
    """Decode a notification as `plain` does, with agent ids as text where this process knows the type."""
    kind = known_type(type_name)
    if kind is not None:
        with contextlib.suppress(ValueError, TypeError):
            return msgspec.to_builtins(_with_texts(read(kind, type_name, payload)), str_keys=True)
    return plain(payload)


def _with_texts(value: Any) -> Any:
    """Return the value as maps and lists, with agent ids as text."""
    if isinstance(value, AgentId):
        return str(value)
    if isinstance(value, dict):
        return {_with_texts(key): _with_texts(item) for key, item in value.items()}  # pyright: ignore
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_with_texts(item) for item in cast("list[Any]", value)]
    names = field_names(type(value))
    return value if names is None else {name: _with_texts(getattr(value, name)) for name in names}


def payload_of(kind: type[Notification], fields: str | bytes) -> bytes:
    """Return the encoded fields of a notification, given as a JSON object.

    Raises ValueError, whose text says what is wrong, without a full stop.
    """
    try:
        given: Any = msgspec.json.decode(fields)
        notification = msgspec.json.decode(fields, type=kind)
        payload = encode(notification)
    except (msgspec.MsgspecError, TypeError, RecursionError) as error:
        raise ValueError(str(error)) from None
    if unknown := _unknown_field(given, notification):
        raise ValueError(unknown)
    return payload


def _unknown_field(given: Any, value: Any) -> str:
    """Return what JSON gives that the value made of it has no field for, with the fields it has, or ""."""
    parts: list[tuple[Any, Any]] = []
    names = field_names(type(value))
    if isinstance(given, dict) and names is not None:
        given = cast("dict[str, Any]", given)
        if isinstance(value, msgspec.Struct):
            names = list(value.__struct_encode_fields__)
        for name in given:
            if name not in names:
                fields = f"its fields are {', '.join(names)}" if names else "it has none"
                return f"{type(value).__qualname__} has no field {name}; {fields}"
        values = [getattr(value, name) for name in field_names(type(value)) or ()]
        parts = [(given[name], each) for name, each in zip(names, values, strict=True) if name in given]
    elif isinstance(given, dict) and isinstance(value, dict):
        parts = list(zip(given.values(), value.values(), strict=False))  # pyright: ignore
    elif isinstance(given, list) and isinstance(value, (list, tuple)):
        parts = list(zip(given, value, strict=False))  # pyright: ignore
    return next((found for part in parts if (found := _unknown_field(*part))), "")
