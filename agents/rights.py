"""What a user may do: rights on the names of agents and destinations, by pattern. Pure.

The service that lets a client in gives its proxy the rows that concern the user; the proxy compares them with
what the client asks for. A file of rights has a line for each row::

    user:anna      queue:orders.*   send receive
    group:traders  topic:prices     receive
    everyone       agent *          none

Of the rows that concern a user, those with the most specific pattern that fits the name count, together.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

import attrs

__all__ = ["NOT_PERMITTED", "RIGHTS", "Grant", "Rights", "allows", "needed_right", "opens", "parse_rights"]

SEND: Final = "send"
RECEIVE: Final = "receive"
BROWSE: Final = "browse"
NOT_PERMITTED: Final = "NotPermitted"
"""The error of a failure that says that the user has no right to what was asked for."""
RIGHTS: Final = (SEND, RECEIVE, BROWSE)
NONE: Final = "none"
EVERYONE: Final = "everyone"
MAX_ROWS: Final = 10_000
PLATFORM: Final = "quorate."
"""Names and types of the platform begin with this."""
TEMPORARY: Final = ("queue:temporary-", "topic:temporary-")
"""Temporary destinations look after themselves: their owner consumes, and everybody may answer."""
_MESSAGING: Final = "quorate.message."
_OPENING: Final = {
    "quorate.message.open-producer": SEND,
    "quorate.message.open-consumer": RECEIVE,
    "quorate.message.unsubscribe": RECEIVE,
    "quorate.message.browse": BROWSE,
    "quorate.message.describe": BROWSE,
}
"""The right that a request to a destination needs. All other requests need something that is open there."""


@attrs.frozen
class Grant:
    """One row that concerns a user."""

    pattern: str
    """Of names; ``*`` stands for any text."""
    rights: tuple[str, ...]


@attrs.frozen
class Row:
    """One line of a file of rights."""

    who: str
    """``user:anna``, ``group:traders`` or ``everyone``."""
    grant: Grant


@attrs.frozen
class Rights:
    """The rows of a file."""

    rows: tuple[Row, ...] = ()

    def of(self, user: str, groups: Iterable[str]) -> tuple[Grant, ...]:
        """Return the rows that concern a user who is in these groups."""
        concerned = {EVERYONE, f"user:{user}", *(f"group:{group}" for group in groups)}
        return tuple(row.grant for row in self.rows if row.who in concerned)


def parse_rights(text: str) -> Rights:
    """Read the text of a file. Raises ValueError with a sentence that names the line."""
    rows: list[Row] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        kind, colon, name = words[0].partition(":")
        if words[0] != EVERYONE and not (colon and name and kind in ("user", "group")):
            raise ValueError(f"line {number}: {words[0]!r} is not user:NAME, group:NAME or {EVERYONE}")
        listed = ", ".join(RIGHTS)
        if len(words) < 3:
            raise ValueError(f"line {number} has no rights; write {listed} or {NONE} after the pattern")
        rights = () if words[2:] == [NONE] else tuple(words[2:])
        unknown = [word for word in rights if word not in RIGHTS]
        if unknown:
            raise ValueError(f"line {number}: {unknown[0]!r} is not one of {listed}, and not {NONE} alone")
        rows.append(Row(words[0], Grant(words[1], rights)))
        if len(rows) > MAX_ROWS:
            raise ValueError(f"there are more than {MAX_ROWS} rows")
    return Rights(tuple(rows))


def allows(grants: Sequence[Grant], right: str, name: str) -> bool:
    """Return whether these rows give a right on a name."""
    best, given = -1, False
    for grant in grants:
        if _matcher(grant.pattern).fullmatch(name) is None:
            continue
        weight = _weight(grant.pattern)
        if weight > best:
            best, given = weight, False
        if weight == best:
            given = given or right in grant.rights
    return given


def needed_right(name: str, type: str) -> str | None:
    """Return the right that a notification to a named agent needs; None if it needs none."""
    if name.startswith((PLATFORM, *TEMPORARY)):
        return None
    if type.startswith(_MESSAGING):
        return _OPENING.get(_unversioned(type))
    return SEND


def opens(type: str) -> bool:
    """Return whether a request has effects later, so that it is looked at again when rights change."""
    return _unversioned(type) in _OPENING


def _unversioned(type: str) -> str:
    """Return the name of a type without its version: ``quorate.message.publish`` of ``...publish/1``."""
    return type.partition("/")[0]


@lru_cache(4096)
def _matcher(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)


def _weight(pattern: str) -> int:
    """Return how specific a pattern is: without ``*`` more than any other, else by its other characters."""
    stars = pattern.count("*")
    return len(pattern) - stars + (0 if stars else 1_000_000)
