"""Users of a file: hashed passwords, changes while the server runs, and what is wrong in a file."""

import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted

from quorate.services.base import ServiceError
from quorate.services.passwords import UserEntry, hash_password, matches, read_users, write_users
from quorate.services.users import MAX_CHECKS, Users

CHEAP = "scrypt:1:1:1:AAAAAAAAAAAAAAAAAAAAAA==:"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "users"
    write_users(path, {"alice": UserEntry(hash_password("wonder"), ("traders", "staff"))})
    return path


def test_a_password_matches_its_hash_and_no_other() -> None:
    hashed = hash_password("wonder")
    assert "wonder" not in hashed
    assert matches(hashed, "wonder")
    assert not matches(hashed, "Wonder")
    assert hash_password("wonder") != hashed


@pytest_twisted.inlineCallbacks
def test_users_of_the_file_and_of_the_arguments_log_in(file: Path) -> Generator[Any, Any, None]:
    users = Users("root secret", file=str(file))
    for user, password, right in (
        ("root", "secret", True),
        ("root", "wonder", False),
        ("alice", "wonder", True),
        ("alice", "wonder", True),
        ("alice", "secret", False),
        ("bob", "wonder", False),
    ):
        assert (yield users.verify(user, password)) is right, (user, password)
    assert users.groups("alice") == ("traders", "staff")
    assert users.groups("root") == ()


@pytest_twisted.inlineCallbacks
def test_a_changed_file_counts_at_once(file: Path) -> Generator[Any, Any, None]:
    lines: list[str] = []
    users = Users(file=str(file), log=lines.append)
    assert (yield users.verify("alice", "wonder"))
    write_users(file, {"bob": UserEntry(hash_password("builder"))})
    assert not (yield users.verify("alice", "wonder"))
    assert (yield users.verify("bob", "builder"))
    assert len(lines) == 1


@pytest_twisted.inlineCallbacks
def test_a_file_that_cannot_be_read_any_more_changes_nothing(file: Path) -> Generator[Any, Any, None]:
    lines: list[str] = []
    users = Users(file=str(file), log=lines.append)
    file.write_text("alice nothing\n")
    assert (yield users.verify("alice", "wonder"))
    file.unlink()
    assert (yield users.verify("alice", "wonder"))
    assert (yield users.verify("alice", "wonder"))
    assert ["line 1" in lines[0], "No such file" in lines[1], len(lines)] == [True, True, 2]


@pytest_twisted.inlineCallbacks
def test_only_so_many_passwords_are_checked_at_a_time(file: Path) -> Generator[Any, Any, None]:
    file.write_text(f"alice {CHEAP}{'A' * 43}=\n")
    users = Users(file=str(file))
    asked = [users.verify("alice", str(number)) for number in range(MAX_CHECKS + 1)]
    assert (yield asked.pop()) is None
    for each in asked:
        assert (yield each) is False
    assert (yield users.verify("alice", "again")) is False


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("alice\n", "line 1 has no hash"),
        ("# comment\nalice secret\n", "line 2: it is no hash"),
        (f"alice {CHEAP}AAAA\n", "line 1: it is no hash"),
        (f"alice scrypt:30:8:1:AAAA:{'A' * 43}=\n", "line 1: the hash of the password has a cost"),
        (f"alice {CHEAP}{'A' * 43}=\nalice {CHEAP}{'A' * 43}=\n", "line 2: the user 'alice' is there twice"),
    ],
)
def test_a_wrong_file_is_refused_with_its_line(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "users"
    path.write_text(text)
    with pytest.raises(ServiceError, match=sentence):
        Users(file=str(path))


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match="No such file"):
        Users(file=str(tmp_path / "users"))


def test_the_file_is_for_its_owner_only(file: Path) -> None:
    assert os.stat(file).st_mode & 0o777 == 0o600
    assert read_users(file)["alice"].groups == ("traders", "staff")
