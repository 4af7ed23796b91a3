"""The versions of agent classes that a server uses, and the switch to later ones at an entry of the log.

A program may have several versions of a class. All replicas of a server have to use the same one at each
entry, whichever program each of them runs, so the versions in use are part of the replicated state. An entry
with `ClassVersions` replaces them, and upgrades the agents.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence

import attrs

from ..agents import Agent, AgentError, AgentSpec, agent_spec
from ..agents.names import split_name
from .cell import Cell, Unstorable, titled, upgraded
from .class_loading import Program

__all__ = [
    "ClassMissing",
    "Switch",
    "SwitchRefused",
    "UpgradePending",
    "VersionTable",
    "common_versions",
    "version_names",
]


def version_names(versions: Mapping[str, int]) -> str:
    """Return the whole names of classes, ``bank.account/2, bank.order/1``."""
    return ", ".join(f"{base}/{version}" for base, version in sorted(versions.items()))


class ClassMissing(RuntimeError):
    """Raised when a server uses, or switches to, a version of a class that this process does not have."""

    def __init__(self, name: str) -> None:
        """`name` is the whole name of the class."""
        super().__init__(
            f"it needs the class {name}, which this replica does not have: start it with the code that the "
            "other replicas run"
        )


class UpgradePending(RuntimeError):
    """Raised for an entry before the switch to the only version of a class that this process has."""

    def __init__(self, ahead: Mapping[str, int]) -> None:
        """`ahead`: see `VersionTable`."""
        super().__init__(
            f"the server has not switched to {version_names(ahead)} yet, and this replica lacks the former "
            "version: keep the module of the former class beside the new one, or wait until all replicas "
            "have the new code"
        )


class SwitchRefused(Exception):
    """An agent cannot be upgraded. The text names it; every replica finds the same one."""


@attrs.frozen
class Switch:
    """The upgrades of one switch, ready to be carried out."""

    upgrades: Sequence[tuple[Cell, AgentSpec, bytes, Agent]]
    """Cell, class, state and agent. Agents that were upgraded when they were loaded are among them."""
    versions: Mapping[str, int]
    """The versions that are new in the table."""
    replaced: frozenset[str]
    """Names of classes that are in use no more."""

    @property
    def digest(self) -> bytes:
        """16 bytes that are equal on replicas that upgrade the same agents to the same states."""
        hasher = hashlib.blake2b(repr(sorted(self.versions.items())).encode(), digest_size=16)
        for cell, spec, state, agent in sorted(self.upgrades, key=lambda each: each[0].identity):
            hasher.update(f"{cell.identity} {spec.name} ".encode())
            hasher.update(spec.canonical(agent) if spec.has_sets else state)
        return hasher.digest()


@attrs.define(eq=False)
class VersionTable:
    """The versions in use: by the name of a class without its version, or by ``module:Class`` with 0.

    A class is in the table from the first agent that was created of it: one row for each class.
    """

    program: Program
    """The agent classes of this process."""
    used: dict[str, int] = attrs.field(factory=dict[str, int])
    ahead: dict[str, int] = attrs.field(factory=dict[str, int])
    """Classes of which this process has a later version only, so that their agents were upgraded when they
    were loaded. Nothing may be applied before the switch to these versions. Not part of the state."""

    def created(self, spec: AgentSpec) -> None:
        """Record that an agent of this class was created."""
        base, version = _row(spec.name)
        self.used.setdefault(base, version)

    def later(self, names: Iterable[str]) -> dict[str, int]:
        """Return those of the classes with these names that are not the versions in use, with their versions.

        Agents of them were stored under a former version, or were upgraded when they were loaded.
        """
        if not self.used:
            return {}
        rows = [_row(name) for name in names]
        return {base: version for base, version in sorted(rows) if self.used.get(base) != version}

    def in_use(self, spec: AgentSpec, asked: int = 0) -> AgentSpec:
        """Return the version of a class of which new agents are created: the one in use, or `asked` if the
        server uses none yet; 0: that of `spec`.

        Raises ClassMissing, and UpgradePending if this process has a later version only.
        """
        base, version = _row(spec.name)
        used = self.used.get(base) or (asked if version else None) or self.used.get(base)
        if used and used < version and self._found(f"{base}/{used}") is None:
            raise UpgradePending({base: version})
        if used is None:
            later = self.program.upgrading(spec.name)
            return agent_spec(later) if later is not None and self._uses(agent_spec(later).name) else spec
        return spec if used in (version, 0) else self._class(f"{base}/{used}")

    def newer(self, common: Mapping[str, Iterable[int]]) -> dict[str, int]:
        """Return the latest of the versions in `common` for each class whose version in use it replaces.

        A class that replaces one with another name counts, too. All classes are in this process.
        """
        found: dict[str, int] = {}
        for base, versions in common.items():
            latest = max(versions, default=0)
            used = self.used.get(base)
            if used is None:
                spec = self._found(f"{base}/{latest}")
                replaces = spec is not None and any(map(self._uses, (*spec.names[1:], *spec.former)))
            else:
                replaces = latest > used
            if replaces or self.ahead.get(base) == latest:
                found[base] = latest
        return found

    def _found(self, name: str) -> AgentSpec | None:
        cls = self.program.named(name)
        if cls is None:
            return None
        try:
            spec = agent_spec(cls)
        except AgentError:
            return None
        return spec if spec.name == name else None

    def _class(self, name: str) -> AgentSpec:
        spec = self._found(name)
        if spec is None:
            raise ClassMissing(name)
        return spec

    def _uses(self, name: str) -> bool:
        base, version = _row(name)
        return self.used.get(base) == version

    def switch(self, versions: Mapping[str, int], cells: Iterable[Cell]) -> Switch | None:
        """Return the switch to these versions; None if they are in use already, or later ones.

        Changes nothing. Raises ClassMissing, and SwitchRefused if an agent cannot be upgraded.
        """
        new = {base: version for base, version in versions.items() if version > self.used.get(base, 0)}
        if not new:
            return None
        specs: dict[str, AgentSpec] = {}
        for base, version in sorted(new.items()):
            spec = self._class(f"{base}/{version}")
            specs |= dict.fromkeys((spec.name, *spec.names[1:], *spec.former), spec)
        upgrades: list[tuple[Cell, AgentSpec, bytes, Agent]] = []
        for cell in sorted(cells, key=lambda each: each.identity):
            name = cell.spec.name
            later = specs.get(name)
            if later is None:
                if _row(name)[0] in new:
                    raise SwitchRefused(
                        f"{_title(cell)} has no upgrade to version {new[_row(name)[0]]}; add one for each "
                        "version, or list its name in also of the class"
                    )
            else:
                upgrades.append(_upgraded(cell, later))
        return Switch(upgrades, new, frozenset(specs) - {spec.name for spec in specs.values()})

    def switched(self, switch: Switch) -> None:
        """Carry out a switch in the table."""
        for name in switch.replaced:
            self.used.pop(_row(name)[0], None)
        self.used |= switch.versions
        self.ahead = {base: version for base, version in self.ahead.items() if self.used.get(base) != version}


def common_versions(reports: Sequence[Mapping[str, Iterable[int]]]) -> dict[str, set[int]]:
    """Return the versions of classes that all replicas have which made these reports."""
    first, *others = reports
    common = {base: set(versions) for base, versions in first.items()}
    for report in others:
        common = {base: common[base] & set(report.get(base, ())) for base in common}
    return {base: versions for base, versions in common.items() if versions}


def _upgraded(cell: Cell, spec: AgentSpec) -> tuple[Cell, AgentSpec, bytes, Agent]:
    try:
        state = cell.state()
        if cell.spec.name in spec.former:
            state = upgraded(spec, cell.spec.name, state)
        return cell, spec, state, spec.load(state)
    except (ValueError, Unstorable) as error:
        raise SwitchRefused(f"{_title(cell)}: {error}") from error


def _title(cell: Cell) -> str:
    return titled(cell.stored()[0])


def _row(name: str) -> tuple[str, int]:
    return split_name(name) or (name, 0)
