"""Pacing: bursts and rests, so that a master can serve while it sends its state. A leaf, pure.

Parts are sent in bursts. While the master serves, a burst has as many parts as the window, and is followed by
a rest in proportion to its duration, in which no part is in flight. So serving keeps its share of the time,
however much a part delays the master, for example because the learner runs on the same machine. Busy machines
make bursts, and so rests, longer.
"""

import attrs

__all__ = ["MAX_REST_S", "Pacing", "rest_after"]

MAX_REST_S = 2.0
"""Longest rest, in seconds. A burst so long that it would need more was delayed by something else."""


def rest_after(took_s: float, share: float, most_s: float, least_s: float = 0.0) -> float:
    """Return the rest, in seconds, after work of `took_s` seconds that may take `share` of the time.

    The rest is from `least_s` to `most_s`: longer work was delayed by something else.
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
    """Number of parts in a burst."""
    _last: int
    """The end of the log when the last burst began or ended."""
    _began: float | None = None
    """Start of the burst; None if no part is in flight."""
    _given: int = 0
    """Number of parts of the burst so far."""
    _serves: bool = False
    """Entries were appended during the burst, so the master serves."""
    rest_until: float = float("-inf")
    """The end of the rest after the last burst."""

    @property
    def wake(self) -> float | None:
        """Time when the next part may be asked for; None until the parts in flight are acknowledged."""
        return None if self._serves and self._given >= self.window else self.rest_until

    def asked(self, now: float, last: int) -> None:
        """Note that a part is asked for. last: index of the last entry of the log."""
        if self._began is None:
            self._began, self._given = now, 0
            self._serves, self._last = last > self._last, last
        elif last > self._last and not self._serves:
            # The master serves again: the parts in flight count as a full burst.
            self._began, self._given, self._serves = now, self.window, True
        self._given += 1

    def acked(self, now: float, last: int, *, hurry: float = 0.0) -> None:
        """Note that all parts are acknowledged. hurry: from 0 to 1, which leaves no rest at all."""
        if self._began is None:
            return
        took, self._began = now - self._began, None
        serves, self._serves = self._serves or last > self._last, False
        self._given, self._last = 0, last
        if serves and hurry < 1:
            share = self.share + (1 - self.share) * hurry
            self.rest_until = now + rest_after(took, share, MAX_REST_S, self.least_s * (1 - hurry))
