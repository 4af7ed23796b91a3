"""Messages as people are shown them."""

from typing import Any

import msgspec

from ...agents import Pack
from ..agents.protocol import PROPERTY_PREFIX
from .bodies import decode_body

__all__ = ["shown_message"]


def shown_message(pack: Pack, index: int) -> dict[str, Any]:
    """Return the properties of a message, and its body as a value that JSON has."""
    columns = {
        name: value
        for name in pack.columns
        if name not in ("number", "encoding") and (value := pack.value(name, index)) is not None
    }
    data = pack.body(index)
    try:
        body: Any = decode_body(pack.value("encoding", index), data)
        body = msgspec.to_builtins(body, builtin_types=(bytes,)) if not isinstance(body, bytes) else body
        if isinstance(body, bytes):
            body = body.decode("utf-8", "backslashreplace")
        else:
            msgspec.json.encode(body)
    except (ValueError, TypeError):
        body = f"{len(data)} bytes"
    return {"body": body, **{name.removeprefix(PROPERTY_PREFIX): value for name, value in columns.items()}}
