"""Totals of the same agents from several sources, and their comparison."""

from collections.abc import Iterable, Mapping

import attrs

from .flights import Number, Numbers

TotalsByAgent = Mapping[str, Numbers]
"""The numbers of agents, by their names."""


@attrs.frozen
class Difference:
    """One number that differs between the sources; a source that lacks it, or its agent, has None."""

    agent: str
    number: str
    values: tuple[Number, ...]
    """One value for each source, in their order."""

    def __str__(self) -> str:
        return f"{self.agent}.{self.number}: " + " / ".join(str(value) for value in self.values)


@attrs.frozen
class Delivery:
    """The number of notifications there are, and how many of them the agents lost or got twice."""

    expected: int
    lost: int
    duplicated: int


def differences(sources: Iterable[TotalsByAgent]) -> list[Difference]:
    """Return every number that is not the same in all sources."""
    found: list[Difference] = []
    compared = list(sources)
    for agent in sorted({agent for source in compared for agent in source}):
        rows = [source.get(agent, {}) for source in compared]
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
    """Return the losses and repetitions among the notifications of agents, from their own counts.

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
    """Return the sum of one number over some agents."""
    return sum(totals.get(agent, {}).get(number) or 0 for agent in agents)


def series_totals(length: int) -> Numbers:
    """Return the totals of an agent that got the numbers 1 to `length`, each once and in order."""
    return {
        "count": length,
        "last": length,
        "repeated": 0,
        "rows_sum": length * (length + 1) // 2,
        "rows_squared_sum": length * (length + 1) * (2 * length + 1) // 6,
    }
