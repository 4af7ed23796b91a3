"""Outputs leave in order, once all slaves have reported the chain that the master has."""

import pytest

from quorate.agents import Note, outside
from quorate.engine import Effects
from quorate.server.node import held_outputs
from quorate.server.node.held_outputs import HeldOutputs

from ..disk_rig import Add


def effects(index: int, notes: int = 0) -> Effects:
    note = Note("a@s1", outside(0), Add.type_name, b"")
    network = {1: [(number, note) for number in range(notes)]} if notes else {}
    return Effects(index, network=network, chain=chain(index))


def chain(index: int) -> bytes:
    return index.to_bytes(8, "big")


def holding(*indexes: int) -> HeldOutputs:
    held = HeldOutputs()
    held.begin_view([1, 2], 0, b"")
    for index in indexes:
        held.hold(effects(index))
    return held


def released(held: HeldOutputs) -> list[int]:
    return [each.index for each in held.release()]


def test_outputs_leave_when_the_last_slave_has_confirmed_them() -> None:
    held = holding(1, 2, 3)
    held.reported(1, 3, chain(3))
    assert released(held) == []
    held.reported(2, 2, chain(2))
    assert released(held) == [1, 2]
    held.reported(2, 3, chain(3))
    assert released(held) == [3]
    assert held.confirmed == 3


def test_a_slave_with_another_chain_confirms_nothing_until_the_view_is_without_it() -> None:
    held = holding(1, 2)
    held.reported(1, 2, chain(2))
    held.reported(2, 2, b"other")
    assert released(held) == []
    held.begin_view([1], 2, chain(2))
    assert released(held) == []
    held.reported(1, 2, chain(2))
    assert released(held) == [1, 2]


def test_a_master_that_is_alone_waits_for_nobody() -> None:
    held = holding(1, 2)
    held.begin_view([], 2, chain(2))
    assert not held.waits
    assert released(held) == [1, 2]


@pytest.mark.parametrize("kept", [2, 256])
def test_a_chain_that_comes_early_is_compared_when_the_master_has_applied_the_entry(
    kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_outputs, "MAX_EARLY", kept)
    held = holding()
    for index in (1, 2, 3):
        for slave in (1, 2):
            held.reported(slave, index, chain(index))
    for index in (1, 2, 3):
        held.hold(effects(index))
    assert released(held) == [1, 2, 3]


def test_a_new_master_begins_once_the_others_have_its_state() -> None:
    held = HeldOutputs()
    held.begin_view([1], 7, chain(7))
    assert not held.may_begin
    held.reported(1, 6, chain(6))
    assert not held.may_begin
    held.reported(1, 7, chain(7))
    assert held.may_begin


def test_a_cluster_without_entries_begins_at_once() -> None:
    held = HeldOutputs()
    held.begin_view([1], 0, b"")
    assert held.may_begin


def test_what_a_master_held_when_it_stopped_to_serve_does_not_leave_and_it_begins_again_confirmed() -> None:
    held = holding()
    held.hold(effects(1, notes=3))
    held.silence()
    assert held.notes_to(1) == 0
    assert not held.may_begin
    for slave in (1, 2):
        held.reported(slave, 1, chain(1))
    assert held.may_begin
    assert [each.network for each in held.release()] == [{}]


def test_notifications_to_other_servers_are_counted_while_they_are_held() -> None:
    held = holding()
    held.hold(effects(1, notes=2))
    held.hold(effects(2, notes=1))
    assert (held.notes_to(1), held.notes_to(2)) == (3, 0)


def test_nothing_is_submitted_while_too_much_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_outputs, "MAX_HELD_ENTRIES", 2)
    held = holding(1, 2)
    assert not held.full
    held.hold(effects(3))
    assert held.full
    for slave in (1, 2):
        held.reported(slave, 3, chain(3))
    assert released(held) == [1, 2, 3]
    assert not held.full
