"""A check of stored agents: which of them the classes of this process cannot load or upgrade, and why."""

from collections.abc import Iterable, Iterator, Mapping

import attrs
import msgspec

from ..agents import FIRST_FREE_STAMP, AgentError, AgentId, AgentSpec, agent_spec
from .cell import AgentState, Cell, Resolve, titled
from .class_loading import Program
from .class_versions import SwitchRefused, VersionTable
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
    """Loads stored agents one by one, as a start would, and keeps none of them.

    An agent whose class has a later version in this process is upgraded to the latest one, as the switch of
    the server would do.
    """

    def __init__(self, resolve: Resolve, program: Program | None = None) -> None:
        """`resolve` gives server ids, for reactions that must be run again; `program` finds the classes."""
        self._resolve = resolve
        self._program = program or Program()
        self._specs: dict[tuple[str, str], AgentSpec | str] = {}
        """By the stored name and location of a class: the class, or why there is none."""
        self._tables: dict[str, tuple[VersionTable, Mapping[str, int]] | str] = {}
        """By the name of a class that loads agents: its version as the one in use, with the later versions
        that would replace it; or why a later version cannot be used."""
        self._noted: set[tuple[str, str]] = set()
        self.checked = 0
        """Agents so far, those of the platform included."""
        self.upgrades: dict[tuple[str, str], int] = {}
        """How many agents would be upgraded, by the names of their classes: stored, and here."""

    def run(self, agents: Iterable[AgentState]) -> Iterator[StateFinding]:
        """Yield what a start or the switch after it would refuse, and a note for each attribute whose stored
        values would be left out."""
        for state in agents:
            self.checked += 1
            spec = self._spec(state)
            if isinstance(spec, str):
                yield StateFinding(state.identity, state.name, state.cls, f"{titled(state)}: {spec}")
                continue
            try:
                last = self._upgraded(state, spec, Cell.load(state, spec, self._resolve))
            except (Exception, SystemExit) as error:
                yield StateFinding(state.identity, state.name, state.cls, str(error))
                continue
            if last is not spec or state.cls in spec.former:
                key = state.cls, last.name
                self.upgrades[key] = self.upgrades.get(key, 0) + 1
            elif state.identity.stamp >= FIRST_FREE_STAMP:
                yield from self._left_out(state, spec)

    def _upgraded(self, state: AgentState, spec: AgentSpec, cell: Cell) -> AgentSpec:
        """Upgrade a loaded agent to the latest version of its class; return that, or `spec` if it has none.

        Raises SwitchRefused, naming the agent, if it cannot be upgraded.
        """
        found = self._table(spec)
        if isinstance(found, str):
            raise SwitchRefused(f"{titled(state)}: {found}")
        table, later = found
        switch = table.switch(later, (cell,)) if later else None
        return switch.upgrades[0][1] if switch is not None else spec

    def _table(self, spec: AgentSpec) -> tuple[VersionTable, Mapping[str, int]] | str:
        if spec.name not in self._tables:
            table = VersionTable(self._program)
            table.created(spec)
            defined = self._program.defined()
            try:
                for base in table.used.keys() & defined.keys():
                    cls = self._program.named(f"{base}/{max(defined[base])}")
                    if cls is not None:
                        agent_spec(cls)
                self._tables[spec.name] = table, table.newer(defined)
            except AgentError as error:
                self._tables[spec.name] = str(error)
        return self._tables[spec.name]

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
