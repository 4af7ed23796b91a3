"""Counters and gauges of a replica."""

__all__ = ["MAX_METRICS", "Metrics"]


MAX_METRICS = 1000


class Metrics:
    """Counters and gauges by name; at most MAX_METRICS of each, more names are ignored."""

    def __init__(self) -> None:
        self.counters: dict[str, int] = {}
        self.gauges: dict[str, float] = {}

    def count(self, metric: str, n: int = 1) -> None:
        """Add to a counter."""
        if metric in self.counters or len(self.counters) < MAX_METRICS:
            self.counters[metric] = self.counters.get(metric, 0) + n

    def gauge(self, metric: str, value: float) -> None:
        """Set a gauge."""
        if metric in self.gauges or len(self.gauges) < MAX_METRICS:
            self.gauges[metric] = value
