"""Arguments of a wrong type are refused with one sentence when the group is made."""

from functools import partial
from inspect import signature
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from quorate.hachannel import Group, GroupLimits, Settings
from quorate.testing.servers.memory_network import MemoryNames

ADDRESSES = {0: ("m0", 100), 1: ("m1", 100)}


class Handler:
    def delivered(self, index: int, origin: int, payload: bytes) -> None: ...
    def view_changed(self, view: Any) -> None: ...
    def provide_state(self) -> bytes:
        return b""

    def receive_state(self, chunks: list[bytes]) -> None: ...


class Asynchronous(Handler):
    async def delivered(self, index: int, origin: int, payload: bytes) -> None: ...
    async def provide_state(self) -> Any:
        yield b""


class Generating(Handler):
    def delivered(self, index: int, origin: int, payload: bytes) -> Any:
        yield

    def provide_state(self) -> Any:
        yield b""

    def receive_state(self, chunks: list[bytes]) -> Any:
        yield


class Misfit(Handler):
    def delivered(self, payload: bytes) -> None: ...  # type: ignore[override]  # pyright: ignore
    def provide_state(self, reason: str) -> bytes:  # type: ignore[override]  # pyright: ignore
        return b""

    def receive_state(self, *, chunks: list[bytes]) -> None: ...  # type: ignore[override]  # pyright: ignore


class Half:
    def delivered(self, index: int, origin: int, payload: bytes) -> None: ...
    def view_changed(self, view: Any) -> None: ...
    def provide_state(self) -> bytes:
        return b""


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"name": None}, "name is None: give a text"),
        ({"name": b"red"}, "name is b'red': give a text"),
        ({"name": ""}, "name is '': give a text that is not empty"),
        ({"me": "0"}, "member '0' has no address"),
        ({"me": [0]}, "member .0. has no address"),
        ({"me": True}, "member True has no address"),
        ({"addresses": [("m0", 100)]}, "addresses is .*: give a dictionary"),
        ({"addresses": None}, "addresses is None: give a dictionary"),
        ({"addresses": {"0": ("m0", 100)}}, "a member '0': an id is a whole number"),
        ({"addresses": {0: "m0:100"}}, "the address of member 0 is 'm0:100': give .host, port."),
        ({"handler": None}, "handler is None: give an object with the methods delivered, view_changed"),
        ({"handler": Handler}, "give an object with the methods"),
        ({"handler": Half()}, "receive_state is missing"),
        ({"handler": Asynchronous()}, "not awaited, so delivered, provide_state must be `def`, not `async"),
        (
            {"handler": Generating()},
            "after a `yield` never runs.* no `yield` in delivered, receive_state$",
        ),
        (
            {"handler": Misfit()},
            "give its methods the parameters that they are called with: "
            r"delivered\(index, origin, payload\), provide_state\(\), receive_state\(chunks\)$",
        ),
        ({"name": "\ud800"}, "name is '.ud800': give a text without lone surrogates"),
        ({"addresses": {0: ("", 100)}}, "the host of member 0 is '': give the name or address"),
        ({"addresses": {0: (" ", 100)}}, "the host of member 0 is ' ': give the name or address"),
        ({"addresses": {0: ("a..b", 100)}}, "the host of member 0 is 'a..b': give the name or address"),
        ({"addresses": {0: (64 * "a", 100)}}, "the host of member 0 is 'aaa.*a': give the name or address"),
        ({"addresses": {0: ("\udfff", 100)}}, "the host of member 0 is '.udfff': give the name or address"),
        ({"addresses": {id: ("m", 100 + id) for id in range(16)}}, "has 16 members: a group has at most 15"),
        ({"expected": "2"}, "expected is '2': a whole number, at least 1"),
        ({"expected": 1.5}, "expected is 1.5: a whole number"),
        ({"settings": {"mode": "ALL"}}, "settings is .*: give quorate.hachannel.Settings"),
        ({"settings": Settings(max_payload_bytes=64)}, "max_payload_bytes is 64: a group needs more than 64"),
        ({"limits": 5}, "limits is 5: give quorate.hachannel.GroupLimits"),
        ({"incarnation": "7"}, "incarnation is '7': a whole number, at least 0"),
        ({"incarnation": 2**63}, "incarnation is 9223372036854775808: at most 9223372036854775807"),
        ({"incarnation": -1}, "incarnation is -1: a whole number, at least 0"),
        ({"addresses": {**ADDRESSES, 2**63: ("m2", 100)}}, "a member 9223372036854775808: an id is at most"),
        ({"reactor": 3}, "reactor is 3: give a reactor of Twisted, or leave it out"),
        ({"log": "file.log"}, "log is 'file.log': give a function that takes a line"),
    ],
)
def test_an_argument_of_another_type_is_refused(wrong: dict[str, Any], says: str) -> None:
    arguments: dict[str, Any] = {"name": "g", "me": 0, "addresses": ADDRESSES, "handler": Handler(), **wrong}
    with pytest.raises(ValueError, match=says):
        Group(**arguments)


