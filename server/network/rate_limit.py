"""A limit on repeated log lines."""

from collections.abc import Callable

__all__ = ["LOG_LINES", "LOG_PERIOD_S", "RateLimit"]


LOG_LINES = 10


LOG_PERIOD_S = 10.0
"""At most LOG_LINES lines about bad connections are written in each LOG_PERIOD_S seconds."""


class RateLimit:
    """Writes a few lines in each period, and counts the others."""

    def __init__(
        self, log: Callable[[str], None], lines: int = LOG_LINES, period_s: float = LOG_PERIOD_S
    ) -> None:
        self._log = log
        self._lines = lines
        self._period_s = period_s
        self._since = float("-inf")
        self._written = 0
        self._omitted = 0

    def line(self, now: float, text: str) -> None:
        """Log `text` unless this period has had its lines; the next period begins with the number omitted."""
        if now - self._since >= self._period_s:
            if self._omitted:
                self._log(f"{self._omitted} more lines about bad connections were left out")
            self._since = now
            self._written = self._omitted = 0
        if self._written < self._lines:
            self._written += 1
            self._log(text)
        else:
            self._omitted += 1
