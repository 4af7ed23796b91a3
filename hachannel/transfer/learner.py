"""The learner: a replica outside the active view that announces itself, gets the state and catches up.

Source: the channel protocol, section 4. At start-up the same announcement is the barrier: enough empty
replicas that see each other found the cluster.
"""

from collections.abc import Callable

import attrs

from ..model.events import InstallPart
from ..model.log import Truncated
from ..model.messages import CatchUp, CaughtUp, Chunk, ChunkAck, Join, TailEntries
from ..model.submitters import Rows, Submitters
from ..model.view import NO_TAG, NO_VIEW, Tag, Voter
from ..replication.lease import Lease, proposer
from ..replication.replica_state import ReplicaState
from .chunks import IncomingChunks
from .flow_control import tail_fill
from .log_tail import TailReceiver

MAX_BACKOFF = 50
"""Repeated failures stretch the pause between attempts up to this many retry intervals."""


@attrs.define(eq=False)
class Learning:
    """One state transfer, seen from the learner."""

    token: int
    donor: int
    chunks: IncomingChunks
    tail: TailReceiver
    """Entries after the state that have arrived and are not in the log."""
    parts: int = 0
    """Parts given to the application."""
    at: Tag | None = None
    """The application has the last part: the whole is the state after this entry."""
    submitters: Rows = ()
    """Table of submitters at that entry."""
    installed: bool = False
    """The state is there, or need not come."""
    tail_mark: int = 0
    """Mark of the record of the last entries appended from the tail."""

    @property
    def ready(self) -> bool:
        """The next entries are those after the end of the log."""
        return self.installed and not self.tail


