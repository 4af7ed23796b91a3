"""When an entry that takes long is reported."""

import itertools

from quorate.server.replica.stall import Sample, StallDetector

BUSY, IDLE = Sample(7, 1), Sample(0, 1)
PERIOD_S = 0.25


def reports(detector: StallDetector, sample: Sample, begin: float, seconds: float) -> list[float]:
    """Observe a sample for some seconds; return when it was reported."""
    times = [begin + PERIOD_S * count for count in range(int(seconds / PERIOD_S))]
    return [now for now in times if detector.observe(now, sample)]


def test_an_entry_is_reported_after_a_second_and_then_after_growing_pauses() -> None:
    assert reports(StallDetector(), BUSY, 0.0, 40.0) == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]


def test_the_pause_grows_to_a_minute() -> None:
    late = [now for now in reports(StallDetector(), BUSY, 0.0, 1000.0) if now > 100]
    assert {after - before for before, after in itertools.pairwise(late)} == {60.0}


def test_short_entries_are_not_reported_however_many_there_are() -> None:
    detector = StallDetector()
    for entry in range(1, 100):
        assert reports(detector, Sample(entry, 1), entry * 0.9, 0.9) == []
    assert reports(detector, IDLE, 100.0, 10.0) == []


def test_the_next_entry_begins_with_a_count_of_its_own() -> None:
    detector = StallDetector()
    reports(detector, BUSY, 0.0, 10.0)
    assert detector.reports == 4
    assert not detector.observe(10.0, IDLE)
    assert detector.reports == 0
    assert reports(detector, Sample(8, 1), 10.25, 2.0) == [11.25]


def test_time_in_which_the_process_stood_still_does_not_count() -> None:
    detector = StallDetector()
    detector.observe(0.0, BUSY)
    assert not detector.observe(600.0, BUSY), "it was suspended"
    assert reports(detector, BUSY, 600.25, 2.0) == [601.0, 602.0]
