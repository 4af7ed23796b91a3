"""`quorate token`: tokens of a file are made, listed and removed."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from quorate.__main__ import cli
from quorate.console.tokens import PREFIX, Token, hash_token, read_tokens, write_tokens


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "tokens"


def token(*args: object) -> Result:
    return CliRunner().invoke(cli, ["token", *map(str, args)])


def test_a_token_is_printed_once_and_kept_as_a_hash(file: Path) -> None:
    made = token(file, "ci")
    assert made.exit_code == 0
    text = made.stdout.strip()
    assert text.startswith(PREFIX)
    assert made.stderr == f"{file}: ci set, 1 tokens.\n"
    assert read_tokens(file) == {"ci": Token(hash_token(text), "all")}
    assert text not in file.read_text()
    assert file.stat().st_mode & 0o077 == 0


def test_scope_and_end(file: Path) -> None:
    assert token(file, "board", "--read-only", "--days", "30").exit_code == 0
    found = read_tokens(file)["board"]
    assert found.scope == "read"
    assert found.expires is not None
    assert timedelta(days=29) < found.expires - datetime.now(UTC) < timedelta(days=31)
    assert token(file).output == f"board read until {found.expires:%Y-%m-%d}\n"


def test_an_expired_token_is_listed_as_such(file: Path) -> None:
    write_tokens(
        file, {"old": Token("0" * 64, "all", datetime(2020, 1, 1, tzinfo=UTC)), "new": Token("1" * 64, "all")}
    )
    assert token(file).output == "new all for ever\nold all expired\n"


def test_a_token_is_removed(file: Path) -> None:
    token(file, "ci")
    assert token(file, "ci", "--remove").exit_code == 0
    assert read_tokens(file) == {}
    again = token(file, "ci", "--remove")
    assert (again.exit_code, again.output) == (1, f"Error: {file} has no token ci.\n")


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["--read-only"], "Name the token."),
        (["a b"], "'a b' is not a name"),
        (["#a"], "'#a' is not a name"),
        (["ci", "--remove", "--days", "3"], "--remove takes no other options."),
    ],
)
def test_wrong_use(file: Path, args: list[str], sentence: str) -> None:
    result = token(file, *args)
    assert result.exit_code == 2
    assert sentence in result.output


def test_a_file_that_is_none_stays(file: Path) -> None:
    file.write_text("nonsense\n")
    result = token(file, "ci")
    assert result.exit_code == 1
    assert f"{file} is no file of tokens: line 1" in result.output
    assert file.read_text() == "nonsense\n"
