"""The rows of all agents of a server, by agent, attribute and key."""

from collections.abc import Iterator
from typing import Any, Final, cast

import attrs
import msgspec
from sortedcontainers import SortedDict

from ..agents import AgentId, AgentSpec, agent_spec
from ..agents.row_agent import RowAgent
from .cell import Cell

__all__ = ["ROW_SPEC", "RowIndex", "Table", "lost_rows", "row_cell", "row_state"]

ROW_SPEC: Final[AgentSpec] = agent_spec(RowAgent)
"""The class of rows."""
_encode = msgspec.msgpack.Encoder().encode


def row_state(row: RowAgent) -> bytes:
    """Return the state of a row."""
    return _encode({"owner": row.owner, "attribute": row.attribute, "key": row.key, "value": row.value})


def row_cell(identity: AgentId, row: RowAgent) -> Cell:
    """Return a new row."""
    state = row_state(row)
    # The row is what would be loaded from this state.
    return Cell(identity, None, ROW_SPEC, row, state, [], checked_bytes=len(state))


def _row(cell: Cell) -> RowAgent:
    return cast("RowAgent", cell.agent)


class Table:
    """The rows of one attribute of an agent, in the order of their keys."""

    def __init__(self) -> None:
        self.cells: SortedDict[Any, Cell] = SortedDict()

    def __len__(self) -> int:
        return len(self.cells)

    def get(self, key: Any, /) -> bytes | None:
        """Return the encoded value of a key, None if there is none."""
        cell = self.cells.get(key)
        return None if cell is None else _row(cell).value

    def irange(
        self, low: Any, high: Any, inclusive: tuple[bool, bool], reverse: bool = False
    ) -> Iterator[Any]:
        """Yield keys in order, between two of them; None: no limit."""
        return self.cells.irange(low, high, inclusive, reverse)


@attrs.define(eq=False)
class RowIndex:
    """The tables of all agents."""

    _tables: dict[AgentId, dict[str, Table]] = attrs.field(factory=dict[AgentId, dict[str, Table]])
    count: int = 0
    """How many rows there are."""

    def table(self, owner: AgentId, attribute: str) -> Table:
        """Return a table, which may be empty."""
        tables = self._tables.get(owner)
        if tables is None:
            tables = self._tables[owner] = {}
        found = tables.get(attribute)
        if found is None:
            found = tables[attribute] = Table()
        return found

    def of(self, owner: AgentId) -> dict[str, Table]:
        """Return the tables of an agent, by attribute."""
        return self._tables.get(owner, {})

    def owners(self) -> Iterator[AgentId]:
        """Yield the agents that have tables."""
        return iter(self._tables)

    def add(self, cell: Cell) -> None:
        """Add a row."""
        row = _row(cell)
        self.table(row.owner, row.attribute).cells[row.key] = cell
        self.count += 1

    def remove(self, cell: Cell) -> None:
        """Remove a row."""
        row = _row(cell)
        del self._tables[row.owner][row.attribute].cells[row.key]
        self.count -= 1

    def forget(self, owner: AgentId) -> None:
        """Forget the tables of an agent that has no rows any more."""
        self._tables.pop(owner, None)


def lost_rows(tables: dict[str, Table], spec: AgentSpec | None) -> str:
    """Return which rows an agent of this class would lose, as the end of a sentence; "" if it loses none."""
    names = {name for name, _ in spec.rows} if spec is not None else set[str]()
    lost = next((name for name, table in tables.items() if len(table) and name not in names), None)
    if lost is None:
        return ""
    count = len(tables[lost])
    if spec is None:
        return f"{lost}, {count} of them, and does not exist"
    remedy = "give it back, or drop the rows before"
    return f"{lost}, {count} of them, and {spec.name} has no such attribute; {remedy}"
