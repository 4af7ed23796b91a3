"""The manager of messaging on a server: temporary destinations, and prepared transactions."""

from typing import Final

import attrs

from ...agents import (
    FIRST_CONNECTION_STAMP,
    FIRST_FREE_STAMP,
    Agent,
    AgentId,
    Context,
    CreateFailed,
    Delete,
    Deleted,
    ExceptionNotification,
    Notification,
    UnknownAgent,
    reacts,
)
from ...agents.proxy import ConnectionEnded, WatchConnection
from .branches import (
    MAX_BRANCHES,
    MAX_FINISHED,
    PAGE,
    Branch,
    BranchEnded,
    Branches,
    BranchState,
    CommitBranch,
    ForgetBranch,
    ListBranches,
    Prepare,
    Prepared,
    RollbackBranch,
    XidParts,
    xid_flaw,
)
from .destination import Destination
from .protocol import Reason, Refused, RolledBack
from .settings import DestinationSettings, Kind
from .transactions import AskVote, Decide, Vote, transaction_key

__all__ = ["MANAGER", "DeleteTemporary", "MakeTemporary", "MessagingManager", "TemporaryMade"]

MANAGER: Final = "quorate.messaging"
"""The name of the manager on each server that has destinations."""
MAX_TEMPORARY: Final = 10_000
"""Temporary destinations of all clients of a server."""
COMMITTED: Final = "committed"
ROLLED_BACK: Final = "rolled back"


@attrs.frozen
class MakeTemporary(Notification, name="quorate.message.make-temporary"):
    """Request of a client for a destination that lives as long as its connection, and that it alone consumes.

    Answered with `TemporaryMade` or `Refused`.
    """

    kind: str
    """One of `Kind`."""


@attrs.frozen
class TemporaryMade(Notification, name="quorate.message.temporary-made"):
    """Answer to `MakeTemporary`."""

    title: str


@attrs.frozen
class DeleteTemporary(Notification, name="quorate.message.delete-temporary"):
    """Order of a client to delete a temporary destination of its own."""

    address: str


