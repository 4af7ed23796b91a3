"""Who may use the HTTP API: logins of administrators, and tokens of a file."""

from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred, succeed

from quorate.console.access import SESSION, Access, Identity
from quorate.console.problems import Problem
from quorate.console.tokens import Token, hash_token, new_token, write_tokens
from quorate.services.failed_logins import FREE_FAILURES
from quorate.services.passwords import UserEntry, hash_password, write_users
from quorate.services.users import Users


class Trusting(Users):
    """Users all of whose passwords are right, without a thread to check them in."""

    def verify(self, user: str, password: str) -> "Deferred[bool | None]":
        del user, password
        return succeed(True)


class Place:
    """An access with a clock of its own."""

    def __init__(self, directory: Path, users: Users | None = None) -> None:
        self.now = datetime(2030, 1, 1, tzinfo=UTC)
        self.waits: list[float] = []
        self.lines: list[str] = []
        self.file = directory / "tokens"
        known = users or Users("root secret guest guest", "root")
        self.access = Access(known, str(self.file), lambda: self.now, self._wait, self.lines.append)

    def _wait(self, seconds: float) -> "Deferred[None]":
        self.waits.append(seconds)
        return succeed(None)

    def log_in(self, user: str = "root", password: str = "secret") -> str:
        return done(self.access.log_in("127.0.0.1", user, password))[0]

    def bearer(self, token: str) -> Identity:
        return self.access.identify(f"Bearer {token}")

    def tokens(self, **tokens: Token) -> None:
        write_tokens(self.file, tokens)


def done(work: Coroutine[Any, Any, Any]) -> Any:
    results: list[Any] = []
    failures: list[Any] = []
    Deferred.fromCoroutine(work).addCallbacks(results.append, failures.append)
    if failures:
        raise failures[0].value
    return results[0]


def refused(does: Callable[[], object]) -> tuple[int, str]:
    with pytest.raises(Problem) as found:
        does()
    return found.value.status, str(found.value)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_login_holds_until_it_is_ended(place: Place) -> None:
    token = place.log_in()
    identity = place.bearer(token)
    assert (identity.name, identity.read_only) == ("root", False)
    place.access.log_out(identity)
    assert refused(lambda: place.bearer(token))[0] == 401


def test_a_login_ends_after_hours(place: Place) -> None:
    token = place.log_in()
    place.now += SESSION - timedelta(seconds=1)
    assert place.bearer(token).name == "root"
    place.now += timedelta(seconds=1)
    assert refused(lambda: place.bearer(token)) == (
        401,
        "The token is not valid, or not any more; log in again.",
    )


def test_only_administrators_log_in(place: Place) -> None:
    assert refused(lambda: place.log_in("guest", "guest")) == (
        403,
        "guest is no administrator; the property administrators of the configuration names them.",
    )
    assert refused(lambda: place.log_in("root", "wrong")) == (401, "The user or the password is wrong.")
    assert refused(lambda: place.log_in("nobody", "x")) == (401, "The user or the password is wrong.")


def test_guesses_wait(place: Place) -> None:
    for _ in range(FREE_FAILURES):
        refused(lambda: place.log_in("root", "wrong"))
    assert not place.waits
    refused(lambda: place.log_in("root", "wrong"))
    assert place.waits


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer ", "Basic cm9vdDpyb290", "nonsense"])
def test_other_headers_are_refused(place: Place, header: str) -> None:
    assert refused(lambda: place.access.identify(header)) == (
        401,
        "Log in, or send the header Authorization: Bearer TOKEN.",
    )


def test_another_password_ends_the_logins_of_a_user(tmp_path: Path) -> None:
    file = tmp_path / "users"
    write_users(file, {"root": UserEntry(hash_password("secret"))})
    place = Place(tmp_path, Trusting("", "root", str(file)))
    token = place.log_in()
    assert place.bearer(token).name == "root"
    write_users(file, {"root": UserEntry(hash_password("other"))})
    assert refused(lambda: place.bearer(token))[0] == 401


def test_tokens_of_the_file_are_read_again_when_it_changes(place: Place) -> None:
    first, second = new_token(), new_token()
    assert refused(lambda: place.bearer(first))[0] == 401
    place.tokens(ci=Token(hash_token(first), "all"))
    assert place.bearer(first) == Identity("token ci")
    place.tokens(board=Token(hash_token(second), "read"), another=Token(hash_token(new_token()), "read"))
    assert place.bearer(second).read_only
    assert refused(lambda: place.bearer(first))[0] == 401


def test_a_token_ends(place: Place) -> None:
    token = new_token()
    place.tokens(ci=Token(hash_token(token), "all", place.now + timedelta(days=1)))
    assert place.bearer(token).expires == place.now + timedelta(days=1)
    place.now += timedelta(days=1)
    assert refused(lambda: place.bearer(token))[0] == 401


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("ci all", "line 1 has not name, scope, end and hash"),
        (f"ci some never {'0' * 64}", "line 1: the scope is 'some', not all or read"),
        ("ci all never 12", "line 1 has no hash of a token"),
        (f"ci all soon {'0' * 64}", "line 1: 'soon' is no time"),
        (f"# t\nci all never {'0' * 64}\nci read never {'1' * 64}", "line 3: the token 'ci' is there twice"),
    ],
)
def test_a_wrong_file_changes_nothing_and_is_told_once(place: Place, text: str, sentence: str) -> None:
    token = new_token()
    place.tokens(ci=Token(hash_token(token), "all"))
    assert place.bearer(token).name == "token ci"
    place.lines.clear()
    place.file.write_text(f"{text}\n")
    for _ in range(3):
        assert place.bearer(token).name == "token ci"
    assert len(place.lines) == 1
    assert place.lines[0].endswith(f"and the former ones stay: {sentence}")
