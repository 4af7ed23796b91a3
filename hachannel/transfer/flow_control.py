"""Flow control of a transfer: how much log a master holds for a learner, and how long everybody waits for it.

In mode ALL the members wait for a learner as they do for a slow slave. Once the log held for it is full, the
master accepts nothing until the learner makes progress, for `stall_s` at most, and only once if the learner
makes none. In mode MAJORITY nobody waits.

During the transfer of a state the learner itself holds the entries ordered meanwhile, which keeps the log of
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
"""The limit of the entries that the learner itself holds grows this many times faster."""
MIN_LAG = 64
"""A learner that lacks at most this many entries, or a window, may go with the next view."""
LEAST_LAG = 8
"""Lower bound of `MIN_LAG`, which shrinks to a fourth with each view that the learner missed.

The connection of such a learner is slow, and the others stand still while it gets what it lacks. Above this
bound the payload that it lacks must also be within `window_bytes`.
"""
LAG_S = 4.0
"""The payload that a learner may lack grows by `window_bytes` for each `LAG_S` seconds of catching up.

Under a heavy load of large messages it would never lack less. For the same reason everybody waits for it
earlier: at a fourth of the limit of the log after `LAG_S` seconds, at a ninth after twice that.
"""


def _fill(settings: Settings, more: int, count: int, size_bytes: int) -> float:
    """Return how full a log of `count` entries is; `more` bytes are allowed beyond the settings."""
    return max(count / (settings.max_log + more // ENTRY_BYTES), size_bytes / (settings.max_log_bytes + more))


def tail_fill(settings: Settings, taken: int, count: int, size_bytes: int) -> float:
    """Return how full a learner is with the entries that it holds until it has the state; 1 or more is full.

    taken: bytes of the state that it has taken.
    """
    return _fill(settings, TAIL_FACTOR * taken, count, size_bytes)


class FlowControl:
    """Limits of the log of the present transfer."""

    def __init__(self, state: ReplicaState) -> None:
        self._state = state
        self.given_up: set[int] = set()
        """Replicas that made no progress while everybody waited for them."""
        self.missed: dict[int, int] = {}
        """For each replica: the number of views that counted on it and that it missed."""

    def fill(self, transfer: Transfer) -> float:
        """Return how full the log held for a transfer is; 1 or more is full.

        The limit grows with the state that the learner has received, or the transfer of a large state would
        start again and again under load. The application here holds a state of that size in memory, too.
        """
        log = self._state.log
        return _fill(self._state.settings, transfer.state_bytes, len(log), log.size_bytes)

    def hurry(self, transfer: Transfer, phase: StatePhase) -> float:
        """Return how much to shorten the pauses: 0 with a quarter free, 1 when full.

        What counts is the fuller one of the log here and the entries that the learner holds.
        """
        fill, tail = self.fill(transfer), phase.tail
        if tail is not None:
            taken = phase.chunks.acked_bytes
            fill = max(fill, tail_fill(self._state.settings, taken, len(tail), tail.acked_bytes))
        return min(max(0.0, 4 * fill - 3), 1.0)

    def full(self, transfer: Transfer) -> bool:
        """Return whether everybody waits for the learner: the master accepts nothing new."""
        return self._waits(transfer) and (self._held(transfer) or self.far(transfer))

    def _held(self, transfer: Transfer) -> bool:
        """Return whether the log held for the learner is full."""
        return transfer.hold is not None and self.fill(transfer) >= 1

    def _waits(self, transfer: Transfer) -> bool:
        return self._state.settings.mode == "ALL" and transfer.voter.replica not in self.given_up

    def overflows(self, now: float, transfer: Transfer) -> str:
        """Return why nobody waits for the learner any longer, which ends the transfer; "" if it goes on."""
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
