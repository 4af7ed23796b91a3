"""The master's side of a join: state transfer to one learner at a time, then its place in the configuration.

Source: the channel protocol, section 4. `StateSender` sends the state, then `CatchUpSender` the entries after
it. A learner answers CaughtUp, never Ack, so no entry is committed because of it. The voter of an
earlier life of the replica leaves the configuration first, then the new one comes, one change per view.
"""

from collections.abc import Callable, Iterable

from ..model.messages import CaughtUp, ChunkAck, Join, Reconfig
from ..model.view import Voter
from ..replication.handlers import Handlers
from ..replication.lease import Lease, proposer
from ..replication.normal_case import Replication
from ..replication.replica_state import ReplicaState
from .catch_up import CatchUpSender
from .chunks import OutgoingChunks
from .flow_control import FlowControl
from .pacing import Pacing
from .state_sender import StateSender
from .transfer import CatchUpPhase, StatePhase, Transfer

REPLICA_BITS = 16
"""The lowest bits of a token are the donor's id, so that no two masters use the same token."""
TOKENS = 32
"""The bits from here on are the counter of the view; those in between count transfers and questions."""
MAX_TOKEN = 1 << 62
"""A token above this in a Join is ignored."""
STALLS = 4
"""If another learner waits, the current one is dropped after this many `stall_s` without progress."""
MAX_RESEND_STALLS = 2
"""Longest pause before unacknowledged messages are sent again, in multiples of `stall_s`."""


def _always(_now: float, _learner: Voter) -> bool:
    return True


