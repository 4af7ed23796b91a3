"""How much log a master holds for a learner, how much one may lack, and how long all wait for one.

In mode ALL the members wait for a learner as they do for a slow slave: once the log that is held for it is
full, nothing is taken until it has come further, for `stall_s` at most, and not again if that was in vain. In
mode MAJORITY nobody waits.

While a state travels the learner itself holds what is ordered meanwhile: the log here is short as long as it
does.
"""

import math

from ..model.settings import Settings
from ..replication.replica_state import ReplicaState
from .transfer import CatchUpPhase, StatePhase, Transfer

__all__ = ["ENTRY_BYTES", "MIN_LAG", "TAIL_FACTOR", "FlowControl", "tail_fill"]

ENTRY_BYTES = 1024
"""Of a state, once taken, let the log that is held for a learner have one entry more."""
TAIL_FACTOR = 2
"""So much more may there be of what the learner itself holds until it has the state."""
MIN_LAG = 64
"""A learner that lacks no more entries than this, or than a window, may go with the next view..."""
LEAST_LAG = 8
"""...and with each view in which it did not take part a fourth of that, but no less than this: its way is
slow, and the others stand still while it gets what it lacks. If it is more than this it is no more than
`window_bytes`, either..."""
LAG_S = 4.0
"""...and as much again for every so many seconds: under a heavy load of large messages it comes no nearer.
For the same reason it may lack ever less before all wait for it: a fourth of what the log may have after so
many seconds, a ninth after twice as many."""


def _fill(settings: Settings, more: int, count: int, size_bytes: int) -> float:
    """How full it is with so many entries of so many bytes, where there may be so many bytes more."""
    return max(count / (settings.max_log + more // ENTRY_BYTES), size_bytes / (settings.max_log_bytes + more))


def tail_fill(settings: Settings, taken: int, count: int, size_bytes: int) -> float:
    """How full a learner is with the entries that it holds until it has the state; from 1 on it takes none.

    taken: bytes of the state that it has taken.
    """
    return _fill(settings, TAIL_FACTOR * taken, count, size_bytes)


class FlowControl:
    """The log of the present transfer."""

    def __init__(self, state: ReplicaState) -> None:
        self._state = state
        self.given_up: set[int] = set()
        """Replicas that did not come further while all waited for them."""
        self.missed: dict[int, int] = {}
        """In how many views a replica was to be taken in, and was not."""

    def fill(self, transfer: Transfer) -> float:
        """How full the log is that is held for a transfer; from 1 on it is long enough.

        It may grow with the state that the learner has taken, which is in the memory of the application here,
        too: or a large state would begin anew again and again where much is submitted.
        """
        log = self._state.log
        return _fill(self._state.settings, transfer.state_bytes, len(log), log.size_bytes)

    def hurry(self, transfer: Transfer, phase: StatePhase) -> float:
        """How little the transfer may rest, lest either becomes full: from 0, a quarter is free, to 1.

        The log here, or what the learner holds of it until it has the state.
        """
        fill, tail = self.fill(transfer), phase.tail
        if tail is not None:
            taken = phase.chunks.acked_bytes
            fill = max(fill, tail_fill(self._state.settings, taken, len(tail), tail.acked_bytes))
        return min(max(0.0, 4 * fill - 3), 1.0)

    def full(self, transfer: Transfer) -> bool:
        """Whether all wait for the learner: nothing new is taken."""
        return self._waits(transfer) and (self._held(transfer) or self.far(transfer))

    def _held(self, transfer: Transfer) -> bool:
        """Whether the log that is held for the learner is as long as it may be."""
        return transfer.hold is not None and self.fill(transfer) >= 1

    def _waits(self, transfer: Transfer) -> bool:
        return self._state.settings.mode == "ALL" and transfer.voter.replica not in self.given_up

    def overflows(self, now: float, transfer: Transfer) -> str:
        """Why the transfer ends: the learner is not waited for, or not any more. Empty: it goes on."""
        held, waits = self._held(transfer), self._waits(transfer)
        if not held and not (waits and self.far(transfer)):
            transfer.full_since = None
            return ""
        since = now if transfer.full_since is None else min(transfer.full_since, now)
        transfer.full_since = since
        if waits:
            if not transfer.wait_noted:
                transfer.wait_noted = True
                acked = transfer.phase.acked if isinstance(transfer.phase, CatchUpPhase) else 0
                lacks = self._state.log.last.at - max(acked, self._state.log.base.at)
                self._state.note(
                    f"all wait for replica {transfer.voter.replica}, which lacks {lacks} entries"
                )
            if now - max(since, transfer.progressed) < self._state.settings.stall_s:
                return ""
            self.given_up.add(transfer.voter.replica)
        if held:
            return "the log has become too long meanwhile (max_log, max_log_bytes)"
        return "all wait for it, and it comes no further"

    # What a learner that follows lacks

    def _followed(self, phase: CatchUpPhase) -> float:
        """Return 1 plus the duration of the phase in units of `LAG_S`."""
        return 1 + max(0.0, self._state.now - phase.since) / LAG_S

    def _most(self, transfer: Transfer, phase: CatchUpPhase) -> tuple[int, float]:
        """Return how many entries, and bytes, a learner may lack that the next view takes in."""
        settings = self._state.settings
        finer = 2 * self.missed.get(transfer.voter.replica, 0)
        count = max(max(settings.window, MIN_LAG) >> finer, LEAST_LAG)
        least_bytes = settings.transfer_window * settings.part_bytes
        return count, max(settings.window_bytes >> finer, least_bytes) * self._followed(phase)

    def lag(self, transfer: Transfer) -> float:
        """Return how much the learner lacks, as a multiple of what it may lack; infinite during the state."""
        state, phase = self._state, transfer.phase
        if not isinstance(phase, CatchUpPhase) or state.peers.suspects(transfer.voter):
            return math.inf
        log = state.log
        most, most_bytes = self._most(transfer, phase)
        count = log.last.at - phase.acked
        if not LEAST_LAG < count <= most:
            return count / most
        size = sum([len(log.get(index).payload) for index in range(phase.acked + 1, log.last.at + 1)])
        return max(count / most, size / most_bytes)

    def far(self, transfer: Transfer) -> bool:
        """Return whether the learner lacks more than it may, which shrinks with the duration of the phase.

        False for a learner that lacked little enough once and then did not answer in time, or took no part
        in a view: its disk or its connection is slow, and waiting for it again would not help.
        """
        state, phase = self._state, transfer.phase
        log, settings = state.log, state.settings
        if not isinstance(phase, CatchUpPhase) or self.missed.get(transfer.voter.replica):
            return False
        if phase.proof.missing_for(state.now) > settings.view_change_s:
            return False
        most, most_bytes = self._most(transfer, phase)
        closer = self._followed(phase) ** 2
        count = log.last.at - phase.acked
        # As far as the mean size of an entry tells.
        size = count * log.size_bytes / max(len(log), 1)
        return (count > most and count * closer > settings.max_log) or (
            size > most_bytes and size * closer > settings.max_log_bytes
        )
