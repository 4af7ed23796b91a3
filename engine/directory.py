"""The agents of a server, by id and by name, and the digest of their states."""

import hashlib
from collections.abc import Iterator
from typing import Final

import attrs
import msgspec

from ..agents import AgentId, AgentSpec
from .cell import Cell

__all__ = ["AgentState", "Directory"]

_DIGEST_BYTES: Final = 16
_MODULUS: Final = 1 << (8 * _DIGEST_BYTES)


class AgentState(msgspec.Struct, array_like=True, frozen=True):
    """An agent, as a snapshot holds it."""

    identity: AgentId
    name: str | None
    cls: str
    reactions: int
    state: bytes


@attrs.define(eq=False)
class Directory:
    """Cells by id and by name.

    The digest is a sum of one hash per agent, so that bringing it up to date costs only the agents that have
    changed since the last time.
    """

    _cells: dict[AgentId, Cell] = attrs.field(factory=dict[AgentId, Cell])
    _names: dict[str, Cell] = attrs.field(factory=dict[str, Cell])
    _hashes: dict[AgentId, int] = attrs.field(factory=dict[AgentId, int])
    _dirty: dict[AgentId, None] = attrs.field(factory=dict[AgentId, None])
    _sum: int = 0
    _changed: dict[AgentId, None] | None = None
    """New, touched or removed since `changes` was last called; None: nobody has called it."""

    def __len__(self) -> int:
        return len(self._cells)

    def __iter__(self) -> Iterator[Cell]:
        return iter(self._cells.values())

    def find(self, address: AgentId | str) -> Cell | None:
        """The agent at an id of this server or a name without server."""
        if isinstance(address, str):
            return self._names.get(address)
        return self._cells.get(address)

    def add(self, cell: Cell) -> None:
        """Add an agent whose id and name are free."""
        self._cells[cell.identity] = cell
        if cell.name is not None:
            self._names[cell.name] = cell
        self.touch(cell)

    def remove(self, cell: Cell) -> None:
        """Remove an agent."""
        del self._cells[cell.identity]
        if cell.name is not None:
            del self._names[cell.name]
        self._dirty.pop(cell.identity, None)
        if self._changed is not None:
            self._changed[cell.identity] = None
        self._sum = (self._sum - self._hashes.pop(cell.identity, 0)) % _MODULUS

    def touch(self, cell: Cell) -> None:
        """The agent's state may have changed."""
        self._dirty[cell.identity] = None
        if self._changed is not None:
            self._changed[cell.identity] = None

    def changes(self) -> list[AgentId] | None:
        """The agents that are new, touched or removed since the last call; None the first time: all of them.

        Apart from the digest, which looks at changes at its own pace.
        """
        changed, self._changed = self._changed, {}
        return None if changed is None else list(changed)

    def digest(self) -> int:
        """A number that is equal for equal agents with equal states."""
        for identity in self._dirty:
            fresh = _hash(self._cells[identity])
            self._sum = (self._sum + fresh - self._hashes.get(identity, 0)) % _MODULUS
            self._hashes[identity] = fresh
        self._dirty.clear()
        return self._sum

    def states(self) -> Iterator[AgentState]:
        """All agents, for a snapshot."""
        for cell in self:
            yield AgentState(cell.identity, cell.name, cell.spec.name, cell.reactions, cell.state())

    def load(self, state: AgentState, spec: AgentSpec) -> None:
        """Add an agent from a snapshot. Raises ValueError if its state does not fit its class."""
        cell = Cell.load(state.identity, state.name, spec, state.state)
        cell.reactions = state.reactions
        self.add(cell)


def _hash(cell: Cell) -> int:
    hasher = hashlib.blake2b(
        f"{cell.identity} {cell.name!r} {cell.spec.name} ".encode(), digest_size=_DIGEST_BYTES
    )
    hasher.update(cell.spec.canonical(cell.agent))
    return int.from_bytes(hasher.digest(), "big")
