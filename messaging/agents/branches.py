"""Branches of distributed transactions (XA): what is prepared, until somebody says how it ends.

A client prepares a transaction at the manager of its server, which has all destinations of it vote. From then
on the transaction belongs to its identifier and no longer to the connection: it stays, over failures of
masters and the end of the client, until somebody commits it or rolls it back. An administrator may do that,
too; the branch then remembers it until it is forgotten, so that the transaction manager learns of it.
"""

from typing import Final

import attrs

from ...agents import AgentId, Notification, ReplyTo

__all__ = [
    "MAX_BRANCHES",
    "MAX_FINISHED",
    "MAX_XID_CHARS",
    "Branch",
    "BranchEnded",
    "BranchState",
    "Branches",
    "CommitBranch",
    "ForgetBranch",
    "ListBranches",
    "Prepare",
    "Prepared",
    "RollbackBranch",
    "XidParts",
    "xid_flaw",
]

MAX_XID_CHARS: Final = 64
MAX_BRANCHES: Final = 10_000
"""Branches that a server keeps at the same time."""
MAX_FINISHED: Final = 1000
"""Branches that have ended and whose outcome is remembered, the latest."""
PAGE: Final = 1000
"""Branches in one answer to `ListBranches`."""

XidParts = tuple[int, str, str]
"""Format, global transaction and branch: the parts of the identifier of a branch."""


def xid_flaw(xid: XidParts) -> str:
    """Return why parts cannot be an identifier, "" if they can."""
    format_id, transaction, branch = xid
    if not 0 <= format_id < 2**31:
        return f"the format {format_id} of a transaction is out of range: give 0 to {2**31 - 1}"
    for text in (transaction, branch):
        if len(text) > MAX_XID_CHARS or not text.isprintable():
            return f"{text[:MAX_XID_CHARS]!r} cannot identify a transaction: give {MAX_XID_CHARS} characters"
    return "" if transaction else "a transaction needs an identifier"


@attrs.frozen
class Prepare(Notification, name="quorate.message.prepare"):
    """Request to prepare what a client has sent in a transaction, as in `Commit`.

    Answered with `Prepared`, `RolledBack` or `Refused`.
    """

    xid: XidParts
    transaction: int
    destinations: list[str]
    parts: list[int]


@attrs.frozen
class Prepared(Notification, name="quorate.message.prepared"):
    """Answer to `Prepare`: it can be committed. Without destinations there is nothing to commit."""

    xid: XidParts
    read_only: bool


@attrs.frozen
class CommitBranch(Notification, name="quorate.message.commit-branch"):
    """Request to commit a prepared branch. Answered with `BranchEnded` or `Refused`; repeating it is safe."""

    xid: XidParts


@attrs.frozen
class RollbackBranch(Notification, name="quorate.message.rollback-branch"):
    """Request to roll a prepared branch back. Answered with `BranchEnded` or `Refused`."""

    xid: XidParts


@attrs.frozen
class ForgetBranch(Notification, name="quorate.message.forget-branch"):
    """Request to forget a branch that an administrator has ended.

    Answered with `BranchEnded` or `Refused`.
    """

    xid: XidParts


@attrs.frozen
class BranchEnded(Notification, name="quorate.message.branch-ended"):
    """Answer: the branch was committed, or was not."""

    committed: bool


@attrs.frozen
class ListBranches(Notification, name="quorate.message.list-branches"):
    """Request for the branches that are prepared or were ended by an administrator."""

    after: XidParts | None = None
    """Only those that come later in their order."""


@attrs.frozen
class BranchState:
    """A branch in `Branches`."""

    xid: XidParts
    since_ns: int
    """When it was prepared, in nanoseconds since 1970."""
    ended: str
    """How an administrator has ended it, ``committed`` or ``rolled back``; empty: it is in doubt."""
    destinations: list[str]


@attrs.frozen
class Branches(Notification, name="quorate.message.branches"):
    """Answer to `ListBranches`: the next ones in their order; none: there are no more."""

    found: list[BranchState]


@attrs.define
class Branch:
    """A branch that is being prepared, is in doubt, or was ended by an administrator."""

    xid: XidParts
    client: AgentId
    transaction: int
    destinations: list[str]
    waiting: int
    """Votes that have not come."""
    answer: ReplyTo
    refusal: str = ""
    since_ns: int = 0
    """When it was prepared; 0: the votes are not complete."""
    ended: str = ""
