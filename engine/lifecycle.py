"""Reactions of the factory agent to requests about agents that exist."""

from collections.abc import Callable
from typing import Any

import attrs
import msgspec

from ..agents import AgentId, ExceptionNotification, Note, Notification, UnknownAgent, decode, factory
from ..agents.lifecycle import (
    MAX_LISTED,
    AgentPage,
    AgentRow,
    CancelTimer,
    DropDeadLetters,
    ListAgents,
    Pause,
    Paused,
    ResendDeadLetters,
    Resume,
    Resumed,
    Settled,
    TimerCancelled,
)
from ..agents.notification import UNREADABLE
from .agent_index import is_platform
from .cell import Cell
from .dead_letters import DeadLetters
from .directory import Directory
from .paused import PausedAgents
from .timers import Timers

__all__ = ["Lifecycle", "LifecycleResult", "row_of"]


@attrs.frozen
class LifecycleResult:
    """The result of a request."""

    answer: Notification
    error: str = ""
    resent: list[Note] = attrs.field(factory=list[Note])
    """Dead letters to be sent again."""


class _Refused(Exception):
    """Raised with the answer to a request that cannot be met."""

    def __init__(self, answer: Notification, reason: str) -> None:
        super().__init__(reason)
        self.answer = answer


def row_of(cell: Cell, paused: PausedAgents) -> AgentRow:
    """Return the row of an agent in a list."""
    identity = cell.identity
    return AgentRow(
        identity, cell.name or "", cell.spec.name, cell.reactions, identity in paused, paused.held(identity)
    )


@attrs.frozen
class Lifecycle:
    """The parts of an engine's state that the requests concern."""

    server: int
    directory: Directory
    paused: PausedAgents
    timers: Timers
    letters: DeadLetters

    def react(self, note: Note) -> LifecycleResult:
        """Serve a request of one of the `LIFECYCLE_TYPES`."""
        reactions: dict[str, tuple[Any, Callable[[Any], LifecycleResult]]] = {
            ListAgents.type_name: (ListAgents, self._list),
            Pause.type_name: (Pause, self._pause),
            Resume.type_name: (Resume, self._resume),
            CancelTimer.type_name: (CancelTimer, self._cancel),
            ResendDeadLetters.type_name: (ResendDeadLetters, self._resend),
            DropDeadLetters.type_name: (DropDeadLetters, self._drop),
        }
        kind, serve = reactions[note.type]
        try:
            return serve(decode(kind, note.payload))
        except _Refused as refused:
            return LifecycleResult(refused.answer, str(refused))
        except UNREADABLE as error:
            return self._failed(note.type, "Unfit", f"the payload does not fit {note.type}: {error}")
        except ValueError as error:
            return self._failed(note.type, "ValueError", str(error))

    def _failed(self, type: str, error: str, message: str) -> LifecycleResult:
        return LifecycleResult(ExceptionNotification(factory(self.server), type, error, message), message)

    def _list(self, ask: ListAgents) -> LifecycleResult:
        cells, after = self.directory.index.page(ask, self.directory.find)
        return LifecycleResult(AgentPage([row_of(cell, self.paused) for cell in cells], after))

    def _pause(self, ask: Pause) -> LifecycleResult:
        own = ask.agent == str(factory(self.server))
        cell = None if own else self._find(ask.agent, Pause)
        if cell is None or is_platform(cell.identity):
            message = f"{ask.agent} belongs to the platform and cannot be paused"
            failure = ExceptionNotification(factory(self.server), Pause.type_name, "PermissionError", message)
            raise _Refused(failure, message)
        self.paused.pause(cell.identity)
        return LifecycleResult(Paused(cell.identity))

    def _resume(self, ask: Resume) -> LifecycleResult:
        identity = self._find(ask.agent, Resume).identity
        return LifecycleResult(Resumed(identity, self.paused.resume(identity)))

    def _cancel(self, ask: CancelTimer) -> LifecycleResult:
        cell = self._find(ask.agent, CancelTimer)
        if not self.timers.has(cell.identity, ask.timer):
            raise ValueError(
                f"{ask.agent} has no timer {ask.timer}: it has fired, was cancelled, or is of another agent"
            )
        self.timers.cancel(cell.identity, ask.timer)
        return LifecycleResult(TimerCancelled(ask.timer))

    def _resend(self, ask: ResendDeadLetters) -> LifecycleResult:
        resent: list[Note] = []
        incomplete: list[int] = []
        known, unknown = self._known(ask.numbers)
        for number in known:
            letter = self.letters.find(number)
            assert letter is not None
            if not letter.whole:
                incomplete.append(number)
                continue
            self.letters.remove(number)
            to = ask.to or letter.note.to
            # Nobody waits for the answer to the former request any more.
            resent.append(msgspec.structs.replace(letter.note, to=to, request=0))
        settled = [number for number in known if number not in incomplete]
        return LifecycleResult(Settled(settled, unknown, incomplete), resent=resent)

    def _drop(self, ask: DropDeadLetters) -> LifecycleResult:
        known, unknown = self._known(ask.numbers)
        for number in known:
            self.letters.remove(number)
        return LifecycleResult(Settled(known, unknown, []))

    def _known(self, numbers: list[int]) -> tuple[list[int], list[int]]:
        """Return the numbers of letters that are kept, and those that are not."""
        if len(numbers) > MAX_LISTED:
            raise ValueError(f"a request names at most {MAX_LISTED} dead letters, not {len(numbers)}")
        asked = list(dict.fromkeys(numbers))
        known = [number for number in asked if self.letters.find(number) is not None]
        return known, [number for number in asked if self.letters.find(number) is None]

    def _find(self, agent: str, kind: type[Notification]) -> Cell:
        """Return the agent at an id or name. Raises _Refused."""
        try:
            address: AgentId | str = AgentId.parse(agent) if agent.startswith("#") else agent
        except ValueError:
            address = agent
        cell = self.directory.find(address)
        if cell is None:
            raise _Refused(UnknownAgent(agent, kind.type_name), f"no agent {agent}")
        return cell
