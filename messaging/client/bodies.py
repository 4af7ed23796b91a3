"""The bodies of messages: how a value becomes bytes, and what the column ``encoding`` says of it.

===========  ============================  =======================================================
encoding     value                         bytes
===========  ============================  =======================================================
missing      bytes                         as they are
``text``     text                          UTF-8
``map``      dict with text as keys        MessagePack
``stream``   list                          MessagePack
``type:N``   notification with the name N  as it is encoded in a notification
===========  ============================  =======================================================
"""

from typing import Any, Final, NamedTuple, cast

import msgspec

from ...agents import Notification, known_type, read
from ...agents.nesting import TOO_DEEP, nested_too_deep
from ...agents.notification import encode

__all__ = ["Body", "Encoded", "decode_body", "encode_body"]


class Encoded(NamedTuple):
    """A body that is encoded already."""

    encoding: str | None
    data: bytes


Body = bytes | str | dict[str, Any] | list[Any] | Notification
"""What a message may carry. Values in a dict or list: numbers, text, bytes, bools, None, dates, and these."""

_TEXT: Final = "text"
_MAP: Final = "map"
_STREAM: Final = "stream"
_TYPED: Final = "type:"
_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder[Any]()


def encode_body(body: "Body | Encoded") -> tuple[str | None, bytes]:
    """Return the encoding, None for bytes, and the bytes. Raises TypeError or ValueError."""
    if isinstance(body, Encoded):
        return body
    if isinstance(body, bytes):
        return None, body
    if isinstance(body, str):
        return _TEXT, body.encode()
    if isinstance(body, Notification):
        return _TYPED + body.type_name, encode(body)
    if isinstance(body, dict):
        wrong = next((key for key in body if not isinstance(key, str)), None)  # pyright: ignore[reportUnnecessaryIsInstance]
        if wrong is not None:
            raise TypeError(f"the body has the key {wrong!r}; the keys of a dict are texts")
        return _MAP, _packed(body)
    if isinstance(body, list):  # pyright: ignore[reportUnnecessaryIsInstance]
        return _STREAM, _packed(body)
    raise TypeError(
        f"the body is a {type(body).__name__}; give bytes, text, a dict, a list or a notification"
    )


def _packed(value: dict[str, Any] | list[Any]) -> bytes:
    try:
        packed = _encoder.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise type(error)(f"the body cannot be sent: {error}") from None
    if nested_too_deep(packed):
        raise TypeError(f"the body cannot be sent: {TOO_DEEP}")
    return packed


def decode_body(encoding: object, data: bytes) -> Body:
    """Return the value. Raises ValueError, with what to do, if it cannot be read here."""
    if encoding is None:
        return data
    text = str(encoding)
    try:
        if text == _TEXT:
            return data.decode()
        if text in (_MAP, _STREAM):
            return cast("Body", _decoder.decode(data))
        if text.startswith(_TYPED):
            cls = known_type(text.removeprefix(_TYPED))
            if cls is None:
                name = text.removeprefix(_TYPED)
                raise ValueError(
                    f"the body is a {name}, which this process does not define; import its module"
                )
            return read(cls, text.removeprefix(_TYPED), data)
    except (UnicodeDecodeError, msgspec.DecodeError) as error:
        raise ValueError(f"the body is no {text}: {error}") from error
    raise ValueError(
        f"the body has the encoding {text!r}, which this version does not know; read Message.data"
    )
