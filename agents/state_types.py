"""Types that the state of an agent may hold, and the form of their values in digests."""

import copy
import functools
import typing
from collections.abc import Callable, Set
from typing import Any, Final, TypeVar, cast

import attrs
import msgspec

from .names import AgentError, location

__all__ = [
    "check_encodable",
    "decoder",
    "encoder",
    "field_names",
    "hints_of",
    "may_hold_sets",
    "with_sorted_sets",
    "without_sets",
]

T = TypeVar("T")

encoder: Final = msgspec.msgpack.Encoder()


def hints_of(cls: type) -> dict[str, Any]:
    """The types of a class's attributes. Raises AgentError if one cannot be resolved."""
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
    for part in _parts(kind):
        # msgspec leaves out the private attributes of attrs classes and dataclasses.
        hidden = [name for name in field_names(part) or () if name.startswith("_")]
        if hidden:
            raise AgentError(
                f"{where}: {part.__qualname__}.{hidden[0]} would not be stored; "
                "give the attribute a name without underscore"
            )


def may_hold_sets(kind: Any) -> bool:
    """Return whether a value of this type may be or contain a set."""
    return any(part is Any or (isinstance(part, type) and issubclass(part, Set)) for part in _parts(kind))


def without_sets(value: Any) -> Any:
    """Return the value with sorted lists in place of sets and maps in place of objects; the order of a set
    differs between processes."""
    return _sorted(value, lambda _, fields: fields)


def with_sorted_sets(value: Any) -> Any:
    """Return the value with sorted lists in place of sets, so that it decodes as its own type.

    An object of a class is copied, with such fields."""
    return _sorted(value, _copied)


def _sorted(value: Any, form: Callable[[Any, dict[str, Any]], Any]) -> Any:
    """`form` makes of an object of a class with fields, and these, what stands in its place."""
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


def _parts(kind: Any) -> list[Any]:
    """A type and all that it is made of."""
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
        elif isinstance(part, type) and field_names(part) is not None:
            waiting.extend(hints_of(part).values())
    return found


def field_names(kind: Any) -> list[str] | None:
    """The fields of an attrs class, a dataclass or a Struct; None for anything else."""
    if not isinstance(kind, type):
        return None
    if attrs.has(kind):
        return [field.name for field in attrs.fields(kind)]
    for marker in ("__dataclass_fields__", "__struct_fields__"):
        if hasattr(kind, marker):
            return list(getattr(kind, marker))
    return None


def decoder(cls: type[T]) -> msgspec.msgpack.Decoder[T]:
    """The (cached) decoder of a class. Raises TypeError if a field's type cannot be encoded."""
    return cast("msgspec.msgpack.Decoder[T]", _decoder(cast("Any", cls)))


@functools.lru_cache(maxsize=4096)
def _decoder(cls: Any) -> Any:
    return msgspec.msgpack.Decoder(cls)
