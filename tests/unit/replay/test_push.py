"""Closed trace files are copied elsewhere: repeated, interrupted, with retention on both sides."""

import os
import stat
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from quorate.replay import NoTrace, ReplayError, push
from quorate.replay.discovery import find_files
from quorate.replay.push_command import command
from quorate.replay.schema import EVENTS_SUFFIX, Origin
from quorate.server.trace.retention import Retention
from quorate.server.trace.writer import TraceWriter
from tests.unit.server.trace.test_writer import positions, rows

pytest.importorskip("pyarrow.parquet")

NOW = 1_800_000_000.0


class Server:
    """A server that traces; its files are closed when it is told."""

    def __init__(self, data: Path, incarnation: int = 5, keep_bytes: int = 0) -> None:
        self.place = data / "s0" / "0" / "trace"
        retention = Retention(self.place, 0, keep_bytes, 0) if keep_bytes else None
        self._writer = TraceWriter(self.place, Origin("s0", 0, 0, incarnation), retention=retention)

    def write(self, first: int, last: int) -> None:
        self._writer.write(rows(first, last))
        assert self._writer.flush()


def copied(target: Path) -> list[int]:
    return [position for part in positions(target / "s0" / "0" / "trace") for position in part]


def put_at(target: Path, name: str, seconds: float) -> None:
    os.utime(target / "s0" / "0" / "trace" / name, (seconds, seconds))


def test_only_what_is_new_and_closed_is_copied(tmp_path: Path) -> None:
    data, target = tmp_path / "data", tmp_path / "target"
    server = Server(data)
    server.write(1, 10)
    (server.place / f"5{EVENTS_SUFFIX}").write_text("{}\n")
    (server.place / "5-000009.parquet.part").write_bytes(b"not yet")
    first = push(data, str(target))
    assert (first.replicas, first.copied, first.there) == (1, 1, 0)
    server.write(11, 20)
    (server.place / f"5{EVENTS_SUFFIX}").write_text("{}\n{}\n")
    second = push(data, str(target))
    assert (second.copied, second.there) == (1, 1)
    assert copied(target) == list(range(1, 21))
    place = target / "s0" / "0" / "trace"
    assert (place / f"5{EVENTS_SUFFIX}").read_text() == "{}\n{}\n"
    assert not list(place.glob("*.part"))
    assert {stat.S_IMODE(path.stat().st_mode) for path in place.iterdir()} == {0o600}


def test_a_file_that_was_copied_in_part_is_copied_again(tmp_path: Path) -> None:
    data, target = tmp_path / "data", tmp_path / "target"
    server = Server(data)
    server.write(1, 10)
    place = target / "s0" / "0" / "trace"
    place.mkdir(parents=True)
    (place / "5-000001.parquet.part").write_bytes(b"PAR1")
    (place / "5-000001.parquet").write_bytes(b"PAR1")
    assert push(data, str(target)).copied == 1
    assert copied(target) == list(range(1, 11))
    assert find_files(target).problems == ()


def test_old_files_are_removed_from_the_target_and_do_not_come_back(tmp_path: Path) -> None:
    data, target = tmp_path / "data", tmp_path / "target"
    server = Server(data)
    for first in (1, 11, 21):
        server.write(first, first + 9)
    push(data, str(target))
    for number, age in ((1, 90), (2, 70), (3, 50)):
        put_at(target, f"5-{number:06d}.parquet", NOW - age)
    assert push(data, str(target), keep_s=60, now=NOW).removed == 2
    again = push(data, str(target), keep_s=60, now=NOW)
    assert (again.copied, again.there, again.removed) == (0, 1, 0)
    found = find_files(target)
    assert (found.problems, dict(found.removed)) == ((), {0: 20})
    assert copied(target) == list(range(21, 31))
    assert copied(data) == list(range(1, 31))


def test_the_latest_file_stays_however_old(tmp_path: Path) -> None:
    data, target = tmp_path / "data", tmp_path / "target"
    Server(data).write(1, 10)
    push(data, str(target))
    put_at(target, "5-000001.parquet", 1000.0)
    assert push(data, str(target), keep_s=1, now=NOW).removed == 0
    assert copied(target) == list(range(1, 11))


def test_what_the_server_has_removed_stays_in_the_target(tmp_path: Path) -> None:
    data, target = tmp_path / "data", tmp_path / "target"
    server = Server(data, keep_bytes=1)
    server.write(1, 10)
    push(data, str(target))
    server.write(11, 20)
    push(data, str(target))
    assert copied(data) == list(range(11, 21))
    assert copied(target) == list(range(1, 21))
    assert (find_files(target).problems, dict(find_files(target).removed)) == ((), {})


def test_what_the_server_removed_before_it_was_copied_is_recorded(tmp_path: Path) -> None:
    data, target = tmp_path / "data", tmp_path / "target"
    server = Server(data, keep_bytes=1)
    for first in (1, 11, 21):
        server.write(first, first + 9)
    push(data, str(target))
    assert copied(target) == list(range(21, 31))
    assert (find_files(target).problems, dict(find_files(target).removed)) == ((), {0: 20})


def test_an_object_store_gets_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    servers: Any = pytest.importorskip("moto.server", reason="moto[server], an S3 service, is not installed")
    from pyarrow import fs

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    service = servers.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    service.start()
    try:
        place = f"127.0.0.1:{service.get_host_and_port()[1]}"
        store: Any = fs.S3FileSystem(endpoint_override=place, scheme="http", allow_bucket_creation=True)
        store.create_dir("bucket")
        Server(tmp_path / "data").write(1, 10)
        uri = f"s3://bucket/traces?endpoint_override={place}&scheme=http"
        assert [push(tmp_path / "data", uri).copied for _ in range(2)] == [1, 0]
        (found,) = store.get_file_info(fs.FileSelector("bucket/traces/s0/0/trace"))
        assert found.base_name == "5-000001.parquet"
        assert found.size == next(Server(tmp_path / "data").place.glob("*.parquet")).stat().st_size
    finally:
        service.stop()


def test_a_place_without_a_trace_and_a_target_that_cannot_be_written_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(NoTrace, match="there is no closed trace file below"):
        push(tmp_path, str(tmp_path / "target"))
    Server(tmp_path / "data").write(1, 10)
    (tmp_path / "file").write_text("")
    with pytest.raises(ReplayError, match="the traces cannot be copied to"):
        push(tmp_path / "data", str(tmp_path / "file" / "below"))
    with pytest.raises(ReplayError, match="the traces cannot be copied to nowhere://"):
        push(tmp_path / "data", "nowhere://bucket/traces")


def test_the_command_says_what_it_did(tmp_path: Path) -> None:
    def run(*arguments: str) -> Any:
        return CliRunner().invoke(command, ["push", *arguments])

    Server(tmp_path / "data").write(1, 10)
    done = run(str(tmp_path / "data"), f"file://{tmp_path}/target")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("1 files with ")
    assert copied(tmp_path / "target") == list(range(1, 11))
    (tmp_path / "empty").mkdir()
    assert run(str(tmp_path / "empty"), "x").exit_code == 1
    assert run(str(tmp_path / "data"), "nowhere://x/y").exit_code == 3
