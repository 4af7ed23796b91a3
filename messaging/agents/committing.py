"""Transactions at a destination: what they have staged, votes and decisions."""

import attrs

from ...agents import FIRST_CONNECTION_STAMP, AgentId, Context, reacts
from .destination_base import DestinationBase
from .protocol import Commit, Reason, Rollback, RolledBack
from .settings import FullPolicy
from .transactions import AskVote, Commitment, Decide, Staged, Vote, transaction_key

__all__ = ["Committing"]


@attrs.define
class Committing(DestinationBase):
    """A destination as part of transactions, and as the one that is asked to commit them."""

    def _stage(self, client: AgentId, transaction: int) -> Staged:
        key = transaction_key(client, transaction)
        if key not in self.staged:
            self.staged[key] = Staged(client, transaction)
        return self.staged[key]

    def _part(self, ctx: Context, staged: Staged) -> None:
        """Count a notification of a transaction; vote if that was the last one."""
        staged.parts += 1
        if staged.complete:
            self._vote(ctx, staged)

    @reacts
    def commit(self, ctx: Context, note: Commit) -> None:
        """Have all destinations of a transaction vote."""
        key = transaction_key(ctx.sender, note.transaction)
        if key in self.commitments or not note.destinations or len(note.destinations) != len(note.parts):
            text = (
                f"transaction {note.transaction} of {ctx.sender} is being committed, or has no destinations"
            )
            ctx.send(ctx.reply_to, RolledBack(note.transaction, Reason.BAD_REQUEST, text))
            return
        self.commitments[key] = Commitment(
            ctx.sender, note.transaction, ctx.reply_to, list(note.destinations), len(note.destinations)
        )
        for address, parts in zip(note.destinations, note.parts, strict=True):
            ctx.send(address, AskVote(ctx.sender, note.transaction, parts))

    @reacts
    def ask_vote(self, ctx: Context, note: AskVote) -> None:
        """Vote, once all of the transaction has arrived."""
        self._check_destination(ctx)
        staged = self._stage(note.client, note.transaction)
        staged.asker, staged.expected = ctx.sender, note.parts
        if staged.complete:
            self._vote(ctx, staged)

    def _vote(self, ctx: Context, staged: Staged) -> None:
        assert staged.asker is not None
        settings = self.settings
        if settings.full in (FullPolicy.REJECT, FullPolicy.DEAD_LETTER) and staged.messages:
            more = settings.max_messages and self.depth + staged.messages > settings.max_messages
            larger = settings.max_bytes and self.log.size_bytes + staged.size_bytes > settings.max_bytes
            if more or larger:
                staged.refuse(self._fullness())
        staged.voted = True
        ctx.send(staged.asker, Vote(staged.client, staged.transaction, staged.refusal))

    @reacts
    def vote(self, ctx: Context, note: Vote) -> None:
        """Count a vote, and decide after the last one."""
        self._check_destination(ctx)
        self._voted(ctx, transaction_key(note.client, note.transaction), note.refusal)

    def _voted(self, ctx: Context, key: str, refusal: str) -> None:
        commitment = self.commitments.get(key)
        if commitment is None:
            return
        commitment.refusal = commitment.refusal or refusal
        commitment.waiting -= 1
        if commitment.waiting:
            return
        del self.commitments[key]
        agreed = not commitment.refusal
        for address in commitment.destinations:
            ctx.send(address, Decide(commitment.client, commitment.transaction, agreed))
        ctx.send(commitment.answer, commitment.outcome(agreed=agreed))

    @reacts
    def decide(self, ctx: Context, note: Decide) -> None:
        """Carry out the decision over a transaction."""
        self._check_destination(ctx)
        staged = self.staged.pop(transaction_key(note.client, note.transaction), None)
        if staged is not None:
            self._finish(ctx, staged, commit=note.commit)

    def _finish(self, ctx: Context, staged: Staged, *, commit: bool) -> None:
        for place, locked in staged.locked.items():
            subscription = self.subscriptions[place]
            subscription.let_go(self.log, list(locked))
            if commit:
                self.accepted += locked.count
                self._done(subscription, list(locked))
            else:
                self._give_back(ctx, subscription, list(locked), seen=staged.seen)
            self._leave_subscription(place)
        for pack in staged.packs if commit else ():
            fresh = (
                pack.take(self.producers.fresh(pack, range(len(pack))))
                if "duplicate" in pack.columns
                else pack
            )
            if len(fresh):
                self._take(ctx, fresh)
        self._later(ctx)

    @reacts
    def rollback(self, ctx: Context, note: Rollback) -> None:
        """Give up a transaction that is not being committed."""
        key = transaction_key(ctx.sender, note.transaction)
        staged = self.staged.get(key)
        if staged is not None and staged.asker is None:
            del self.staged[key]
            self._finish(ctx, staged, commit=False)

    @staticmethod
    def _check_destination(ctx: Context) -> None:
        if ctx.sender.stamp >= FIRST_CONNECTION_STAMP:
            raise PermissionError("only destinations take part in the commitment of a transaction")
