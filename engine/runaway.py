"""Agents that do not come to an end: the reports of a runaway turn, and of timers that fire without pause."""

from collections import Counter
from collections.abc import Sequence
from typing import Final, TypeVar

import attrs

from ..agents import AgentId, Note
from ..agents.proxy import CLIENT_INPUT
from .reaction import Reaction

__all__ = ["Runaways", "TimerRate", "runaway_report"]

T = TypeVar("T")

_NAMED_AGENTS: Final = 3
"""Agents that a report names."""
_LEAST_TURN: Final = 100
"""Reactions that a turn may have however many turns like it have run away in its entry."""
_LEAST_BYTES: Final = 64 * 1024
"""Bytes that it may have."""
_SECOND_NS: Final = 1_000_000_000
_REPORT_INTERVAL_NS: Final = 60 * _SECOND_NS


@attrs.define(eq=False)
class Runaways:
    """The runaway turns of the present entry, by the notification that began them.

    An entry may have a thousand notifications that each begin a runaway turn. Together they must not take
    much longer than one: each halves the bounds of the next turn of the same recipient and type.
    """

    _counts: Counter[tuple[AgentId | str, str]] = attrs.field(factory=Counter[tuple[AgentId | str, str]])

    def __bool__(self) -> bool:
        return bool(self._counts)

    def clear(self) -> None:
        """Forget all turns: the next entry begins."""
        self._counts.clear()

    def add(self, first: Note) -> None:
        """Record a runaway turn by its first notification."""
        self._counts[first.to, first.type] += 1

    def bounds(self, first: Note, max_turn: int, max_bytes: int) -> tuple[int, int]:
        """Return the reactions and bytes that the turn of `first` may have: all if none like it ran away."""
        halvings = self._counts[first.to, first.type]
        return (
            max(max_turn >> halvings, min(max_turn, _LEAST_TURN)),
            max(max_bytes >> halvings, min(max_bytes, _LEAST_BYTES)),
        )


def runaway_report(first: Note, reactions: Sequence[Reaction], waiting: int, exceeded: str) -> str:
    """Return the log line for a turn that was stopped.

    `first` is the external notification that began it, `reactions` are those of the turn, `waiting` is the
    number of notifications that go to the dead letters, `exceeded` says which limit was exceeded.
    """
    agents: Counter[tuple[AgentId, str]] = Counter()
    classes: Counter[str] = Counter()
    for reaction in reactions:
        if reaction.sends:
            agents[reaction.agent, reaction.cls] += reaction.sends
            classes[reaction.cls] += reaction.sends
    line = (
        f"the turn of {_beginning(first, reactions)} was stopped after {len(reactions)} "
        f"reactions, because {exceeded}; {waiting} waiting notifications went to the dead letters"
    )
    if agents:
        top = ", ".join(f"{agent} ({cls}) {sends}" for (agent, cls), sends in _top(agents, _NAMED_AGENTS))
        ((cls, sends),) = _top(classes, 1)
        line += f"; most were sent by the agents {top}; by the class {cls} {sends}"
    return f"{line}: local agents must not answer each other for ever"


def _beginning(first: Note, reactions: Sequence[Reaction]) -> str:
    """Return which notification began a turn, with its sender and recipient.

    The input of a client may hold many notifications, which its proxy agent forwards in one reaction. Of
    these it is the one whose recipient sent most in the turn.
    """
    if first.type != CLIENT_INPUT:
        return f"{first.type} from {first.sender} to {first.to}"
    sends: Counter[AgentId] = Counter()
    for reaction in reactions:
        sends[reaction.agent] += reaction.sends
    forwarded = [reaction for reaction in reactions if reaction.sender == first.to]
    if not forwarded:
        return f"{first.type} to {first.to}"
    begin = max(forwarded, key=lambda reaction: sends[reaction.agent])
    return f"{begin.type} from the client {begin.sender} to {begin.agent}"


def _top(counts: "Counter[T]", limit: int) -> list[tuple[T, int]]:
    return sorted(counts.items(), key=lambda each: (-each[1], str(each[0])))[:limit]


@attrs.define(eq=False)
class TimerRate:
    """Counts the timers of each agent that fire within one second of the log's time.

    It only serves the log: its counts are no part of the replicated state, and begin anew with a start.
    """

    _limit: int
    _second: int = 0
    _fired: dict[AgentId, int] = attrs.field(factory=dict[AgentId, int])
    _reported_ns: int | None = None

    def fired(self, agent: AgentId, now_ns: int) -> bool:
        """Count a timer of `agent`. Return whether to report it now: at most one agent a minute."""
        second = now_ns // _SECOND_NS
        if second != self._second:
            self._second = second
            self._fired.clear()
        count = self._fired[agent] = self._fired.get(agent, 0) + 1
        if count <= self._limit:
            return False
        if self._reported_ns is not None and now_ns - self._reported_ns < _REPORT_INTERVAL_NS:
            return False
        self._reported_ns = now_ns
        return True
