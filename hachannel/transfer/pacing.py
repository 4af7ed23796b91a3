"""How fast a master that serves gives its state to a learner. A leaf, pure.

Parts go in bursts. While the master serves, a burst is as long as the window, and after it nothing of the
transfer is under way, here, on the wire or at the learner, for a rest in proportion to it. So however much a
part holds up the master, say because the learner runs on the same machine, serving keeps its share of the
time; and the busier the machines are, the longer a burst takes, and so the rest.
"""

import attrs

__all__ = ["MAX_REST_S", "Pacing", "rest_after"]

MAX_REST_S = 2.0
"""Longest rest. A burst that would ask for more was delayed by something else."""


def rest_after(took_s: float, share: float, most_s: float, least_s: float = 0.0) -> float:
    """Return how long to rest, in seconds, after work of `took_s`, so that it takes this share of the time.

    The rest is within the two bounds: work that took longer was delayed by something else.
    """
    return min(max(least_s, took_s * (1 / share - 1)), most_s)


@attrs.define
class Pacing:
    """The bursts of one transfer. Times are those of `now`, in seconds."""

    share: float
    """The largest share of the time in which parts are in flight while the master serves."""
    least_s: float
    """The shortest rest, in seconds."""
    window: int
    """Parts in a burst."""
    _last: int
    """The end of the log when the last burst began or ended."""
    _began: float | None = None
    """When the burst began; None if nothing is in flight."""
    _given: int = 0
    """Parts of the burst."""
    _serves: bool = False
    """Entries were appended meanwhile."""
    rest_until: float = float("-inf")
    """The end of the rest after the last burst."""

    @property
    def wake(self) -> float | None:
        """When another part may be asked for; None: once those under way were taken."""
        return None if self._serves and self._given >= self.window else self.rest_until

    def asked(self, now: float, last: int) -> None:
        """A part is asked for. last: the end of the log."""
        if self._began is None:
            self._began, self._given = now, 0
            self._serves, self._last = last > self._last, last
        elif last > self._last and not self._serves:
            # It serves again: what is under way is a burst.
            self._began, self._given, self._serves = now, self.window, True
        self._given += 1

    def taken(self, now: float, last: int, *, hurry: float = 0.0) -> None:
        """The learner has taken all parts. hurry: from 0 to 1, where there is no time to rest at all."""
        if self._began is None:
            return
        took, self._began = now - self._began, None
        serves, self._serves = self._serves or last > self._last, False
        self._given, self._last = 0, last
        if serves and hurry < 1:
            share = self.share + (1 - self.share) * hurry
            self.rest_until = now + rest_after(took, share, MAX_REST_S, self.least_s * (1 - hurry))
