"""Qpid Proton, as this package uses it: the only place that imports it.

It is an extra that may be missing where types are checked, and its own types say less than what it returns.
So nothing of it has a type here.
"""

import importlib
from typing import Any, Final, TypeGuard

__all__ = [
    "LETTERS",
    "UNDESCRIBED",
    "UUID",
    "Array",
    "Collector",
    "Condition",
    "Connection",
    "Data",
    "Delivery",
    "Described",
    "Event",
    "Link",
    "Message",
    "ProtonException",
    "Terminus",
    "Transport",
    "byte",
    "int32",
    "is_list",
    "is_map",
    "symbol",
    "ubyte",
    "ulong",
]

_proton: Any = importlib.import_module("proton")

UNDESCRIBED: Final[Any] = _proton.UNDESCRIBED
Array: Final[Any] = _proton.Array
Collector: Final[Any] = _proton.Collector
Condition: Final[Any] = _proton.Condition
Connection: Final[Any] = _proton.Connection
Data: Final[Any] = _proton.Data
Delivery: Final[Any] = _proton.Delivery
Described: Final[Any] = _proton.Described
Event: Final[Any] = _proton.Event
Link: Final[Any] = _proton.Link
Message: Final[Any] = _proton.Message
ProtonException: Final[Any] = _proton.ProtonException
Terminus: Final[Any] = _proton.Terminus
Transport: Final[Any] = _proton.Transport
byte: Final[Any] = _proton.byte
int32: Final[Any] = _proton.int32
symbol: Final[Any] = _proton.symbol
ubyte: Final[Any] = _proton.ubyte
ulong: Final[Any] = _proton.ulong
UUID: Final[Any] = importlib.import_module("uuid").UUID
"""Proton gives a UUID as Python's own."""

LETTERS: Final[dict[Any, str]] = {
    _proton.byte: "b",
    _proton.short: "s",
    _proton.ubyte: "B",
    _proton.ushort: "S",
    _proton.uint: "I",
    _proton.ulong: "L",
    _proton.timestamp: "t",
    _proton.char: "c",
    _proton.symbol: "y",
    _proton.float32: "f",
    _proton.decimal32: "d",
    _proton.decimal64: "D",
}
"""Types that Python does not tell apart, with a letter for each."""


def is_list(value: Any) -> TypeGuard[list[Any]]:
    """Return whether a value is a list."""
    return isinstance(value, list)


def is_map(value: Any) -> TypeGuard[dict[Any, Any]]:
    """Return whether a value is a map."""
    return isinstance(value, dict)
