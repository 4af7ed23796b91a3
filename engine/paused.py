"""Paused agents, and the notifications that wait until they are resumed."""

from collections import deque
from collections.abc import Iterable

import attrs
import msgspec

from ..agents import AgentId, Note
from .settings import EngineSettings

__all__ = ["PausedAgents", "PausedState"]


class PausedState(msgspec.Struct, array_like=True, frozen=True):
    """A paused agent, as a snapshot holds it."""

    agent: AgentId
    notes: list[Note]


@attrs.define(eq=False)
class _Held:
    notes: deque[Note] = attrs.field(factory=deque[Note])
    size_bytes: int = 0


class PausedAgents:
    """The paused agents of a server. A part of the replicated state."""

    def __init__(self, states: Iterable[PausedState] = ()) -> None:
        self._held: dict[AgentId, _Held] = {}
        self.resuming: deque[AgentId] = deque()
        """Agents that are resumed once what waits for them is delivered. Empty between two entries."""
        self.notes = 0
        """Notifications that wait for all of them."""
        self.size_bytes = 0
        """Bytes of their payloads."""
        for state in states:
            self.pause(state.agent)
            for note in state.notes:
                self._put(self._held[state.agent], note)

    def __bool__(self) -> bool:
        return bool(self._held)

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, agent: AgentId) -> bool:
        return agent in self._held

    def held(self, agent: AgentId) -> int:
        """Return how many notifications wait for an agent; 0 if it is not paused."""
        held = self._held.get(agent)
        return 0 if held is None else len(held.notes)

    def pause(self, agent: AgentId) -> None:
        """Pause an agent. A paused one stays so, also if it was about to be resumed."""
        self._held.setdefault(agent, _Held())
        if agent in self.resuming:
            self.resuming.remove(agent)

    def resume(self, agent: AgentId) -> int:
        """Begin to resume an agent. Return how many notifications wait for it.

        Until the last of them is taken the agent counts as paused: what comes meanwhile waits behind them.
        """
        if agent not in self._held:
            return 0
        if agent not in self.resuming:
            self.resuming.append(agent)
        return len(self._held[agent].notes)

    def take(self) -> Note | None:
        """Take the next notification for the first agent that is being resumed; None if no more waits.

        An agent for which nothing waits any more is not paused from then on.
        """
        while self.resuming:
            agent = self.resuming[0]
            held = self._held[agent]
            if held.notes:
                note = held.notes.popleft()
                size = len(note.payload)
                held.size_bytes -= size
                self.size_bytes -= size
                self.notes -= 1
                return note
            self.resuming.popleft()
            del self._held[agent]
        return None

    def remove(self, agent: AgentId) -> deque[Note]:
        """Forget an agent that is deleted. Return what waited for it, in the order in which it came."""
        held = self._held.pop(agent, None)
        if held is None:
            return deque()
        if agent in self.resuming:
            self.resuming.remove(agent)
        self.notes -= len(held.notes)
        self.size_bytes -= held.size_bytes
        return held.notes

    def hold(self, agent: AgentId, note: Note, settings: EngineSettings) -> str:
        """Keep a notification for a paused agent. Return why there is no room for it, "" if it is kept."""
        held = self._held[agent]
        notes, size = len(held.notes), len(note.payload)
        if notes >= settings.max_held or held.size_bytes + size > settings.max_held_bytes:
            return (
                f"{agent} is paused, and {notes} notifications of {held.size_bytes} bytes wait for it; "
                f"at most {settings.max_held} of {settings.max_held_bytes} bytes may: resume it"
            )
        full = self.size_bytes + size > settings.max_all_held_bytes
        if full or self.notes >= settings.max_all_held:
            return (
                f"{agent} is paused, and {self.notes} notifications of {self.size_bytes} bytes wait for "
                f"paused agents already; at most {settings.max_all_held} of {settings.max_all_held_bytes} "
                "bytes may: resume some of them"
            )
        self._put(held, note)
        return ""

    def hold_timer(self, agent: AgentId, note: Note) -> None:
        """Keep the notification of a timer, whatever waits already: a lost timer would stop its agent.

        An agent has as many of them at most as it has set timers.
        """
        self._put(self._held[agent], note)

    def _put(self, held: _Held, note: Note) -> None:
        size = len(note.payload)
        held.notes.append(note)
        held.size_bytes += size
        self.notes += 1
        self.size_bytes += size

    def states(self) -> list[PausedState]:
        """Return the form for a snapshot."""
        return [PausedState(agent, list(held.notes)) for agent, held in self._held.items()]

    def facts(self) -> list[tuple[AgentId, int, int]]:
        """Return the facts that must be the same on all replicas, for the digest."""
        return sorted((agent, len(held.notes), held.size_bytes) for agent, held in self._held.items())
