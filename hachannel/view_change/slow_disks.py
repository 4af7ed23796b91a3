"""The time that slow disks need in a view change, which does not count as time of the attempt.

A replica answers a proposer once its disk has confirmed what it promised or accepted. Its heartbeats say that
it has the message, and that its disk is slow. Timeouts then do not count until the disk has confirmed a
write, or has needed `stall_s` for it: such a disk hangs.
"""

from ..replication.peers import writes
from ..replication.replica_state import ReplicaState

__all__ = ["SlowDisks"]


class SlowDisks:
    """Measures the time in which this replica, or another one in this view change, waits for its disk."""

    def __init__(self, state: ReplicaState) -> None:
        self._state = state
        self._last = 0.0

    def pause(self, now: float) -> float:
        """Return the seconds since the last call if a disk is slow now, and 0 if none is."""
        passed, self._last = now - self._last, now
        return passed if self._slow(now) else 0.0

    def _slow(self, now: float) -> bool:
        state = self._state
        if writes(state.writing_since, now, state.settings.stall_s):
            return True
        return any(
            link.heartbeat is not None
            and link.heartbeat.promised >= state.promised
            and link.voter is not None
            and state.peers.writes(link.voter, now)
            for link in state.peers
        )
