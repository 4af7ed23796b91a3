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
from .transfer import Phase, Transfer

__all__ = ["AHEAD", "ENTRY_BYTES", "MIN_LAG", "FlowControl", "ahead_fill"]

ENTRY_BYTES = 1024
"""Of a state, once taken, let the log that is held for a learner have one entry more."""
AHEAD = 2
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


def ahead_fill(settings: Settings, taken: int, count: int, size_bytes: int) -> float:
    """How full a learner is with the entries that it holds until it has the state; from 1 on it takes none.

    taken: bytes of the state that it has taken.
    """
    return _fill(settings, AHEAD * taken, count, size_bytes)


class FlowControl:
    """The log of the present transfer."""

    def __init__(self, state: ReplicaState) -> None:
        self._state = state
        self.in_vain: set[int] = set()
        """Replicas that did not come further while all waited for them."""
        self.missed: dict[int, int] = {}
        """In how many views a replica was to be taken in, and was not."""

    def fill(self, session: Transfer) -> float:
        """How full the log is that is held for a transfer; from 1 on it is long enough.

        It may grow with the state that the learner has taken, which is in the memory of the application here,
        too: or a large state would begin anew again and again where much is submitted.
        """
        log = self._state.log
        return _fill(self._state.settings, session.outbox.acked_bytes, len(log), log.size_bytes)

    def hurry(self, session: Transfer) -> float:
        """How little the transfer may rest, lest either becomes full: from 0, a quarter is free, to 1.

        The log here, or what the learner holds of it until it has the state.
        """
        fill, lead = self.fill(session), session.lead
        if lead is not None:
            taken = session.outbox.acked_bytes
            fill = max(fill, ahead_fill(self._state.settings, taken, len(lead), lead.acked_bytes))
        return min(max(0.0, 4 * fill - 3), 1.0)

    def full(self, session: Transfer) -> bool:
        """Whether all wait for the learner: nothing new is taken."""
        return self._waits(session) and (self._held(session) or self.far(session))

    def _held(self, session: Transfer) -> bool:
        """Whether the log that is held for the learner is as long as it may be."""
        return session.hold is not None and self.fill(session) >= 1

    def _waits(self, session: Transfer) -> bool:
        return self._state.settings.mode == "ALL" and session.voter.replica not in self.in_vain

    def overflows(self, now: float, session: Transfer) -> str:
        """Why the transfer ends: the learner is not waited for, or not any more. Empty: it goes on."""
        held, waits = self._held(session), self._waits(session)
        if not held and not (waits and self.far(session)):
            session.filled = math.inf
            return ""
        session.filled = min(session.filled, now)
        if waits:
            if not session.awaited:
                session.awaited = True
                lacks = self._state.log.last.at - max(session.acked, self._state.log.base.at)
                self._state.note(f"all wait for replica {session.voter.replica}, which lacks {lacks} entries")
            if now - max(session.filled, session.came) < self._state.settings.stall_s:
                return ""
            self.in_vain.add(session.voter.replica)
        if held:
            return "the log has become too long meanwhile (max_log, max_log_bytes)"
        return "all wait for it, and it comes no further"

    # What a learner that follows lacks

    def _followed(self, session: Transfer) -> float:
        """From 1 on, how long it has followed."""
        return 1 + max(0.0, self._state.now - session.follows) / LAG_S

    def _most(self, session: Transfer) -> tuple[int, float]:
        """How many entries, and bytes, one that goes with the next view may lack."""
        settings = self._state.settings
        finer = 2 * self.missed.get(session.voter.replica, 0)
        count = max(max(settings.window, MIN_LAG) >> finer, LEAST_LAG)
        least_bytes = settings.transfer_window * settings.part_bytes
        return count, max(settings.window_bytes >> finer, least_bytes) * self._followed(session)

    def lag(self, session: Transfer) -> float:
        """How much is missing, in units of what may go with the next view."""
        state = self._state
        if session.phase is not Phase.ENTRIES or state.peers.suspects(session.voter):
            return math.inf
        log = state.log
        most, most_bytes = self._most(session)
        count = log.last.at - session.acked
        if not LEAST_LAG < count <= most:
            return count / most
        size = sum([len(log.get(index).payload) for index in range(session.acked + 1, log.last.at + 1)])
        return max(count / most, size / most_bytes)

    def far(self, session: Transfer) -> bool:
        """Whether more is missing than may be after so long a time.

        Not of one that came near enough and did not answer in time then, or not for a view: its disk or way
        is slow, and to wait for it again brings nothing.
        """
        state = self._state
        log, settings = state.log, state.settings
        silent = state.now - session.doubted > settings.view_change_s
        if session.phase is not Phase.ENTRIES or silent or self.missed.get(session.voter.replica):
            return False
        most, most_bytes = self._most(session)
        closer = self._followed(session) ** 2
        count = log.last.at - session.acked
        # As far as the mean size of an entry tells.
        size = count * log.size_bytes / max(len(log), 1)
        return (count > most and count * closer > settings.max_log) or (
            size > most_bytes and size * closer > settings.max_log_bytes
        )
