"""Copies, time shifts and digests of the objects of a simulated world."""

import math
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from copy import copy as shallow
from enum import Enum
from hashlib import blake2b
from types import BuiltinFunctionType, CellType, FunctionType, MethodType
from typing import Any, cast

import attrs
import msgspec

__all__ = ["canonical_form", "clone", "digest", "shift_times"]

_LEAVES: set[type] = {type(None), bool, int, float, str, bytes, type, BuiltinFunctionType, frozenset}
_CHANGING: set[type] = {tuple, list, dict, set, deque, MethodType, FunctionType}
_FIELDS: dict[type, tuple[str, ...]] = {}
_type_of: Callable[[object], type[Any]] = type
"""Returns the class of an object, of which a type checker knows nothing."""


def _is_leaf(kind: type[Any]) -> bool:
    """Return whether instances of a class never change. The answer is kept in `_LEAVES`."""
    if kind in _CHANGING:
        return False
    if issubclass(kind, msgspec.Struct):
        leaf = kind.__struct_config__.frozen
    elif attrs.has(kind):
        leaf = kind.__setattr__ is not object.__setattr__ and "frozen" in kind.__setattr__.__name__
    else:
        # Named tuples hold only objects that do not change.
        leaf = issubclass(kind, Enum) or tuple in kind.__mro__[1:]
    (_LEAVES if leaf else _CHANGING).add(kind)
    return leaf


def _fields(kind: type[Any]) -> tuple[str, ...]:
    """Return the slots of a class; its instances may have a __dict__ besides."""
    names = _FIELDS.get(kind)
    if names is None:
        found: list[str] = []
        for cls in kind.__mro__:
            slots = cls.__dict__.get("__slots__", ())
            found += [slots] if isinstance(slots, str) else slots
        if issubclass(kind, msgspec.Struct):
            found = list(kind.__struct_fields__)
        names = _FIELDS[kind] = tuple(
            name for name in found if name not in ("__weakref__", "__dict__", "__orig_class__")
        )
    return names


def _attributes(thing: Any) -> Iterator[tuple[str, Any]]:
    yield from getattr(thing, "__dict__", {}).items()
    for name in _fields(_type_of(thing)):
        if hasattr(thing, name):
            yield name, getattr(thing, name)


def clone(thing: Any, memo: dict[int, Any]) -> Any:
    """Return a copy of everything that can change; everything else is shared.

    memo: copies by the id of their originals. To share an object, put it there as its own copy.
    """
    kind: Any = _type_of(thing)
    if kind in _LEAVES:
        return thing
    known = memo.get(id(thing))
    if known is not None:
        return known
    copier = _COPIERS.get(kind)
    if copier is not None:
        return copier(thing, memo)
    if _is_leaf(kind):
        return thing
    if isinstance(thing, msgspec.Struct):
        # Structs that change have fields that do not.
        copy = memo[id(thing)] = shallow(thing)
        return copy
    copy = memo[id(thing)] = object.__new__(kind)
    attributes = getattr(thing, "__dict__", None)
    if attributes is not None:
        into = copy.__dict__
        for name, value in attributes.items():
            into[name] = value if type(value) in _LEAVES else clone(value, memo)
    for name in _fields(kind):
        if hasattr(thing, name):
            value = getattr(thing, name)
            object.__setattr__(copy, name, value if type(value) in _LEAVES else clone(value, memo))
    return copy


def _clone_tuple(thing: tuple[Any, ...], memo: dict[int, Any]) -> Any:
    copy = tuple([each if type(each) in _LEAVES else clone(each, memo) for each in thing])
    same = all(one is other for one, other in zip(thing, copy, strict=True))
    return thing if same else copy


def _clone_list(thing: list[Any], memo: dict[int, Any]) -> Any:
    copy: list[Any] = []
    memo[id(thing)] = copy
    copy.extend([each if type(each) in _LEAVES else clone(each, memo) for each in thing])
    return copy


def _clone_deque(thing: "deque[Any]", memo: dict[int, Any]) -> Any:
    copy = memo[id(thing)] = deque[Any](maxlen=thing.maxlen)
    copy.extend([each if type(each) in _LEAVES else clone(each, memo) for each in thing])
    return copy


def _clone_set(thing: set[Any], memo: dict[int, Any]) -> Any:
    copy = memo[id(thing)] = set(thing)
    return copy


