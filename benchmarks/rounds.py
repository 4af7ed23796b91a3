"""Rounds of a load, and what is printed of them."""

import statistics
from collections.abc import Callable, Mapping, Sequence

Round = Callable[[int, float], tuple[float, list[float]]]
"""Takes a window and seconds; returns messages a second and latencies in seconds."""


def report(name: str, window: int, rounds: list[tuple[float, list[float]]]) -> float:
    """Print the median rate and the latencies of rounds. Return the rate."""
    rate = statistics.median(each for each, _ in rounds)
    latencies = sorted(latency for _, found in rounds for latency in found)
    p50, p99, most = (
        latencies[min(len(latencies) - 1, int(len(latencies) * part))] for part in (0.5, 0.99, 1)
    )
    spread = f"{min(each for each, _ in rounds):,.0f} to {max(each for each, _ in rounds):,.0f}"
    print(
        f"{name:<10} window {window:>5}  {rate:>9,.0f}/s ({spread})  "
        f"p50 {p50 * 1e3:.2f} ms  p99 {p99 * 1e3:.2f} ms  max {most * 1e3:.0f} ms"
    )
    return rate


def compare(peers: Mapping[str, Round], windows: Sequence[int], rounds: int, seconds: float) -> None:
    """Measure peers by turns, and print their rates, and the ratio of Quorate's to RabbitMQ's."""
    for window in windows:
        found: dict[str, list[tuple[float, list[float]]]] = {name: [] for name in peers}
        for _ in range(rounds):
            for name, measure in peers.items():
                found[name].append(measure(window, seconds))
        rates = {name: report(name, window, each) for name, each in found.items()}
        if "rabbitmq" in rates:
            print(f"{'':<10} ratio {rates['quorate'] / rates['rabbitmq']:.2f}", flush=True)
