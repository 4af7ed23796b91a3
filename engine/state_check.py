"""A check of stored agents: which of them the classes of this process cannot load, and why."""

from collections.abc import Iterable, Iterator

import attrs
import msgspec

from ..agents import FIRST_FREE_STAMP, AgentError, AgentId, AgentSpec
from .cell import AgentState, Cell, Resolve, titled
from .class_loading import Program
from .snapshot.transfer import spec_of

__all__ = ["StateCheck", "StateFinding"]


@attrs.frozen
class StateFinding:
    """What the check found about one agent."""

    agent: AgentId
    name: str | None
    cls: str
    """The name of the class under which it is stored."""
    sentence: str
    """Names agent and class, the attribute where there is one, what is wrong and what to do."""
    loads: bool = False
    """True for a note: the agent can be loaded."""


class StateCheck:
    """Loads stored agents one by one, as a start would, and keeps none of them."""

    def __init__(self, resolve: Resolve, program: Program | None = None) -> None:
        """`resolve` gives server ids, for reactions that must be run again; `program` finds the classes."""
        self._resolve = resolve
        self._program = program or Program()
        self._specs: dict[tuple[str, str], AgentSpec | str] = {}
        """By the stored name and location of a class: the class, or why there is none."""
        self._noted: set[tuple[str, str]] = set()
        self.checked = 0
        """Agents so far, those of the platform included."""
        self.upgrades: dict[tuple[str, str], int] = {}
        """How many agents would be upgraded, by the names of their classes: stored, and here."""

    def run(self, agents: Iterable[AgentState]) -> Iterator[StateFinding]:
        """Yield what a start would refuse, and a note for each attribute whose stored values it would leave
        out."""
        for state in agents:
            self.checked += 1
            spec = self._spec(state)
            if isinstance(spec, str):
                yield StateFinding(state.identity, state.name, state.cls, f"{titled(state)}: {spec}")
                continue
            try:
                Cell.load(state, spec, self._resolve)
            except (Exception, SystemExit) as error:
                yield StateFinding(state.identity, state.name, state.cls, str(error))
                continue
            if state.cls in spec.former:
                key = state.cls, spec.name
                self.upgrades[key] = self.upgrades.get(key, 0) + 1
            elif state.identity.stamp >= FIRST_FREE_STAMP:
                yield from self._left_out(state, spec)

    def _spec(self, state: AgentState) -> AgentSpec | str:
        key = state.cls, state.location
        if key not in self._specs:
            try:
                self._specs[key] = spec_of(self._program, state)
            except AgentError as error:
                self._specs[key] = str(error).removeprefix(f"{titled(state)}: ")
        return self._specs[key]

    def _left_out(self, state: AgentState, spec: AgentSpec) -> Iterator[StateFinding]:
        """Note stored attributes that the class does not have, each once."""
        stored = msgspec.msgpack.decode(state.state, type=dict[str, msgspec.Raw])
        for attribute in stored:
            key = state.cls, attribute
            if attribute not in spec.attributes and key not in self._noted:
                self._noted.add(key)
                yield StateFinding(
                    state.identity,
                    state.name,
                    state.cls,
                    f"{titled(state)} has a value of {attribute}, and {spec.location} has no such attribute: "
                    "the value is left out; if the attribute was renamed, give the class a new version and "
                    "an upgrade",
                    loads=True,
                )
