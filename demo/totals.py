"""Totals of the same agents, reached on several ways, and their comparison."""

from collections.abc import Iterable, Mapping

import attrs

from .flights import Number, Numbers

TotalsByAgent = Mapping[str, Numbers]
"""Name of an agent -> its numbers."""


@attrs.frozen
class Difference:
    """One number on which the ways disagree; an agent or number that a way does not know is shown as None."""

    agent: str
    number: str
    values: tuple[Number, ...]
    """In the order of the ways compared."""

    def __str__(self) -> str:
        return f"{self.agent}.{self.number}: " + " / ".join(str(value) for value in self.values)


@attrs.frozen
class Delivery:
    """How many notifications the agents got, against how many there are."""

    expected: int
    lost: int
    duplicated: int


def differences(ways: Iterable[TotalsByAgent]) -> list[Difference]:
    """Every number that is not the same on all ways."""
    found: list[Difference] = []
    compared = list(ways)
    for agent in sorted({agent for way in compared for agent in way}):
        rows = [way.get(agent, {}) for way in compared]
        names = sorted({name for row in rows for name in row})
        if not names:
            found.append(Difference(agent, "count", tuple(None for _ in rows)))
        for name in names:
            present = all(name in row for row in rows)
            values = tuple(row.get(name) for row in rows)
            if not present or len(set(values)) != 1:
                found.append(Difference(agent, name, values))
    return found


def delivery(expected: TotalsByAgent, reached: TotalsByAgent) -> Delivery:
    """Losses and repetitions among what the agents of `expected` got, from what they counted themselves.

    A repetition is recognised by its number, because numbers ascend. If the counts fit but the sums of the
    numbers do not, something was lost and something else took its place: counted as one of each.
    """
    total = lost = duplicated = 0
    for agent, numbers in expected.items():
        got = reached.get(agent, {})
        wanted = numbers.get("count") or 0
        repeated = got.get("repeated") or 0
        distinct = (got.get("count") or 0) - repeated
        total += wanted
        duplicated += repeated + max(0, distinct - wanted)
        lost += max(0, wanted - distinct)
        sums = ("rows_sum", "rows_squared_sum")
        if not repeated and distinct == wanted and any(got.get(name) != numbers.get(name) for name in sums):
            lost += 1
            duplicated += 1
    return Delivery(total, lost, duplicated)


def overall(totals: TotalsByAgent, agents: Iterable[str], number: str) -> int:
    """The sum of one number over some agents."""
    return sum(totals.get(agent, {}).get(number) or 0 for agent in agents)


def series_totals(length: int) -> Numbers:
    """The totals of an agent that got the numbers 1 to `length`, each once and in order."""
    return {
        "count": length,
        "last": length,
        "repeated": 0,
        "rows_sum": length * (length + 1) // 2,
        "rows_squared_sum": length * (length + 1) * (2 * length + 1) // 6,
    }
