"""Counts and latencies of a load."""

import math
import random
from pathlib import Path
from typing import Any, Final

import attrs

from ...server.cli.common import CommandError

__all__ = ["Counts", "LoadRun", "draw", "percentile_ms"]

MAX_SAMPLES: Final = 200_000
"""Latencies that are kept; of more, a random choice of that size."""


@attrs.define
class Counts:
    """What has happened so far; each thread has its own."""

    sent: int = 0
    received: int = 0
    other: int = 0
    """Messages that another program had sent."""
    samples: list[int] = attrs.field(factory=list[int])
    """Latencies in nanoseconds."""

    def add(self, latency_ns: int) -> None:
        """Count a message that was received."""
        self.received += 1
        if len(self.samples) < MAX_SAMPLES:
            self.samples.append(latency_ns)
        else:
            place = random.randrange(self.received)
            if place < MAX_SAMPLES:
                self.samples[place] = latency_ns


class LoadRun:
    """A load that runs, or has run. Each of its threads or connections has counts of its own."""

    def __init__(self, counts: int) -> None:
        self.counts = [Counts() for _ in range(counts)]
        self.failures: list[BaseException] = []
        self.series: list[tuple[float, int, int]] = []
        """Seconds since the begin, messages sent and received until then."""

    @property
    def sent(self) -> int:
        """Messages that were sent."""
        return sum([each.sent for each in self.counts])

    @property
    def received(self) -> int:
        """Messages of this run that were received."""
        return sum([each.received for each in self.counts])

    def latencies_ns(self) -> list[int]:
        """Return the latencies that were kept, sorted."""
        return sorted(sample for each in self.counts for sample in each.samples)


def percentile_ms(latencies_ns: list[int], percent: float) -> float:
    """Return a percentile of sorted latencies in milliseconds, NaN if there are none."""
    if not latencies_ns:
        return math.nan
    return latencies_ns[min(len(latencies_ns) - 1, int(len(latencies_ns) * percent / 100))] / 1e6


def draw(run: LoadRun, latencies_ns: list[int], path: Path) -> None:
    """Draw rates over time, and the distribution of latencies, into a file. Raises CommandError."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise CommandError("A plot needs matplotlib: pip install 'quorate[replay]'.") from None
    figure: Any = Figure(figsize=(9, 4), layout="constrained")
    rates, spread = figure.subplots(1, 2)
    times = [each[0] for each in run.series]
    for name, place in (("sent", 1), ("received", 2)):
        values = [0, *(each[place] for each in run.series)]
        steps = [0.0, *times]
        points = range(1, len(steps))
        rates.plot(
            times,
            [(values[at] - values[at - 1]) / max(steps[at] - steps[at - 1], 1e-3) for at in points],
            label=name,
        )
    rates.set(xlabel="seconds", ylabel="messages a second", ylim=(0, None))
    rates.legend()
    if latencies_ns:
        percents = [each / 10 for each in range(1000)]
        spread.plot(percents, [percentile_ms(latencies_ns, each) for each in percents])
        spread.set(xlabel="percent of the messages", ylabel="at most so many milliseconds", yscale="log")
    try:
        figure.savefig(path)
    except (OSError, ValueError) as error:
        raise CommandError(f"{path} cannot be written: {error}.") from error
