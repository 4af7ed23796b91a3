"""Typed notifications and their encoding."""

import functools
from typing import Any, ClassVar, Final, TypeVar, cast

import msgspec

from .state_types import AgentError, decoder, hints_of, may_hold_sets, module_name, with_sorted_sets

__all__ = ["UNREADABLE", "Notification", "decode", "encode", "known_type", "type_name"]

T = TypeVar("T")

UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding raises for bytes that are no such notification."""

_known: dict[str, type["Notification"]] = {}


class Notification:
    """Base of everything agents react to. Subclass it with ``attrs.frozen``::

        @attrs.frozen
        class Deposit(Notification):
            amount: int

    Fields may be of any type that msgspec encodes: numbers, text, bytes, dates, UUIDs, lists, dicts,
    tuples, enumerations, and attrs classes or dataclasses of these.
    """

    __slots__ = ()

    type_name: ClassVar[str]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # attrs and msgspec build a second class when they add slots; the last one defined is the one in use.
        cls.type_name = f"{module_name(cls.__module__)}:{cls.__qualname__}"
        _known[cls.type_name] = cls


def type_name(cls: type[Notification]) -> str:
    """The name under which notifications of this class travel: ``module:Class``."""
    return cls.type_name


def known_type(name: str) -> type[Notification] | None:
    """The notification class of that name, if this process has defined it. Imports nothing."""
    return _known.get(name)


_encoder = msgspec.msgpack.Encoder()


def encode(notification: Notification) -> bytes:
    """Encode the fields of a notification in MessagePack.

    Raises TypeError, naming the class, if it is not a Notification or a field cannot be encoded.
    """
    if not isinstance(notification, Notification):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(
            f"{type(notification).__name__} is not a notification; derive it from quorate.Notification"
        )
    try:
        sort = _sorting(cast("Any", type(notification)))
        return _encoder.encode(notification if sort is None else sort(notification))
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(f"{notification.type_name} cannot be encoded: {error}") from error


@functools.lru_cache(maxsize=4096)
def _sorting(cls: Any) -> Any:
    """What sorts the sets in one of this class, for their order differs between processes; None if none."""
    try:
        has_sets = any(may_hold_sets(kind) for kind in hints_of(cls).values())
    except AgentError:  # a type cannot be resolved: it may be anything
        has_sets = True
    return with_sorted_sets if has_sets else None


def decode(cls: type[T], payload: bytes) -> T:
    """Decode what `encode` made, checking the type of every field.

    Raises one of UNREADABLE, with the path of the field that does not fit.
    """
    return decoder(cls).decode(payload)
