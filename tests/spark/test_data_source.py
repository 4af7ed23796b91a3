"""Traces as a data source: batches and streams, replicas that are read as one, and what is refused."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from quorate.agents import AgentId
from quorate.engine import Reaction
from quorate.replay.schema import Origin
from quorate.server.trace.retention import Retention
from quorate.server.trace.writer import TraceWriter

pytestmark = pytest.mark.spark

ROWS = 600


def row(position: int) -> Reaction:
    return Reaction(
        position=position,
        index=position // 10,
        step=position % 10,
        now_ns=1_700_000_000_000_000_000 + position * 1_000_000,
        agent=AgentId(0, 0, 1025 + position % 7),
        cls="bank:Account",
        kind="react",
        sender=AgentId(0, 0, 1),
        type="bank:Deposit" if position % 2 else "bank:Withdraw",
        payload=position.to_bytes(4, "big"),
        request=0,
        error="",
        sends=0,
        outputs=b"",
        stamp=1100,
    )


class Replica:
    """The trace of a replica of a server, in as many files as it is told."""

    def __init__(self, data: Path, server: str = "s0", replica: int = 0, keep: int = 0) -> None:
        self.place = data / server / str(replica) / "trace"
        origin = Origin(server, int(server[1:]), replica, 5)
        retention = Retention(self.place, int(server[1:]), keep, 0) if keep else None
        self._writer = TraceWriter(self.place, origin, retention=retention)

    def write(self, *positions: int) -> "Replica":
        self._writer.write([row(position) for position in positions])
        assert self._writer.flush()
        return self

    def close(self) -> None:
        self._writer.close()


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two replicas of s0: one died at 350, one joined at 200 and has its rows in two files; and s1."""
    place = tmp_path_factory.mktemp("traces")
    Replica(place).write(*range(1, 351)).close()
    Replica(place, replica=1).write(*range(200, 401)).write(*range(401, ROWS + 1)).close()
    Replica(place, "s1").write(*range(1, 51)).close()
    return place


def read(spark: Any, data: Path, **options: str) -> Any:
    return spark.read.format("quorate").options(**options).load(str(data))


def positions(frame: Any, server: str = "s0") -> list[int]:
    return sorted(found["position"] for found in frame.where(f"server = '{server}'").collect())


def test_each_position_is_read_once_whichever_replica_has_it(spark: Any, data: Path) -> None:
    frame = read(spark, data)
    assert positions(frame) == list(range(1, ROWS + 1))
    assert positions(frame, "s1") == list(range(1, 51))
    assert positions(read(spark, data, server="s1"), "s0") == []


@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        ("position > 590", lambda at: at > 590),
        ("position BETWEEN 345 AND 405", lambda at: 345 <= at <= 405),
        ("position IN (3, 350, 351, 9999)", lambda at: at in (3, 350, 351)),
        ("type = 'bank:Deposit' AND position <= 9", lambda at: at % 2 and at <= 9),
        ("type <> 'bank:Deposit' AND position <= 9", lambda at: not at % 2 and at <= 9),
        ("agent LIKE '#0.0.1025%' AND position < 30", lambda at: not at % 7 and at < 30),
        ("agent LIKE '%.1026' AND type LIKE '%With%'", lambda at: at % 7 == 1 and not at % 2),
        ("now_ns < 1700000000005000000", lambda at: at < 5),
        ("payload = X'00000007'", lambda at: at == 7),
        ("position % 100 = 0 OR position = 1", lambda at: not at % 100 or at == 1),
    ],
)
def test_conditions_leave_what_they_ought_to(
    spark: Any, data: Path, condition: str, wanted: Callable[[int], bool]
) -> None:
    found = read(spark, data).where("server_id = 0").where(condition)
    assert positions(found) == [at for at in range(1, ROWS + 1) if wanted(at)]


def test_a_condition_on_positions_or_servers_reads_fewer_files(spark: Any, data: Path) -> None:
    frame = read(spark, data)
    assert frame.rdd.getNumPartitions() == 4
    assert frame.where("position > 500").rdd.getNumPartitions() == 1
    assert frame.where("server = 's1'").rdd.getNumPartitions() == 1


def test_only_the_columns_of_a_given_schema_are_read(spark: Any, data: Path) -> None:
    reader = spark.read.format("quorate").schema("position bigint, type string")
    frame = reader.load(str(data)).where("position = 5")
    assert [tuple(found) for found in frame.collect()] == [(5, "bank:Deposit"), (5, "bank:Deposit")]
    with pytest.raises(Exception, match="a trace has no column 'colour'"):
        spark.read.format("quorate").schema("colour string").load(str(data)).collect()


