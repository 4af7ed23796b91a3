"""The second phase of a join, at the donor: send entries until the learner can join the next view.

Source: the channel protocol, section 4. The learner answers each CatchUp with CaughtUp. Before a view
includes the learner, it must prove that it answers in time.
"""

from collections.abc import Callable

from ..model.messages import CatchUp, CaughtUp
from ..replication.replica_state import ReplicaState
from .transfer import CatchUpPhase, Question, StatePhase, Transfer

PROOF_AGAIN = 4
"""A learner that has not proved that it can answer is asked again after this many `view_change_s`."""

_TOO_SHORT = "the log does not reach back far enough"


class CatchUpSender:
    """Sends entries to the learner of a transfer, and asks it whether it can answer."""

    def __init__(
        self, state: ReplicaState, next_token: Callable[[int], int], close: Callable[[str], None]
    ) -> None:
        """next_token: returns a new token above a given one. close: ends the transfer, for a reason."""
        self._state = state
        self._next_token = next_token
        self._close = close

    def begin(self, now: float, transfer: Transfer, after: int) -> None:
        """Enter the phase: the learner has everything up to entry `after`."""
        before = transfer.phase
        whole = isinstance(before, StatePhase) and before.complete is not None
        phase = CatchUpPhase(now, after, after, transfer.state_bytes, whole)
        transfer.phase = phase
        transfer.hold = after
        transfer.moved = transfer.progressed = now
        self.push(transfer, phase)

    def push(self, transfer: Transfer, phase: CatchUpPhase, *, again: bool = False) -> None:
        """Send as many entries as the window allows. again: they were sent before."""
        state = self._state
        log = state.log
        assert state.accepted is not None
        if phase.sent < log.base.at or phase.sent > log.last.at:
            self._close(_TOO_SHORT)
            return
        if phase.sent == phase.acked < log.last.at and not again:
            transfer.progressed = state.now
        while phase.sent < log.last.at and len(phase.in_flight) < state.settings.transfer_window:
            base = log.tag(phase.sent)
            entries = tuple(log.slice(phase.sent, log.last.at, state.settings.part_bytes))
            phase.sent = entries[-1].index
            phase.in_flight.append(phase.sent)
            state.output.send(
                transfer.voter.replica,
                CatchUp(transfer.token, state.accepted.number, base, entries, state.replicated.commit),
            )

    def resend(self, transfer: Transfer, phase: CatchUpPhase) -> None:
        """Send again what the learner has not acknowledged."""
        phase.rewind()
        self.push(transfer, phase, again=True)

    def on_caught_up(self, now: float, transfer: Transfer, phase: CatchUpPhase, message: CaughtUp) -> None:
        """Note which entries the learner has, and send the next ones."""
        log = self._state.log
        transfer.heard = now
        self._note_proof(now, transfer, phase, message)
        if message.reset:
            if message.index < log.base.at or message.index > log.last.at:
                self._close(_TOO_SHORT)
                return
            phase.in_flight.clear()
            phase.sent = phase.acked = message.index
            transfer.hold = min(phase.acked, message.commit)
            if phase.reset_to == message.index:
                # The same entries sent at once would get the same answer: wait for its next Join.
                return
            phase.reset_to = message.index
        elif phase.acked < message.index <= log.last.at:
            phase.acked = message.index
            # If its answers were lost, the learner may have more than what was sent again.
            phase.sent = max(phase.sent, message.index)
            transfer.hold = min(message.index, message.commit)
            transfer.moved = transfer.progressed = now
            while phase.in_flight and phase.in_flight[0] <= message.index:
                phase.in_flight.popleft()
        self.push(transfer, phase)
        self._state.attention = True

    def _note_proof(self, now: float, transfer: Transfer, phase: CatchUpPhase, message: CaughtUp) -> None:
        """Count an answer in time as a proof. A learner with a disk answers after a sync, as it promises."""
        proof = phase.proof
        question = proof.question
        if question is None or now - question.asked > self._answer_s(now, transfer):
            return
        if message.token != transfer.token or message.reset:
            return
        proof.doubted = None
        proof.given = not message.bound_s > 0
        proof.slow = now - question.asked > 2 * self._state.settings.heartbeat_s
        if not proof.given:
            proof.question = Question(question.asked, min(question.again, now + message.bound_s))

    def _may_ask(self, now: float, transfer: Transfer, question: Question | None) -> bool:
        """Return whether to send a question: not while the disk still writes for the last one.

        The answer to another one would be ready with that write, and show nothing.
        """
        link = self._state.peers.link(transfer.voter)
        if question is None:
            return True
        return now > question.again and (link is None or link.writing_since is None)

    def _answer_s(self, now: float, transfer: Transfer) -> float:
        """Return the seconds in which the learner must answer, more while its disk is known to be slow.

        A view change waits for a slow disk as long.
        """
        settings = self._state.settings
        if self._state.peers.writes(transfer.voter, now):
            return max(settings.stall_s, settings.view_change_s)
        return settings.view_change_s

    def proved(self, now: float, transfer: Transfer, phase: CatchUpPhase) -> bool:
        """Return whether the learner has proved that it answers and may promise; if not, send a question.

        A learner whose disk hangs still announces itself, and lacks no entry while none is submitted. Each
        view that includes it would stop the others for `view_change_s` in vain. So would a learner that is
        bound by a grant to an earlier master. Each question has its own token, so that an answer to an
        earlier message or question proves nothing.
        """
        state, proof = self._state, phase.proof
        if not proof.given and self._may_ask(now, transfer, proof.question):
            assert state.accepted is not None
            transfer.token = self._next_token(transfer.token)
            proof.question = Question(now, now + PROOF_AGAIN * state.settings.view_change_s)
            if proof.doubted is None:
                proof.doubted = now
            base = state.log.tag(phase.sent)
            message = CatchUp(transfer.token, state.accepted.number, base, (), state.replicated.commit)
            state.output.send(transfer.voter.replica, message)
        return proof.given
