"""The pace of a state transfer on a virtual clock: serving keeps its share of the time."""

import random

import pytest

from quorate.hachannel.transfer.pacing import MAX_REST_S, Pacing

WINDOW = 4


class Transfer:
    """A master that does nothing but a part while one is under way: the worst case."""

    def __init__(self, share: float, parts: int, cost, serves=lambda _: True, hurry=0.0) -> None:
        self.pace = Pacing(share, 0.01, WINDOW, 5)
        self.now = 10.0
        self.last = 5
        """The end of the log."""
        self.served_s = self.under_way_s = 0.0
        self.most = 0
        left = parts
        while left:
            under_way = 0
            while left and self.pace.wake is not None and self.now >= self.pace.wake and under_way < WINDOW:
                self.pace.asked(self.now, self.last)
                under_way += 1
                left -= 1
            self.most = max(self.most, under_way)
            if under_way:
                took = sum(cost() for _ in range(under_way))
                self.now += took
                self.under_way_s += took
                self.last += serves(self.now)
                self.pace.acked(self.now, self.last, hurry=hurry)
            else:
                assert self.pace.wake is not None
                self.served_s += self.pace.wake - self.now
                self.now = self.pace.wake
                self.last += serves(self.now)

    @property
    def served(self) -> float:
        return self.served_s / (self.served_s + self.under_way_s)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("share", [0.1, 0.25, 0.5])
def test_serving_keeps_its_share_though_nothing_is_served_while_parts_are_under_way(seed, share):
    rng = random.Random(seed)
    worst = MAX_REST_S / (1 / share - 1) / WINDOW
    transfer = Transfer(share, 400, lambda: rng.choice([0.0001, 0.004, 0.02, worst]))
    # The last burst is followed by no rest.
    assert transfer.served >= 1 - share - 0.02
    assert transfer.most == WINDOW


def test_the_default_leaves_the_master_more_than_75_percent():
    from quorate.hachannel import Settings

    settings = Settings()
    assert Transfer(settings.transfer_share, 400, lambda: 0.03).served > 0.75


def test_a_master_with_nothing_to_do_does_not_rest():
    assert Transfer(0.25, 400, lambda: 0.01, lambda _: False).served == 0


def test_no_rest_is_longer_than_it_may_be():
    transfer = Transfer(0.25, 40, lambda: 60.0)
    assert transfer.served_s <= 10 * MAX_REST_S


def test_there_is_no_rest_when_there_is_no_time():
    assert Transfer(0.25, 400, lambda: 0.01, hurry=1.0).served == 0


def test_the_less_time_there_is_the_less_it_rests():
    served = [Transfer(0.2, 400, lambda: 0.01, hurry=hurry).served for hurry in (0.0, 0.25, 0.5, 0.75)]
    assert served == pytest.approx([0.8, 0.6, 0.4, 0.2], abs=0.01)


def test_a_master_that_begins_to_serve_ends_what_is_under_way_and_rests():
    pace = Pacing(0.25, 0.01, 2, 7)
    for now in (1.0, 2.0, 3.0):
        pace.asked(now, 7)
        assert pace.wake is not None
        assert pace.wake <= now
    pace.asked(4.0, 8)
    assert pace.wake is None
    pace.acked(4.5, 9)
    assert pace.wake == 4.5 + 1.5


def test_an_answer_that_is_not_awaited_changes_nothing():
    pace = Pacing(0.25, 0.01, 2, 7)
    pace.acked(4.5, 9)
    assert pace.wake == float("-inf")
