"""The invitation of a learner with a slow disk: it promises the view that takes it in before the members do.

The members go on in their view meanwhile. Why that is safe: docs/decisions/0029-slow-disks.md.
"""

import math

import attrs
import msgspec

from ..model.log import Promised
from ..model.messages import Prepare, Promise
from ..model.view import ViewNumber, Voter
from ..replication.replica_state import ReplicaState
from ..transfer.donor import Donor

__all__ = ["Invitations"]


@attrs.define(eq=False)
class _Invitation:
    """The number of the next proposal of a master, which a learner is asked to promise."""

    number: ViewNumber
    learner: Voter
    since: float
    sent: float = -math.inf
    promise: Promise | None = None


class Invitations:
    """The present invitation of this replica as master, if any, and the numbers of its proposals."""

    def __init__(self, state: ReplicaState, donor: Donor) -> None:
        self._state = state
        self._donor = donor
        donor.invited = self.invite
        self._present: _Invitation | None = None

    def invite(self, now: float, learner: Voter) -> bool:
        """Have a learner promise the next view while the master goes on in this one.

        Return whether it has promised, or does not in time: then that view may be proposed.
        """
        state, present = self._state, self._present
        if present is None or present.learner != learner or not self._usable(present):
            present = self._present = _Invitation(self._next(), learner, now)
            state.saw(present.number)
            # Nobody has this promise yet, so the view goes on. But after a restart the number must not be
            # used for another proposal.
            state.output.record(Promised(present.number))
        if present.promise is not None:
            return True
        settings = state.settings
        if now - present.sent >= settings.retry_s:
            present.sent = now
            reason = f"replica {learner.replica} is to join"
            state.output.send_after_sync(learner.replica, Prepare(present.number, reason))
        limit_s = settings.stall_s if state.peers.writes(learner, now) else settings.view_change_s
        return now - present.since > limit_s

    def promised(self, voter: Voter, message: Promise) -> None:
        """Note the promise of the learner."""
        present = self._present
        if present is not None and (present.learner, present.number) == (voter, message.number):
            present.promise = message
            self._state.attention = True

    def withdraw(self, learner: Voter) -> None:
        """Forget the invitation of a learner that has connected again: it may have lost what it had."""
        if self._present is not None and self._present.learner == learner:
            self._present = None

    def next_number(self) -> tuple[ViewNumber, dict[Voter, Promise]]:
        """Return the number of the next proposal of this replica, and the promises that there are for it."""
        present, self._present = self._present, None
        if present is None or not self._usable(present):
            return self._next(), {}
        promise, learner = present.promise, present.learner
        if promise is None or promise.leaving or self._state.is_unfit(learner):
            return present.number, {}
        # It has received entries since, and the log here may begin after those that it had then.
        commit = max(promise.commit, self._donor.committed(learner))
        return present.number, {learner: msgspec.structs.replace(promise, commit=commit)}

    def _usable(self, invitation: _Invitation) -> bool:
        """Return whether no higher number is known than that of an invitation."""
        state = self._state
        return invitation.number > state.promised and invitation.number.counter >= state.counter

    def next_counter(self) -> int:
        """Return a view counter above all that were seen, so that no number is used twice."""
        return self._state.counter + 1

    def _next(self) -> ViewNumber:
        me = self._state.me
        return ViewNumber(self.next_counter(), me.replica, me.incarnation)
