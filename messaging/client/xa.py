"""Branches of distributed transactions, with the methods of PEP 249."""

import functools
from typing import Any

import attrs

from ...agents import Notification
from ...client import Connection
from ...client.pending import Waiter
from ..agents.branches import (
    BranchEnded,
    Branches,
    CommitBranch,
    ForgetBranch,
    ListBranches,
    RollbackBranch,
    XidParts,
    xid_flaw,
)
from .blocking import Session
from .errors import MessagingError

__all__ = ["XASession", "Xid"]


@attrs.frozen
class Xid:
    """The identifier of a branch of a distributed transaction: see PEP 249."""

    format_id: int
    gtrid: str
    """The whole transaction."""
    bqual: str
    """The branch of it: what one participant does."""

    def __attrs_post_init__(self) -> None:
        flaw = xid_flaw(self.parts)
        if flaw:
            raise ValueError(flaw)

    @property
    def parts(self) -> XidParts:
        """The three parts."""
        return self.format_id, self.gtrid, self.bqual


class XASession(Session):
    """A session whose transactions are branches of distributed ones, ended in two phases.

    ::

        session.tpc_begin(session.xid(1, "transfer 7", "messages"))
        session.send("paid", {"order": 7})
        session.tpc_prepare()
        ...                          # prepare the other participants, and record the decision
        session.tpc_commit()

    What is prepared stays, over any failure and the end of the program, until it is committed or rolled back:
    by this session, by any other one that gives the identifier, or by an administrator. `Coordinator` does
    these steps for several participants. The methods are those of PEP 249.
    """

    def __init__(self, connection: Connection, *, client_id: str = "", timeout: float | None = 30.0) -> None:
        super().__init__(connection, transacted=True, client_id=client_id, timeout=timeout)
        self._xid: Xid | None = None
        self._prepared = False

    def xid(self, format_id: int, gtrid: str, bqual: str) -> Xid:
        """Return an identifier. Raises ValueError for parts that cannot be one."""
        return Xid(format_id, gtrid, bqual)

    def tpc_begin(self, xid: Xid) -> None:
        """Begin a branch. Raises MessagingError if one is under way."""
        self._check_open()
        if self._xid is not None:
            raise MessagingError(f"transaction {self._xid.gtrid} is under way; end it before the next one")
        self._xid, self._prepared = xid, False

    def tpc_prepare(self) -> bool:
        """Make sure that the branch can be committed. Return False if there is nothing to commit in it.

        Raises TransactionRolledBack if a destination refuses: nothing of the branch has happened then.
        """
        xid = self._under_way()
        if self._prepared:
            raise MessagingError(f"transaction {xid.gtrid} is prepared already")
        start = functools.partial(self._prepare, xid.parts)
        try:
            changes: bool = self._wait(start, f"transaction {xid.gtrid} was not prepared")
        except MessagingError:
            self._xid = None
            raise
        self._prepared = changes
        if not changes:
            self._xid = None
        return changes

    def _prepare(self, xid: XidParts, done: Waiter) -> None:
        self._when_sent(done, functools.partial(self._send_prepare, xid))

    def tpc_commit(self, xid: Xid | None = None) -> None:
        """Commit the branch, or a prepared one with this identifier, of whatever session.

        A branch that is not prepared is committed in one phase. Raises NoSuchTransaction, HeuristicOutcome or
        TransactionRolledBack. After RequestTimeout the same call may be repeated.
        """
        self._end(xid, CommitBranch, self.commit_one_phase)

    def tpc_rollback(self, xid: Xid | None = None) -> None:
        """Roll the branch back, or a prepared one with this identifier."""
        self._end(xid, RollbackBranch, super().rollback)

    def commit_one_phase(self) -> None:
        """Commit what is not prepared."""
        super().commit()

    def _end(self, xid: Xid | None, request: type[CommitBranch | RollbackBranch], alone: Any) -> None:
        self._check_open()
        if xid is None or (xid == self._xid and not self._prepared):
            if self._xid is not None and self._prepared:
                self._ask(request(self._xid.parts))
            else:
                alone()
            self._xid = None
            return
        self._ask(request(xid.parts))
        if xid == self._xid:
            self._xid = None

    def tpc_recover(self) -> list[Xid]:
        """Return the prepared branches of this server, of all sessions.

        Those that an administrator has ended are among them until they are forgotten.
        """
        self._check_open()
        found: list[Xid] = []
        while True:
            after = found[-1].parts if found else None
            page: Branches = self._ask(ListBranches(after))
            found += [Xid(*each.xid) for each in page.found]
            if not page.found:
                return found

    def tpc_forget(self, xid: Xid) -> None:
        """Forget a branch that an administrator has ended. Raises NoSuchTransaction."""
        self._ask(ForgetBranch(xid.parts))

    def commit(self, timeout: float | None = None) -> None:
        """Commit what was done outside of a branch. Raises MessagingError within one: see `tpc_commit`."""
        self._check_no_branch()
        super().commit(timeout)

    def rollback(self) -> None:
        """Give up what was done outside of a branch. Raises MessagingError within one: see `tpc_rollback`."""
        self._check_no_branch()
        super().rollback()

    def _check_no_branch(self) -> None:
        if self._xid is not None:
            raise MessagingError(
                f"transaction {self._xid.gtrid} is under way; end it with tpc_commit or tpc_rollback"
            )

    def _under_way(self) -> Xid:
        self._check_open()
        if self._xid is None:
            raise MessagingError("no transaction is under way; begin one with tpc_begin")
        return self._xid

    def _ask(self, request: Notification) -> Any:
        def start(done: Waiter) -> None:
            self._ask_manager(request, (BranchEnded, Branches), done, lambda answer: answer)

        return self._wait(start, "the server has not answered; the same call may be repeated")
