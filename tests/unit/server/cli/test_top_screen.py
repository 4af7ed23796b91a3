"""What `quorate top` shows of two moments."""

from typing import Any

import pytest
from rich.console import Console

from quorate.server.cli.top_screen import DestinationSample, Order, ReplicaSample, Sample, screen


def sample(at_s: float, replicas: list[ReplicaSample], *destinations: DestinationSample) -> Sample:
    return Sample(at_s, replicas, destinations, [])


def replica(id: int = 0, role: str = "master", **values: Any) -> ReplicaSample:
    return ReplicaSample("s0", id, role, {"pid": 7, "view": 1, "reactions": 0, "syncs": 0, **values})


def queue(name: str, **figures: int) -> DestinationSample:
    return DestinationSample("s0", "queue", name, {"messages": 0, "received": 0, "accepted": 0, **figures})


def lines(
    now: Sample, before: Sample | None = None, order: Order = Order.MESSAGES, rows: int = 50
) -> list[str]:
    terminal = Console(width=200, highlight=False)
    with terminal.capture() as captured:
        terminal.print(screen(now, before, order, rows, "title", paused=False))
    return [line.rstrip() for line in captured.get().splitlines()]


def row(found: list[str], begins: str) -> dict[str, str]:
    """Return a row of a table by its titles; none of its cells has two spaces."""
    line = next(each for each in found if each.startswith(begins))
    at = found.index(line)
    head = next(each for each in reversed(found[:at]) if each.startswith(("replica", "destination")))
    split = [[part.strip() for part in each.split("  ") if part.strip()] for each in (head, line)]
    return dict(zip(*split, strict=True))


def test_rates_are_those_between_two_moments() -> None:
    before = sample(10.0, [replica(reactions=100, syncs=10)], queue("a", received=5, accepted=5))
    now = sample(12.0, [replica(reactions=300, syncs=15)], queue("a", received=105, accepted=5, messages=100))
    found = lines(now, before)
    assert (row(found, "s0.0")["reactions/s"], row(found, "s0.0")["syncs/s"]) == ("100", "2.5")
    assert (row(found, "queue a")["in/s"], row(found, "queue a")["out/s"]) == ("50", "0")


@pytest.mark.parametrize("before", [None, sample(10.0, [replica(reactions=900)]), sample(10.0, [])])
def test_without_a_moment_before_it_there_is_no_rate(before: Sample | None) -> None:
    assert row(lines(sample(12.0, [replica(reactions=5)]), before), "s0.0")["reactions/s"] == "-"


def test_another_process_of_a_replica_counts_anew() -> None:
    before, now = sample(10.0, [replica(reactions=5, pid=1)]), sample(12.0, [replica(reactions=50, pid=2)])
    assert row(lines(now, before), "s0.0")["reactions/s"] == "-"


def test_a_replica_that_does_not_answer_has_its_role_only() -> None:
    found = lines(sample(0.0, [replica(), ReplicaSample("s0", 1, "down", {})]))
    assert next(line for line in found if line.startswith("s0.1")).split() == ["s0.1", "down"]


@pytest.mark.parametrize(
    ("order", "names"),
    [
        (Order.MESSAGES, ["b", "c", "a"]),
        (Order.IN, ["a", "b", "c"]),
        (Order.OUT, ["c", "a", "b"]),
        (Order.DEAD, ["a", "b", "c"]),
        (Order.NAME, ["a", "b", "c"]),
    ],
)
def test_orders(order: Order, names: list[str]) -> None:
    before = sample(0.0, [], queue("a"), queue("b"), queue("c"))
    now = sample(
        *(1.0, []),
        queue("c", messages=5, accepted=3),
        queue("a", messages=1, received=9),
        queue("b", messages=7),
    )
    found = [line.split()[1] for line in lines(now, before, order) if line.startswith("queue ")]
    assert found == names


def test_what_does_not_fit_is_counted() -> None:
    queues = [queue(f"q{number:02}") for number in range(30)]
    found = lines(sample(0.0, [replica()], *queues), rows=16)
    assert sum(line.startswith("queue") for line in found) == 10
    assert "and 20 more" in found
    assert len(found) <= 18


def test_problems_come_first_and_are_bounded() -> None:
    now = Sample(0.0, [replica()], [], [f"s0.0: problem {number}" for number in range(9)])
    found = lines(now)
    assert found[1] == "! s0.0: problem 0"
    assert "! and 3 more: quorate status" in found