def test_positions_that_no_file_has_are_refused_or_skipped(spark: Any, tmp_path: Path) -> None:
    Replica(tmp_path).write(*range(1, 11)).write(*range(21, 31)).close()
    with pytest.raises(Exception, match=r"s0: no trace file has the positions 11\.\.20: ask `quorate replay"):
        read(spark, tmp_path).collect()
    assert positions(read(spark, tmp_path, gaps="skip")) == [*range(1, 11), *range(21, 31)]


def test_a_file_with_a_hole_is_not_used(spark: Any, tmp_path: Path) -> None:
    holed = [*range(1, 10), *range(15, 31)]
    Replica(tmp_path).write(*holed).close()
    with pytest.raises(Exception, match=r"s0: no trace file has the positions 1\.\.30"):
        read(spark, tmp_path).collect()
    Replica(tmp_path, replica=1).write(*range(1, 31)).close()
    assert positions(read(spark, tmp_path)) == list(range(1, 31))


def test_a_damaged_file_is_named(spark: Any, tmp_path: Path) -> None:
    replica = Replica(tmp_path).write(*range(1, 11))
    replica.close()
    (replica.place / "5-000002.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(Exception, match=r"5-000002\.parquet cannot be read: it is truncated"):
        read(spark, tmp_path).collect()


@pytest.mark.parametrize("option", [{"gaps": "maybe"}, {"gapSeconds": "soon"}, {"maxRowsPerTrigger": "-1"}])
def test_an_option_without_sense_is_one_sentence(spark: Any, data: Path, option: dict[str, str]) -> None:
    with pytest.raises(Exception, match=f"the option {next(iter(option))} is "):
        read(spark, data, **option).collect()


class Stream:
    """A query that appends what it reads to a list of files, from its checkpoint."""

    def __init__(self, spark: Any, data: Path, place: Path, **options: str) -> None:
        self._spark, self._data, self._place, self._options = spark, data, place, options

    def run(self) -> list[int]:
        """Read all that there is, and return the positions that were read by all runs so far."""
        rows = self._spark.readStream.format("quorate").options(**self._options).load(str(self._data))
        writer = rows.select("server", "position").writeStream.format("parquet")
        query = writer.option("checkpointLocation", str(self._place / "checkpoint")).start(
            str(self._place / "out")
        )
        try:
            query.processAllAvailable()
            self.batches = len([one for one in query.recentProgress if one["numInputRows"]])
        finally:
            query.stop()
        return positions(
            self._spark.read.schema("server string, position bigint").parquet(str(self._place / "out"))
        )


def test_a_stream_reads_files_as_they_appear_and_nothing_twice(spark: Any, tmp_path: Path) -> None:
    data = tmp_path / "data"
    first, second = Replica(data), Replica(data, replica=1)
    first.write(*range(1, 11))
    stream = Stream(spark, data, tmp_path)
    assert stream.run() == list(range(1, 11))
    second.write(*range(1, 16))
    first.write(*range(11, 21))
    assert stream.run() == list(range(1, 21))
    assert stream.run() == list(range(1, 21))


def test_a_stream_reads_no_more_at_a_time_than_it_was_told(spark: Any, data: Path, tmp_path: Path) -> None:
    stream = Stream(spark, data, tmp_path, maxRowsPerTrigger="150", server="s0")
    assert stream.run() == list(range(1, ROWS + 1))
    assert stream.batches == 4


def test_a_stream_waits_for_a_gap_and_gives_up_after_its_time(spark: Any, tmp_path: Path) -> None:
    data = tmp_path / "data"
    replica = Replica(data).write(*range(1, 11)).write(*range(21, 31))
    stream = Stream(spark, data, tmp_path)
    assert stream.run() == list(range(1, 11))
    past = time.time() - 100
    for path in replica.place.glob("*.parquet"):
        os.utime(path, (past, past))
    with pytest.raises(Exception, match=r"has the positions 11\.\.20, and later ones have been"):
        stream.run()
    Replica(data, replica=1).write(*range(5, 25))
    assert stream.run() == list(range(1, 31))


def test_a_stream_that_is_told_so_begins_at_the_end(spark: Any, tmp_path: Path) -> None:
    data = tmp_path / "data"
    replica = Replica(data).write(*range(1, 11))
    stream = Stream(spark, data, tmp_path, startingPosition="latest")
    assert stream.run() == []
    replica.write(*range(11, 21))
    assert stream.run() == list(range(11, 21))


def test_what_retention_has_removed_is_where_a_stream_begins(spark: Any, tmp_path: Path) -> None:
    data = tmp_path / "data"
    replica = Replica(data, keep=1)
    for first in (1, 101, 201):
        replica.write(*range(first, first + 100))
    assert Stream(spark, data, tmp_path).run() == list(range(201, 301))
