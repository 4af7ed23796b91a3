"""The monotonic clock of a simulated machine: it starts at any reading, and runs too fast or too slow."""

from random import Random

__all__ = ["MachineClock"]


class MachineClock:
    """The clock of one machine, drawn from the seed. Without drift it reads the virtual time."""

    def __init__(self, seed: int, replica: int, drift: float) -> None:
        """drift: largest deviation of its rate from 1, as a fraction."""
        self._rate, self._ahead_s = 1.0, 0.0
        if drift:
            random = Random(f"clock {seed} {replica}")
            self._rate = random.choice([1 - drift, 1 + drift, random.uniform(1 - drift, 1 + drift)])
            self._ahead_s = random.uniform(0.0, 1000.0)

    def read(self, now: float) -> float:
        """Return the reading at a virtual time, in seconds."""
        return self._ahead_s + self._rate * now

    def when(self, reading: float) -> float:
        """Return the virtual time of a reading, or a moment later, never earlier."""
        # Rounded down, an alarm would ring again and again before its time.
        return (reading - self._ahead_s) / self._rate + (1e-9 if self._ahead_s else 0.0)
