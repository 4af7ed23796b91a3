"""The monitor, for programs that have perhaps no pyspark."""

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

from .errors import ReplayError, require
from .frames import short

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["FAULTS", "monitor"]

FAULTS = frozenset({"divergence", "hole"})
"""Kinds of findings that are faults of a server, and not only news."""


def monitor(
    spark: "SparkSession",
    traces: Sequence[str],
    checkpoint: Path,
    tell: Callable[[dict[str, Any]], None],
    *,
    idle_s: float = 60.0,
    watched: str = "",
    server: str | None = None,
    every_s: float = 2.0,
    once: bool = False,
    stop: Event | None = None,
) -> None:
    """Watch the growing traces of running servers, and tell each finding as it comes, until ``stop`` is set.

    A finding is a dict: ``at_ms`` (milliseconds since 1970), ``server``, ``kind``, ``text``, ``position`` and
    ``value``. Kinds: ``divergence`` and ``hole`` are faults; ``late`` is what came too late to be compared;
    ``behind`` a replica that has recorded nothing for ``idle_s`` seconds while others have; ``silent`` a
    server that has not reacted for so long, ``again`` one that does; ``idle`` an agent of the class
    ``watched`` that got nothing; ``rate`` the reactions a second, with each batch. It looks for files every
    ``every_s`` seconds, and goes on from ``checkpoint`` when it is started again; what was found in the batch
    in which it was killed is told again. ``once`` ends it when all that there is was read.
    Raises ReplayError when Spark fails, and what ``tell`` raises, which ends it.
    """
    require("pandas", "pyarrow", "google.protobuf", "pyspark")
    run: Any = import_module("quorate.replay.monitor")
    failures: list[BaseException] = []

    def told(found: dict[str, Any]) -> None:
        try:
            tell(found)
        except BaseException as error:
            failures.append(error)
            raise

    try:
        run.watch(
            spark,
            traces,
            checkpoint,
            told,
            idle_s=idle_s,
            watched=watched,
            server=server,
            every_s=every_s,
            once=once,
            stop=stop,
        )
    except Exception as error:  # errors of Spark and of py4j have no common base
        if failures:
            raise failures[0] from None
        raise ReplayError(f"the monitor has ended: {short(error)}") from error
