"""The oldest files of a trace are removed, and a reader is told how far."""

import os
from pathlib import Path

import pytest

from quorate.replay.discovery import find_files
from quorate.replay.schema import EVENTS_SUFFIX, Origin
from quorate.server.trace.retention import Retention
from quorate.server.trace.writer import TraceWriter

from .test_writer import positions, rows

pytest.importorskip("pyarrow.parquet")


def life(
    directory: Path, incarnation: int, *parts: tuple[int, int], retention: Retention | None = None
) -> None:
    """Write the trace of one life, a file for each part."""
    trace = TraceWriter(directory, Origin("s0", 0, 2, incarnation), retention=retention)
    for first, last in parts:
        trace.write(rows(first, last))
        assert trace.flush()
    trace.close()
    assert trace.problem is None


def test_above_its_size_a_trace_loses_its_oldest_files_over_all_lives(tmp_path: Path) -> None:
    place = tmp_path / "data" / "s0" / "2" / "trace"
    life(place, 5, (1, 10), (11, 20))
    size = next(place.glob("*.parquet")).stat().st_size
    keep = Retention(place, 0, size * 5 // 2, 0)
    life(place, 7, (21, 30), (31, 40), retention=keep)
    assert positions(place) == [list(range(21, 31)), list(range(31, 41))]
    found = find_files(tmp_path)
    assert (found.problems, dict(found.removed)) == ((), {0: 20})
    # A file that is lost beyond that is missed as ever.
    (place / "7-000001.parquet").unlink()
    assert find_files(tmp_path).problems == (f"{place}: there is no 7-000001.parquet",)


def test_events_of_lives_before_the_first_file_that_is_left_are_removed(tmp_path: Path) -> None:
    life(tmp_path, 5, (1, 10))
    life(tmp_path, 7, (11, 20), (21, 30))
    for incarnation in (4, 5, 6, 7, 8):
        (tmp_path / f"{incarnation}{EVENTS_SUFFIX}").write_text("")
    size = (tmp_path / "7-000001.parquet").stat().st_size
    assert Retention(tmp_path, 0, size * 5 // 2, 0).apply() == 1
    assert sorted(path.name.split(".")[0] for path in tmp_path.glob(f"*{EVENTS_SUFFIX}")) == ["7", "8"]


def test_files_that_are_too_old_are_removed_but_the_latest(tmp_path: Path) -> None:
    life(tmp_path, 5, (1, 10), (11, 20), (21, 30))
    for path in tmp_path.glob("*.parquet"):
        os.utime(path, (1000, 1000))
    assert Retention(tmp_path, 0, 0, 60, now=lambda: 1061.0).apply() == 2
    assert positions(tmp_path) == [list(range(21, 31))]


def test_a_crash_between_the_record_and_the_removal_is_no_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "trace"
    life(place, 5, (1, 10), (11, 20))
    keep = Retention(place, 0, 1, 0)

    def die(*_: object, **__: object) -> None:
        raise OSError("killed")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", die)
        with pytest.raises(OSError, match="killed"):
            keep.apply()
    assert find_files(tmp_path).problems == ()
    assert keep.apply() == 1
    assert positions(place) == [list(range(11, 21))]


def test_without_bounds_nothing_is_removed(tmp_path: Path) -> None:
    life(tmp_path, 5, (1, 10), (11, 20), retention=Retention(tmp_path, 0, 0, 0))
    assert len(positions(tmp_path)) == 2
    assert not (tmp_path / "removed.json").exists()


def test_what_cannot_be_removed_is_a_problem_of_the_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    life(tmp_path, 5, (1, 10))
    trace = TraceWriter(tmp_path, Origin("s0", 0, 2, 6), retention=Retention(tmp_path, 0, 1, 0))

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", "old.parquet")

    monkeypatch.setattr(Path, "unlink", refuse)
    trace.write(rows(11, 20))
    assert trace.flush()
    assert trace.problem == (
        "the oldest files of the trace cannot be removed: Permission denied (old.parquet)"
    )
    monkeypatch.undo()
    trace.write(rows(21, 30))
    assert trace.flush()
    assert trace.problem is None
    trace.close()
