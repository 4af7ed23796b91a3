"""Entries that are applied again at a start: how far that is, and that it can be given up."""

import threading
from pathlib import Path

import pytest

from quorate.engine import Engine
from quorate.hachannel.model.messages import Entry
from quorate.hachannel.model.view import ViewNumber
from quorate.server.errors import StartInterrupted
from quorate.server.storage import recovery_progress
from quorate.server.storage.durability import Durability
from quorate.server.storage.recovery_progress import RecoveryProgress

from ..durable_replica import ME, Host, Replica, load

BOUND_S = 60.0
ENTRIES = [Entry(ViewNumber(1, 0, 7), index, 0, b"") for index in (5, 6, 7)]


class ReportingHost:
    """The replica; `told` is set when a progress report comes."""

    def __init__(self) -> None:
        self.interrupted = False
        self.lines: list[str] = []
        self.told = threading.Event()

    def log(self, line: str) -> None:
        self.lines.append(line)

    def announce(self, line: str) -> None:
        self.lines.append(f"told: {line}")
        self.told.set()


def test_a_slow_recovery_is_reported_while_an_entry_is_applied_and_again_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recovery_progress, "FIRST_REPORT_S", 0.001)
    monkeypatch.setattr(recovery_progress, "REPORT_INTERVAL_S", 0.001)
    host = ReportingHost()
    with RecoveryProgress(ENTRIES, host) as entries:
        for entry in entries:
            host.told.clear()
            if entry.index != 6:
                assert host.told.wait(BOUND_S), "no reaction is so slow that nothing is told of it"
    said = "told: recovers: {} of the 3 entries committed after its saved state are applied again; "
    assert host.lines[0].startswith(said.format(0))
    assert host.lines[-1].startswith(said.format(2))
    assert "quorate-progress" not in {each.name for each in threading.enumerate()}


def test_a_quick_recovery_is_not_reported() -> None:
    host = ReportingHost()
    with RecoveryProgress(ENTRIES, host) as entries:
        assert list(entries) == ENTRIES
    with RecoveryProgress([], host) as entries:
        assert list(entries) == []
    assert host.lines == []


def test_a_recovery_can_be_interrupted_between_two_entries() -> None:
    host = ReportingHost()
    with RecoveryProgress(ENTRIES, host) as progress:
        entries = iter(progress)
        assert [next(entries).index, next(entries).index] == [5, 6]
        host.interrupted = True
        with pytest.raises(StartInterrupted):
            next(entries)
    assert host.lines == ["stopping: 2 of 3 entries were applied again; the next start repeats that"]


def test_a_start_after_an_interrupted_one_recovers_everything(place: Path) -> None:
    host = Host()
    host.interrupted = True
    engine = Engine(0, {"s0": 0}, load=load)
    with pytest.raises(StartInterrupted):
        Durability(place, ME, False, host.clock, host).open(8, engine)
    again = Replica(place, 9)
    assert again.recovery.log.last.at == 12
    assert any("11 entries applied again" in line for line in again.recovery.lines)
    again.end()
