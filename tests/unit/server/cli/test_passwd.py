"""`quorate passwd`: users of a file are set, listed and removed."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from quorate.__main__ import cli
from quorate.services.passwords import matches, read_users


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "users"


def passwd(*args: object, text: str = "") -> Result:
    return CliRunner().invoke(cli, ["passwd", *map(str, args)], input=text)


def test_a_password_is_set_and_changed_and_groups_stay(file: Path) -> None:
    assert passwd(file, "alice", "--group", "staff", text="one\n").exit_code == 0
    assert passwd(file, "alice", text="two\n").output == f"{file}: alice set, 1 users.\n"
    entry = read_users(file)["alice"]
    assert entry.groups == ("staff",)
    assert matches(entry.hashed, "two")
    assert "two" not in file.read_text()
    assert passwd(file).output == "alice staff\n"


def test_a_user_is_removed(file: Path) -> None:
    passwd(file, "alice", text="one\n")
    assert passwd(file, "alice", "--remove").exit_code == 0
    assert read_users(file) == {}
    result = passwd(file, "alice", "--remove")
    assert (result.exit_code, result.output) == (1, f"Error: {file} has no user alice.\n")


@pytest.mark.parametrize(
    ("args", "text", "sentence"),
    [
        (("alice",), "", "No password was given"),
        (("two words",), "one\n", "is not a name"),
        (("#alice",), "one\n", "is not a name"),
        (("alice", "--group", ""), "one\n", "is not a name"),
        (("--remove",), "", "Name the user"),
    ],
)
def test_what_cannot_be_set_is_told(file: Path, args: tuple[str, ...], text: str, sentence: str) -> None:
    result = passwd(file, *args, text=text)
    assert result.exit_code
    assert sentence in result.output
    assert not file.exists()


def test_another_file_is_left_as_it_is(file: Path) -> None:
    file.write_text("something else\n")
    result = passwd(file, "alice", text="one\n")
    assert "is no file of users: line 1: it is no hash of a password" in result.output
    assert file.read_text() == "something else\n"
