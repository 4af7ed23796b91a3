"""The users of a server and their passwords: from the arguments of a service, and from a file."""

import hashlib
import hmac
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, cast

from twisted.internet.defer import Deferred, succeed
from twisted.internet.threads import deferToThread
from twisted.python.failure import Failure

from ..text_files import reason
from ..tls.files import stamp
from .base import ServiceError
from .passwords import UserEntry, hash_password, matches, read_users

__all__ = ["ADMINISTRATORS_PROPERTY", "USERS_FILE_PROPERTY", "Users"]

ADMINISTRATORS_PROPERTY: Final = "administrators"
"""Users, separated by spaces, who may create and administer agents, or topics, from a client."""
USERS_FILE_PROPERTY: Final = "users_file"
"""The file with further users, which `quorate passwd` writes."""
MAX_CHECKS: Final = 64
"""Passwords that are checked at a time; a client that comes then is told to try again."""


class _Secret:
    """A password, salted and hashed: it is compared in constant time and never shown."""

    def __init__(self, password: str):
        self._salt = os.urandom(16)
        self._hash = self._digest(password)

    def _digest(self, password: str) -> bytes:
        return hashlib.blake2b(password.encode(errors="surrogatepass"), key=self._salt).digest()

    def matches(self, password: str) -> bool:
        return hmac.compare_digest(self._hash, self._digest(password))


class Users:
    """Users and passwords: ``root root alice secret``, and those of a file; and the names of who administers.

    The file is read again when it has changed. Its passwords are checked in threads, since that takes long;
    one that was right is recognized at once the next time.
    """

    def __init__(
        self,
        args: str = "",
        administrators: str = "",
        file: str = "",
        log: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Raises ServiceError if the arguments are not pairs, or the file cannot be read."""
        words = args.split()
        if len(words) % 2:
            raise ServiceError(
                'ConnectionManager needs pairs of user and password; write args="user password"'
            )
        self._users = {
            user: _Secret(password) for user, password in zip(words[::2], words[1::2], strict=True)
        }
        self._administrators = frozenset(administrators.split())
        # Compared for unknown users, so that a refusal takes the same time for all names.
        self._nobody = _Secret(os.urandom(16).hex())
        self._log = log
        self._path = Path(file) if file else None
        self._stamp: tuple[int, int, int] | None = None
        self._reads = 0
        self._entries: dict[str, UserEntry] = {}
        self._right: dict[str, tuple[str, _Secret]] = {}
        """By user of the file: the hash, and the password that was right for it."""
        self._checks = 0
        self._problem = ""
        """Why the file could not be read the last time."""
        self._unknown = hash_password(os.urandom(16).hex()) if file else ""
        if self._path is not None:
            try:
                self._read(self._path)
            except (OSError, ValueError) as error:
                raise ServiceError(f"the file of users {file} cannot be read: {reason(error)}") from None

    def verify(self, user: str, password: str) -> "Deferred[bool | None]":
        """Check a password. Fires with whether it is that of the user; None: too many are being checked."""
        known = self._users.get(user)
        if known is not None or self._path is None:
            return succeed((known or self._nobody).matches(password) and known is not None)
        self._refresh(self._path)
        entry = self._entries.get(user)
        if entry is not None:
            hashed, secret = self._right.get(user, ("", self._nobody))
            if hashed == entry.hashed and secret.matches(password):
                return succeed(True)
        if self._checks >= MAX_CHECKS:
            return succeed(None)
        self._checks += 1
        hashed = self._unknown if entry is None else entry.hashed
        checked: Deferred[Any] = deferToThread(cast("Any", matches), hashed, password)

        def found(right: bool) -> bool:
            self._checks -= 1
            if not right or entry is None:
                return False
            self._right[user] = (entry.hashed, _Secret(password))
            # The file may have changed meanwhile.
            return self._entries.get(user) == entry

        def failed(failure: Failure) -> None:
            self._checks -= 1
            self._log(f"a password could not be checked: {failure.getErrorMessage()}")

        checked.addCallbacks(found, failed)
        return checked

    def administers(self, user: str) -> bool:
        """Return whether the user may administer from a client."""
        return user in self._administrators

    def knows(self, user: str) -> bool:
        """Return whether there is such a user."""
        return user in self._users or user in self._entries

    def version(self, user: str) -> str:
        """Return a text that changes when the password of the user in the file does."""
        entry = self._entries.get(user)
        return "" if entry is None else entry.hashed

    def refresh(self) -> int:
        """Read the file again if it has changed. Return how often it was read so far."""
        if self._path is not None:
            self._refresh(self._path)
        return self._reads

    def groups(self, user: str) -> tuple[str, ...]:
        """Return the groups of a user of the file."""
        entry = self._entries.get(user)
        return () if entry is None else entry.groups

    def _refresh(self, path: Path) -> None:
        """Read the file again if it has changed. What cannot be read changes nothing."""
        try:
            if stamp(path) != self._stamp:
                self._read(path)
                self._problem = ""
                self._log(f"the users of {path} were read again: {len(self._entries)}")
        except (OSError, ValueError) as error:
            problem = f"the file of users {path} cannot be read, and the former users stay: {reason(error)}"
            if problem != self._problem:
                self._problem = problem
                self._log(problem)

    def _read(self, path: Path) -> None:
        # A file that is wrong is read again only when it has changed again.
        self._stamp = stamp(path)
        self._entries = read_users(path)
        self._reads += 1
        self._right = {user: known for user, known in self._right.items() if user in self._entries}
