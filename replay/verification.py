"""Whether the traces of a server's replicas are whole, and the same."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from .reports import Report

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["verify"]


def verify(
    spark: "SparkSession",
    traces: str | Path | Iterable[str | Path],
    *,
    server: str | None = None,
    progress: Callable[[str], None] | None = None,
) -> Report:
    """Check the traces of all replicas below ``traces``: files, directories (searched) or globs.

    A replica that was killed, or that joined late, has less of the trace: that is no fault. Faults are a hole
    inside what one incarnation wrote, a position twice, a position that no replica has, and a position at which
    two replicas recorded different reactions. ``progress`` is called with a few words when a step begins.
    Raises NoTrace when nothing can be read.
    """
    raise NotImplementedError
