"""Operations to log in and out."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Final

import msgspec

from ..operations import Call, Operation

__all__ = ["OPERATIONS"]


class Login(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An administrator, and the password."""

    user: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    password: Annotated[
        str,
        msgspec.Meta(max_length=1024, description="Left out by clients whose certificate names the user."),
    ] = ""


class LoggedIn(msgspec.Struct, frozen=True):
    """A login."""

    token: str
    """Send it in the header ``Authorization: Bearer TOKEN``, to this replica."""
    user: str
    expires: datetime


class Who(msgspec.Struct, frozen=True):
    """Who makes a request."""

    user: str
    """The user, or ``token NAME``."""
    read_only: bool
    expires: datetime | None


async def _log_in(call: Call) -> LoggedIn:
    body: Login = call.body
    if not body.password and body.user == call.proven:
        token, session = call.access.certified(body.user)
    else:
        token, session = await call.access.log_in(call.origin, body.user, body.password)
    return LoggedIn(token, session.user, session.expires)


async def _who(call: Call) -> Who:
    assert call.identity is not None
    return Who(call.identity.name, call.identity.read_only, call.identity.expires)


async def _log_out(call: Call) -> None:
    assert call.identity is not None
    call.access.log_out(call.identity)


OPERATIONS: Final[Sequence[Operation]] = (
    Operation(
        *("logIn", "POST", "/session", "Log in as an administrator.", _log_in, LoggedIn),
        body=Login,
        anywhere=True,
        open=True,
    ),
    Operation("whoAmI", "GET", "/session", "Who makes this request.", _who, Who, anywhere=True),
    Operation(
        *("logOut", "DELETE", "/session", "End this login.", _log_out, None), anywhere=True, readers=True
    ),
)
