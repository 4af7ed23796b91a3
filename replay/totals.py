"""The reactions of a server as one table, and counts over it."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from .reports import Totals

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["reactions", "totals"]


def reactions(
    spark: "SparkSession", traces: str | Path | Iterable[str | Path], *, server: str | None = None
) -> "DataFrame":
    """Return one row per server and position, taken from whichever replica has it, with the columns of the trace.

    The rows are in no order; sort by ``position``. Columns: server, server_id, replica, incarnation, position,
    index, step, now_ns, agent ("#0.0.1025"), cls, kind, sender, type, payload (msgpack), request, error, sends,
    outputs, state. Raises NoTrace when nothing can be read.
    """
    raise NotImplementedError


def totals(
    spark: "SparkSession", traces: str | Path | Iterable[str | Path], *, server: str | None = None
) -> Totals:
    """Count reactions per server, class, kind and type of notification."""
    raise NotImplementedError
