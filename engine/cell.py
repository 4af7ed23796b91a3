"""One agent in the engine: running a reaction, and undoing one that failed."""

from collections.abc import Callable
from typing import Final, NamedTuple

import attrs
import msgspec

from ..agents import Agent, AgentId, AgentSpec, Context, Note, Opaque
from .trace import outputs_hash

__all__ = ["Cell", "Nondeterministic", "Reacted", "Resolve", "Unfit", "Unhandled", "Unstorable"]

Resolve = Callable[[str | int], int]
"""A server's name or id to its id. Raises ValueError, with a sentence, for an unknown one."""

_SMALL: Final = 2048
"""Bytes of a state that is saved after every reaction."""
_LOG_FLOOR: Final = 8 * 1024
"""Bytes of reactions remembered before the state is saved again, for small states."""


class Unhandled(Exception):
    """The agent's class has no reaction to a notification of this type."""


class Unfit(ValueError):
    """The payload does not fit the type that it is said to have."""


class Unstorable(ValueError):
    """A reaction left a state that cannot be stored, or not be read back."""


class Nondeterministic(RuntimeError):
    """Running the same reactions again did not end the same way."""


@attrs.frozen
class _Ran:
    """What is needed to run a reaction again."""

    note: Note
    now_ns: int
    position: int
    stamp: int


class Reacted(NamedTuple):
    """What a reaction asked for, and the hash of it."""

    context: Context
    outputs: bytes


@attrs.define(eq=False)
class Cell:
    """An agent and what it takes to undo a failed reaction.

    A small state is saved after every reaction. Of a large one the cell keeps an older saved state and the
    reactions since: undoing loads the one and runs the others again. The state is saved anew when these
    reactions have outgrown it, so the cost of saving, spread over reactions, does not grow with the state.
    Saving shows whether the state can be stored; if it cannot, the reaction is undone.
    """

    identity: AgentId
    name: str | None
    spec: AgentSpec
    agent: Agent
    _saved: bytes = attrs.field(default=b"", alias="saved")
    _since: list[_Ran] = attrs.field(factory=list[_Ran])
    _since_bytes: int = 0
    reactions: int = 0

    @classmethod
    def load(cls, identity: AgentId, name: str | None, spec: AgentSpec, state: bytes) -> "Cell":
        """The agent whose saved state is `state`. Raises ValueError if it does not fit the class."""
        return cls(identity, name, spec, spec.load(state), saved=state)

    def react(self, note: Note, now_ns: int, position: int, stamp: int, resolve: Resolve) -> "Reacted":
        """Run one reaction and return what it asked for.

        Whatever it raises, the agent is afterwards as it was before. Raises `Unhandled` if no method takes
        the notification, `Unfit` if its payload cannot be decoded, `Unstorable` if the reaction left a state
        that cannot be stored, and anything that the agent's code raises.
        """
        try:
            context = self._run(note, now_ns, position, stamp, resolve)
            outputs = outputs_hash(context)
            size = self._since_bytes + len(note.payload) + 200
            if len(self._saved) <= _SMALL or size > max(_LOG_FLOOR, len(self._saved)):
                self._save()
            else:
                self._since.append(_Ran(note, now_ns, position, stamp))
                self._since_bytes = size
        except (Unhandled, Unfit):
            raise
        except (
            BaseException
        ):  # also SystemExit and KeyboardInterrupt: an agent's code ends nothing but itself
            self._undo(resolve)
            raise
        self.reactions += 1
        return Reacted(context, outputs)

    def _run(self, note: Note, now_ns: int, position: int, stamp: int, resolve: Resolve) -> Context:
        handler = self.spec.handlers.get(note.type)
        context = Context(
            agent=self.identity,
            name=self.name,
            sender=note.sender,
            request=note.request,
            now_ns=now_ns,
            position=position,
            next_stamp=stamp,
            resolve=resolve,
        )
        if handler is not None:
            method, decode = handler
            try:
                notification = decode(note.payload)
            except msgspec.DecodeError as error:
                raise Unfit(f"the payload does not fit {note.type}: {error}") from error
            method(self.agent, context, notification)
        elif self.spec.opaque is not None:
            self.spec.opaque(self.agent, context, Opaque(note.type, note.payload, note.request))
        else:
            raise Unhandled(f"{self.spec.name} does not react to {note.type}")
        return context

    def _undo(self, resolve: Resolve) -> None:
        self.agent = self.spec.load(self._saved)
        try:
            for ran in self._since:
                self._run(ran.note, ran.now_ns, ran.position, ran.stamp, resolve)
        except BaseException as error:
            raise Nondeterministic(
                f"{self.identity} ({self.spec.name}) cannot be restored: a reaction that succeeded before "
                f"failed when run again ({type(error).__name__}: {error}); reactions may depend only on "
                "state, notification and context"
            ) from error

    def _save(self) -> None:
        try:
            saved = self.spec.save(self.agent)
            self.spec.check(saved)
        except Exception as error:
            raise Unstorable(f"the state of {self.spec.name} can no longer be stored: {error}") from error
        self._saved = saved
        self._since = []
        self._since_bytes = 0

    def state(self) -> bytes:
        """The whole state, saved; also where an undo now starts from. Raises `Unstorable`."""
        self._save()
        return self._saved
