"""How much log a master holds for a learner, and how long all wait for one that needs more.

In mode ALL the members wait for a learner as they do for a slow slave: once the log that is held for it is
full, nothing is taken until it has come further, for `stall_s` at most, and not again if that was in vain. In
mode MAJORITY nobody waits.

While a state travels the learner itself holds what is ordered meanwhile: the log here is short as long as it
does.
"""

import math

from .session import Session
from .settings import Settings
from .state import State

__all__ = ["AHEAD", "ENTRY_BYTES", "Lending", "ahead_fill"]

ENTRY_BYTES = 1024
"""Of a state, once taken, let the log that is held for a learner have one entry more."""


AHEAD = 2
"""So much more may there be of what the learner itself holds until it has the state."""


def _fill(settings: Settings, more: int, count: int, size_bytes: int) -> float:
    """How full it is with so many entries of so many bytes, where there may be so many bytes more."""
    return max(count / (settings.max_log + more // ENTRY_BYTES), size_bytes / (settings.max_log_bytes + more))


def ahead_fill(settings: Settings, taken: int, count: int, size_bytes: int) -> float:
    """How full a learner is with the entries that it holds until it has the state; from 1 on it takes none.

    taken: bytes of the state that it has taken.
    """
    return _fill(settings, AHEAD * taken, count, size_bytes)


class Lending:
    """The log of the present transfer."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.in_vain: set[int] = set()
        """Replicas that did not come further while all waited for them."""

    def fill(self, session: Session) -> float:
        """How full the log is that is held for a transfer; from 1 on it is long enough.

        It may grow with the state that the learner has taken, which is in the memory of the application here,
        too: or a large state would begin anew again and again where much is submitted.
        """
        log = self._state.log
        return _fill(self._state.settings, session.outbox.acked_bytes, len(log), log.size_bytes)

    def hurry(self, session: Session) -> float:
        """How little the transfer may rest, lest either becomes full: from 0, a quarter is free, to 1.

        The log here, or what the learner holds of it until it has the state.
        """
        fill, lead = self.fill(session), session.lead
        if lead is not None:
            taken = session.outbox.acked_bytes
            fill = max(fill, ahead_fill(self._state.settings, taken, len(lead), lead.acked_bytes))
        return min(max(0.0, 4 * fill - 3), 1.0)

    def full(self, session: Session) -> bool:
        """Whether all wait for the learner: nothing new is taken."""
        return session.hold is not None and self._waits(session) and self.fill(session) >= 1

    def _waits(self, session: Session) -> bool:
        return self._state.settings.mode == "ALL" and session.voter.replica not in self.in_vain

    def overflows(self, now: float, session: Session) -> bool:
        """Whether the log is full, and the learner is not waited for, or not any more."""
        if session.hold is None or self.fill(session) < 1:
            session.filled = math.inf
            return False
        session.filled = min(session.filled, now)
        if not self._waits(session):
            return True
        if now - max(session.filled, session.came) < self._state.settings.stall_s:
            return False
        self.in_vain.add(session.voter.replica)
        return True
