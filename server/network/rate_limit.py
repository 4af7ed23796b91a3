"""A limit on repeated log lines."""

from collections.abc import Callable

__all__ = ["LOG_LINES", "LOG_PERIOD_S", "RateLimit"]


LOG_LINES = 10


LOG_PERIOD_S = 10.0
"""At most so many lines about bad connections in such a period."""


class RateLimit:
    """Lets a few lines through in each period and tells how many it kept back."""

    def __init__(
        self, log: Callable[[str], None], lines: int = LOG_LINES, period_s: float = LOG_PERIOD_S
    ) -> None:
        self._log = log
        self._lines = lines
        self._period_s = period_s
        self._since = float("-inf")
        self._written = 0
        self._kept_back = 0

    def line(self, now: float, text: str) -> None:
        """Log `text` unless too much was logged since the period began."""
        if now - self._since >= self._period_s:
            if self._kept_back:
                self._log(f"{self._kept_back} more lines about bad connections were left out")
            self._since = now
            self._written = self._kept_back = 0
        if self._written < self._lines:
            self._written += 1
            self._log(text)
        else:
            self._kept_back += 1