class Learner:
    """Joining, from the first announcement to the last entry before the view that includes this replica."""

    def __init__(
        self, state: ReplicaState, lease: Lease, busy: Callable[[bool], None], *, fresh: bool
    ) -> None:
        self._state = state
        self._lease = lease
        self._busy = busy
        self.fresh = fresh
        """The state of this replica is useless or lost: it needs a whole state, not entries."""
        self.learning: Learning | None = None
        self._next_join = 0.0
        self._marker = b""
        """Marker of a state received in part, in the encoding of the application."""
        self._refused = 0
        """The token of the last transfer that failed here."""
        self._failures = 0
        self._shown = 0
        """Mark of the record that waits for the disk so that an answer does."""

    @property
    def phase(self) -> str:
        """The phase of the transfer: see `phases.LEARNING`."""
        if self.learning is None:
            return "alone"
        return "entries" if self.learning.ready else "state"

    @property
    def tail_length(self) -> int:
        """How many entries wait for the state that they follow."""
        return 0 if self.learning is None else len(self.learning.tail)

    @property
    def wake(self) -> float | None:
        """When to tick next: at once while there is something to put into the log."""
        learning = self.learning
        return self._state.now if learning is not None and self._may_append_tail(learning) else None

    @property
    def empty(self) -> bool:
        """This replica holds nothing, has heard of no cluster and was never in one.

        It may have accepted a first view that is not known to be active.
        """
        state = self._state
        return not state.guest and not state.founded and state.log.last == NO_TAG and state.newer == NO_VIEW

    # Joining

    def tick(self, now: float) -> None:
        """Announce this replica while it is outside; append some of the log tail."""
        state = self._state
        if self.learning is not None and self._may_append_tail(self.learning):
            self._append_tail(self.learning)
        inside = state.seated if state.seats.witness else state.member
        if (inside and not self.empty) or state.leaving or now < self._next_join:
            return
        self._next_join = now + state.settings.retry_s * (1 if self.learning is None else 3)
        state.broadcast(self.join())

    def join(self) -> Join:
        """The announcement."""
        state, learning = self._state, self.learning
        return Join(
            state.configuration.cluster,
            self.empty,
            state.log.tag(state.commit),
            0 if learning is None else learning.token,
            0 if learning is None else learning.chunks.taken,
            self._marker,
            self.fresh,
            self._refused,
            state.configuration.birth,
            self._lease.blocks(state.now, proposer(state.newer)),
        )

    def hurry(self) -> None:
        """Announce this replica with the next tick."""
        self._next_join = 0.0

    def _follows(self, voter: Voter, token: int, *, entries: bool) -> Learning | None:
        """Return the transfer that a message belongs to; begin a new one for a token above all others."""
        learning = self.learning
        if self._state.member or self._state.seats.witness or token <= self._refused:
            return None
        if learning is None or token > learning.token:
            if self.installing or (entries and self.fresh):
                return None
            window = self._state.settings.transfer_window
            learning = Learning(
                token, voter.replica, IncomingChunks(window), TailReceiver(window), installed=entries
            )
            self.learning = learning
        return learning if (token, voter.replica) == (learning.token, learning.donor) else None

    @property
    def installing(self) -> bool:
        """The application replaces its state."""
        return self.learning is not None and self.learning.at is not None and not self.learning.installed

    def on_chunk(self, voter: Voter, message: Chunk) -> None:
        """Take a chunk of the state."""
        learning = self._follows(voter, message.token, entries=False)
        if learning is None or message.number < 0:
            return
        if not learning.installed:
            learning.chunks.add(message)
            self._give(learning)
        self._answer(learning)

    def _answer(self, learning: Learning) -> None:
        chunks, tail = learning.chunks, learning.tail
        if tail_fill(self._state.settings, chunks.taken_bytes, len(tail), tail.size_bytes) < 1:
            tail.ack()
        # The last piece counts when all is in the log: if the answer that says so is lost it comes again.
        tail_waits = learning.installed and not learning.ready
        answer = ChunkAck(learning.token, chunks.taken - tail_waits, learning.ready, tail.acked)
        if learning.ready:
            # With a disk it is only true once it is there.
            self._state.output.send_after_sync(learning.donor, answer)
        else:
            self._state.output.send(learning.donor, answer)

    def _give(self, learning: Learning) -> None:
        """Hand the next part to the application, if all of it is here and the application has no other."""
        state = self._state
        part = learning.chunks.part()
        if learning.chunks.too_large:
            self._give_up(learning, "a part of the state is too large")
        if part is None:
            return
        data, piece = part
        at, forwarded = piece.at, 0
        if at is not None and self._has(at):
            state.output.note(f"the state after entry {at.at} is not needed any more")
            learning.installed = learning.chunks.confirm()
            return
        if at is not None and at.at < state.commit:
            # Of a transfer that this replica has had before, in an earlier process, with entries after it.
            self._give_up(learning, f"what follows entry {at.at} is committed here")
            return
        if at is not None:
            state.output.note(f"installs the state after entry {at.at}")
            learning.at, learning.submitters = at, piece.submitters
            self._busy(True)
            me = state.me
            forwarded = Submitters(piece.submitters).last(me.replica, me.incarnation, state.boot)
        index = None if at is None else at.at
        state.output.emit(InstallPart(learning.token, learning.parts, data, index, forwarded))
        learning.parts += 1

    def _has(self, at: Tag) -> bool:
        """Return whether the state here is usable and that after this entry or a later one."""
        state = self._state
        if self.fresh or at.at > state.applied:
            return False
        # Where disks were lost there may be another entry in its place.
        return at.at < state.applied or state.log.tag(at.at) == at

    def part_installed(self, token: int, marker: bytes) -> None:
        """Go on: the application has taken a part, and after the last one has replaced its state."""
        learning = self.learning
        if learning is None or learning.token != token or not learning.chunks.confirm():
            return
        self._marker = marker
        if learning.at is None:
            self._give(learning)
        else:
            self._busy(False)
            learning.installed = True
            self._state.reset(learning.at, learning.submitters)
            if learning.tail and learning.tail.base != learning.at:
                self._give_up(learning, "what came beside it does not follow it")
                return
            self._forget()
        self._answer(learning)

    # Entries

    def on_tail_entries(self, voter: Voter, message: TailEntries) -> None:
        """Hold entries of the log tail until the state is installed."""
        learning = self.learning
        if learning is None or (message.token, voter.replica) != (learning.token, learning.donor):
            return
        if not self._state.member and not learning.ready:
            learning.tail.add(message)
            self._answer(learning)

    def _may_append_tail(self, learning: Learning) -> bool:
        """Return whether the tail has entries to append and the disk has those appended last."""
        state = self._state
        there = learning.installed and bool(learning.tail)
        return there and not state.member and state.output.is_durable(learning.tail_mark)

    def _append_tail(self, learning: Learning) -> None:
        """Append up to `part_bytes` of the tail to the log, so that other messages are handled in between."""
        state = self._state
        entries = learning.tail.pop(state.settings.part_bytes)
        reason = state.splice(entries, None)
        if reason:
            self._give_up(learning, reason)
            return
        state.commit_to(entries[-1].index)
        learning.tail_mark = state.output.record(Truncated(state.log.last.at))
        self._answer(learning)

    def part_refused(self, now: float, token: int, reason: str) -> None:
        """Ask for everything in a new transfer: the application refused a part."""
        if self.learning is not None and self.learning.token == token:
            self._give_up(self.learning, reason)
            self._failures += 1
            pause = min(2**self._failures, MAX_BACKOFF) * self._state.settings.retry_s
            self._next_join = now + pause

    def _give_up(self, learning: Learning, reason: str) -> None:
        self._state.output.note(f"the state cannot be taken from replica {learning.donor}: {reason}")
        self._busy(False)
        self.learning = None
        self._marker = b""
        self._refused = learning.token
        self.fresh = True

    def on_catch_up(self, voter: Voter, message: CatchUp) -> None:
        """Entries after the state."""
        state = self._state
        learning = self._follows(voter, message.token, entries=True)
        if learning is None or not learning.ready:
            return
        log = state.log
        base = message.base
        if base.at > log.last.at or (base.at >= log.base.at and log.tag(base.at) != base):
            # Not what this replica has: only the committed part is sure to be shared.
            state.output.send(voter.replica, CaughtUp(message.token, state.commit, state.commit, True))
            return
        if base.at < 0 or (message.entries and message.entries[0].index != base.at + 1):
            return
        last = log.last.at
        reason = state.splice(message.entries, None)
        if reason:
            state.output.note(f"cannot take entries after {base.at} from replica {voter.replica}: {reason}")
            return
        reached = max(base.at + len(message.entries), state.commit)
        state.commit_to(min(message.commit, reached))
        if log.last.at == last and state.output.is_durable(self._shown):
            # Perhaps it is asked whether it can answer. If nothing waits for the disk, this does, though it
            # changes nothing; no server's disk is in a hurry with `Committed`. One is enough while it hangs.
            self._shown = state.output.record(Truncated(last))
        bound_s = self._lease.bound_s(state.now, voter)
        state.output.send_after_sync(
            voter.replica, CaughtUp(message.token, reached, state.commit, False, bound_s)
        )

    def _forget(self) -> None:
        """Forget what was kept of earlier transfers."""
        self._marker = b""
        self._failures = 0
        self.fresh = False

    def done(self) -> None:
        """End the transfer: a view has this replica as a member."""
        self.learning = None
        self._forget()
