"""Orderly leaving: a replica's last word counts."""

import pytest

from quorate.hachannel.messages import Exit
from quorate.testing.channel_hand import Hand


@pytest.fixture
def hand():
    hand = Hand()
    hand.form()
    return hand


def test_who_says_that_it_leaves_and_then_promises_to_stay_costs_one_view_at_most(hand):
    view = hand.channels[0].view.number
    hand.give(2, 0, Exit(view, True, "it leaves"))
    hand.settle()
    for _ in range(5):
        hand.tick(0.05)
        hand.settle()
    assert hand.channels[0].members == (0, 1, 2)
    assert hand.channels[0].view.number.counter <= view.counter + 1
