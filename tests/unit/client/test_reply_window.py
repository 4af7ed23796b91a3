"""How much a client has under way to agents that answer."""

import pytest

from quorate.agents.client_output import MAX_OUTPUT_BYTES
from quorate.client.reply_window import FIRST, ROOM_BYTES, ReplyWindow


def test_without_answers_the_window_doubles_with_every_round():
    answers = ReplyWindow()
    for _ in range(7):
        answers.acknowledged(answers.window, answers.window_bytes)
    assert answers.window == 128 * FIRST
    assert answers.window_bytes == 128 * ROOM_BYTES


@pytest.mark.parametrize("size", [300, 20_000, ROOM_BYTES - 1])
def test_what_is_under_way_has_answers_that_fit(size):
    answers = ReplyWindow()
    for _ in range(100):
        count = min(answers.window, max(1, answers.window_bytes // size))
        assert count * size <= ROOM_BYTES
        answers.under_way(0.0)
        answers.received(0.5, count * size)
        answers.acknowledged(count, count * size)
    # What is forgotten is rounded.
    assert max(1, ROOM_BYTES // size) - answers.window in (0, 1)


def test_one_is_always_allowed():
    answers = ReplyWindow()
    answers.under_way(0.0)
    answers.received(0.5, 10 * MAX_OUTPUT_BYTES)
    assert answers.window == 1
    answers.acknowledged(1, 10)
    assert answers.window == 1


def test_the_latest_answers_count():
    answers = ReplyWindow()
    for _ in range(1000):
        answers.under_way(0.0)
        answers.received(0.5, 100_000)
        answers.acknowledged(1, 100)
    assert answers.window == 10
    for _ in range(100_000):
        answers.acknowledged(1, 100)
    assert answers.window > 16_384
    for _ in range(10):
        answers.under_way(0.0)
        answers.received(0.5, 100_000)
        answers.acknowledged(1, 100)
    assert answers.window < 5000


def test_notifications_received_while_nothing_is_sent_do_not_count_as_answers():
    answers = ReplyWindow()
    answers.received(5.0, 10 * MAX_OUTPUT_BYTES)
    answers.under_way(6.0)
    answers.received(7.1, 10 * MAX_OUTPUT_BYTES)
    assert answers.window == FIRST
