"""Typed notifications and their encoding."""

import functools
from typing import Any, ClassVar, Final, TypeVar, cast

import msgspec

from .names import AgentError, ClassNames, names_of
from .state_types import decoder, hints_of, may_hold_sets, with_sorted_sets

__all__ = ["UNREADABLE", "Notification", "decode", "encode", "has_name", "known_type", "type_name"]

T = TypeVar("T")

UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Exceptions that decoding raises for bytes that are no such notification."""

_known: Final["ClassNames[Notification]"] = ClassNames()


class Notification:
    """Base of everything agents react to. Subclass it with ``attrs.frozen``::

        @attrs.frozen
        class Deposit(Notification):
            amount: int

    Fields may be of any type that msgspec encodes: numbers, text, bytes, dates, UUIDs, lists, dicts,
    tuples, enumerations, and attrs classes or dataclasses of these.

    ``class Deposit(Notification, name="bank.deposit")`` gives it a name on the wire that does not depend on
    its module: ``bank.deposit/1``. `version` (1 unless given) is the number in it. `also` holds whole names
    of former versions, or ``module:Class``, that are read as this class, too.
    Raises AgentError for what cannot be a name, or is the name of another class.
    """

    __slots__ = ()

    type_name: ClassVar[str]
    """The name under which it travels: ``bank.deposit/1``, or ``module:Class`` if none was given."""
    type_names: ClassVar[tuple[str, ...]]
    """All names that are read as this class, `type_name` being the first."""

    def __init_subclass__(
        cls, *, name: str | None = None, version: int = 1, also: tuple[str, ...] = (), **kwargs: Any
    ) -> None:
        super().__init_subclass__(**kwargs)
        # attrs builds a second class when it adds slots, with the attributes of the first and no arguments.
        if "type_names" not in vars(cls):
            cls.type_names = names_of(cls, name, version, also)
            cls.type_name = cls.type_names[0]
        _known.add(cls, cls.type_names)


def type_name(cls: type[Notification]) -> str:
    """Return the name under which notifications of this class travel, see `Notification.type_name`."""
    return cls.type_name


def known_type(name: str) -> type[Notification] | None:
    """Return the notification class of that name, if this process has defined it. Imports nothing."""
    return _known.find(name)


def has_name(cls: type[Notification], name: str) -> bool:
    """Return whether notifications of that name are read as this class."""
    return name == cls.type_name or name in cls.type_names


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
    """Return a function that sorts the sets in a notification, whose order differs between processes.

    None if the class cannot have sets."""
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
