"""What is of another type is refused in one sentence when the group is made."""

from typing import Any

import pytest

from quorate.hachannel.group import Group, GroupLimits, Settings

ADDRESSES = {0: ("m0", 100), 1: ("m1", 100)}


class Handler:
    def delivered(self, index: int, origin: int, payload: bytes) -> None: ...
    def view_changed(self, view: Any) -> None: ...
    def provide_state(self) -> bytes:
        return b""

    def receive_state(self, chunks: list[bytes]) -> None: ...


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
        ({"expected": "2"}, "expected is '2': a whole number, at least 1"),
        ({"expected": 1.5}, "expected is 1.5: a whole number"),
        ({"settings": {"mode": "ALL"}}, "settings is .*: give quorate.hachannel.group.Settings"),
        ({"settings": Settings(max_payload_bytes=64)}, "max_payload_bytes is 64: a group needs more than 64"),
        ({"limits": 5}, "limits is 5: give quorate.hachannel.group.GroupLimits"),
        ({"incarnation": "7"}, "incarnation is '7': a whole number, at least 0"),
        ({"log": "file.log"}, "log is 'file.log': give a function that takes a line"),
    ],
)
def test_an_argument_of_another_type_is_refused(wrong: dict[str, Any], says: str) -> None:
    arguments: dict[str, Any] = {"name": "g", "me": 0, "addresses": ADDRESSES, "handler": Handler(), **wrong}
    with pytest.raises(ValueError, match=says):
        Group(**arguments)


@pytest.mark.parametrize("value", ["5", None, 1.5, True, 0])
def test_a_limit_that_is_no_whole_number_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"pack_bytes is .*: every limit of a group is a whole number"):
        GroupLimits(pack_bytes=value)


@pytest.mark.parametrize("payloads", [b"abc", "abc", None, 5, bytearray(b"x")])
def test_one_message_is_not_several(payloads: Any) -> None:
    group = Group("g", 0, ADDRESSES, handler=Handler())
    with pytest.raises(TypeError, match="multicast_many takes a list of messages"):
        group.multicast_many(payloads)


def test_messages_may_come_from_a_generator(net: Any, make: Any) -> None:
    alone = make(0, 1).join()
    net.until(lambda: alone.joined == [None])
    alone.group.multicast_many(b"%d" % number for number in range(5)).addBoth(alone.results.append)
    net.until(lambda: alone.results == [5])
