"""Types that the state of an agent may hold, and the form of their values in digests."""

import copy
import functools
import typing
from collections.abc import Callable, Set
from typing import Any, Final, TypeVar, cast

import msgspec

from .fields import field_names, lost_fields
from .names import AgentError, location

__all__ = [
    "check_encodable",
    "check_keeps_fields",
    "check_no_any",
    "decoder",
    "encoder",
    "hints_of",
    "may_hold_sets",
    "may_nest",
    "with_sorted_sets",
    "without_sets",
]

T = TypeVar("T")

encoder: Final = msgspec.msgpack.Encoder()

_CONTAINERS: Final = (list, tuple, dict, set, frozenset)


def hints_of(cls: type) -> dict[str, Any]:
    """Return the types of a class's attributes. Raises AgentError if one cannot be resolved."""
    try:
        return typing.get_type_hints(cls)
    except Exception as error:
        raise AgentError(f"{location(cls)}: a type cannot be resolved: {error}") from error


def check_encodable(kind: Any, where: str) -> None:
    """Raise AgentError unless msgspec can decode `kind` and keeps all of it."""
    try:
        decoder(kind)
        msgspec.json.schema(kind)  # a decoder lets unknown classes pass until it meets one
    except TypeError as error:
        raise AgentError(
            f"{where}: {kind!r} cannot be stored; use numbers, text, bytes, dates, lists, dicts, tuples, "
            "enumerations, attrs classes or dataclasses"
        ) from error
    check_keeps_fields(kind, where)


def check_keeps_fields(kind: Any, where: str) -> None:
    """Raise AgentError if a private field of a class within the type would lose its value."""
    for part in _parts(kind):
        if lost := lost_fields(part):
            raise AgentError(
                f"{where}: the value of {part.__qualname__}.{lost[0]} would be lost; "
                "give the field a name without underscore"
            )


def check_no_any(kind: Any, where: str, *, within_classes: bool = True) -> None:
    """Raise AgentError if a value of the type may be anything.

    Such a value may be impossible to send or store, or come back as one of another type: a list for a tuple.
    With `within_classes` false the fields of classes are not examined: their types may not be defined yet.
    """
    if Any in _parts(kind, within_classes=within_classes):
        raise AgentError(
            f"{where} may be of any type, and then it cannot be sent or stored safely; name the types, "
            "as in int | str | list[float]"
        )


def may_hold_sets(kind: Any) -> bool:
    """Return whether a value of this type may be or contain a set."""
    return any(part is Any or (isinstance(part, type) and issubclass(part, Set)) for part in _parts(kind))


def may_nest(kind: Any) -> bool:
    """Return whether values of this type may be nested deeper than its own text says."""
    return _unbounded(kind, ())


def _unbounded(kind: Any, within: tuple[Any, ...]) -> bool:
    """Return whether a type is recursive, or has containers of anything. `within`: the classes around it."""
    if kind in within:
        return True
    parts = typing.get_args(kind)
    if kind is Any or kind is object or (not parts and kind in _CONTAINERS):
        return True
    if isinstance(kind, type) and field_names(kind) is not None:
        within, parts = (*within, kind), tuple(hints_of(kind).values())
    return any(_unbounded(part, within) for part in parts)


def without_sets(value: Any) -> Any:
    """Return the value with sorted lists in place of sets and maps in place of objects.

    The order of a set differs between processes.
    """
    return _sorted(value, lambda _, fields: fields)


def with_sorted_sets(value: Any) -> Any:
    """Return the value with sorted lists in place of sets, so that it decodes as its own type.

    Objects of classes with fields are copied, their sets replaced.
    """
    return _sorted(value, _copied)


def _sorted(value: Any, form: Callable[[Any, dict[str, Any]], Any]) -> Any:
    """Copy a value with sorted lists in place of sets.

    `form` takes an object of a class with fields and its copied fields, and returns its replacement.
    """
    if isinstance(value, (set, frozenset)):
        items = [_sorted(item, form) for item in cast("set[Any]", value)]
        return sorted(items, key=encoder.encode)
    if isinstance(value, dict):
        return {key: _sorted(item, form) for key, item in value.items()}  # pyright: ignore
    if isinstance(value, (list, tuple)):
        return [_sorted(item, form) for item in cast("list[Any]", value)]
    names = field_names(type(value))
    return (
        value if names is None else form(value, {name: _sorted(getattr(value, name), form) for name in names})
    )


def _copied(value: Any, fields: dict[str, Any]) -> Any:
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.replace(value, **fields)
    copied = copy.copy(value)
    for name, each in fields.items():
        object.__setattr__(copied, name, each)
    return copied


def _parts(kind: Any, *, within_classes: bool = True) -> list[Any]:
    """Return a type and all types that it is made of."""
    found: list[Any] = []
    waiting = [kind]
    while waiting:
        part = waiting.pop()
        if part in found:
            continue
        found.append(part)
        waiting.extend(typing.get_args(part))
        origin = typing.get_origin(part)
        if origin is not None:
            waiting.append(origin)
        elif within_classes and isinstance(part, type) and field_names(part) is not None:
            waiting.extend(hints_of(part).values())
    return found


def decoder(cls: type[T]) -> msgspec.msgpack.Decoder[T]:
    """Return the decoder of a class, from a cache. Raises TypeError if a field's type cannot be encoded."""
    return cast("msgspec.msgpack.Decoder[T]", _decoder(cast("Any", cls)))


@functools.lru_cache(maxsize=4096)
def _decoder(cls: Any) -> Any:
    return msgspec.msgpack.Decoder(cls)