def _clone_dict(thing: dict[Any, Any], memo: dict[int, Any]) -> Any:
    copy: dict[Any, Any] = {}
    memo[id(thing)] = copy
    for key, value in thing.items():
        copy[key] = value if type(value) in _LEAVES else clone(value, memo)
    return copy


def _clone_method(thing: MethodType, memo: dict[int, Any]) -> Any:
    return MethodType(thing.__func__, clone(thing.__self__, memo))


def _clone_function(thing: FunctionType, memo: dict[int, Any]) -> Any:
    """Copy a closure with copies of its variables."""
    if not thing.__closure__:
        return thing
    cells = tuple(CellType(clone(cell.cell_contents, memo)) for cell in thing.__closure__)
    return FunctionType(thing.__code__, thing.__globals__, thing.__name__, thing.__defaults__, cells)


_COPIERS: dict[type, Callable[[Any, dict[int, Any]], Any]] = {
    tuple: _clone_tuple,
    list: _clone_list,
    deque: _clone_deque,
    set: _clone_set,
    dict: _clone_dict,
    MethodType: _clone_method,
    FunctionType: _clone_function,
}


# Time

_STILL = frozenset({"now", "heard", "closed", "exit_since", "moved", "gave", "_last"})
"""Times used only to notice silence and stalls, which do not occur if time is an event."""
OLDEST = -100.0
"""The lower bound of a shifted time, in seconds."""


def shift_times(thing: Any, by_s: float, but: Collection[Any] = ()) -> None:
    """Make every time that `thing` remembers older by `by_s` seconds. Names that end with `_s` are spans, not
    times.

    but: objects that it refers to and that are not part of it.
    """
    seen = {id(each) for each in but}

    def walk(thing: Any) -> None:
        kind: Any = _type_of(thing)
        if kind in _LEAVES or kind in (MethodType, FunctionType) or id(thing) in seen or _is_leaf(kind):
            return
        seen.add(id(thing))
        if isinstance(thing, dict):
            for key, value in cast("Iterable[tuple[Any, Any]]", thing.items()):
                if type(value) is float:
                    thing[key] = _older(value, by_s)
                else:
                    walk(value)
        elif isinstance(thing, list | deque | tuple | set):
            for each in cast("Iterable[Any]", thing):
                walk(each)
        else:
            for name, value in list(_attributes(thing)):
                if type(value) is not float:
                    walk(value)
                elif name not in _STILL and not name.endswith("_s"):
                    object.__setattr__(thing, name, _older(value, by_s))

    walk(thing)


def _older(time: float, by_s: float) -> float:
    return time if math.isinf(time) else max(time - by_s, OLDEST)


# Digests


def canonical_form(thing: Any, skip: Collection[str], seen: dict[int, int] | None = None) -> Any:
    """Return plain values that are equal for equal objects. Functions, and attributes in `skip`, do not
    count."""
    kind: Any = _type_of(thing)
    if kind in _LEAVES:
        return sorted(thing) if kind is frozenset else None if kind is type else thing
    if kind is MethodType or kind is FunctionType:
        return None
    if kind is not dict and _is_leaf(kind):
        return thing
    seen = {} if seen is None else seen
    known = seen.get(id(thing))
    if known is not None:
        return known
    if kind is tuple:
        return [canonical_form(each, skip, seen) for each in thing]
    seen[id(thing)] = len(seen)
    if kind is list or kind is deque:
        return [each if type(each) in _LEAVES else canonical_form(each, skip, seen) for each in thing]
    if kind is dict:
        items = [
            (key, value if type(value) in _LEAVES else canonical_form(value, skip, seen))
            for key, value in thing.items()
        ]
        # The order of replicas and indices may matter; that of voters and views never does.
        return items if len(items) < 2 or type(items[0][0]) is int else sorted(items, key=_key)
    if kind is set:
        return sorted(thing)
    return [
        kind.__name__,
        *[
            value if type(value) in _LEAVES else canonical_form(value, skip, seen)
            for name, value in _attributes(thing)
            if name not in skip
        ],
    ]


def _key(item: tuple[Any, Any]) -> Any:
    return item[0]


def digest(plain: Any) -> bytes:
    """Return a hash of a canonical form."""
    return blake2b(msgspec.msgpack.encode(plain), digest_size=16).digest()
