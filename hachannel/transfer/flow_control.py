"""Flow control of a transfer: limits of the log that a master keeps for a learner.

In mode ALL the members wait for a learner as they do for a slow slave. Once the log kept for it is full, the
master accepts no new entries until the learner makes progress, for at most `stall_s`; it does so only once
for a learner that makes none. In mode MAJORITY the members never wait.

During the transfer of a state the learner itself holds the entries appended meanwhile, which keeps the log of
the master short.
"""

import math

from ..model.settings import Settings
from ..replication.replica_state import ReplicaState
from .transfer import CatchUpPhase, StatePhase, Transfer

__all__ = ["ENTRY_BYTES", "MIN_LAG", "TAIL_FACTOR", "FlowControl", "tail_fill"]

ENTRY_BYTES = 1024
"""Each 1,024 acknowledged bytes of a state raise the learner's log limit by one entry."""
TAIL_FACTOR = 2
"""The limit of the entries that the learner itself holds grows this many times as fast."""
MIN_LAG = 64
"""A learner that lacks at most this many entries, or `window` if that is more, may join the next view."""
LEAST_LAG = 8
"""Lower bound of the lag allowed for joining; each view that the learner missed divides that lag by four.

Such a learner has a slow connection, and the members cannot go on while it receives what it lacks. A learner
that lacks more than this many entries must also lack no more payload than `window_bytes`.
"""
LAG_S = 4.0
"""The payload that a learner may lack grows by `window_bytes` for each `LAG_S` seconds of catching up.

Otherwise a learner might never catch up under a heavy load of large messages. For the same reason the members
wait for it earlier: at a fourth of the limit of the log after `LAG_S` seconds, at a ninth after twice that.
"""


def _fill(settings: Settings, more: int, count: int, size_bytes: int) -> float:
    """Return how full a log of `count` entries is, as a fraction of the limits in the settings.

    more: bytes allowed beyond `max_log_bytes`; they raise `max_log` in proportion.
    """
    return max(count / (settings.max_log + more // ENTRY_BYTES), size_bytes / (settings.max_log_bytes + more))


def tail_fill(settings: Settings, taken: int, count: int, size_bytes: int) -> float:
    """Return how full a learner is with the entries that it holds until it has the state; 1 or more is full.

    taken: bytes of the state that the learner has received.
    """
    return _fill(settings, TAIL_FACTOR * taken, count, size_bytes)


class FlowControl:
    """The limits of the log that the master keeps for the learner of the present transfer."""

    def __init__(self, state: ReplicaState) -> None:
        self._state = state
        self.given_up: set[int] = set()
        """Replicas that made no progress while the members waited for them."""
        self.missed: dict[int, int] = {}
        """For each replica: the number of views that included it and that it did not accept."""

    def fill(self, transfer: Transfer) -> float:
        """Return how full the log kept for a transfer is; 1 or more is full.

        The limit grows with the bytes that the learner has received. Otherwise the transfer of a large state
        would fail again and again under load. The memory is there: the application here holds such a state.
        """
        log = self._state.log
        return _fill(self._state.settings, transfer.state_bytes, len(log), log.size_bytes)

    def hurry(self, transfer: Transfer, phase: StatePhase) -> float:
        """Return by how much to shorten the pauses, from 0 while a quarter is free to 1 when full.

        It depends on the log here or the entries that the learner holds, whichever is fuller.
        """
        fill, tail = self.fill(transfer), phase.tail
        if tail is not None:
            taken = phase.chunks.acked_bytes
            fill = max(fill, tail_fill(self._state.settings, taken, len(tail), tail.acked_bytes))
        return min(max(0.0, 4 * fill - 3), 1.0)

    def full(self, transfer: Transfer) -> bool:
        """Return whether the members wait for the learner: the master accepts no new entries."""
        return self._waits(transfer) and (self._held(transfer) or self.far(transfer))

    def _held(self, transfer: Transfer) -> bool:
        """Return whether the log kept for the learner is full."""
        return transfer.hold is not None and self.fill(transfer) >= 1

    def _waits(self, transfer: Transfer) -> bool:
        return self._state.settings.mode == "ALL" and transfer.voter.replica not in self.given_up

    def overflows(self, now: float, transfer: Transfer) -> str:
        """Return the reason to end the transfer because the learner is too slow; "" if it goes on."""
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
                self._state.output.note(
                    f"all wait for replica {transfer.voter.replica}, which lacks {lacks} entries"
                )
            if now - max(since, transfer.progressed) < self._state.settings.stall_s:
                return ""
            self.given_up.add(transfer.voter.replica)
        if held:
            return "the log has become too long meanwhile (max_log, max_log_bytes)"
        return "all wait for it, and it makes no progress"

    # Lag while catching up

    def _followed(self, phase: CatchUpPhase) -> float:
        """Return 1 plus the duration of the phase in units of `LAG_S`."""
        return 1 + max(0.0, self._state.now - phase.since) / LAG_S

    def _most(self, transfer: Transfer, phase: CatchUpPhase) -> tuple[int, float]:
        """Return how many entries, and payload bytes, a learner may lack to join the next view."""
        settings = self._state.settings
        finer = 2 * self.missed.get(transfer.voter.replica, 0)
        count = max(max(settings.window, MIN_LAG) >> finer, LEAST_LAG)
        least_bytes = settings.transfer_window * settings.part_bytes
        return count, max(settings.window_bytes >> finer, least_bytes) * self._followed(phase)

    def lag(self, transfer: Transfer) -> float:
        """Return how much the learner lacks, as a multiple of what it may lack to join the next view.

        Infinite while it receives the state, and while it is suspected.
        """
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
        """Return whether the learner lags so far behind that the members should wait for it.

        The limit shrinks while the learner catches up. False for a learner that was close enough once and
        then did not answer in time, or missed a view: its disk or its connection is slow, and waiting again
        would not help.
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
        # An estimate from the mean size of an entry.
        size = count * log.size_bytes / max(len(log), 1)
        return (count > most and count * closer > settings.max_log) or (
            size > most_bytes and size * closer > settings.max_log_bytes
        )
