"""The part of a notification that cannot be encoded, found after its encoding has failed."""

from typing import Any, Final, cast

import msgspec

from .fields import field_names
from .nesting import MAX_NESTING, TOO_DEEP

__all__ = ["encoding_fault"]

_SHOWN_CHARS: Final = 60
"""Characters of a value that an error shows."""
_encode: Final = msgspec.msgpack.Encoder().encode


def encoding_fault(notification: object, type_name: str, error: BaseException) -> TypeError | ValueError:
    """Return the exception for a notification whose encoding has raised `error`.

    It names the field, down to the element of a list or dict, and says what is allowed: ValueError for a
    value out of the range of its type, TypeError for a type that cannot be sent and for values nested too
    deep.
    """
    begin = f"{type_name} cannot be encoded"
    for name in field_names(type(notification)) or ():
        try:
            found = _fault(getattr(notification, name, None), name, 0)
        except RecursionError:
            found = name, TypeError(TOO_DEEP)
        if found is not None:
            where, fault = found
            return type(fault)(f"{begin}: its field {where} {fault}")
    return TypeError(f"{begin}: {error}")


def _fault(value: Any, where: str, depth: int) -> tuple[str, TypeError | ValueError] | None:
    """Return the innermost part of a value that cannot be encoded, with what is wrong; None if there is
    none."""
    if depth > MAX_NESTING:
        return where, TypeError(f"is nested too deep: {TOO_DEEP}")
    try:
        _encode(value)
    except Exception as error:
        for part, inner in _parts(value, where):
            found = _fault(part, inner, depth + 1)
            if found is not None:
                return found
        return where, _described(value, error)
    return None


def _parts(value: Any, where: str) -> "list[tuple[Any, str]]":
    """Return the parts of a container with their paths."""
    if isinstance(value, dict):
        pairs = value.items()  # pyright: ignore
        keys = [(key, f"{where} (a key of it)") for key, _ in pairs]  # pyright: ignore
        return [*keys, *((each, f"{where}[{_shown(key)}]") for key, each in pairs)]  # pyright: ignore
    if isinstance(value, (list, tuple)):
        return [(each, f"{where}[{index}]") for index, each in enumerate(cast("list[Any]", value))]
    if isinstance(value, (set, frozenset)):
        return [(each, f"{where} (an element of it)") for each in cast("set[Any]", value)]
    names = field_names(type(value)) or ()
    return [(getattr(value, name, None), f"{where}.{name}") for name in names]


def _described(value: object, error: Exception) -> TypeError | ValueError:
    if isinstance(value, int):
        return ValueError(
            "is an integer of more than 64 bits; give one from -2**63 to 2**64 - 1, or send it as text"
        )
    if isinstance(value, str):
        return ValueError(
            f"is {_shown(value)}, which has half of a surrogate pair, and UTF-8 cannot hold that; "
            "replace it, or send bytes"
        )
    if isinstance(error, TypeError):
        return TypeError(
            f"is {_shown(value)}, a {type(value).__qualname__}; use numbers, text, bytes, dates, UUIDs, "
            "lists, dicts, tuples, sets, enumerations, attrs classes or dataclasses"
        )
    return ValueError(f"is {_shown(value)}: {error}")


def _shown(value: object) -> str:
    """Return a value as text that fits into an error, without characters that cannot be printed."""
    try:
        text = ascii(value)
    except Exception:  # The code of a class may raise anything.
        text = f"a {type(value).__qualname__}"
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}..."
