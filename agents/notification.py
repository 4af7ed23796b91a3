"""Typed notifications and their encoding."""

import functools
from collections.abc import Callable
from typing import Any, ClassVar, Final, TypeVar, cast

import msgspec

from .encoding_fault import encoding_fault
from .fields import annotations_of, declared_fields, field_names, is_decorated, is_frozen, lost_fields
from .names import AgentError, ClassNames, location, names_of, split_name
from .nesting import TOO_DEEP, nested_too_deep
from .state_types import (
    check_keeps_fields,
    check_no_any,
    decoder,
    hints_of,
    may_hold_sets,
    may_nest,
    with_sorted_sets,
)
from .upgrade import UpgradeChain, UpgradeError, upgrade_chain

__all__ = [
    "UNREADABLE",
    "Notification",
    "check_notification",
    "decode",
    "encode",
    "has_name",
    "known_type",
    "read",
    "reader",
    "type_name",
]

T = TypeVar("T")

UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, UpgradeError)
"""Exceptions that decoding raises for bytes that are no such notification."""

_RESERVED: Final = ("type_name", "type_names")
"""Attributes of `Notification` that no field can have the name of."""
_UPGRADES: Final = "__quorate_upgrades__"
_known: Final["ClassNames[Notification]"] = ClassNames()


class Notification:
    """Base of everything agents react to. Subclass it with ``attrs.frozen``::

        @attrs.frozen
        class Deposit(Notification):
            amount: int

    Fields may be of any type that msgspec encodes: numbers, text, bytes, dates, UUIDs, lists, dicts,
    tuples, enumerations, and attrs classes or dataclasses of these. No field is private, and none is
    annotated with `Any`: its value would arrive as one of another type, a tuple as a list.

    ``class Deposit(Notification, name="bank.deposit")`` gives it a name on the wire that does not depend on
    its module: ``bank.deposit/1``. `version` (1 unless given) is the number in it. `also` holds whole names
    of former versions, or ``module:Class``, that are read as this class, too. Notifications of former
    versions with other fields are read by the functions that are marked with `upgrades`.
    Raises AgentError for what cannot be a name, or is the name of another class, and for a class whose
    fields would not be sent as they are.
    """

    __slots__ = ()

    type_name: ClassVar[str]
    """The name under which it travels: ``bank.deposit/1``, or ``module:Class`` if none was given."""
    type_names: ClassVar[tuple[str, ...]]
    """All names that are read as this class, `type_name` being the first, those with an upgrade the last."""

    def __init_subclass__(
        cls, *, name: str | None = None, version: int = 1, also: tuple[str, ...] = (), **kwargs: Any
    ) -> None:
        super().__init_subclass__(**kwargs)
        # attrs builds a second class when it adds slots, with the attributes of the first and no arguments.
        if is_decorated(cls):
            _check_decorated(cls)
        else:
            _check_body(cls)
            names = names_of(cls, name, version, also)
            chain = upgrade_chain(cls, names[0], names)
            setattr(cls, _UPGRADES, chain)
            cls.type_names = names if chain is None else (*names, *chain.names)
            cls.type_name = names[0]
        former = () if (chain := _chain(cls)) is None else tuple(chain.names)
        own = tuple(each for each in cls.type_names if each not in former)
        _known.add(cls, own, former, (split_name(cls.type_name) or ("", 1))[1])


def _chain(cls: type) -> UpgradeChain | None:
    return cast("UpgradeChain | None", vars(cls).get(_UPGRADES))


def check_notification(cls: type[Notification]) -> None:
    """Raise AgentError, with the remedy, unless notifications of this class can be sent as they are.

    The class is complete: decorated with ``attrs.frozen`` or ``dataclass(frozen=True)``, or a frozen Struct.
    """
    struct = issubclass(cls, msgspec.Struct)
    fields = field_names(cls) or ()
    for base in cls.__mro__[: cls.__mro__.index(Notification)]:
        undecorated = base is cls and not struct and not is_decorated(cls)
        if undecorated or not set(declared_fields(base)) <= set(fields):
            raise AgentError(
                f"{location(base)}: decorate the class with @attrs.frozen, so that its fields are known"
            )
    if struct and not is_frozen(cls):
        raise AgentError(f"{location(cls)} can be changed after it was sent; add frozen=True to its bases")
    if not struct:
        _check_decorated(cls)


