import errno
import os
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any, BinaryIO

import msgspec
import pytest

from quorate.agents import AgentId
from quorate.engine import Reaction
from quorate.replay.discovery import find_files
from quorate.replay.files import Footer, footer, inspect_files
from quorate.replay.schema import COLUMNS, Origin
from quorate.server.trace.writer import TraceWriter

parquet: Any = pytest.importorskip("pyarrow.parquet")

TIMEOUT_S = 30


def row(position: int, **changes: Any) -> Reaction:
    made = Reaction(
        position=position,
        index=position // 3 + 1,
        step=position % 3,
        now_ns=1_700_000_000_000_000_000 + position,
        agent=AgentId(0, 0, 1025 + position % 4),
        cls="bank:Account",
        kind="react",
        sender=AgentId(1, 0, 1),
        type="bank:Deposit",
        payload=b"\x91\x05",
        request=7,
        error="",
        sends=1,
        outputs=bytes(16),
        stamp=1100,
    )
    return msgspec.structs.replace(made, **changes)


def rows(first: int, last: int) -> list[Reaction]:
    return [row(position) for position in range(first, last + 1)]


def writer(directory: Path, **options: Any) -> TraceWriter:
    return TraceWriter(directory, Origin("s0", 0, 2, 77), **options)


def positions(directory: Path) -> list[list[int]]:
    return [parquet.read_table(path)["position"].to_pylist() for path in sorted(directory.glob("*.parquet"))]


class Disk:
    """Opens files; while ``full``, they take no byte. ``opened`` is set whenever a file is opened."""

    def __init__(self) -> None:
        self.full = False
        self.opened = Event()

    def __call__(self, path: Path) -> BinaryIO:
        file: Any = path.open("wb")
        self.opened.set()
        if not self.full:
            return file
        file.close()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))


def test_the_columns_are_those_of_a_reaction() -> None:
    assert tuple(COLUMNS)[:4] == ("server", "server_id", "replica", "incarnation")
    assert tuple(COLUMNS)[4:] == Reaction.__struct_fields__


def test_written_rows_can_be_read(tmp_path: Path) -> None:
    trace = writer(tmp_path / "made" / "on demand")
    last = row(3, kind="create", name="älice", state=b"\x80", error="half a pair: \ud800")
    trace.write([row(1), row(2)])
    trace.write([])
    trace.write([last])
    trace.close()
    (path,) = (tmp_path / "made" / "on demand").iterdir()
    assert path.name == "77-000001.parquet"
    table = parquet.read_table(path).to_pylist()
    assert table[0] == {
        "server": "s0",
        "server_id": 0,
        "replica": 2,
        "incarnation": 77,
        **msgspec.structs.asdict(row(1)),
        "agent": "#0.0.1026",
        "sender": "#1.0.1",
    }
    assert (table[2]["name"], table[2]["state"], table[2]["error"]) == (
        "älice",
        b"\x80",
        "half a pair: \\ud800",
    )
    assert footer(path) == Footer(3, Origin("s0", 0, 2, 77), 0, 1, 3)
    assert (trace.written, trace.dropped, trace.problem) == (3, 0, None)


def test_a_file_is_finished_when_it_has_enough_rows(tmp_path: Path) -> None:
    trace = writer(tmp_path, roll_rows=5000)
    for start in range(1, 20_001, 1000):
        trace.write(rows(start, start + 999))
    trace.close()
    parts = positions(tmp_path)
    assert [position for part in parts for position in part] == list(range(1, 20_001))
    assert len(parts) >= 3
    assert all(len(part) >= 5000 for part in parts[:-1])


def test_a_file_is_finished_when_its_first_row_is_old_enough(tmp_path: Path) -> None:
    disk = Disk()
    trace = writer(tmp_path, roll_s=0.01, opener=disk)
    trace.write(rows(1, 3))
    assert disk.opened.wait(TIMEOUT_S)
    trace.close()
    assert positions(tmp_path) == [[1, 2, 3]]


def test_flush_finishes_a_file_with_all_rows(tmp_path: Path) -> None:
    trace = writer(tmp_path)
    assert trace.flush()
    trace.write(rows(1, 3))
    assert trace.flush()
    trace.write(rows(4, 5))
    assert trace.flush()
    assert positions(tmp_path) == [[1, 2, 3], [4, 5]]
    trace.close()
    trace.close()
    trace.write(rows(6, 6))
    assert trace.dropped == 1


