"""Who uses the HTTP API: administrators who have logged in, and programs with tokens."""

import secrets
from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import attrs

from ..services.failed_logins import FailedLogins
from ..services.users import Users
from ..text_files import reason
from ..tls.files import stamp
from .problems import Problem
from .tokens import Token, hash_token, read_tokens

__all__ = ["SESSION", "Access", "Identity", "Session"]

SESSION: Final = timedelta(hours=8)
"""How long a login is valid."""
MAX_SESSIONS: Final = 1000
"""Logins that are remembered; with more, the oldest ends."""
NO_TOKEN: Final = "Log in, or send the header Authorization: Bearer TOKEN."  # noqa: S105 - no secret
WRONG_TOKEN: Final = "The token is not valid, or not any more; log in again."  # noqa: S105 - no secret


@attrs.frozen
class Identity:
    """Who makes a request."""

    name: str
    """The user, or ``token NAME``."""
    read_only: bool = False
    expires: datetime | None = None
    key: str = ""
    """Of a login: the hash of its token."""


@attrs.frozen
class Session:
    """A login."""

    user: str
    expires: datetime
    password: str
    """What `Users.version` says of the password."""


class Access:
    """Logins and tokens of one replica. A login holds at this replica only; a token where its file is."""

    def __init__(
        self,
        users: Users,
        tokens: str,
        now: Callable[[], datetime],
        wait: Callable[[float], Any],
        log: Callable[[str], None],
    ) -> None:
        """tokens: the path of the file of tokens, or "".

        wait: returns an awaitable that is done after so many seconds.
        """
        self._users = users
        self._path = Path(tokens) if tokens else None
        self._now = now
        self._wait = wait
        self._log = log
        self._failed = FailedLogins()
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._stamp: tuple[int, int, int] | None = None
        self._tokens: dict[str, tuple[str, Token]] = {}
        """Name and token by hash."""
        self._problem = ""

    async def log_in(self, origin: str, user: str, password: str) -> tuple[str, Session]:
        """Return the token of a login of an administrator. origin: a numeric address. Raises Problem."""
        wait_s = self._failed.wait_s(self._now().timestamp(), origin, user)
        if wait_s is None:
            raise Problem(429, "too-many", "Too many wrong passwords came from this address; wait a second.")
        if wait_s:
            await self._wait(wait_s)
        right = await self._users.verify(user, password)
        if right is None:
            raise Problem(429, "too-many", "Too many passwords are being checked; try again in a second.")
        if not right:
            self._failed.failed(self._now().timestamp(), origin, user)
            self._log(f"a login over HTTP from {origin} had a wrong user or password")
            raise Problem(401, "login-required", "The user or the password is wrong.")
        self._failed.succeeded(origin, user)
        return self._begin(user)

    def certified(self, user: str) -> tuple[str, Session]:
        """Return the token of a login of an administrator whom a certificate names. Raises Problem."""
        self._users.refresh()
        return self._begin(user)

    def _begin(self, user: str) -> tuple[str, Session]:
        if not self._users.administers(user):
            sentence = (
                f"{user} is no administrator; the property administrators of the configuration names them."
            )
            raise Problem(403, "forbidden", sentence)
        token = secrets.token_urlsafe(32)
        session = Session(user, self._now() + SESSION, self._users.version(user))
        self._sessions[hash_token(token)] = session
        if len(self._sessions) > MAX_SESSIONS:
            self._sessions.popitem(last=False)
        return token, session

    def log_out(self, identity: Identity) -> None:
        """End a login."""
        self._sessions.pop(identity.key, None)

    def identify(self, authorization: str) -> Identity:
        """Return who has sent a header ``Authorization``. Raises Problem."""
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise Problem(401, "login-required", NO_TOKEN)
        hashed = hash_token(token.strip())
        session = self._sessions.get(hashed)
        if session is not None:
            self._users.refresh()
            if (
                self._now() < session.expires
                and self._users.administers(session.user)
                and self._users.version(session.user) == session.password
            ):
                return Identity(session.user, False, session.expires, hashed)
            del self._sessions[hashed]
        self._refresh()
        name, known = self._tokens.get(hashed, ("", None))
        if known is None or known.expired(self._now()):
            raise Problem(401, "login-required", WRONG_TOKEN)
        return Identity(f"token {name}", known.scope == "read", known.expires)

    def _refresh(self) -> None:
        """Read the file of tokens again if it has changed. What cannot be read changes nothing."""
        if self._path is None:
            return
        try:
            found = stamp(self._path)
            if found == self._stamp:
                return
            # A file that is wrong is read again only when it has changed again.
            self._stamp = found
            self._tokens = {each.hashed: (name, each) for name, each in read_tokens(self._path).items()}
            self._problem = ""
            self._log(f"the tokens of {self._path} were read: {len(self._tokens)}")
        except (OSError, ValueError) as error:
            problem = (
                f"the file of tokens {self._path} cannot be read, and the former ones stay: {reason(error)}"
            )
            if problem != self._problem:
                self._problem = problem
                self._log(problem)
