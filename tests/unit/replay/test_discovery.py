"""The search for trace files: everything that is not read is named."""

import os
from pathlib import Path
from typing import Any

import pytest

from quorate.replay import NoTrace
from quorate.replay.discovery import find_files
from quorate.replay.files import inspect_files


def trace_file(data: Path, replica: int, number: int = 1, server: str = "s0") -> Path:
    path = data / server / str(replica) / "trace" / f"5-{number:06d}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"not parquet")
    return path


def test_paths_without_a_trace_have_different_errors(tmp_path: Path) -> None:
    with pytest.raises(NoTrace, match=r"there is no .*nowhere"):
        find_files(tmp_path / "nowhere")
    with pytest.raises(NoTrace, match=r"there is no trace file .* has the server written one yet"):
        find_files(tmp_path)


def test_files_are_found_in_directories_by_globs_and_by_name(tmp_path: Path) -> None:
    paths = tuple(trace_file(tmp_path, replica) for replica in range(3))
    assert find_files(str(tmp_path)).paths == paths
    places = [str(tmp_path / "s0" / "[01]"), paths[2], tmp_path / "s0" / "2"]
    found = find_files(places)
    assert (found.paths, found.problems, found.notes) == (paths, (), ())


def test_a_place_without_a_file_is_named_beside_one_that_has_files(tmp_path: Path) -> None:
    trace_file(tmp_path, 0)
    (tmp_path / "s0" / "1" / "trace").mkdir(parents=True)
    found = find_files([tmp_path / "s0" / "0", tmp_path / "s0" / "1"])
    assert found.problems == (f"{tmp_path}/s0/1: there is no trace file in it",)


def test_a_directory_of_a_replica_without_a_trace_is_found(tmp_path: Path) -> None:
    trace_file(tmp_path, 0)
    for name in ("1/journal.db", "2/trace/5-000001.parquet.part", "7/notes.txt", "old/journal.db"):
        path = tmp_path / "s0" / name
        path.parent.mkdir(parents=True)
        path.touch()
    found = find_files(tmp_path)
    assert [(each.server, each.replica) for each in found.bare] == [("s0", 1), ("s0", 2)]
    assert found.notes == (
        f"{tmp_path}/s0/2/trace/5-000001.parquet.part: it is not finished; its rows are not read",
    )


def test_links_are_followed_and_no_file_is_read_twice(tmp_path: Path) -> None:
    data, elsewhere = tmp_path / "data", tmp_path / "elsewhere"
    first, second = trace_file(data, 0), trace_file(elsewhere, 1)
    (data / "s0" / "1").symlink_to(elsewhere / "s0" / "1")
    (data / "s0" / "2").symlink_to("0")
    (data / "s0" / "loop").symlink_to(data)
    second.with_name("5-000002.parquet").symlink_to(first)
    found = find_files(data)
    assert found.paths == (first, data / "s0" / "1" / "trace" / "5-000001.parquet")
    assert found.problems == ()
    assert set(found.notes) == {
        f"{data}/s0/2: it is a link to {data}/s0/0, which is read once",
        f"{data}/s0/loop: it is a link to {data}, which is read once",
        f"{data}/s0/1/trace/5-000002.parquet: it is the same file as {first}, which is read once",
    }


def test_links_that_lead_nowhere_or_in_a_circle_are_named(tmp_path: Path) -> None:
    file = trace_file(tmp_path, 0)
    broken, circle = tmp_path / "s0" / "1", file.with_name("circle.parquet")
    broken.symlink_to(tmp_path / "unmounted")
    circle.symlink_to(circle)
    found = find_files(tmp_path)
    assert found.paths == (file,)
    assert [line.split(": ")[0] for line in found.problems] == [str(broken), str(circle)]
    assert f"it is a link to {tmp_path}/unmounted and cannot be opened: no such file" in found.problems[0]
    with pytest.raises(NoTrace, match=r"a link to .*unmounted and cannot be opened"):
        find_files(broken)


def test_a_file_that_is_no_trace_by_its_name_is_named_if_the_user_gave_it(tmp_path: Path) -> None:
    file = trace_file(tmp_path, 0)
    other = tmp_path / "notes.txt"
    other.touch()
    assert find_files([file, other]).problems == (
        f"{other}: its name does not end in .parquet, so it is no trace file",
        f"{other}: there is no trace file in it",
    )
    assert find_files(tmp_path).problems == ()


def test_a_file_that_spark_passes_over_is_named(tmp_path: Path) -> None:
    file = trace_file(tmp_path, 0)
    copy = file.with_name("_copy.parquet")
    copy.touch()
    found = find_files([tmp_path, copy])
    assert found.paths == (file,)
    assert f"{copy}: Spark passes over names that begin with _: rename it" in found.problems


def test_what_is_no_file_is_named_and_not_opened(tmp_path: Path) -> None:
    trace_file(tmp_path, 0)
    pipe = tmp_path / "s0" / "0" / "trace" / "pipe.parquet"
    os.mkfifo(pipe)
    assert find_files(tmp_path).problems == (f"{pipe}: it is neither a file nor a directory",)


def test_files_that_are_missing_by_their_numbers_are_named(tmp_path: Path) -> None:
    for number in (3, 4, 6, 10):
        trace = trace_file(tmp_path, 0, number).parent
    assert find_files(tmp_path).problems == (
        f"{trace}: there is no 5-000001.parquet to 5-000002.parquet",
        f"{trace}: there is no 5-000005.parquet",
        f"{trace}: there is no 5-000007.parquet to 5-000009.parquet",
    )


class Denied:
    """A disk that refuses to open some paths. The superuser of a test would not be refused by a real one."""

    def __init__(self, *paths: Path | str) -> None:
        self._paths = paths

    def guard(self, original: Any) -> Any:
        def guarded(path: Path, *args: Any, **options: Any) -> Any:
            if path in self._paths:
                raise PermissionError(13, "Permission denied", str(path))
            return original(path, *args, **options)

        return guarded


def test_places_and_entries_that_may_not_be_looked_at_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory whose names may be read, but not what they stand for; and a place within such a one."""
    files = [trace_file(tmp_path, replica) for replica in range(2)]
    denied = Denied(files[0])
    monkeypatch.setattr(Path, "stat", denied.guard(Path.stat))
    monkeypatch.setattr(Path, "lstat", denied.guard(Path.lstat))
    monkeypatch.setattr(os, "lstat", Denied(str(files[0])).guard(os.lstat))
    found = find_files([tmp_path / "s0" / "1", files[0]])
    assert found.paths == (files[1],)
    assert found.problems[0] == f"{files[0]}: it cannot be opened: permission denied"
    assert find_files(tmp_path).problems[0] == found.problems[0]


def test_directories_and_files_without_permission_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow")
    files = [trace_file(tmp_path, replica) for replica in range(3)]
    denied = Denied(files[0], files[1].parent)
    monkeypatch.setattr(Path, "open", denied.guard(Path.open))
    monkeypatch.setattr(Path, "iterdir", denied.guard(Path.iterdir))
    found = find_files(tmp_path)
    assert found.problems == (f"{files[1].parent}: it cannot be searched: permission denied",)
    assert [(each.server, each.replica) for each in found.bare] == [("s0", 1)]
    with pytest.raises(NoTrace, match=rf"the first is {files[0]}: it cannot be opened: permission denied"):
        inspect_files(found)
