"""Checks of the arguments of a `Group`, for callers without a type checker. Pure."""

from collections.abc import Mapping, Sequence
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction, signature
from typing import Any, cast

from ..membership.membership import MAX_SEATS
from ..model.settings import Settings
from .handler import GroupLimits

__all__ = ["ROOM_BYTES", "as_messages", "check_all_members", "check_arguments"]

ROOM_BYTES = 64
"""Largest overhead of an entry with one message, in bytes."""
MAX_NUMBER = 2**63 - 1
"""The largest id or incarnation that a message can carry."""
HANDLER = {
    "delivered": ("index", "origin", "payload"),
    "view_changed": ("view",),
    "provide_state": (),
    "receive_state": ("chunks",),
}
"""The methods of a handler, and the positional arguments of each."""
REACTOR = ("seconds", "callLater", "connectTCP", "listenTCP")


def _check(right: bool, what: str, value: object, advice: str) -> None:
    """Raise ValueError with one sentence unless `value` is right."""
    if not right:
        raise ValueError(f"{what} is {value!r}: {advice}")


def check_arguments(
    name: object,
    me: object,
    addresses: Any,
    handler: object,
    expected: object,
    settings: Any,
    limits: object,
    reactor: object,
    log: object,
    incarnation: Any,
) -> None:
    """Check the arguments of `Group`, each by itself and the addresses together. Raises ValueError."""
    _check(isinstance(name, str) and name != "", "name", name, "give a text that is not empty")
    encodable = not any("\ud800" <= character <= "\udfff" for character in str(name))
    _check(encodable, "name", name, "give a text without lone surrogates, which UTF-8 cannot encode")
    advice = "give a dictionary {id: (host, port)} with every member"
    _check(isinstance(addresses, Mapping), "addresses", addresses, advice)
    _check_addresses(addresses)
    if not _is_number(me, 0) or me not in addresses:
        raise ValueError(f"member {me!r} has no address: give one address for every member")
    if settings is not None:
        _check(isinstance(settings, Settings), "settings", settings, "give quorate.hachannel.Settings(...)")
        advice = f"a group needs more than {ROOM_BYTES}, which each message needs beside its own bytes"
        size = settings.max_payload_bytes
        _check(size > ROOM_BYTES, "max_payload_bytes", size, advice)
    given = limits is None or isinstance(limits, GroupLimits)
    _check(given, "limits", limits, "give quorate.hachannel.GroupLimits(...)")
    for what, value, least in (("expected", expected, 1), ("incarnation", incarnation, 0)):
        given = value is None or _is_number(value, least)
        _check(given, what, value, f"a whole number, at least {least}")
    _check((incarnation or 0) <= MAX_NUMBER, "incarnation", incarnation, f"at most {MAX_NUMBER}")
    given = reactor is None or all(callable(getattr(reactor, method, None)) for method in REACTOR)
    _check(given, "reactor", reactor, "give a reactor of Twisted, or leave it out")
    _check(callable(log), "log", log, "give a function that takes a line")
    _check_handler(handler)


def _is_number(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _check_addresses(addresses: Mapping[Any, Any]) -> None:
    if len(addresses) > MAX_SEATS:
        raise ValueError(f"addresses has {len(addresses)} members: a group has at most {MAX_SEATS}")
    owners: dict[Any, int] = {}
    for member, address in addresses.items():
        if not _is_number(member, 0):
            raise ValueError(f"addresses has a member {member!r}: an id is a whole number, at least 0")
        if member > MAX_NUMBER:
            raise ValueError(f"addresses has a member {member}: an id is at most {MAX_NUMBER}")
        match address:
            case (str(host), int(port)) if 0 < port < 65536 and not isinstance(port, bool):
                advice = "give the name or address of its machine"
                _check(_is_host(host), f"the host of member {member}", host, advice)
                other = owners.setdefault((host, port), member)
            case _:
                raise ValueError(
                    f"the address of member {member} is {address!r}: give (host, port from 1 to 65535)"
                )
        if other != member:
            raise ValueError(f"members {other} and {member} have the same address {address!r}")


def _is_host(host: str) -> bool:
    """Return whether a host may be a name or an address; Twisted never answers a query for other texts."""
    try:
        return bool(host.strip() and host.encode("idna"))
    except UnicodeError:
        return False


def _check_handler(handler: object) -> None:
    missing = [method for method in HANDLER if not callable(getattr(handler, method, None))]
    advice = f"give an object with the methods {', '.join(HANDLER)}"
    if 0 < len(missing) < len(HANDLER):
        advice += f"; {', '.join(missing)} is missing"
    _check(not missing and not isinstance(handler, type), "handler", handler, advice)
    methods: dict[str, Any] = {method: getattr(handler, method) for method in HANDLER}
    wrong = [name for name, each in methods.items() if iscoroutinefunction(each) or isasyncgenfunction(each)]
    advice = "its methods are called and not awaited, so {} must be `def`, not `async def`"
    _check(not wrong, "handler", handler, advice.format(", ".join(wrong)))
    # provide_state may yield the chunks of the state.
    wrong = [name for name, each in methods.items() if isgeneratorfunction(each) and name != "provide_state"]
    advice = "code after a `yield` never runs, as its methods are only called: no `yield` in {}"
    _check(not wrong, "handler", handler, advice.format(", ".join(wrong)))
    wrong = [
        f"{name}({', '.join(given)})" for name, given in HANDLER.items() if not _accepts(methods[name], given)
    ]
    advice = "give its methods the parameters that they are called with: {}"
    _check(not wrong, "handler", handler, advice.format(", ".join(wrong)))


def _accepts(method: Any, given: Sequence[str]) -> bool:
    """Return whether a method accepts these positional arguments; True if that is unknown."""
    try:
        parameters = signature(method)
    except (TypeError, ValueError):
        return True
    try:
        parameters.bind(*given)
    except TypeError:
        return False
    return True


def check_all_members(value: object) -> None:
    """Check this argument of `multicast`. Raises TypeError: "no" would count as True."""
    if not isinstance(value, bool):
        raise TypeError(f"all_members is {value!r}: give True or False")


def as_messages(payloads: Any) -> Sequence[bytes]:
    """Return the messages of one call. Raises TypeError for a single message, or no iterable at all."""
    if isinstance(payloads, list | tuple):
        return cast("Sequence[bytes]", payloads)
    if isinstance(payloads, str | bytes | bytearray | memoryview):
        raise TypeError("multicast_many takes a list of messages: use multicast for a single one")
    try:
        return list(payloads)
    except TypeError:
        raise TypeError(f"multicast_many takes a list of messages, not {type(payloads).__name__}") from None
