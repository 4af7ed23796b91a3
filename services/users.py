"""The users of a server and their passwords, as the arguments of a service give them."""

import hashlib
import hmac
import os
from typing import Final

from .base import ServiceError

__all__ = ["ADMINISTRATORS_PROPERTY", "Users"]

ADMINISTRATORS_PROPERTY: Final = "administrators"
"""Users, separated by spaces, who may create and administer agents, or topics, from a client."""


class _Secret:
    """A password, salted and hashed: it is compared in constant time and never shown."""

    def __init__(self, password: str):
        self._salt = os.urandom(16)
        self._hash = self._digest(password)

    def _digest(self, password: str) -> bytes:
        return hashlib.blake2b(password.encode(), key=self._salt).digest()

    def matches(self, password: str) -> bool:
        return hmac.compare_digest(self._hash, self._digest(password))


class Users:
    """Users and passwords: ``root root alice secret``; and the names of those who administer."""

    def __init__(self, args: str = "", administrators: str = "") -> None:
        """Raises ServiceError if the arguments are not pairs of user and password."""
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

    def check(self, user: str, password: str) -> bool:
        """Return whether `password` is the password of the user."""
        known = self._users.get(user)
        return (known or self._nobody).matches(password) and known is not None

    def administers(self, user: str) -> bool:
        """Return whether the user may administer from a client."""
        return user in self._administrators
