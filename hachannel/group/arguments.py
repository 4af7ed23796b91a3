"""What a caller without types may get wrong when it makes or uses a group, each in one sentence. Pure."""

from collections.abc import Mapping, Sequence
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction, signature
from typing import Any, cast

from ..membership.membership import MAX_SEATS
from ..model.settings import Settings
from .handler import GroupLimits

__all__ = ["ROOM_BYTES", "as_messages", "check_all_members", "check_arguments"]

ROOM_BYTES = 64
"""Of an entry: for what surrounds a pack with one message."""
MAX_NUMBER = 2**63 - 1
"""Of an id or an incarnation: what a message carries."""
HANDLER = {
    "delivered": ("index", "origin", "payload"),
    "view_changed": ("view",),
    "provide_state": (),
    "receive_state": ("chunks",),
}
"""The methods of a handler, and what each is called with, by position."""
REACTOR = ("seconds", "callLater", "connectTCP", "listenTCP")


def _whole(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _number(value: object) -> bool:
    return _whole(value, 0) and cast("int", value) <= MAX_NUMBER


def _encodable(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _can_be_asked_for(host: str) -> bool:
    """Whether it may be a name or an address: of anything else Twisted waits for an answer in vain."""
    try:
        host.encode("idna")
    except UnicodeError:
        return False
    return True


def check_arguments(
    name: object,
    me: object,
    addresses: object,
    handler: object,
    expected: object,
    settings: object,
    limits: object,
    reactor: object,
    log: object,
    incarnation: object,
) -> None:
    """The arguments of `Group`, each for itself and the addresses together. Raises ValueError."""
    if not isinstance(name, str) or not name:
        raise ValueError(f"name is {name!r}: give a text that is not empty")
    if not _encodable(name):
        raise ValueError(f"name is {name!r}: give a text without lone surrogates, which UTF-8 cannot say")
    if not isinstance(addresses, Mapping):
        raise ValueError(
            f"addresses is {addresses!r}: give a dictionary {{id: (host, port)}} with every member"
        )
    _check_addresses(addresses)
    if not _whole(me, 0) or me not in addresses:
        raise ValueError(f"member {me!r} has no address: give one address for every member")
    if settings is not None and not isinstance(settings, Settings):
        raise ValueError(f"settings is {settings!r}: give quorate.hachannel.Settings(...)")
    if settings is not None and settings.max_payload_bytes <= ROOM_BYTES:
        raise ValueError(
            f"max_payload_bytes is {settings.max_payload_bytes}: a group needs more than {ROOM_BYTES}, "
            "which each message needs besides its own bytes"
        )
    if limits is not None and not isinstance(limits, GroupLimits):
        raise ValueError(f"limits is {limits!r}: give quorate.hachannel.GroupLimits(...)")
    for what, value, least in (("expected", expected, 1), ("incarnation", incarnation, 0)):
        if value is not None and not _whole(value, least):
            raise ValueError(f"{what} is {value!r}: a whole number, at least {least}")
    if incarnation is not None and not _number(incarnation):
        raise ValueError(f"incarnation is {incarnation}: at most {MAX_NUMBER}")
    lacks = [method for method in REACTOR if not callable(getattr(reactor, method, None))]
    if reactor is not None and lacks:
        raise ValueError(f"reactor is {reactor!r}: give a reactor of Twisted, or leave it out")
    if not callable(log):
        raise ValueError(f"log is {log!r}: give a function that takes a line")
    _check_handler(handler)


def _check_handler(handler: object) -> None:
    missing = [method for method in HANDLER if not callable(getattr(handler, method, None))]
    if missing or isinstance(handler, type):
        raise ValueError(
            f"handler is {handler!r}: give an object with the methods {', '.join(HANDLER)}"
            + (f"; {', '.join(missing)} is missing" if 0 < len(missing) < len(HANDLER) else "")
        )
    coroutines = [method for method in HANDLER if _is_async(getattr(handler, method))]
    if coroutines:
        raise ValueError(
            f"handler is {handler!r}: its methods are called and not awaited, "
            f"so {', '.join(coroutines)} must be `def`, not `async def`"
        )
    # The state may be given piece by piece.
    generators = [
        method
        for method in HANDLER
        if method != "provide_state" and isgeneratorfunction(getattr(handler, method))
    ]
    if generators:
        raise ValueError(
            f"handler is {handler!r}: what is behind a `yield` never runs, as its methods are only called: "
            f"no `yield` in {', '.join(generators)}"
        )
    unfit = [
        f"{method}({', '.join(given)})"
        for method, given in HANDLER.items()
        if not _takes(getattr(handler, method), given)
    ]
    if unfit:
        raise ValueError(
            f"handler is {handler!r}: give its methods the parameters that they are called with: "
            + ", ".join(unfit)
        )


def _is_async(method: object) -> bool:
    """A coroutine that nobody awaits never runs, and is no state either."""
    return iscoroutinefunction(method) or isasyncgenfunction(method)


def _takes(method: Any, given: Sequence[str]) -> bool:
    """Whether a method may be called with so many arguments by position; True if that cannot be known."""
    try:
        parameters = signature(method)
    except (TypeError, ValueError):
        return True
    try:
        parameters.bind(*given)
    except TypeError:
        return False
    return True


def _check_addresses(addresses: Mapping[Any, Any]) -> None:
    if len(addresses) > MAX_SEATS:
        raise ValueError(f"addresses has {len(addresses)} members: a group has at most {MAX_SEATS}")
    owners: dict[Any, int] = {}
    for member, address in addresses.items():
        if not _whole(member, 0):
            raise ValueError(f"addresses has a member {member!r}: an id is a whole number, at least 0")
        if not _number(member):
            raise ValueError(f"addresses has a member {member}: an id is at most {MAX_NUMBER}")
        match address:
            case (str(host), int(port)) if 0 < port < 65536 and not isinstance(port, bool):
                if not host.strip() or not _can_be_asked_for(host):
                    raise ValueError(
                        f"the host of member {member} is {host!r}: give the name or address of its machine"
                    )
                other = owners.setdefault((host, port), member)
            case _:
                raise ValueError(
                    f"the address of member {member} is {address!r}: give (host, port from 1 to 65535)"
                )
        if other != member:
            raise ValueError(f"members {other} and {member} have the same address {address!r}")


def check_all_members(value: object) -> None:
    """Of `multicast`. Raises TypeError: "no" would be as good as True."""
    if not isinstance(value, bool):
        raise TypeError(f"all_members is {value!r}: give True or False")


def as_messages(payloads: Any) -> Sequence[bytes]:
    """The messages of one call. Raises TypeError for what is one message, or nothing to go through."""
    if isinstance(payloads, list | tuple):
        return payloads
    if isinstance(payloads, str | bytes | bytearray | memoryview):
        raise TypeError("multicast_many takes a list of messages: use multicast for a single one")
    try:
        return list(payloads)
    except TypeError:
        raise TypeError(f"multicast_many takes a list of messages, not {type(payloads).__name__}") from None
