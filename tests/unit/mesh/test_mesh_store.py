"""The file of a daemon: what is read is the newest, and what was written is there after a kill."""

from pathlib import Path

import pytest

from quorate.mesh.model import DIRECTORY, Stream, Uid
from quorate.mesh.store import SqliteLog

STREAM = Stream(Uid(1, 0, 5, 1), 0, 5)


def written(log: SqliteLog) -> None:
    batch = log.take_batch()
    log.write_batch(batch)
    log.written(batch)


def numbers(log: SqliteLog, first: int = 1, last: int = 100, size: int = 10_000) -> list[int]:
    return [number for number, _ in log.read(STREAM, first, last, size)]


def messages(first: int, last: int) -> list[tuple[int, bytes, bool]]:
    return [(number, b"%04d" % number, True) for number in range(first, last + 1)]


@pytest.fixture(params=[0, 1 << 20], ids=["from the file", "from memory"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> SqliteLog:
    return SqliteLog(tmp_path, cache_bytes=request.param)


def test_records_are_read_before_and_after_they_are_written(log: SqliteLog) -> None:
    log.append(STREAM, messages(1, 5))
    assert numbers(log) == [1, 2, 3, 4, 5]
    written(log)
    log.append(STREAM, messages(6, 7))
    assert numbers(log, 4) == [4, 5, 6, 7]
    assert numbers(log, 2, 6, size=9) == [2, 3]
    assert numbers(log, 3, 3, size=1) == [3]


def test_stripped_messages_are_gone_and_other_records_stay(log: SqliteLog) -> None:
    log.append(STREAM, [*messages(1, 3), (4, b"start", False), *messages(5, 6)])
    written(log)
    assert log.message_bytes(STREAM) == 20
    log.strip(STREAM, 5)
    assert numbers(log) == [4, 6]
    assert log.message_bytes(STREAM) == 4
    written(log)
    assert numbers(log) == [4, 6]


def test_trimmed_records_are_gone(log: SqliteLog) -> None:
    log.append(STREAM, messages(1, 6))
    log.trim(STREAM, 4)
    assert numbers(log) == [5, 6]
    written(log)
    assert numbers(log) == [5, 6]
    assert log.message_bytes(STREAM) == 8


def test_a_dropped_stream_begins_anew(log: SqliteLog) -> None:
    log.append(STREAM, messages(1, 3))
    written(log)
    log.drop(STREAM)
    assert not numbers(log)
    log.append(STREAM, messages(1, 1))
    written(log)
    assert numbers(log) == [1]


def test_what_was_written_is_there_when_the_file_is_opened_again(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path)
    log.append(STREAM, messages(1, 4))
    log.append(Stream(DIRECTORY, 0, 5), [(1, b"create", False)])
    log.put("kind", b"key", b"value")
    log.put("kind", b"other", b"value")
    log.delete("kind", b"other")
    log.strip(STREAM, 2)
    written(log)
    log.append(STREAM, messages(5, 6))
    log.close()
    again = SqliteLog(tmp_path)
    assert numbers(again) == [3, 4]
    assert again.message_bytes(STREAM) == 8
    assert list(again.facts("kind")) == [(b"key", b"value")]
    again.append(STREAM, messages(5, 5))
    written(again)
    assert numbers(again) == [3, 4, 5]


def test_a_file_of_another_format_is_refused(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path)
    log._writing.execute("UPDATE format SET version = 99")
    log.close()
    with pytest.raises(ValueError, match="format 99"):
        SqliteLog(tmp_path)


def test_only_the_owner_reads_the_files(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "mesh")
    log.append(STREAM, messages(1, 1))
    written(log)
    made = [tmp_path / "mesh", *(tmp_path / "mesh").iterdir()]
    assert len(made) == 4
    assert not any(path.stat().st_mode & 0o077 for path in made)
