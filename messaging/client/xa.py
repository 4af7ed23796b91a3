"""Branches of distributed transactions, with the methods of PEP 249."""

import functools
from collections.abc import Callable
from typing import Any, Final

import attrs

from ...agents import Notification
from ...client import Connection, RequestTimeout
from ...client.connection_base import AsyncIteration
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
from .awaiting import AsyncSession
from .blocking import Session
from .bodies import Body
from .destinations import Destination
from .errors import MessagingError
from .producer import Outgoing
from .session_base import MessageOptions, SessionBase

__all__ = ["AsyncXASession", "XASession", "Xid"]

_UNANSWERED: Final = "the server has not answered; the same call may be repeated"


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


class _Branching(SessionBase):
    """What the two faces of XA sessions have in common: the branch that is under way."""

    _xid: Xid | None = None
    _prepared = False

    def xid(self, format_id: int, gtrid: str, bqual: str) -> Xid:
        """Return an identifier. Raises ValueError for parts that cannot be one."""
        return Xid(format_id, gtrid, bqual)

    def _begin(self, xid: Xid) -> None:
        self._check_open()
        if self._xid is not None:
            raise MessagingError(f"transaction {self._xid.gtrid} is under way; end it before the next one")
        self._xid, self._prepared = xid, False

    def _to_prepare(self) -> tuple[Callable[[Waiter], None], str]:
        """Return what prepares the branch, and what to say when that takes too long."""
        self._check_open()
        if self._xid is None:
            raise MessagingError("no transaction is under way; begin one with tpc_begin")
        if self._prepared:
            raise MessagingError(f"transaction {self._xid.gtrid} is prepared already")
        send = functools.partial(self._send_prepare, self._xid.parts)
        return lambda done: self._when_sent(done, send), f"transaction {self._xid.gtrid} was not prepared"

    def _was_prepared(self, *, changes: bool) -> None:
        self._prepared = changes
        if not changes:
            self._xid = None

    def _may_be_prepared(self) -> None:
        """Learn that the request to prepare was not answered: who ends the branch has to tell the server."""
        self._prepared = True

    def _outgoing(
        self, destination: Destination, body: Body, options: MessageOptions, waiter: Waiter | None
    ) -> Outgoing:
        if self._prepared and self._xid is not None:
            raise MessagingError(f"transaction {self._xid.gtrid} is prepared; end it before anything else")
        return super()._outgoing(destination, body, options, waiter)

    def _to_end(self, xid: Xid | None) -> XidParts | None:
        """Return which prepared branch is to be ended; None: the session's own, which is not prepared."""
        self._check_open()
        if xid is None and self._xid is None:
            raise MessagingError("no transaction is under way; begin one with tpc_begin")
        if xid is None or xid == self._xid:
            return self._xid.parts if self._xid is not None and self._prepared else None
        return xid.parts

    def _was_ended(self, parts: XidParts | None) -> None:
        if parts is None or (self._xid is not None and self._xid.parts == parts):
            self._xid = None

    def _check_no_branch(self) -> None:
        if self._xid is not None:
            raise MessagingError(
                f"transaction {self._xid.gtrid} is under way; end it with tpc_commit or tpc_rollback"
            )

    def _to_ask(self, request: Notification) -> Callable[[Waiter], None]:
        self._check_open()
        return lambda done: self._ask_manager(request, (BranchEnded, Branches), done, lambda answer: answer)


