"""The agents of a server, by id and by name, and the digest of their states."""

import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final

import attrs

from ..agents import AgentId, AgentSpec
from .agent_index import AgentIndex
from .cell import SMALL_BYTES, AgentState, Cell, Resolve
from .row_index import ROW_SPEC, RowIndex, lost_rows

__all__ = ["Directory", "Tally", "state_hash"]

_DIGEST_BYTES: Final = 16
_MODULUS: Final = 1 << (8 * _DIGEST_BYTES)
_MAX_UNHASHED: Final = 2048
"""Most changed agents with an outdated hash. Above it each change also hashes the oldest one, if small."""


def _ids() -> "OrderedDict[AgentId, None]":
    return OrderedDict()


@attrs.define(eq=False)
class Tally:
    """The sum of the agents' hashes as of one moment, while it is computed. Made by `Directory.tally`."""

    total: int
    """The sum, valid once nothing is pending."""
    pending: dict[AgentId, None]
    """Agents whose hash in `total` is of an earlier state."""


@attrs.define(eq=False)
class Directory:
    """Cells by id and by name.

    The digest is a sum of one hash per agent, so that bringing it up to date costs only the agents that have
    changed since the last time.
    """

    _cells: dict[AgentId, Cell] = attrs.field(factory=dict[AgentId, Cell])
    _names: dict[str, Cell] = attrs.field(factory=dict[str, Cell])
    index: AgentIndex = attrs.field(factory=AgentIndex)
    """The agents in the orders in which they are listed."""
    rows: RowIndex = attrs.field(factory=RowIndex)
    """The rows of the agents, which are agents of their own here."""
    _owners: dict[AgentId, None] = attrs.field(factory=dict[AgentId, None])
    """Agents whose class has rows."""
    _hashes: dict[AgentId, int] = attrs.field(factory=dict[AgentId, int])
    _dirty: "OrderedDict[AgentId, None]" = attrs.field(factory=_ids)
    _sum: int = 0
    _changed: dict[AgentId, None] | None = None
    """Agents that are new, touched or removed since the last call of `changes`; None before the first
    call."""
    marks: dict[AgentId, None] | None = None
    """Agents that are new, touched or removed during a transfer; None: there is no transfer."""
    _tallies: list[Tally] = attrs.field(factory=list[Tally])
    """Tallies that are not complete."""
    _renamed: dict[AgentId, None] = attrs.field(factory=dict[AgentId, None])
    """Agents that `load` has added under another name of their class than the store has."""

    def __len__(self) -> int:
        return len(self._cells)

    def __iter__(self) -> Iterator[Cell]:
        return iter(self._cells.values())

    def find(self, address: AgentId | str) -> Cell | None:
        """Return the agent at an id of this server or a name without server."""
        if isinstance(address, str):
            return self._names.get(address)
        return self._cells.get(address)

    def add(self, cell: Cell, index: int) -> None:
        """Add an agent whose id and name are free, as entry `index` says."""
        self._put(cell)
        self.bind(cell)
        self.touch(cell, index)

    def remove(self, cell: Cell) -> None:
        """Remove an agent."""
        identity = cell.identity
        del self._cells[identity]
        if cell.name is not None:
            del self._names[cell.name]
        if cell.spec is ROW_SPEC:
            self.rows.remove(cell)
        else:
            self.index.remove(cell)
            self._owners.pop(identity, None)
        self._dirty.pop(identity, None)
        self._mark(identity)
        self._sum = (self._sum - self._hashes.pop(identity, 0)) % _MODULUS

    def touch(self, cell: Cell, index: int) -> None:
        """Record that entry `index` may have changed the agent's state."""
        identity = cell.identity
        cell.changed = index
        self._mark(identity)
        dirty = self._dirty
        dirty[identity] = None
        if len(dirty) > _MAX_UNHASHED:
            oldest = self._cells[dirty.popitem(last=False)[0]]
            settled = oldest.settled
            if settled is not None and len(settled) <= SMALL_BYTES:
                self._rehash(oldest)
            else:
                dirty[oldest.identity] = None

    def _mark(self, identity: AgentId) -> None:
        if self._changed is not None:
            self._changed[identity] = None
        if self.marks is not None:
            self.marks[identity] = None

    def changes(self) -> list[AgentId] | None:
        """Return the agents that are new, touched or removed since the last call; None the first time: all.

        The digest keeps its own record of changes.
        """
        changed, self._changed = self._changed, self._renamed
        self._renamed = {}
        return None if changed is None else list(changed)

    # The digest

    def digest(self) -> int:
        """Return a number that is equal for equal agents with equal states."""
        while self._dirty:
            self._rehash(self._cells[self._dirty.popitem()[0]])
        return self._sum

    def tally(self) -> Tally:
        """Begin to compute the digest as of now. `count` continues it; agents may change meanwhile."""
        tally = Tally(self._sum, dict.fromkeys(self._dirty))
        if tally.pending:
            self._tallies.append(tally)
        return tally

    def count(self, tally: Tally, limit: int | None = None, max_bytes: int | None = None) -> bool:
        """Hash up to `limit` agents, about `max_bytes` of them, or all. Return True once `tally` is
        complete."""
        while tally.pending and limit != 0 and (max_bytes is None or max_bytes > 0):
            cell = self._cells[next(iter(tally.pending))]
            self.hash_of(cell)
            limit = None if limit is None else limit - 1
            max_bytes = None if max_bytes is None else max_bytes - cell.saved_bytes
        return not tally.pending

    def forget(self, tally: Tally) -> None:
        """Drop a tally that is not needed."""
        if tally in self._tallies:
            self._tallies.remove(tally)

    def before_change(self, cell: Cell) -> None:
        """Hash an agent that is about to change or to be removed, for the tallies that need its present
        state."""
        for tally in self._tallies:
            if cell.identity in tally.pending:
                self.hash_of(cell)
                return

    def hash_of(self, cell: Cell) -> int:
        """Return the agent's part of the digest."""
        if cell.identity in self._dirty:
            del self._dirty[cell.identity]
            self._rehash(cell)
        return self._hashes[cell.identity]

    def _rehash(self, cell: Cell) -> None:
        fresh = state_hash(cell)
        more = fresh - self._hashes.get(cell.identity, 0)
        self._sum = (self._sum + more) % _MODULUS
        self._hashes[cell.identity] = fresh
        for tally in list(self._tallies):
            if cell.identity in tally.pending:
                del tally.pending[cell.identity]
                tally.total = (tally.total + more) % _MODULUS
                if not tally.pending:
                    self._tallies.remove(tally)

    # Whole states

    def load(self, state: AgentState, spec: AgentSpec, resolve: Resolve) -> None:
        """Add an agent from a store. Raises ValueError if its state does not fit its class."""
        cell = Cell.load(state, spec, resolve)
        self._put(cell)
        self.bind(cell)
        self._rehash(cell)
        if spec.name != state.cls:
            self._renamed[cell.identity] = None

    def bind(self, cell: Cell) -> None:
        """Have the rows of an agent here, as its class declares them."""
        if cell.spec.rows:
            self._owners[cell.identity] = None
            cell.bind(partial(self.rows.table, cell.identity))

    def bind_all(self) -> None:
        """Have the rows of all agents here, which were adopted from elsewhere.

        Raises ValueError, naming the agent, if there are rows that no agent has, and binds none then.
        """
        for owner in self.rows.owners():
            cell = self._cells.get(owner)
            lost = lost_rows(self.rows.of(owner), None if cell is None else cell.spec)
            if lost:
                raise ValueError(f"agent {owner} has stored rows of {lost}")
        for owner in list(self._owners):
            self.bind(self._cells[owner])

    def _put(self, cell: Cell) -> None:
        self._cells[cell.identity] = cell
        if cell.name is not None:
            self._names[cell.name] = cell
        if cell.spec is ROW_SPEC:
            self.rows.add(cell)
            return
        self.index.add(cell)
        if cell.spec.rows:
            self._owners[cell.identity] = None

    def succeed(self, earlier: "Directory", covered: Iterable[AgentId]) -> None:
        """Continue the record of `changes` of `earlier`: agents that differ count as changed, and so do
        `covered`.

        Call it before the first `adopt`.
        """
        if earlier._changed is not None:
            self._changed = {**earlier._changed, **dict.fromkeys(covered)}

    def adopt(self, cell: Cell, hashed: int, earlier: "Directory") -> None:
        """Add an agent with its hash. It counts as changed unless `earlier` has the same cell."""
        identity = cell.identity
        self._put(cell)
        self._hashes[identity] = hashed
        self._sum = (self._sum + hashed) % _MODULUS
        if self._changed is not None and earlier._cells.get(identity) is not cell:
            self._changed[identity] = None

    def lose(self, cell: Cell) -> None:
        """Count an agent of the earlier directory as changed if it is not in this one."""
        if self._changed is not None and cell.identity not in self._cells:
            self._changed[cell.identity] = None


def state_hash(cell: Cell) -> int:
    """Return a number that is equal for equal agents in equal states."""
    hasher = hashlib.blake2b(
        f"{cell.identity} {cell.name!r} {cell.spec.name} ".encode(), digest_size=_DIGEST_BYTES
    )
    state = None if cell.spec.has_sets else cell.settled
    if state is None:
        try:
            state = cell.spec.canonical(cell.agent)
        except (TypeError, ValueError, OverflowError, RecursionError):
            # It cannot be stored, on all replicas alike: the other agents are compared all the same.
            state = b"%d" % cell.reactions
    hasher.update(state)
    return int.from_bytes(hasher.digest(), "big")
