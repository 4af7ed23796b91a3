"""Running the reactions of one agent again, from a trace."""

from collections.abc import Callable
from typing import Final

from ..agents import Agent, AgentError, AgentId, AgentSpec, Note, Outcome, agent_spec
from .cell import Cell, upgraded
from .class_loading import Program, load_class, stored_class
from .reaction import encode_requests
from .recursion import FixedDepth

__all__ = ["Rerun"]

_FRAMES_TO_REACTION: Final = 3
"""Calls from `Rerun.apply` to a method of an agent: react, _run, method."""


class Rerun:
    """Runs the traced reactions of one agent again, with the same context values."""

    def __init__(
        self,
        agent: AgentId,
        cls: str,
        state: bytes,
        name: str | None = None,
        resolve: Callable[[str | int], int] | None = None,
        load: Callable[[str], AgentSpec] = load_class,
        location: str = "",
    ) -> None:
        """Begin with the state of the ``create`` record, or with that of a `Snapshot`.

        `cls` is the name of the class, `location` the ``module:Class`` it was created from, "" if `cls` is.
        A state of a former version is upgraded.
        `resolve` gives server ids by name, for agents that address others by ``name@server``; without it
        numbers only are known. Raises AgentError if the class cannot be loaded, ValueError if the state does
        not fit it.
        """
        self._program = Program(load)
        spec = stored_class(self._program, cls, location)
        if cls in spec.former:
            state = upgraded(spec, cls, state)
        self._cell = Cell.create(agent, name or None, spec, state)
        self._resolve = resolve or _lenient
        self.deleted = False
        """True if the last reaction has deleted the agent."""
        self._outcome: Outcome | None = None

    @property
    def agent(self) -> Agent:
        """The agent as it is now. It must not be changed."""
        return self._cell.agent

    def apply(
        self, position: int, now_ns: int, sender: AgentId, type: str, payload: bytes, request: int, stamp: int
    ) -> bytes:
        """React to one traced notification. Returns the hash of the outputs, to compare with the traced one.

        Raises what the reaction raises. The agent then has the state from before, as it had in the engine.
        """
        note = Note(self._cell.identity, sender, type, payload, request)
        self._outcome = None
        with FixedDepth(_FRAMES_TO_REACTION):
            context, outputs, _ = self._cell.react(note, now_ns, position, stamp, self._resolve)
        self._outcome = context.outcome
        self.deleted = context.outcome is not None and context.outcome.deleted
        return outputs

    def requests(self) -> bytes:
        """Return what the last reaction has asked for, as the column `requests` of the trace has it."""
        return encode_requests(self._outcome)

    def become(self, cls: str) -> None:
        """Go on as the version of the class to which the server has switched, with its upgrades.

        `cls` is the name of that class. Does nothing if the agent has it already. Raises AgentError if this
        process does not have it, ValueError if the state cannot be upgraded.
        """
        former = self._cell.spec
        if cls in former.names:
            return
        found = self._program.named(cls)
        if found is None:
            raise AgentError(
                f"from some entry on it is a {cls}, which is not imported here; let the module of "
                f"{former.location} import that class for the replay"
            )
        spec = agent_spec(found)
        state = self._cell.state()
        if former.name in spec.former:
            state = upgraded(spec, former.name, state)
        self._cell.replace(spec, state, spec.load(state))

    def has_name(self, cls: str) -> bool:
        """Return whether states of this class, by its name, are those of the agent as it is now."""
        return self._cell.spec.name == cls

    def state(self) -> bytes:
        """Return the present state as a MessagePack map."""
        return self._cell.state()


def _lenient(server: str | int) -> int:
    """Without the configuration any name will do: outputs carry names as they were written."""
    return server if isinstance(server, int) else 0