def _check_body(cls: type[Notification]) -> None:
    """Check the names in the body of a class that is not decorated yet."""
    body = vars(cls).keys() | annotations_of(cls).keys()
    for name in _RESERVED:
        if name in body:
            raise AgentError(
                f"{location(cls)}: {name} holds the name of the class; give the field another name. "
                'A class is named in its first line: class Deposit(Notification, name="bank.deposit")'
            )
    if not issubclass(cls, msgspec.Struct):
        _check_none_private(cls, declared_fields(cls))


def _check_decorated(cls: type[Notification]) -> None:
    """Check the fields of an attrs class or dataclass."""
    _check_none_private(cls, lost_fields(cls))
    if not is_frozen(cls):
        raise AgentError(
            f"{location(cls)} can be changed after it was sent; decorate the class with @attrs.frozen"
        )
    try:
        hints = hints_of(cls)
    except AgentError:  # names a class that is defined later: checked when it is sent first
        return
    for name, kind in hints.items():
        check_no_any(kind, f"{location(cls)}: {name}", within_classes=False)


def _check_none_private(cls: type[Notification], fields: list[str]) -> None:
    for name in fields:
        if name.startswith("_"):
            raise AgentError(
                f"{location(cls)}: the value of {name} would not be sent; "
                "give the field a name without underscore"
            )


def type_name(cls: type[Notification]) -> str:
    """Return the name under which notifications of this class travel, see `Notification.type_name`."""
    return cls.type_name


def known_type(name: str) -> type[Notification] | None:
    """Return the notification class of that name, or with an upgrade from it, if this process has defined
    one. Imports nothing."""
    return _known.find(name) or _known.upgrading(name)


def has_name(cls: type[Notification], name: str) -> bool:
    """Return whether notifications of that name are read as this class."""
    return name == cls.type_name or name in cls.type_names


_encoder = msgspec.msgpack.Encoder()


def encode(notification: Notification) -> bytes:
    """Encode the fields of a notification in MessagePack.

    Raises TypeError if it is not a Notification, or has a value that is nested too deep or is of a type that
    cannot be sent; ValueError for an integer or text out of its range. Both name the class and the field.
    Raises AgentError, with the remedy, if no notification of the class can be sent.
    """
    if not isinstance(notification, Notification):  # pyright: ignore[reportUnnecessaryIsInstance]
        if isinstance(notification, type) and issubclass(notification, Notification):
            name = notification.__name__
            raise TypeError(f"{name} is a class; give an object of it: {name}(...)")
        raise TypeError(
            f"{type(notification).__name__} is not a notification; derive it from quorate.Notification"
        )
    try:
        sort, nests = _treatment(cast("Any", type(notification)))
        payload = _encoder.encode(notification if sort is None else sort(notification))
    except AgentError:
        raise
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise encoding_fault(notification, notification.type_name, error) from error
    if nests and nested_too_deep(payload):
        raise TypeError(f"{notification.type_name} cannot be encoded: {TOO_DEEP}")
    return payload


@functools.lru_cache(maxsize=4096)
def _treatment(cls: Any) -> Any:
    """Return what notifications of a class need when they are encoded: (sort, nests).

    `sort` is a function that sorts the sets in a notification, whose order differs between processes; None if
    the class cannot have sets. `nests` says that values may be nested too deep. Raises AgentError if
    notifications of the class cannot be sent.
    """
    check_notification(cls)
    try:
        hints = hints_of(cls)
    except AgentError:  # a type cannot be resolved: it may be anything
        return with_sorted_sets, True
    for name, kind in hints.items():
        check_keeps_fields(kind, f"{location(cls)}: {name}")
        check_no_any(kind, f"{location(cls)}: {name}")
    sort = with_sorted_sets if any(may_hold_sets(kind) for kind in hints.values()) else None
    return sort, any(may_nest(kind) for kind in hints.values())


def decode(cls: type[T], payload: bytes) -> T:
    """Decode what `encode` made, checking the type of every field.

    Raises one of UNREADABLE, with the path of the field that does not fit.
    """
    return decoder(cls).decode(payload)


def read(cls: type[T], type_name: str, payload: bytes) -> T:
    """Decode what was encoded under `type_name`, one of the names of `cls`, with the upgrades that it needs.

    Raises one of UNREADABLE.
    """
    return reader(cls, type_name)(payload)


def reader(cls: type[T], type_name: str) -> Callable[[bytes], T]:
    """Return the function that reads payloads of `type_name` as this class. It raises one of UNREADABLE."""
    decode_own = decoder(cls).decode
    chain = _chain(cls)
    if chain is None or type_name not in chain.names:
        return decode_own
    apply = chain.apply_encoded
    return lambda payload: decode_own(apply(type_name, payload))
