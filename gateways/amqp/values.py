"""Values of AMQP as values of Python and back, with a code for the types that Python does not tell apart.

A code is a letter for a value, a dict for a map, a list for a list, and None for what `typed` makes of the
plain value anyway: an integer becomes an int if it fits, else a long; a float becomes a double. Codes are
JSON, kept beside a message whose values all other clients can read. Source: AMQP 1.0, part 1.
"""

from typing import Any, Final, cast

from .engine import LETTERS, UUID, int32, is_list, is_map, ulong

__all__ = ["Unknown", "plain", "typed"]

_TYPES: Final[dict[str, Any]] = {letter: kind for kind, letter in LETTERS.items()}
_LONG: Final = "l"
_UUID: Final = "u"
_MAX_DEPTH: Final = 32


class Unknown(ValueError):
    """The value has no like in Python: it is kept as the bytes that came."""


def plain(value: Any, depth: int = 0) -> tuple[Any, Any]:
    """Return the value as Python has it, and its code. Raises Unknown."""
    kind = cast("Any", type(value))
    if value is None or kind in (bool, str, float, bytes):
        return value, None
    if kind is int32:
        return int(value), None
    if kind is int:
        return value, _LONG if _fits(value, 31) else None
    letter = LETTERS.get(kind)
    if letter is not None:
        base = next(each for each in (str, float, int) if isinstance(value, each))
        return base(value), letter
    if kind is UUID:
        return str(value), _UUID
    if kind in (memoryview, bytearray):
        return bytes(value), None
    if depth < _MAX_DEPTH and kind is list:
        pairs = [plain(each, depth + 1) for each in cast("list[Any]", value)]
        codes = [code for _, code in pairs]
        return [each for each, _ in pairs], codes if any(code is not None for code in codes) else None
    if depth < _MAX_DEPTH and is_map(value):
        return _plain_map(value, depth)
    raise Unknown(f"a value of AMQP's type {kind.__name__}")


def _plain_map(value: dict[Any, Any], depth: int) -> tuple[dict[str, Any], Any]:
    found: dict[str, Any] = {}
    codes: dict[str, Any] = {}
    for key, each in value.items():
        if type(key) is not str:
            raise Unknown("a map with keys that are no text")
        found[key], code = plain(each, depth + 1)
        if code is not None:
            codes[key] = code
    return found, codes or None


def typed(value: Any, code: Any = None) -> Any:
    """Return a value of Python as Proton encodes it, by a code that `plain` has returned for such a value."""
    if isinstance(code, str):
        if code == _UUID:
            return UUID(value)
        return value if code == _LONG else _TYPES[code](value)
    if type(value) is int:
        return int32(value) if _fits(value, 31) else value if _fits(value, 63) else ulong(value)
    if is_list(value):
        codes = code if is_list(code) else [None] * len(value)
        return [typed(each, other) for each, other in zip(value, codes, strict=True)]
    if is_map(value):
        by_key = code if is_map(code) else {}
        return {key: typed(each, by_key.get(key)) for key, each in value.items()}
    return value


def _fits(value: int, bits: int) -> bool:
    return -(1 << bits) <= value < 1 << bits
