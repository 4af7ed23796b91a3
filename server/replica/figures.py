"""The figures of the queues and topics of a replica."""

from collections.abc import Mapping
from typing import Final, Protocol, runtime_checkable

from ...agents.lifecycle import MAX_LISTED, ListAgents
from ...engine import Engine
from ..http.figures import DestinationFigures

__all__ = ["MAX_DESTINATIONS", "destination_figures"]

KINDS: Final = ("queue", "topic")
"""The names of destinations begin so, and with a colon."""
MAX_DESTINATIONS: Final = 1000
"""Queues, and topics, of which figures are shown: the first ones by name."""


@runtime_checkable
class _Counting(Protocol):
    """An agent with figures."""

    def figures(self) -> Mapping[str, int]:
        """Return them by name."""
        ...


def destination_figures(engine: Engine) -> list[DestinationFigures]:
    """Return the figures of the queues and topics that agents are. They are not changed."""
    found: list[DestinationFigures] = []
    for kind in KINDS:
        after, seen = "", 0
        while seen < MAX_DESTINATIONS:
            page = engine.page(ListAgents(name=f"{kind}:*", after=after, limit=MAX_LISTED))
            for row in page.agents:
                cell = engine.find(row.id)
                if cell is not None and isinstance(cell.agent, _Counting):
                    name = row.name.partition(":")[2]
                    found.append(DestinationFigures(kind, name, cell.agent.figures()))
            seen += len(page.agents)
            after = page.next
            if not after:
                break
    return found