class XASession(_Branching, Session):
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

    def tpc_begin(self, xid: Xid) -> None:
        """Begin a branch. Raises MessagingError if one is under way."""
        self._begin(xid)

    def tpc_prepare(self) -> bool:
        """Make sure that the branch can be committed. Return False if there is nothing to commit in it.

        Raises TransactionRolledBack if a destination refuses: nothing of the branch has happened then.
        """
        start, what = self._to_prepare()
        try:
            changes: bool = self._wait(start, what)
        except RequestTimeout:
            self._may_be_prepared()
            raise
        except MessagingError:
            self._xid = None
            raise
        self._was_prepared(changes=changes)
        return changes

    def tpc_commit(self, xid: Xid | None = None) -> None:
        """Commit the branch, or a prepared one with this identifier, of whatever session.

        A branch that is not prepared is committed in one phase. Raises NoSuchTransaction, HeuristicOutcome or
        TransactionRolledBack. After RequestTimeout the same call may be repeated.
        """
        parts = self._to_end(xid)
        if parts is None:
            super().commit()
        else:
            self._ask(CommitBranch(parts))
        self._was_ended(parts)

    def tpc_rollback(self, xid: Xid | None = None) -> None:
        """Roll the branch back, or a prepared one with this identifier."""
        parts = self._to_end(xid)
        if parts is None:
            super().rollback()
        else:
            self._ask(RollbackBranch(parts))
        self._was_ended(parts)

    def tpc_recover(self) -> list[Xid]:
        """Return the prepared branches of this server, of all sessions.

        Those that an administrator has ended are among them until they are forgotten.
        """
        found: list[Xid] = []
        while True:
            page: Branches = self._ask(ListBranches(found[-1].parts if found else None))
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

    def _ask(self, request: Notification) -> Any:
        return self._wait(self._to_ask(request), _UNANSWERED)


class AsyncXASession(_Branching, AsyncSession):
    """An `XASession` for coroutines of asyncio and Twisted."""

    def __init__(
        self, connection: AsyncIteration, *, client_id: str = "", timeout: float | None = 30.0
    ) -> None:
        super().__init__(connection, transacted=True, client_id=client_id, timeout=timeout)

    def tpc_begin(self, xid: Xid) -> None:
        """Begin a branch: see `XASession.tpc_begin`."""
        self._begin(xid)

    async def tpc_prepare(self) -> bool:
        """Make sure that the branch can be committed: see `XASession.tpc_prepare`."""
        start, what = self._to_prepare()
        try:
            changes: bool = await self._wait(start, what)
        except RequestTimeout:
            self._may_be_prepared()
            raise
        except MessagingError:
            self._xid = None
            raise
        self._was_prepared(changes=changes)
        return changes

    async def tpc_commit(self, xid: Xid | None = None) -> None:
        """Commit the branch, or a prepared one: see `XASession.tpc_commit`."""
        parts = self._to_end(xid)
        if parts is None:
            await super().commit()
        else:
            await self._ask(CommitBranch(parts))
        self._was_ended(parts)

    async def tpc_rollback(self, xid: Xid | None = None) -> None:
        """Roll the branch back, or a prepared one with this identifier."""
        parts = self._to_end(xid)
        if parts is None:
            await super().rollback()
        else:
            await self._ask(RollbackBranch(parts))
        self._was_ended(parts)

    async def tpc_recover(self) -> list[Xid]:
        """Return the prepared branches of this server: see `XASession.tpc_recover`."""
        found: list[Xid] = []
        while True:
            page: Branches = await self._ask(ListBranches(found[-1].parts if found else None))
            found += [Xid(*each.xid) for each in page.found]
            if not page.found:
                return found

    async def tpc_forget(self, xid: Xid) -> None:
        """Forget a branch that an administrator has ended. Raises NoSuchTransaction."""
        await self._ask(ForgetBranch(xid.parts))

    async def commit(self, *, timeout: float | None = None) -> None:
        """Commit what was done outside of a branch. Raises MessagingError within one."""
        self._check_no_branch()
        await super().commit(timeout=timeout)

    async def rollback(self) -> None:
        """Give up what was done outside of a branch. Raises MessagingError within one."""
        self._check_no_branch()
        await super().rollback()

    async def _ask(self, request: Notification) -> Any:
        return await self._wait(self._to_ask(request), _UNANSWERED)
