"""The monitor: a stream over the growing traces of running servers, which tells what is wrong as it comes.

Import it only where pyspark is installed; `quorate.replay.monitor` does so.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from threading import Event
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.stateful_processor import (
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from .schema import CONTENT, arrow_types
from .watch import Finding, ServerWatch, rows_of

__all__ = ["FINDINGS", "Watcher", "findings", "watch"]

FINDINGS = "at_ms bigint, server string, kind string, text string, position bigint, value double"
"""The columns of what is found."""
STATE = "server string, watch binary"
POSITIONS_PER_BATCH = 25_000
"""Positions of a server that are read at a time, so that its replicas stay within the window of the watch."""
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
MIN_CHECK_MS = 500
POLL_S = 1


class Watcher(StatefulProcessor):
    """Keeps the watch of each server as the state of Spark's stream."""

    def __init__(self, idle_s: float, watched: str) -> None:
        """`watched` is the class of agents whose silence is told; "" for none."""
        self._idle_ms = max(1, int(idle_s * 1000))
        self._watched = watched

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state."""
        self._handle = handle
        self._state: Any = handle.getValueState("watch", STATE)

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[Any],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[Any]:
        """Take in the rows of one server."""
        del key
        pandas: Any = import_module("pandas")
        frame = pandas.concat(rows)
        now_ms = timerValues.getCurrentProcessingTimeInMs()
        server = str(frame["server"].iloc[0])
        known = self._state.get()
        watch = ServerWatch(server, self._idle_ms, bytes(known[1]) if known else b"")
        found = [*watch.see(rows_of(frame, self._watched), now_ms), *watch.tick(now_ms)]
        self._keep(server, watch, now_ms)
        yield as_frame(found, server, now_ms)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: Any,  # noqa: N803
    ) -> Iterator[Any]:
        """Look for what does not come."""
        del key, expiredTimerInfo
        now_ms = timerValues.getCurrentProcessingTimeInMs()
        server, packed = self._state.get()
        watch = ServerWatch(server, self._idle_ms, bytes(packed))
        found = watch.tick(now_ms)
        self._keep(server, watch, now_ms)
        yield as_frame(found, server, now_ms)

    def _keep(self, server: str, watch: ServerWatch, now_ms: int) -> None:
        self._state.update((server, watch.packed()))
        for timer in list(self._handle.listTimers()):
            self._handle.deleteTimer(timer)
        self._handle.registerTimer(now_ms + max(MIN_CHECK_MS, self._idle_ms // 2))


def as_frame(found: list[Finding], server: str, now_ms: int) -> Any:
    """Return findings as rows."""
    rows = [(now_ms, server, each.kind, each.text, each.position, each.value) for each in found]
    pandas: Any = import_module("pandas")
    return pandas.DataFrame(rows, columns=arrow_types(FINDINGS).names)


def findings(
    spark: SparkSession, traces: Sequence[str], *, idle_s: float, watched: str, server: str | None
) -> Any:
    """Return the stream of findings, as a DataFrame with the columns of `FINDINGS`."""
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
    source = spark.readStream.format("quorate").option("replicas", "all")
    source = source.option("maxRowsPerTrigger", POSITIONS_PER_BATCH)
    if server is not None:
        source = source.option("server", server)
    rows = (
        source.option("paths", json.dumps(list(traces)))
        .load()
        .selectExpr(
            *("server_id", "server", "replica", "incarnation", "position", "agent", "cls", "error"),
            f"xxhash64({', '.join(CONTENT)}) AS hash",
        )
    )
    grouped: Any = rows.groupBy("server_id")
    return grouped.transformWithStateInPandas(
        statefulProcessor=Watcher(idle_s, watched),
        outputStructType=FINDINGS,
        outputMode="append",
        timeMode="processingTime",
    )


def watch(
    spark: SparkSession,
    traces: Sequence[str],
    checkpoint: Path,
    tell: Callable[[dict[str, Any]], None],
    *,
    idle_s: float,
    watched: str,
    server: str | None,
    every_s: float,
    once: bool,
    stop: Event | None,
) -> None:
    """Tell each finding, as a dict of the columns of `FINDINGS`, until told to stop, or until all is read.

    It goes on from ``checkpoint``; what was found in the batch in which it was killed is told again.
    """

    def told(batch: Any, _: int) -> None:
        for row in sorted(batch.collect(), key=lambda row: (row["at_ms"], row["server"])):
            tell(row.asDict())

    stream = findings(spark, traces, idle_s=idle_s, watched=watched, server=server)
    writer = stream.writeStream.foreachBatch(told).option("checkpointLocation", str(checkpoint))
    writer = (
        writer.trigger(availableNow=True) if once else writer.trigger(processingTime=f"{every_s} seconds")
    )
    query = writer.start()
    try:
        while not query.awaitTermination(POLL_S) and not (stop is not None and stop.is_set()):
            pass
    finally:
        query.stop()
