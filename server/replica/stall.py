"""Detection of an entry that takes long, from samples of what the engine runs. Pure."""

from typing import Final

import attrs

__all__ = ["Sample", "StallDetector"]

FIRST_REPORT_S: Final = 1.0
"""An entry is reported when it has been running for this time."""
LONGEST_PAUSE_S: Final = 60.0
"""The pause between two reports of one entry doubles up to this."""
STOOD_STILL_S: Final = 1.0
"""A sample that comes later than this after the one before means that the process did not run."""


@attrs.frozen
class Sample:
    """What the engine ran at some moment."""

    entry: int
    """The entry that is applied; 0: none."""
    birth: int


@attrs.define
class StallDetector:
    """Says when to report that an entry takes long, and that it is over."""

    seconds: float = 0.0
    """How long the present entry has been running."""
    reports: int = 0
    """Reports of the present entry so far."""
    _sample: Sample | None = None
    _since: float = 0.0
    _next_s: float = FIRST_REPORT_S
    _observed_at: float | None = None

    def observe(self, now: float, sample: Sample) -> bool:
        """Process a sample; return whether to report the entry now."""
        gap_s = 0.0 if self._observed_at is None else now - self._observed_at
        self._observed_at = now
        if not sample.entry or sample != self._sample:
            self._sample, self._since = sample, now
            self.seconds, self.reports, self._next_s = 0.0, 0, FIRST_REPORT_S
            return False
        if gap_s > STOOD_STILL_S:
            self._since += gap_s
        self.seconds = now - self._since
        if self.seconds < self._next_s:
            return False
        self.reports += 1
        self._next_s = self.seconds + min(LONGEST_PAUSE_S, max(FIRST_REPORT_S, self.seconds))
        return True
