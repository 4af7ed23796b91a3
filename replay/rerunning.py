"""Agents run again on their recorded notifications."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from .reports import AgentResult, RerunReport

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["rerun", "state_at"]


def rerun(
    spark: "SparkSession",
    traces: str | Path | Iterable[str | Path],
    *,
    server: str | None = None,
    progress: Callable[[str], None] | None = None,
) -> RerunReport:
    """Run every agent's reactions again, with the code that can be imported now, and compare what they send.

    The classes are imported in Spark's Python workers; the current directory and PYTHONPATH are on their path.
    Raises NoTrace when nothing can be read.
    """
    raise NotImplementedError


def state_at(
    spark: "SparkSession",
    traces: str | Path | Iterable[str | Path],
    agent: str,
    position: int | None = None,
    *,
    server: str | None = None,
) -> AgentResult:
    """Return the state of one agent ("#0.0.1025") after the reaction at ``position`` of its server (default: the last).

    Raises NoTrace when the trace does not know the agent.
    """
    raise NotImplementedError