@pytest.mark.parametrize(
    "handler",
    [
        SimpleNamespace(
            delivered=print,
            view_changed=partial(print, "view"),
            provide_state=lambda *, more=None: b"",
            receive_state=[].extend,
        ),
        MagicMock(),
    ],
)
def test_a_handler_whose_methods_can_be_called_is_accepted(handler: Any) -> None:
    Group("g", 0, ADDRESSES, handler=handler)


def test_a_method_with_unknown_parameters_is_accepted() -> None:
    class Opaque:
        __signature__ = "as of a function written in C, none that Python knows"

        def __call__(self) -> None: ...

    handler: Any = Handler()
    handler.delivered = Opaque()
    with pytest.raises(TypeError):
        signature(handler.delivered)
    Group("g", 0, ADDRESSES, handler=handler)


@pytest.mark.parametrize("value", ["5", None, 1.5, True, 0])
def test_a_limit_that_is_no_whole_number_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"pack_bytes is .*: every limit of a group is a whole number"):
        GroupLimits(pack_bytes=value)


def test_members_with_the_greatest_ids_and_incarnations_form_a_group(net: Any) -> None:
    greatest = 2**63 - 1
    addresses = {greatest - 1: ("m0", 100), greatest: ("m1", 100)}
    groups = [
        Group("g", me, addresses, handler=Handler(), reactor=net.machine(host), incarnation=greatest)
        for me, (host, _) in addresses.items()
    ]
    results: list[Any] = []
    for group in groups:
        group.join()
    net.until(lambda: all(len(group.members) == 2 for group in groups))
    for group in groups:
        group.multicast(b"x").addBoth(results.append)
    net.until(lambda: sorted(results) == [1, 2])


@pytest.mark.parametrize("payloads", [b"abc", "abc", None, 5, bytearray(b"x")])
def test_multicast_many_refuses_a_single_message(payloads: Any) -> None:
    group = Group("g", 0, ADDRESSES, handler=Handler())
    with pytest.raises(TypeError, match="multicast_many takes a list of messages"):
        group.multicast_many(payloads)


@pytest.mark.parametrize("value", ["no", 1, None])
def test_whether_all_members_must_hold_a_message_is_true_or_false(value: Any) -> None:
    group = Group("g", 0, ADDRESSES, handler=Handler())
    for send, payload in ((group.multicast, b"x"), (group.multicast_many, [b"x"])):
        with pytest.raises(TypeError, match=f"all_members is {value!r}: give True or False"):
            send(payload, all_members=value)


def test_messages_may_come_from_a_generator(net: Any, make: Any) -> None:
    alone = make(0, 1).join()
    net.until(lambda: alone.joined == [None])
    alone.group.multicast_many(b"%d" % number for number in range(5)).addBoth(alone.results.append)
    net.until(lambda: alone.results == [5])


@pytest.mark.parametrize(
    ("host", "addresses", "reason"),
    [
        ("ant", [], "its host ant does not resolve here"),
        ("ant", ["192.0.2.1"], "its host ant is 192.0.2.1, which is no address of this machine"),
        (
            *("ant", ["2001:db8::1", "192.0.2.1"]),
            "its host ant is 192.0.2.1 and 2001:db8::1, which is no address of this machine",
        ),
        ("192.0.2.1", [], "its host 192.0.2.1 is no address of this machine"),
        ("2001:db8::1", [], "its host 2001:db8::1 is no address of this machine"),
        ("ant", ["127.0.0.1"], None),
        ("ant", ["::1"], None),
        ("localhost", [], None),
    ],
)
def test_a_host_that_is_not_this_machine_is_logged(
    net: Any, host: str, addresses: list[str], reason: str | None
) -> None:
    reactor = net.machine(host)
    reactor.nameResolver = MemoryNames(*addresses)
    lines: list[str] = []
    group = Group("g", 0, {0: (host, 100)}, handler=Handler(), reactor=reactor, log=lines.append)
    group.join()
    told = [line for line in lines if "listens" in line]
    if reason is None:
        assert told == []
    else:
        [line] = told
        assert line.startswith("member 0 listens on all addresses of this machine, port 100, since ")
        assert reason in line


def test_a_log_that_raises_does_not_stop_the_group(net: Any) -> None:
    def broken(line: str) -> None:
        raise BrokenPipeError

    addresses = {me: (f"m{me}", 100) for me in range(2)}
    groups = [
        Group("g", me, addresses, handler=Handler(), reactor=net.machine(host), log=broken)
        for me, (host, _) in addresses.items()
    ]
    results: list[Any] = []
    for group in groups:
        group.join().addBoth(results.append)
    net.until(lambda: results == [None, None])
    for group in groups:
        group.multicast(b"x").addBoth(results.append)
    net.until(lambda: sorted(results[2:]) == [1, 2])
    groups[0].leave().addBoth(results.append)
    net.until(lambda: results[4:] == [None])
    net.until(lambda: groups[1].members == (1,))
