"""Handlers that raise: the group goes on, and nothing that comes behind it is lost."""

from typing import Any, NoReturn

import pytest

from quorate.hachannel import GroupFailed
from quorate.testing.servers.memory_network import MemoryNet


class Wordless(Exception):
    def __repr__(self) -> str:
        raise SystemExit("no words")


def not_today(*_: object) -> NoReturn:
    raise RuntimeError("not today")


def leaves(*_: object) -> NoReturn:
    raise SystemExit("not today")


def interrupts(*_: object) -> NoReturn:
    raise KeyboardInterrupt("not today")


def has_no_words(*_: object) -> NoReturn:
    raise Wordless


RAISERS = [not_today, leaves, interrupts, has_no_words]
raising = pytest.mark.parametrize("broken", RAISERS)


def count_reports(member: Any, method: str) -> int:
    """How many lines say that a method of its handler raised what was asked of it."""
    lines = [line for line in member.lines if f"{method} of the handler" in line]
    assert all("not today" in line or "Wordless, which cannot be shown" in line for line in lines)
    return len(lines)


@raising
@pytest.mark.parametrize("sender", [0, 1])
def test_every_other_message_of_a_pack_is_delivered_and_confirmed(
    net: MemoryNet, three: list[Any], broken: Any, sender: int
) -> None:
    got: list[int] = []

    def delivered(index: int, origin: int, payload: bytes) -> None:
        got.append(index)
        if index in (1, 4):
            broken()

    three[1].delivered = delivered
    three[sender].group.multicast_many([b"a"] * 8).addBoth(three[sender].results.append)
    net.advance(0.5)
    assert got == list(range(1, 9))
    assert three[sender].results == [8]
    assert count_reports(three[1], "delivered") == 2
    assert [member.group.position for member in three] == [8, 8, 8]
    assert three[0].group.members == (0, 1, 2)


@raising
def test_a_member_whose_first_view_changed_raises_has_joined(net: MemoryNet, make: Any, broken: Any) -> None:
    members = [make(me) for me in range(3)]
    members[1].view_changed = broken
    for member in members:
        member.join()
    net.until(lambda: all(member.joined == [None] for member in members))
    assert count_reports(members[1], "view_changed")
    members[1].send(b"a")
    net.until(lambda: members[1].results == [1])


@raising
def test_a_provider_that_raises_is_asked_again(net: MemoryNet, past: list[Any], broken: Any) -> None:
    right = past[0].provide_state

    def once() -> None:
        past[0].provide_state = right
        broken()

    past[0].provide_state = once
    past[2].join()
    net.until(lambda: past[2].joined == [None], limit_s=60)
    assert past[2].log == past[0].log
    assert count_reports(past[0], "provide_state") == 1


@raising
def test_a_state_that_cannot_be_received_stops_the_member(
    net: MemoryNet, past: list[Any], broken: Any
) -> None:
    past[2].receive_state = broken
    stopped: list[Any] = []
    past[2].group.stopped.addBoth(stopped.append)
    past[2].join()
    net.until(lambda: bool(stopped))
    assert type(stopped[0].value) is GroupFailed
    assert type(past[2].joined[0].value) is GroupFailed
    said = str(stopped[0].value)
    assert "not today" in said or "Wordless" in said
    net.advance(1)
    assert past[0].group.role == "master"


def test_waits_for_is_empty_while_the_handler_gets_a_view(net: MemoryNet, past: list[Any]) -> None:
    right, said = past[0].provide_state, []

    def later() -> None:
        past[0].provide_state = right
        not_today()

    past[0].provide_state = later
    past[2].view_changed = lambda view: said.append(past[2].group.waits_for)
    past[2].group.join().addBoth(lambda _: said.append(past[2].group.waits_for))
    net.until(lambda: bool(past[2].group.waits_for))
    net.until(lambda: len(said) == 2)
    assert said == ["", ""]
