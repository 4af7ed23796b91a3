"""The signals that stop `quorate up` and `quorate start` in order."""

import signal
from collections.abc import Iterator

import pytest

from quorate.server.cli import start, up
from quorate.server.cli.launcher import STOP_TOGETHER

ALL = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """The handlers are put back."""
    before = {number: signal.getsignal(number) for number in (*ALL, STOP_TOGETHER)}
    # These tests may run under nohup.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", ALL)
def test_up_is_stop_requested_by_each(number: signal.Signals) -> None:
    with up._stop_requested() as asked:
        signal.raise_signal(number)
        assert asked.is_set()


def test_up_leaves_an_ignored_hang_up_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with up._stop_requested() as asked:
        signal.raise_signal(signal.SIGHUP)
        assert not asked.is_set()


def test_every_signal_that_is_not_ignored_interrupts_start_and_stops_its_reactor() -> None:
    heard: list[object] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: heard.append(number))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    start._install_signal_handlers(lambda: heard.append("interrupted"), lambda: heard.append("all stop"))
    for number in (*ALL, STOP_TOGETHER):
        signal.raise_signal(number)
    assert heard == [
        *("interrupted", signal.SIGTERM),
        *("interrupted", signal.SIGHUP),
        *("all stop", "interrupted", STOP_TOGETHER),
    ]
