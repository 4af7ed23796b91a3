"""Copies and fingerprints of a whole simulated world: to go back, and to recognise where one has been."""

from collections import deque
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import attrs
import msgspec

__all__ = ["clone", "fingerprint"]

_PLAIN = (type(None), bool, int, float, str, bytes, type, FunctionType, BuiltinFunctionType)


def _immutable(thing: Any) -> bool:
    if isinstance(thing, _PLAIN):
        return True
    return isinstance(thing, msgspec.Struct) and type(thing).__struct_config__.frozen


def _fields(thing: Any) -> list[str]:
    names = list(getattr(thing, "__dict__", ()))
    for cls in type(thing).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        names += [slots] if isinstance(slots, str) else list(slots)
    return [name for name in names if name != "__weakref__" and hasattr(thing, name)]


def clone(thing: Any, memo: dict[int, Any] | None = None) -> Any:
    """A copy of everything that can change. Functions and frozen structs are shared."""
    if _immutable(thing):
        return thing
    memo = {} if memo is None else memo
    known = memo.get(id(thing))
    if known is not None:
        return known
    kind: Any = type(thing)
    if kind is tuple:
        return tuple([clone(each, memo) for each in thing])
    if isinstance(thing, tuple):
        return thing
    if kind is MethodType:
        return MethodType(thing.__func__, clone(thing.__self__, memo))
    copy: Any
    if isinstance(thing, dict):
        copy = memo[id(thing)] = kind()
        for key, value in thing.items():
            copy[clone(key, memo)] = clone(value, memo)
    elif isinstance(thing, list | deque):
        copy = memo[id(thing)] = deque(maxlen=thing.maxlen) if isinstance(thing, deque) else kind()
        copy.extend([clone(each, memo) for each in thing])
    elif isinstance(thing, set | frozenset):
        copy = memo[id(thing)] = kind([clone(each, memo) for each in thing])
    elif hasattr(thing, "getstate"):
        copy = memo[id(thing)] = kind()
        copy.setstate(thing.getstate())
    else:
        copy = memo[id(thing)] = object.__new__(kind)
        for name in _fields(thing):
            object.__setattr__(copy, name, clone(getattr(thing, name), memo))
    return copy


def fingerprint(thing: Any, seen: dict[int, int] | None = None) -> Any:
    """Something hashable that is equal for equal things. Times, that is floats, do not count."""
    if isinstance(thing, float | FunctionType | MethodType | BuiltinFunctionType):
        return None
    if _immutable(thing):
        return thing
    seen = {} if seen is None else seen
    if id(thing) in seen:
        return seen[id(thing)]
    if isinstance(thing, tuple):
        return tuple([fingerprint(each, seen) for each in thing])
    seen[id(thing)] = len(seen)
    if isinstance(thing, dict):
        return tuple([(fingerprint(key, seen), fingerprint(value, seen)) for key, value in thing.items()])
    if isinstance(thing, list | deque):
        return tuple([fingerprint(each, seen) for each in thing])
    if isinstance(thing, set | frozenset):
        return frozenset([fingerprint(each, seen) for each in thing])
    if attrs.has(type(thing)) and type(thing).__name__ == "Settings":
        return None
    return tuple([(name, fingerprint(getattr(thing, name), seen)) for name in _fields(thing)])
