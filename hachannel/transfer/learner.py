"""The learner: a replica outside the active view that announces itself, receives the state and catches up.

Source: the channel protocol, section 4. The same announcement serves at start-up: enough empty replicas that
see each other found the cluster.
"""

from collections.abc import Callable

import attrs

from ..model.events import InstallPart
from ..model.log import Truncated
from ..model.messages import CatchUp, CaughtUp, Chunk, ChunkAck, Join, TailEntries
from ..model.submitters import Rows, Submitters
from ..model.view import NO_TAG, NO_VIEW, Tag, Voter
from ..replication.handlers import Handlers
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
    """Entries after the state that have arrived and are not in the log yet."""
    parts: int = 0
    """Number of parts that the application has got."""
    at: Tag | None = None
    """The entry that the state follows, once the application has got the last part; else None."""
    submitters: Rows = ()
    """Table of submitters after the entry `at`."""
    installed: bool = False
    """The state is installed, or not needed."""
    tail_mark: int = 0
    """Mark of the record of the last entries appended from the tail."""

    @property
    def ready(self) -> bool:
        """Whether the next entries are those after the end of the log."""
        return self.installed and not self.tail


class Learner:
    """The joining of this replica, from its first announcement to the view that includes it."""

    def __init__(
        self, state: ReplicaState, lease: Lease, busy: Callable[[bool], None], *, fresh: bool
    ) -> None:
        self._state = state
        self._lease = lease
        self._busy = busy
        self.fresh = fresh or state.unfit
        """The state of this replica is unusable or lost: it needs a whole state, not only entries."""
        self.learning: Learning | None = None
        self._next_join = 0.0
        self._pause_until = 0.0
        """Before this time an unfit replica asks for no state."""
        self._marker = b""
        """Marker of a state received in part, in the encoding of the application."""
        self._refused = 0
        """The token of the last transfer that failed here."""
        self._failures = 0
        self._shown = 0
        """Mark of the last record that was written only to make an answer wait for the disk."""

    @property
    def handlers(self) -> Handlers:
        """Message types that this part receives, each with its handler."""
        return {Chunk: self.on_chunk, TailEntries: self.on_tail_entries, CatchUp: self.on_catch_up}

    @property
    def phase(self) -> str:
        """The phase of the transfer, one of `phases.LEARNING`."""
        if self.learning is None:
            return "alone"
        return "entries" if self.learning.ready else "state"

    @property
    def tail_length(self) -> int:
        """Number of entries that wait for the state that they follow."""
        return 0 if self.learning is None else len(self.learning.tail)

    @property
    def wake(self) -> float | None:
        """Time of the next tick: now while entries can be appended to the log; else None."""
        learning = self.learning
        return self._state.now if learning is not None and self._may_append_tail(learning) else None

    @property
    def empty(self) -> bool:
        """Whether this replica has no state, has heard of no cluster and was never in one.

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
        if (inside and not self.empty) or state.leaving or now < max(self._next_join, self._pause_until):
            return
        self._next_join = now + state.settings.retry_s * (1 if self.learning is None else 3)
        state.broadcast(self.join())

    def join(self) -> Join:
        """Return the announcement of this replica."""
        state, learning = self._state, self.learning
        return Join(
            state.configuration.cluster,
            self.empty,
            state.log.tag(state.replicated.commit),
            0 if learning is None else learning.token,
            0 if learning is None else learning.chunks.confirmed,
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
        """Return the transfer of a message, begun now if its token is the highest; None to ignore it."""
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
        """Whether the application is replacing its state."""
        return self.learning is not None and self.learning.at is not None and not self.learning.installed

    def on_chunk(self, _now: float, voter: Voter, message: Chunk) -> None:
        """Store a chunk of the state, and pass a complete part to the application."""
        learning = self._follows(voter, message.token, entries=False)
        if learning is None or message.number < 0:
            return
        if not learning.installed:
            learning.chunks.add(message)
            self._install_part(learning)
        self._answer(learning)

    def _answer(self, learning: Learning) -> None:
        chunks, tail = learning.chunks, learning.tail
        if tail_fill(self._state.settings, chunks.confirmed_bytes, len(tail), tail.size_bytes) < 1:
            tail.ack()
        # The last chunk is confirmed once the tail is in the log: the donor repeats it if the answer is lost.
        tail_waits = learning.installed and not learning.ready
        answer = ChunkAck(learning.token, chunks.confirmed - tail_waits, learning.ready, tail.acked)
        if learning.ready:
            # With a disk this holds only after a sync.
            self._state.output.send_after_sync(learning.donor, answer)
        else:
            self._state.output.send(learning.donor, answer)

    def _install_part(self, learning: Learning) -> None:
        """Pass the next part to the application, if it is complete and the one before is confirmed."""
        state = self._state
        part = learning.chunks.part()
        if learning.chunks.too_large:
            self._reject(learning, "a part of the state is too large")
        if part is None:
            return
        data, piece = part
        at, forwarded = piece.at, 0
        if at is not None and self._has(at):
            state.output.note(f"the state after entry {at.at} is no longer needed")
            learning.installed = learning.chunks.confirm()
            return
        if at is not None and at.at < state.replicated.commit:
            # An earlier process of this replica got this state before, and entries after it.
            self._reject(learning, f"entries after {at.at} are committed here already")
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
        """Return whether this replica has a usable state, after this entry or a later one."""
        state = self._state
        if self.fresh or at.at > state.replicated.applied:
            return False
        # If disks were lost, another entry may have this index.
        return at.at < state.replicated.applied or state.log.tag(at.at) == at

    def part_installed(self, token: int, marker: bytes) -> None:
        """Continue: the application has stored a part, and with the last one has replaced its state."""
        learning = self.learning
        if learning is None or learning.token != token or not learning.chunks.confirm():
            return
        self._marker = marker
        if learning.at is None:
            self._install_part(learning)
        else:
            self._busy(False)
            learning.installed = True
            self._state.unfit = False
            self._state.replicated.reset(learning.at, learning.submitters)
            if learning.tail and learning.tail.base != learning.at:
                self._reject(learning, "the entries sent beside it do not follow it")
                return
            self._forget()
        self._answer(learning)

    # Entries

    def on_tail_entries(self, _now: float, voter: Voter, message: TailEntries) -> None:
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
        """Append up to `part_bytes` of the tail to the log. Other messages are handled in between."""
        state = self._state
        entries = learning.tail.pop(state.settings.part_bytes)
        reason = state.replicated.splice(entries, None)
        if reason:
            self._reject(learning, reason)
            return
        state.replicated.commit_to(entries[-1].index)
        learning.tail_mark = state.output.record(Truncated(state.log.last.at))
        self._answer(learning)

    def part_refused(self, now: float, token: int, reason: str) -> None:
        """Ask for the whole state in a new transfer: the application has refused a part."""
        if self.learning is not None and self.learning.token == token:
            self._reject(self.learning, reason)
            self._failures += 1
            pause = min(2**self._failures, MAX_BACKOFF) * self._state.settings.retry_s
            self._next_join = now + pause

    def _reject(self, learning: Learning, reason: str) -> None:
        self._state.output.note(f"the state of replica {learning.donor} cannot be used: {reason}")
        self._busy(False)
        self.learning = None
        self._marker = b""
        self._refused = learning.token
        self.fresh = True

    def disqualify(self, until: float) -> None:
        """Ask for a whole state, from the time `until` on; one that is on its way will do."""
        self.fresh = True
        self._pause_until = until
        if self.learning is not None and self.learning.installed:
            self._reject(self.learning, "the entries cannot follow a wrong state")

    def on_catch_up(self, _now: float, voter: Voter, message: CatchUp) -> None:
        """Append entries that follow the state."""
        state = self._state
        learning = self._follows(voter, message.token, entries=True)
        if learning is None or not learning.ready:
            return
        log = state.log
        base = message.base
        if base.at > log.last.at or (base.at >= log.base.at and log.tag(base.at) != base):
            # This replica has other entries: only the committed ones are certainly the same.
            state.output.send(
                voter.replica, CaughtUp(message.token, state.replicated.commit, state.replicated.commit, True)
            )
            return
        if base.at < 0 or (message.entries and message.entries[0].index != base.at + 1):
            return
        last = log.last.at
        reason = state.replicated.splice(message.entries, None)
        if reason:
            state.output.note(f"cannot append entries after {base.at} from replica {voter.replica}: {reason}")
            return
        reached = max(base.at + len(message.entries), state.replicated.commit)
        state.replicated.commit_to(min(message.commit, reached))
        if log.last.at == last and state.output.is_durable(self._shown):
            # This may be a question, and the answer must prove that the disk works. If nothing waits for the
            # disk, a record that changes nothing makes the answer wait. One is enough while the disk hangs.
            self._shown = state.output.record(Truncated(last))
        bound_s = self._lease.bound_s(state.now, voter)
        state.output.send_after_sync(
            voter.replica, CaughtUp(message.token, reached, state.replicated.commit, False, bound_s)
        )

    def _forget(self) -> None:
        """Forget the marker and the failures of earlier transfers."""
        self._marker = b""
        self._failures = 0
        self.fresh = self._state.unfit

    def done(self) -> None:
        """End the transfer: this replica is a member of a view."""
        self.learning = None
        self._forget()
