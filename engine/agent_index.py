"""The agents of a server in the orders in which they are listed: by id, by class, by name."""

import heapq
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

import attrs
from sortedcontainers import SortedList

from ..agents import FIRST_CONNECTION_STAMP, FIRST_FREE_STAMP, AgentId
from ..agents.lifecycle import MAX_LISTED, ListAgents
from .cell import Cell

__all__ = ["AgentIndex", "is_platform"]

_MAX_EXAMINED: Final = 10_000
"""Agents that one page examines. Only a list by name and class may examine more than it has."""


def is_platform(identity: AgentId) -> bool:
    """Return whether an agent is one of the platform: reserved, a client connection, or a page of one."""
    return not FIRST_FREE_STAMP <= identity.stamp < FIRST_CONNECTION_STAMP


def _ids() -> "SortedList[AgentId]":
    return SortedList()


def _names() -> "SortedList[str]":
    return SortedList()


@attrs.define(eq=False)
class AgentIndex:
    """Ordered ids and names. A page costs what it returns, however many agents there are."""

    _own: "SortedList[AgentId]" = attrs.field(factory=_ids)
    _platform: "SortedList[AgentId]" = attrs.field(factory=_ids)
    _names: "SortedList[str]" = attrs.field(factory=_names)
    _by_class: "dict[str, SortedList[AgentId]]" = attrs.field(factory=lambda: {})
    """Ids by the name of the class."""
    _locations: dict[str, str] = attrs.field(factory=dict[str, str])
    """Names of classes by their ``module:Class``."""

    def add(self, cell: Cell) -> None:
        """Add an agent."""
        identity, spec = cell.identity, cell.spec
        (self._platform if is_platform(identity) else self._own).add(identity)
        if spec.name not in self._by_class:
            self._by_class[spec.name] = SortedList()
            self._locations[spec.location] = spec.name
        self._by_class[spec.name].add(identity)
        if cell.name is not None:
            self._names.add(cell.name)

    def remove(self, cell: Cell) -> None:
        """Remove an agent."""
        identity = cell.identity
        (self._platform if is_platform(identity) else self._own).remove(identity)
        self._by_class[cell.spec.name].remove(identity)
        if cell.name is not None:
            self._names.remove(cell.name)

    def page(self, ask: ListAgents, find: Callable[[AgentId | str], Cell | None]) -> tuple[list[Cell], str]:
        """Return the agents of a page, and where the next one begins, "" if there is none.

        Raises ValueError if `after` is no place in such a list.
        """
        limit = min(max(ask.limit, 1), MAX_LISTED)
        class_name = ask.class_name
        if class_name and class_name not in self._by_class:
            class_name = self._locations.get(class_name, class_name)
        places = self._places(ask, class_name)
        found: list[Cell] = []
        last = ""
        for place in islice(places, _MAX_EXAMINED):
            if len(found) == limit:
                return found, last
            cell = find(place)
            last = str(place)
            if cell is None or (class_name and cell.spec.name != class_name):
                continue
            if ask.platform or not is_platform(cell.identity):
                found.append(cell)
        return found, last if next(places, None) is not None else ""

    def _places(self, ask: ListAgents, class_name: str) -> Iterator[AgentId | str]:
        if ask.name:
            yield from self._named(ask)
        else:
            yield from self._identified(ask, class_name)

    def _named(self, ask: ListAgents) -> Iterator[AgentId | str]:
        if ask.name.startswith("#"):
            yield from () if ask.after else (AgentId.parse(ask.name),)
            return
        if not ask.name.endswith("*"):
            yield from () if ask.after else (ask.name,)
            return
        begin = ask.name[:-1]
        start, inclusive = (ask.after, False) if ask.after and ask.after >= begin else (begin, True)
        for name in self._names.irange(start, None, (inclusive, True)):
            if not name.startswith(begin):
                return
            yield name

    def _identified(self, ask: ListAgents, class_name: str) -> Iterator[AgentId]:
        after = AgentId.parse(ask.after) if ask.after else None
        if class_name:
            lists = [self._by_class[class_name]] if class_name in self._by_class else []
        else:
            lists = [self._own, self._platform] if ask.platform else [self._own]
        yield from heapq.merge(*(each.irange(after, None, (False, True)) for each in lists))