@attrs.define
class MessagingManager(Agent, name="quorate.messaging-manager"):
    """Makes temporary destinations, and keeps branches of transactions."""

    temporary: dict[AgentId, list[str]] = attrs.field(factory=dict[AgentId, list[str]])
    """By client: the addresses of its temporary destinations."""
    made: int = 0
    """Temporary destinations so far."""
    branches: dict[str, Branch] = attrs.field(factory=dict[str, Branch])
    """By the text of their identifiers."""
    preparing: dict[str, str] = attrs.field(factory=dict[str, str])
    """By transaction of a client: the branch whose votes are not complete."""
    finished: dict[str, str] = attrs.field(factory=dict[str, str])
    """How the latest branches have ended."""

    # Temporary destinations

    @reacts
    def make_temporary(self, ctx: Context, note: MakeTemporary) -> None:
        """Make a destination for a client."""
        client = ctx.sender
        if client.stamp < FIRST_CONNECTION_STAMP or note.kind not in list(Kind):
            self._refuse(ctx, Reason.BAD_REQUEST, "only clients have temporary queues and topics")
            return
        if sum([len(each) for each in self.temporary.values()]) >= MAX_TEMPORARY:
            text = f"the server has {MAX_TEMPORARY} temporary destinations already; delete some"
            self._refuse(ctx, Reason.FULL, text)
            return
        self.made += 1
        title = f"temporary-{client.creator}.{client.stamp}-{self.made}"
        settings = DestinationSettings(owner=client)
        state = {"kind": note.kind, "title": title, "settings": settings}
        ctx.create(Destination, name=f"{note.kind}:{title}", state=state)
        if client not in self.temporary:
            self.temporary[client] = []
            ctx.send(client, WatchConnection())
        self.temporary[client].append(f"{note.kind}:{title}")
        ctx.send(ctx.reply_to, TemporaryMade(title))

    @reacts
    def delete_temporary(self, ctx: Context, note: DeleteTemporary) -> None:
        """Delete a destination of a client."""
        mine = self.temporary.get(ctx.sender, [])
        if note.address in mine:
            mine.remove(note.address)
            ctx.send(ctx.factory(), Delete(note.address))

    @reacts
    def connection_ended(self, ctx: Context, _: ConnectionEnded) -> None:
        """Delete the destinations of a client."""
        self._end_client(ctx, ctx.sender)

    def _end_client(self, ctx: Context, client: AgentId) -> None:
        for address in self.temporary.pop(client, []):
            ctx.send(ctx.factory(), Delete(address))

    @reacts
    def failed(
        self, ctx: Context, note: UnknownAgent | ExceptionNotification | CreateFailed | Deleted
    ) -> None:
        """Learn that somebody does not exist, could not do something, or is gone."""
        if isinstance(note, UnknownAgent) and note.type == AskVote.type_name:
            lacking = f"there is no {note.agent.replace(':', ' ', 1)}"
            for key in [key for key, text in self.preparing.items() if note.agent in self._at(text)]:
                self._voted(ctx, key, lacking)
        elif isinstance(note, UnknownAgent) and note.agent.startswith("#"):
            self._end_client(ctx, AgentId.parse(note.agent))
        elif isinstance(note, ExceptionNotification):
            ctx.log(f"messaging: {note.agent} failed on {note.type}: {note.message}")
        elif isinstance(note, CreateFailed):
            ctx.log(f"messaging: a temporary destination was not made: {note.reason}")

    def _at(self, text: str) -> list[str]:
        return self.branches[text].destinations

    # Branches

    @reacts
    def prepare(self, ctx: Context, note: Prepare) -> None:
        """Have all destinations of a branch vote."""
        text = _text(note.xid)
        flaw = xid_flaw(note.xid)
        if text in self.branches or text in self.finished:
            flaw = f"transaction {_shown(note.xid)} was prepared already; give each a new identifier"
        elif len(self.branches) >= MAX_BRANCHES:
            flaw = f"the server has {MAX_BRANCHES} transactions that are not over; end some of them"
        elif len(note.destinations) != len(note.parts):
            flaw = "each destination of a transaction has a number of parts"
        if flaw:
            # What was sent in it must not stay.
            for address in note.destinations:
                ctx.send(address, AskVote(ctx.sender, note.transaction, 0))
                ctx.send(address, Decide(ctx.sender, note.transaction, commit=False))
            self._refuse(ctx, Reason.BAD_REQUEST, flaw)
            return
        if not note.destinations:
            ctx.send(ctx.reply_to, Prepared(note.xid, read_only=True))
            return
        self.branches[text] = Branch(
            note.xid,
            ctx.sender,
            note.transaction,
            list(note.destinations),
            len(note.destinations),
            ctx.reply_to,
        )
        self.preparing[transaction_key(ctx.sender, note.transaction)] = text
        for address, parts in zip(note.destinations, note.parts, strict=True):
            ctx.send(address, AskVote(ctx.sender, note.transaction, parts))

    @reacts
    def vote(self, ctx: Context, note: Vote) -> None:
        """Count a vote of a destination."""
        if ctx.sender.stamp >= FIRST_CONNECTION_STAMP:
            raise PermissionError("only destinations vote")
        self._voted(ctx, transaction_key(note.client, note.transaction), note.refusal)

    def _voted(self, ctx: Context, key: str, refusal: str) -> None:
        text = self.preparing.get(key)
        if text is None:
            return
        branch = self.branches[text]
        branch.refusal = branch.refusal or refusal
        branch.waiting -= 1
        if branch.waiting:
            return
        del self.preparing[key]
        if branch.refusal:
            self._decide(ctx, branch, commit=False)
            self._finish(text, ROLLED_BACK)
            why = f"the transaction was rolled back: {branch.refusal}"
            ctx.send(branch.answer, RolledBack(branch.transaction, Reason.REJECTED, why))
        else:
            branch.since_ns = ctx.now_ns
            ctx.send(branch.answer, Prepared(branch.xid, read_only=False))

    @staticmethod
    def _decide(ctx: Context, branch: Branch, *, commit: bool) -> None:
        for address in branch.destinations:
            ctx.send(address, Decide(branch.client, branch.transaction, commit))

    def _finish(self, text: str, outcome: str) -> None:
        self.branches.pop(text, None)
        self.finished[text] = outcome
        if len(self.finished) > MAX_FINISHED:
            del self.finished[next(iter(self.finished))]

    @reacts
    def end_branch(self, ctx: Context, note: CommitBranch | RollbackBranch) -> None:
        """Commit a branch, or roll it back."""
        commit = isinstance(note, CommitBranch)
        wanted = COMMITTED if commit else ROLLED_BACK
        text, shown = _text(note.xid), _shown(note.xid)
        branch = self.branches.get(text)
        ended = self.finished.get(text, "") if branch is None else branch.ended
        if ended == wanted:
            if branch is not None and not _administers(ctx):
                self._finish(text, wanted)
            ctx.send(ctx.reply_to, BranchEnded(commit))
        elif ended:
            who = " by an administrator" if branch is not None else ""
            self._refuse(ctx, Reason.HEURISTIC, f"transaction {shown} was {ended}{who} before")
        elif branch is None:
            self._refuse(ctx, Reason.NO_SUCH_TRANSACTION, f"there is no prepared transaction {shown}")
        elif not branch.since_ns:
            self._refuse(ctx, Reason.IN_DOUBT, f"transaction {shown} is still being prepared")
        else:
            self._decide(ctx, branch, commit=commit)
            if _administers(ctx):
                branch.ended = wanted
            else:
                self._finish(text, wanted)
            ctx.send(ctx.reply_to, BranchEnded(commit))

    @reacts
    def forget(self, ctx: Context, note: ForgetBranch) -> None:
        """Forget a branch that an administrator has ended."""
        text = _text(note.xid)
        branch = self.branches.get(text)
        if branch is None:
            shown = _shown(note.xid)
            self._refuse(ctx, Reason.NO_SUCH_TRANSACTION, f"there is no prepared transaction {shown}")
        elif not branch.ended:
            self._refuse(ctx, Reason.IN_DOUBT, f"transaction {_shown(note.xid)} is in doubt; end it before")
        else:
            self._finish(text, branch.ended)
            ctx.send(ctx.reply_to, BranchEnded(branch.ended == COMMITTED))

    @reacts
    def list_branches(self, ctx: Context, note: ListBranches) -> None:
        """Answer with branches that are in doubt, or were ended by an administrator."""
        found = [
            branch
            for branch in self.branches.values()
            if branch.since_ns and (note.after is None or branch.xid > note.after)
        ]
        found.sort(key=lambda branch: branch.xid)
        states = [
            BranchState(each.xid, each.since_ns, each.ended, each.destinations) for each in found[:PAGE]
        ]
        ctx.send(ctx.reply_to, Branches(states))

    @staticmethod
    def _refuse(ctx: Context, reason: Reason, text: str) -> None:
        ctx.send(ctx.reply_to, Refused(reason.value, text))


def _administers(ctx: Context) -> bool:
    """Return whether a command of an administrator has sent the notification."""
    return ctx.sender.stamp < FIRST_FREE_STAMP


def _text(xid: XidParts) -> str:
    return f"{xid[0]} {len(xid[1])} {xid[1]} {xid[2]}"


def _shown(xid: XidParts) -> str:
    return "/".join(map(str, xid))
