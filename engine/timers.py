"""Timers of agents, part of the replicated state."""

import heapq
from itertools import islice

import attrs
import msgspec
from sortedcontainers import SortedDict

from ..agents import AgentId

__all__ = ["Timer", "Timers"]


class Timer(msgspec.Struct, array_like=True, frozen=True):
    """A notification that an agent receives later."""

    due_ns: int
    timer: int
    agent: AgentId
    type: str
    payload: bytes
    cause: int = 0
    """The position of the reaction that has set it."""


@attrs.define(eq=False)
class Timers:
    """All timers of a server, ordered by the time they are due, then by number."""

    next_due_ns: int | None = attrs.field(default=None, init=False)
    """The time at which the first timer is due; None if there is none. It is read for every batch."""
    _by_due: "SortedDict[tuple[int, int], Timer]" = attrs.field(factory=lambda: SortedDict({}))
    _due_of: dict[int, int] = attrs.field(factory=dict[int, int])
    _of_agent: dict[AgentId, dict[int, None]] = attrs.field(factory=dict[AgentId, dict[int, None]])

    def __len__(self) -> int:
        return len(self._by_due)

    def add(self, timer: Timer) -> None:
        """Arm a timer."""
        self._by_due[(timer.due_ns, timer.timer)] = timer
        self._due_of[timer.timer] = timer.due_ns
        self._of_agent.setdefault(timer.agent, {})[timer.timer] = None
        self._update_next_due()

    def has(self, agent: AgentId, number: int) -> bool:
        """Return whether a timer of `agent` is armed."""
        return number in self._of_agent.get(agent, ())

    def page(self, agent: AgentId | None, after: tuple[int, int] | None, limit: int) -> list[Timer]:
        """Return up to `limit` timers in the order in which they are due, those of `agent` or all.

        `after`: the `due_ns` and number of the last timer of the page before. The cost is that of the page,
        or of the agent's timers.
        """
        if agent is None:
            keys = list(islice(self._by_due.irange(after, None, (False, True)), limit))
        else:
            own = ((self._due_of[number], number) for number in self._of_agent.get(agent, ()))
            keys = heapq.nsmallest(limit, (key for key in own if after is None or key > after))
        return [self._by_due[key] for key in keys]

    def cancel(self, agent: AgentId, number: int) -> None:
        """Disarm a timer of `agent`. A timer that is not armed, or not its own, is ignored."""
        if number in self._of_agent.get(agent, ()):
            del self._by_due[(self._due_of[number], number)]
            self._forget(agent, number)
            self._update_next_due()

    def cancel_all(self, agent: AgentId) -> None:
        """Disarm all timers of an agent."""
        for number in list(self._of_agent.get(agent, ())):
            self.cancel(agent, number)

    def _forget(self, agent: AgentId, number: int) -> None:
        del self._due_of[number]
        numbers = self._of_agent[agent]
        del numbers[number]
        if not numbers:
            del self._of_agent[agent]

    def _update_next_due(self) -> None:
        self.next_due_ns = self._by_due.peekitem(0)[0][0] if self._by_due else None

    def pop_due(self, now_ns: int, limit: int) -> list[Timer]:
        """Remove and return the timers that are due, at most `limit`."""
        due: list[Timer] = []
        while self._by_due and len(due) < limit and self._by_due.peekitem(0)[0][0] <= now_ns:
            _, timer = self._by_due.popitem(0)
            self._forget(timer.agent, timer.timer)
            due.append(timer)
        self._update_next_due()
        return due

    def state(self) -> list[Timer]:
        """Return all timers, for a snapshot."""
        return list(self._by_due.values())
