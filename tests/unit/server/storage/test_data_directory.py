"""The lock of a replica's directory and its incarnations; hosts that are this machine."""

import errno
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from quorate.server.cli.local_hosts import is_local
from quorate.server.storage.data_directory import (
    INCARNATION_FILE,
    PID_FILE,
    DataDirectory,
    DataDirectoryError,
    directory_error,
    running_process,
)


def test_a_second_start_is_refused_with_the_pid_of_the_first(tmp_path: Path, hold: Any) -> None:
    other = hold(tmp_path)
    with pytest.raises(DataDirectoryError, match=f"runs already as process {other.pid} "):
        DataDirectory.open(tmp_path, "s0", 1)
    DataDirectory.open(tmp_path, "s0", 2).close()
    assert [running_process(tmp_path, "s0", replica) for replica in (0, 1, 2)] == [None, other.pid, None]
    # The number of another process, in a container say.
    (tmp_path / "s0" / "1" / PID_FILE).write_text("1\n")
    assert running_process(tmp_path, "s0", 1) is None
    other.kill()
    other.wait()
    DataDirectory.open(tmp_path, "s0", 1).close()


def test_the_pid_file_has_the_process_that_holds_the_lock(tmp_path: Path) -> None:
    directory = DataDirectory.open(tmp_path, "s0", 0)
    pid_file = tmp_path / "s0" / "0" / PID_FILE
    assert pid_file.read_text() == f"{os.getpid()}\n"
    directory.close()
    directory.close()
    assert pid_file.read_text() == ""


def test_every_start_has_a_higher_incarnation(tmp_path: Path) -> None:
    numbers = []
    for _ in range(3):
        directory = DataDirectory.open(tmp_path, "s0", 0)
        numbers.append(directory.incarnation)
        directory.close()
    assert numbers == sorted(set(numbers))
    ahead = numbers[-1] + 10**9
    file = tmp_path / "s0" / "0" / INCARNATION_FILE
    file.write_text(f"{ahead}\n")
    assert DataDirectory.open(tmp_path, "s0", 0).incarnation == ahead + 1


@pytest.mark.parametrize("broken", [b"\xff\x00", b"", b"%d\n" % (2**63 - 1), b"9" * 5000, b"-5"])
def test_a_damaged_incarnation_file_does_not_prevent_a_start(tmp_path: Path, broken: bytes) -> None:
    first = DataDirectory.open(tmp_path, "s0", 0)
    first.close()
    (tmp_path / "s0" / "0" / INCARNATION_FILE).write_bytes(broken)
    second = DataDirectory.open(tmp_path, "s0", 0)
    second.close()
    assert 0 <= second.incarnation - first.incarnation < 1_000_000


def test_a_directory_that_cannot_be_created_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataDirectoryError, match="choose another with --data"):
        DataDirectory.open(tmp_path / "file", "s0", 0)


@pytest.mark.parametrize(
    ("code", "file", "said"),
    [
        (errno.EACCES, "pid", "(pid: Permission denied); let this user read and write it, or choose another"),
        (errno.EACCES, None, "(Permission denied); let this user read and write it, or choose another"),
        (errno.ENOSPC, None, "(No space left on device); free some space."),
        (errno.EROFS, "log", "(log: Read-only file system); mount its disk for writing, or choose another"),
        (errno.EISDIR, "log", "(log: Is a directory); move away what stands in the way, or choose"),
        (errno.EIO, None, "(Input/output error); choose another with --data."),
    ],
)
def test_an_unusable_directory_is_reported_with_the_reason_and_a_remedy(
    tmp_path: Path, code: int, file: str | None, said: str
) -> None:
    error = OSError(code, os.strerror(code), None if file is None else str(tmp_path / file))
    assert directory_error(tmp_path, error).startswith(f"The data directory {tmp_path} cannot be used {said}")


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost", True),
        ("LocalHost.", True),
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("[::1]", True),
        (socket.gethostname(), True),
        ("192.0.2.1", False),
        ("2001:db8::1", False),
        ("", False),
        ("a" * 300, False),
    ],
)
def test_which_hosts_are_this_machine(host: str, expected: bool) -> None:
    assert is_local(host) is expected
