"""What a reaction has put into rows and removed, carried out."""

from collections.abc import Callable, Iterable

from ..agents import AgentId, RowChange
from ..agents.row_agent import RowAgent
from .cell import Cell
from .directory import Directory
from .row_index import ROW_SPEC, row_cell, row_state

__all__ = ["remove_rows", "write_rows"]


def write_rows(
    directory: Directory,
    owner: AgentId,
    rows: Iterable[RowChange],
    index: int,
    before_change: Callable[[Cell], None],
    next_id: Callable[[], AgentId],
) -> None:
    """Put and remove rows of an agent, as entry `index` says.

    before_change: called with each row that is about to change. next_id: returns the id of a new row.
    """
    for attribute, key, value in rows:
        row = directory.rows.table(owner, attribute).cells.get(key)
        if row is not None:
            before_change(row)
        if value is None:
            if row is not None:
                directory.remove(row)
            continue
        changed = RowAgent(owner, attribute, key, value)
        if row is None:
            directory.add(row_cell(next_id(), changed), index)
        else:
            row.replace(ROW_SPEC, row_state(changed), changed)
            directory.touch(row, index)


def remove_rows(directory: Directory, owner: AgentId, before_change: Callable[[Cell], None]) -> None:
    """Remove all rows of an agent that is removed itself."""
    for table in directory.rows.of(owner).values():
        for row in list(table.cells.values()):
            before_change(row)
            directory.remove(row)
    directory.rows.forget(owner)