class Donor:
    """Sends the state and the log to one learner at a time, and brings it into the configuration."""

    def __init__(self, state: ReplicaState, replication: Replication, lease: Lease) -> None:
        self._state = state
        self._replication = replication
        replication.throttled = self.full
        self._lease = lease
        self.transfer: Transfer | None = None
        self.invited: Callable[[float, Voter], bool] = _always
        """Whether a learner whose disk is slow has promised the next view; if not, ask it."""
        self._last = 0
        """The last token used, for a transfer or for a question."""
        self._wanted: Voter | None = None
        """The learner that the last proposed view includes."""
        self._flow_control = FlowControl(state)
        self._state_sender = StateSender(state, self._flow_control, self._close)
        self._catch_up = CatchUpSender(state, self._token_above, self._close)

    @property
    def handlers(self) -> Handlers:
        """Message types that this part receives, each with its handler."""
        return {ChunkAck: self.on_chunk_ack, CaughtUp: self.on_caught_up}

    @property
    def phase(self) -> str:
        """The phase of the transfer, one of `phases.GIVING`."""
        if self.transfer is None:
            return "nobody"
        return "state" if isinstance(self.transfer.phase, StatePhase) else "entries"

    @property
    def hold(self) -> int | None:
        """The log above this index is needed for the transfer; None if none of it is."""
        return self.transfer.hold if self.transfer is not None else None

    @property
    def wake(self) -> float | None:
        """Time of the next tick, for a part or for entries beside the state; None if neither is due."""
        phase = None if self.transfer is None else self.transfer.phase
        if not isinstance(phase, StatePhase) or not self._state.leading:
            return None
        return self._state_sender.wake(phase)

    def on_join(self, now: float, voter: Voter, message: Join) -> None:
        """Begin or continue a transfer: a replica outside the view announces itself."""
        state = self._state
        if not state.leading or state.accepted is None or voter in state.accepted.members or state.leaving:
            return
        if state.unfit:
            # It has nothing to give but a wrong state.
            return
        transfer = self.transfer
        if transfer is not None and transfer.voter != voter:
            if not state.peers.departs(transfer.voter):
                if not self._stuck(now, transfer):
                    return
                self._close("it makes no progress, and another learner waits")
            transfer = None
        if transfer is not None and self._lost(transfer, message):
            self._close("the learner begins again")
            transfer = None
        if transfer is None:
            if not self._served(now, message):
                self._open(now, voter, message)
            return
        transfer.heard = now
        if message.commit.at > transfer.reached:
            transfer.reached, transfer.progressed = message.commit.at, now
        tail = transfer.phase.tail if isinstance(transfer.phase, StatePhase) else None
        if transfer.moved is None or now - transfer.moved > transfer.resend_s:
            if transfer.moved is not None:
                # The connection may be slow, and everything sent twice makes it slower.
                transfer.resend_s = min(2 * transfer.resend_s, MAX_RESEND_STALLS * state.settings.stall_s)
            transfer.moved = now
            self._resend(now, transfer)
        elif tail is not None and tail.waits and now - tail.moved > transfer.resend_s:
            tail.again(now)

    def _gone(self, transfer: Transfer) -> bool:
        """Return whether the learner has gone. A connected but silent one may be installing the state."""
        link = self._state.peers.link(transfer.voter)
        return self._state.peers.departs(transfer.voter) if link is None else link.leaving

    def _stuck(self, now: float, transfer: Transfer) -> bool:
        """Return whether the learner has made no progress for `STALLS` times `stall_s` although it has work.

        Its disk may hang. Or its disk is slow: the learner receives what is sent, but does not answer
        questions in time.
        """
        long = STALLS * self._state.settings.stall_s
        phase, doubted_s = transfer.phase, 0.0
        if isinstance(phase, CatchUpPhase):
            busy = phase.acked < phase.sent
            doubted_s = phase.proof.missing_for(now)
        else:
            busy = not phase.asked and (phase.whole or not phase.chunks.empty)
        return doubted_s > long or (busy and now - transfer.progressed > long)

    def _lost(self, transfer: Transfer, message: Join) -> bool:
        """Return whether the learner has lost what it had, or ignores this transfer.

        The learner may be a new process of the same voter that came back unnoticed. Or it has refused this
        state, or has followed another master to a later transfer.
        """
        if message.refused == transfer.token or message.token > transfer.token:
            return True
        phase = transfer.phase
        if isinstance(phase, CatchUpPhase):
            return message.fresh
        same = message.token == transfer.token
        chunks = message.chunks if same else 0
        return (
            chunks < (phase.kept if same else phase.chunks.acked)
            or message.commit.at < phase.have
            or (not same and phase.tail is not None and len(phase.tail) > 0)
            or (chunks == 0 and message.marker != phase.marker)
        )

    def _served(self, now: float, message: Join) -> bool:
        """Return whether another master sends the learner its state, and this one must leave it alone.

        Two replicas may believe that they are master. If each began a transfer when it heard of the other's,
        none would ever end. So only the master with the lease takes a learner over.
        """
        state = self._state
        assert state.accepted is not None
        first = state.accepted.number.counter << TOKENS
        by_another = message.token >= first and message.token % (1 << REPLICA_BITS) != state.me.replica
        return by_another and not self._lease.holds(now)

    def _open(self, now: float, voter: Voter, message: Join) -> None:
        """Begin a transfer: entries only when the log reaches back to what the learner has."""
        state, settings = self._state, self._state.settings
        assert state.accepted is not None
        # The learner may know a higher token, for example of another cluster with more views.
        known = max(message.token, message.refused)
        first = state.accepted.number.counter << TOKENS
        token = self._token_above(max(first, known if known < MAX_TOKEN else 0))
        have = message.commit
        log = state.log
        phase = StatePhase(
            OutgoingChunks(token, settings.part_bytes, settings.transfer_window),
            Pacing(settings.transfer_share, settings.transfer_pause_s, settings.transfer_window, log.last.at),
        )
        transfer = Transfer(voter, token, token, now, now, now, settings.suspect_s, phase)
        self.transfer = transfer
        if (
            not message.fresh
            and log.base.at <= have.at <= state.replicated.commit
            and log.tag(have.at) == have
        ):
            state.output.note(f"replica {voter.replica} joins: sends the entries after {have.at}")
            self._catch_up.begin(now, transfer, have.at)
            return
        phase.marker = message.marker
        # If the log still has that index, its entry differs from the learner's, whose state is useless.
        if not message.fresh and have.at < log.base.at and have.view <= state.accepted.number:
            phase.have = have.at
        state.output.note(
            f"replica {voter.replica} joins: sends the state"
            + (", going on with what it has" if phase.marker else "")
            + (f", or what has changed since entry {phase.have}" if phase.have else "")
        )
        self._state_sender.send(now, transfer, phase)

    def _token_above(self, known: int) -> int:
        """Return a new token, above `known` and above all tokens used before."""
        count = (max(self._last, known) >> REPLICA_BITS) + 1
        self._last = (count << REPLICA_BITS) + self._state.me.replica
        return self._last

    def _close(self, reason: str) -> None:
        """End the transfer, if there is one."""
        if self.transfer is not None:
            self._state.output.note(f"transfer to replica {self.transfer.voter.replica} ends: {reason}")
            self.transfer = None

    # The state

    def _answered(self, token: int) -> tuple[Transfer, StatePhase] | None:
        """Return the transfer that an answer of the application belongs to; None if none waits for one."""
        transfer = self.transfer
        if transfer is None or transfer.token != token or not isinstance(transfer.phase, StatePhase):
            return None
        if not transfer.phase.asked:
            return None
        transfer.phase.asked = False
        return transfer, transfer.phase

    def part_ready(self, now: float, token: int, data: bytes, index: int | None, *, last: bool) -> None:
        """Send one part that the application has provided, and ask for the next."""
        answered = self._answered(token)
        if answered is not None:
            self._state_sender.part_ready(now, *answered, data, index, last=last)

    def snapshot_ready(self, now: float, token: int, index: int, parts: Iterable[bytes]) -> None:
        """Send all parts that the application has provided; `parts` makes each when it is needed."""
        answered = self._answered(token)
        if answered is not None:
            self._state_sender.snapshot_ready(now, *answered, index, parts)

    def part_failed(self, token: int, reason: str) -> None:
        """End the transfer: the application cannot provide the state, or cannot continue it."""
        if self._answered(token) is not None:
            self._close(reason)

    def on_chunk_ack(self, now: float, voter: Voter, message: ChunkAck) -> None:
        """Continue with the state: the learner has received chunks, or has installed the whole."""
        transfer = self.transfer
        if transfer is None or transfer.token != message.token or transfer.voter != voter:
            return
        phase = transfer.phase
        if not isinstance(phase, StatePhase):
            return
        transfer.heard = now
        if not self._state.leading:
            phase.unread = message
            return
        installed = self._state_sender.on_chunk_ack(now, transfer, phase, message)
        if installed is not None:
            self._catch_up.begin(now, transfer, installed)

    def full(self) -> bool:
        """Return whether the members wait for the learner, since the log kept for it is full."""
        transfer = self.transfer
        return transfer is not None and self._flow_control.full(transfer)

    # Entries

    def on_caught_up(self, now: float, voter: Voter, message: CaughtUp) -> None:
        """Continue with the entries: the learner has received some."""
        transfer = self.transfer
        if (
            transfer is not None
            and transfer.first_token <= message.token <= transfer.token
            and transfer.voter == voter
            and isinstance(transfer.phase, CatchUpPhase)
            and self._state.leading
        ):
            self._catch_up.on_caught_up(now, transfer, transfer.phase, message)

    def _resend(self, now: float, transfer: Transfer) -> None:
        """Send again what the learner has not acknowledged, after a time without progress."""
        phase = transfer.phase
        if isinstance(phase, CatchUpPhase):
            self._catch_up.resend(transfer, phase)
            return
        self._state_sender.resend(now, transfer, phase)

    def reconnected(self, voter: Voter) -> None:
        """Resend with the next Join: what was on its way to the learner may be lost."""
        transfer = self.transfer
        if transfer is not None and transfer.voter == voter:
            transfer.moved = None
            if isinstance(transfer.phase, StatePhase):
                transfer.phase.kept = transfer.phase.chunks.acked

    def paused(self, now: float, seconds: float) -> None:
        """Extend all waits for the learner by `seconds`, for which this replica did not run."""
        transfer = self.transfer
        if transfer is None:
            return
        transfer.heard = min(transfer.heard + seconds, now)
        transfer.progressed = min(transfer.progressed + seconds, now)
        if transfer.moved is not None:
            transfer.moved = min(transfer.moved + seconds, now)
        if transfer.full_since is not None:
            transfer.full_since = min(transfer.full_since + seconds, now)
        if isinstance(transfer.phase, CatchUpPhase):
            proof = transfer.phase.proof
            if proof.doubted is not None:
                proof.doubted = min(proof.doubted + seconds, now)

    def tick(self, now: float) -> None:
        """Send what is new, or end a transfer that cannot continue."""
        transfer, state = self.transfer, self._state
        if transfer is None or not state.leading:
            return
        settings, phase = state.settings, transfer.phase
        if self._gone(transfer):
            self._close("it went away")
        elif now - transfer.heard > settings.stall_s * (STALLS if phase.whole else 1):
            self._close("it does not answer")
        elif reason := self._flow_control.overflows(now, transfer):
            self._close(reason)
        elif isinstance(phase, CatchUpPhase):
            self._catch_up.push(transfer, phase)
        else:
            self._state_sender.send(now, transfer, phase)

    # Membership

    def ready(self) -> Voter | None:
        """Return the learner that the next view may include; None if there is none."""
        transfer = self.transfer
        self._wanted = None
        if transfer is None or not isinstance(transfer.phase, CatchUpPhase):
            return None
        # Twice what `step` asks for, or the entry that `step` appends could be one too many.
        if transfer.phase.proof.given and self._flow_control.lag(transfer) <= 2:
            self._wanted = transfer.voter
        return self._wanted

    def committed(self, learner: Voter) -> int:
        """Return the index up to which a learner knows that its log is committed; 0 if that is unknown."""
        transfer = self.transfer
        if transfer is None or transfer.voter != learner or not isinstance(transfer.phase, CatchUpPhase):
            return 0
        return transfer.hold or 0

    def step(self, now: float) -> bool:
        """Take the next step of a join. Return True if that is a new view. Call on an idle master only."""
        state, transfer = self._state, self.transfer
        view = state.accepted
        if transfer is None or view is None:
            return False
        if state.pending is not None:
            return False
        voter = transfer.voter
        old = [other for other in view.config if other.replica == voter.replica and other != voter]
        if old:
            if old[0] not in view.members:
                state.output.note(f"removes voter {old[0]}: {voter} takes its place")
                self._replication.reconfigure(now, Reconfig(False, *old[0]))
            return False
        phase = transfer.phase
        if self._flow_control.lag(transfer) > 1 or not isinstance(phase, CatchUpPhase):
            return False
        if not self._catch_up.proved(now, transfer, phase):
            return False
        if state.log.durable and phase.proof.slow and not self.invited(now, voter):
            return False
        if voter not in view.config:
            state.output.note(f"adds voter {voter}")
            self._replication.reconfigure(now, Reconfig(True, *voter))
            return False
        return True

    def review(self) -> None:
        """End the transfer if another master leads, with perhaps another log, or if this state is wrong."""
        view = self._state.accepted
        if self._state.unfit:
            self._close("this replica has another state than the others")
        if self.transfer is not None and view is not None and proposer(view.number) != self._state.me:
            self._close("another replica leads")

    def on_view(self, now: float) -> None:
        """End the transfer if the new view has the learner or should have had it; else continue it."""
        state, transfer = self._state, self.transfer
        view = state.accepted
        if not state.leading:
            self._flow_control.missed.clear()
            self._flow_control.given_up.clear()
        if transfer is None or view is None:
            return
        if transfer.voter in view.members:
            self._flow_control.missed.pop(transfer.voter.replica, None)
            self._flow_control.given_up.discard(transfer.voter.replica)
            self._close("it is a member")
        elif not view.lists(transfer.voter.replica):
            self._close("it does not belong to the cluster")
        elif self._wanted == transfer.voter and transfer.voter in view.config:
            replica = transfer.voter.replica
            self._flow_control.missed[replica] = self._flow_control.missed.get(replica, 0) + 1
            self._close("it did not take part in the view")
        else:
            transfer.heard = transfer.moved = now
            phase = transfer.phase
            if isinstance(phase, CatchUpPhase):
                phase.rewind()
                phase.proof.forget()
                return
            if phase.tail is not None:
                phase.tail.again(now)
            unread, phase.unread = phase.unread, None
            if unread is not None:
                self.on_chunk_ack(now, transfer.voter, unread)