def test_an_incomplete_file_has_another_name_and_is_removed_by_the_next_writer(tmp_path: Path) -> None:
    seen: list[str] = []

    def opener(path: Path) -> BinaryIO:
        seen.append(path.name)
        return path.open("wb")

    (tmp_path / "76-000004.parquet.part").write_bytes(b"PAR1 and then the process was killed")
    (tmp_path / "77-000041.parquet").write_bytes(b"")
    trace = writer(tmp_path, opener=opener)
    trace.write(rows(1, 1))
    trace.close()
    assert seen == ["77-000042.parquet.part"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["77-000041.parquet", "77-000042.parquet"]


def test_rows_wait_while_the_disk_is_full_and_are_written_later(tmp_path: Path) -> None:
    disk = Disk()
    disk.full = True
    trace = writer(tmp_path, opener=disk)
    trace.write(rows(1, 10))
    assert not trace.flush()
    assert trace.problem is not None
    assert trace.problem.startswith("the trace is not being written (0 rows lost): No space left on device (")
    assert list(tmp_path.iterdir()) == []
    trace.write(rows(11, 12))
    disk.full = False
    assert trace.flush()
    assert trace.problem is None
    trace.close()
    assert positions(tmp_path) == [list(range(1, 13))]


def test_dropped_rows_are_counted_in_the_metadata_of_the_file(tmp_path: Path) -> None:
    disk = Disk()
    disk.full = True
    trace = writer(tmp_path, opener=disk, max_buffered_rows=10)
    trace.write(rows(1, 10))
    assert not trace.flush()
    trace.write(rows(11, 14))
    assert trace.dropped == 4
    disk.full = False
    assert trace.flush()
    assert trace.problem == "the trace lacks 4 rows: they came when the disk was busy and the buffer full"
    trace.write(rows(15, 15))
    trace.close()
    assert inspect_files(find_files(tmp_path)).dropped == {(0, 2, 77): 4}


def test_waiting_rows_are_bounded_in_bytes_too(tmp_path: Path) -> None:
    disk = Disk()
    disk.full = True
    trace = writer(tmp_path, opener=disk, max_buffered_bytes=1000)
    trace.write([row(1, payload=bytes(2000))])
    trace.write([row(2, payload=bytes(10))])
    assert trace.dropped == 1
    trace.close()
    assert trace.dropped == 2


def test_a_row_that_cannot_be_stored_is_dropped_alone(tmp_path: Path) -> None:
    trace = writer(tmp_path)
    trace.write([row(1), row(2, request=1 << 70), row(3, payload="text"), *rows(4, 9)])
    trace.flush()
    assert trace.dropped == 2
    assert trace.problem is not None
    assert trace.problem.startswith("the trace lacks 2 rows: row 2 cannot be stored: OverflowError: ")
    trace.write(rows(10, 11))
    trace.close()
    assert trace.dropped == 2
    assert positions(tmp_path) == [[1, 4, 5, 6, 7, 8, 9], [10, 11]]
    assert inspect_files(find_files(tmp_path)).dropped == {(0, 2, 77): 2}


def test_without_pyarrow_the_problem_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing: Callable[[str], None] = lambda name: None  # noqa: E731
    monkeypatch.setattr("quorate.server.trace.writer.find_spec", missing)
    trace = writer(tmp_path)
    trace.write(rows(1, 2))
    assert not trace.flush()
    trace.close()
    assert trace.dropped == 2
    assert trace.problem is not None
    assert "pip install 'quorate[replay]'" in trace.problem


def test_a_file_has_the_servers_and_the_replicas_of_the_configuration(tmp_path: Path) -> None:
    origin = Origin(
        "s0", 0, 2, 77, {"s0": 0, "nächster": 7}, {"s0": [0, 2]}, "entry 5 ended otherwise: \udce9"
    )
    trace = TraceWriter(tmp_path, origin)
    trace.write(rows(1, 3))
    trace.close()
    found = footer(next(tmp_path.glob("*.parquet")))
    assert isinstance(found, Footer)
    assert (found.origin.servers, found.origin.replicas) == (origin.servers, origin.replicas)
    assert found.origin.accepted == "entry 5 ended otherwise: \\udce9"
