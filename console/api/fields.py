"""Types of fields that several operations have. Pure."""

from datetime import UTC, datetime
from typing import Annotated, Final

import msgspec

from ...agents import AgentId
from ...server.admin import wire
from ..problems import Problem

__all__ = ["Count", "Limit", "PageQuery", "Whole", "address_of", "moment"]

Whole = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Count = Annotated[int, msgspec.Meta(ge=0)]
Limit = Annotated[int, msgspec.Meta(ge=1, le=wire.MAX_PAGE, description="How many at most.")]
LAST: Final = datetime(9999, 12, 31, tzinfo=UTC)


class PageQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which part of a list is wanted."""

    after: Annotated[Whole, msgspec.Meta(description="Only those with greater numbers.")] = 0
    limit: Limit = 100


def address_of(text: str) -> AgentId | str:
    """Return the id or name of an agent; the ``#`` of an id may be left out. Raises Problem."""
    bare = text.removeprefix("#")
    if text.startswith("#") or all(part.isdigit() and part.isascii() for part in bare.split(".", 3)):
        try:
            return AgentId.parse(f"#{bare}")
        except ValueError as error:
            if text.startswith("#"):
                raise Problem(400, "bad-request", f"{error}.") from None
    return text


def moment(time_ns: int) -> datetime:
    """Return a time given in nanoseconds since 1970; the last one that there is for a later one."""
    try:
        return datetime.fromtimestamp(time_ns / 1e9, UTC)
    except (OverflowError, ValueError, OSError):
        return LAST
