"""The first phase of a join, at the donor: send the state in chunks, and committed entries beside it.

Source: the channel protocol, section 4. The application provides the state part by part, at the pace of the
learner, or all parts in advance. It names with the last ones the entry that the whole state follows; the log
is kept only from that entry on.
"""

import math
from collections.abc import Callable, Iterable

from ..model.events import ProvidePart, ProvideSnapshot
from ..model.messages import ChunkAck
from ..replication.replica_state import ReplicaState
from .chunks import Parts
from .flow_control import FlowControl
from .log_tail import TailSender
from .transfer import CompleteState, StatePhase, Transfer

__all__ = ["StateSender"]


class StateSender:
    """Sends the state to the learner of a transfer, part by part."""

    def __init__(self, state: ReplicaState, flow_control: FlowControl, close: Callable[[str], None]) -> None:
        """close: ends the transfer, for a reason."""
        self._state = state
        self._flow_control = flow_control
        self._close = close

    def wake(self, phase: StatePhase) -> float | None:
        """Return the time of the next `send`; None if neither parts nor entries are due."""
        wake = phase.pacing.wake if self._wants(phase) else None
        if phase.tail is not None and phase.tail.wants(self._state.replicated.commit):
            tail_wake = -math.inf if phase.tail_after is None else phase.tail_after
            wake = tail_wake if wake is None else min(wake, tail_wake)
        return wake

    def send(self, now: float, transfer: Transfer, phase: StatePhase) -> None:
        """Send the parts and entries that are due, or ask the application for a part."""
        self._ask(now, transfer, phase)
        if phase.tail_due(now):
            self._push_tail(now, transfer, phase)

    def resend(self, now: float, transfer: Transfer, phase: StatePhase) -> None:
        """Send again what the learner has not acknowledged."""
        phase.chunks.again()
        self._push(transfer, phase)
        if phase.tail is not None:
            phase.tail.again(now)
        self._ask(now, transfer, phase)

    def part_ready(
        self,
        now: float,
        transfer: Transfer,
        phase: StatePhase,
        data: bytes,
        index: int | None,
        *,
        last: bool,
    ) -> None:
        """Send one part that the application has provided, and ask for the next."""
        if not self._freeze(transfer, phase, index, last=last):
            return
        if not phase.frozen:
            # Until it is asked again, the application names no entry.
            transfer.hold = None
        complete = phase.complete
        if complete is None:
            phase.chunks.put(data, None)
        else:
            phase.chunks.put(data, complete.at, complete.submitters)
        transfer.progressed = now
        self._push(transfer, phase)
        self._ask(now, transfer, phase)

    def snapshot_ready(
        self, now: float, transfer: Transfer, phase: StatePhase, index: int, parts: Iterable[bytes]
    ) -> None:
        """Send all parts that the application has provided; `parts` makes each when it is needed."""
        if not self._freeze(transfer, phase, index, last=True):
            return
        assert phase.complete is not None
        try:
            phase.complete.rest = Parts(parts) or Parts([b""])
        except Exception as error:
            self._close(f"the state is not available: {error!r}")
            return
        transfer.heard = transfer.moved = now
        self._ask(now, transfer, phase)

    def on_chunk_ack(
        self, now: float, transfer: Transfer, phase: StatePhase, message: ChunkAck
    ) -> int | None:
        """Send the next chunks and entries. Return the last entry of a learner that has the whole state."""
        tail = phase.tail
        if tail is not None and tail.ack(now, self._state.log, message.tail):
            transfer.hold = tail.acked
            if not message.installed and phase.tail_due(now):
                self._push_tail(now, transfer, phase)
        if message.installed and tail is not None:
            return tail.acked
        if phase.chunks.ack(message.chunks):
            transfer.moved = transfer.progressed = now
            if phase.chunks.empty and not phase.asked:
                hurry = self._flow_control.hurry(transfer, phase) if phase.frozen else 0.0
                phase.pacing.acked(now, self._state.log.last.at, hurry=hurry)
            self._push(transfer, phase)
            self._ask(now, transfer, phase)
        return None

    def _wants(self, phase: StatePhase) -> bool:
        """Return whether another part is needed now; the pacing decides when to ask for it."""
        more = phase.complete is None or bool(phase.complete.rest)
        return more and not phase.asked and phase.chunks.wants_part

    def _ask(self, now: float, transfer: Transfer, phase: StatePhase) -> None:
        """Ask the application for the next part, or use one that it has provided in advance."""
        state, pacing = self._state, phase.pacing
        while self._wants(phase) and pacing.wake is not None and now >= pacing.wake:
            pacing.asked(now, state.log.last.at)
            complete = phase.complete
            if complete is None:
                self._ask_application(transfer, phase)
                return
            try:
                data = complete.rest.pop()
            except Exception as error:
                # Without this part the state is incomplete.
                self._close(f"the state is not available: {error!r}")
                return
            if complete.rest:
                phase.chunks.put(data, None)
            else:
                phase.chunks.put(data, complete.at, complete.submitters)
            transfer.progressed = now
            self._push(transfer, phase)

    def _ask_application(self, transfer: Transfer, phase: StatePhase) -> None:
        state = self._state
        phase.asked = True
        if not phase.frozen:
            # The application has applied this entry, and may name it as the one that the state follows.
            transfer.hold = state.replicated.applied
        if phase.begun:
            state.output.emit(ProvidePart(transfer.token, state.replicated.applied))
        else:
            phase.begun = True
            state.output.emit(
                ProvideSnapshot(transfer.token, state.replicated.applied, phase.have, phase.marker)
            )

    def _push(self, transfer: Transfer, phase: StatePhase) -> None:
        """Send the chunks for which the window has room."""
        for chunk in phase.chunks.due():
            self._state.output.send(transfer.voter.replica, chunk)

    def _freeze(self, transfer: Transfer, phase: StatePhase, index: int | None, *, last: bool) -> bool:
        """Note that the state follows entry `index`. Return False if the log does not reach back to it.

        index: None while the application has not named the entry, which it must do with the last part.
        """
        if index is None:
            return not last
        state = self._state
        if not state.log.base.at <= index <= state.replicated.applied:
            reach = f"{state.log.base.at}..{state.replicated.applied}"
            self._close(f"the state is that after entry {index}, outside {reach}")
            return False
        phase.frozen = True
        transfer.hold = index
        if last:
            tail = TailSender(state.now, transfer.token, state.settings.transfer_window, index)
            phase.complete = CompleteState(state.log.tag(index), state.replicated.submitters_at(index), tail)
        return True

    def _push_tail(self, now: float, transfer: Transfer, phase: StatePhase) -> None:
        """Send committed entries beside the state, as many messages as the window allows."""
        state, tail = self._state, phase.tail
        if tail is None:
            return
        for message in tail.due(now, state.log, state.replicated.commit, state.settings.part_bytes):
            state.output.send(transfer.voter.replica, message)
        phase.tail_after = now + state.settings.transfer_pause_s
