"""Rows of a DataFrame as notifications of a cluster: once each, whatever is tried again."""

import contextlib
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from quorate import Servers

from .sums import AskSum, Sum

pytestmark = pytest.mark.spark

ROWS = 6000
TOTAL = ROWS * (ROWS - 1) // 2
REPLICA = """
    <server id="{0}" hostname="localhost">
      <network domain="D1" port="1630{0}"/>
      <service class="org.objectweb.joram.mom.proxies.ConnectionManager" args="root root"/>
      <service class="org.objectweb.joram.mom.proxies.tcp.TcpProxyService" args="256{0}"/>
    </server>"""
XML = f"""<config>
  <domain name="D1"/>
  <cluster id="0" name="s0">{"".join(map(REPLICA.format, range(3)))}
    <property name="administrators" value="root"/>
  </cluster>
</config>"""
ADD = "tests.spark.sums:Add"
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    path = tmp_path_factory.mktemp("sink") / "a3servers.xml"
    path.write_text(XML)
    with Servers(path, free_ports=True, pythonpath=[ROOT]) as servers:
        yield servers


class Adders:
    """Adders of a test, and what was sent to them."""

    def __init__(self, servers: Servers, name: str) -> None:
        self.servers = servers
        self.name = name
        self.options = {
            "url": servers.url("s0"),
            "user": "root",
            "password": "root",
            "to": name,
            "type": ADD,
        }
        servers.create("tests.spark.sums:Adder", name=name)

    def writer(self, frame: Any, **options: str) -> Any:
        given = {
            "url": self.servers.url("s0"),
            "user": "root",
            "password": "root",
            "to": self.name,
            "type": ADD,
        }
        return frame.write.format("quorate").mode("append").options(**{**given, **options})

    def sum(self) -> Sum:
        with self.servers.connect("s0") as connection:
            return connection.request(self.name, AskSum(), reply=Sum)


def numbers(spark: Any, count: int = ROWS, parts: int = 3) -> Any:
    """Rows 0 to `count`, in some partitions; they rise in each. They are wide, so that no buffer has all."""
    return spark.range(0, count, 1, parts).selectExpr(
        "id AS number", f"rpad(cast(id div {count // parts} AS string), 200, '.') AS label"
    )


def stopping(frame: Any, at: int, gate: Path, *, fails: bool = False) -> Any:
    """The same rows, of which one waits for a file, and fails once then if it ought to."""

    def passed(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            if at in batch.column("number").to_pylist():
                while not gate.exists():
                    time.sleep(0.01)
                if fails and not gate.read_text():
                    gate.write_text("it has failed")
                    raise RuntimeError("this attempt ends here")
            yield batch

    frame.sparkSession.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "100")
    return frame.mapInArrow(passed, frame.schema)


@contextlib.contextmanager
def opened(adders: Adders, gate: Path, then: Callable[[], Any] = bool) -> Iterator[None]:
    """Open the gate for what is done in the block, once the first rows have arrived; do something before."""

    def wait() -> None:
        end = time.monotonic() + 120
        while not adders.sum().count and time.monotonic() < end:
            time.sleep(0.05)
        then()
        gate.touch()

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(wait)
        yield
        waiting.result()


def test_rows_arrive_once_and_in_the_order_of_their_partition(spark: Any, servers: Servers) -> None:
    adders = Adders(servers, "simple")
    adders.writer(numbers(spark)).save()
    assert adders.sum() == Sum(ROWS, TOTAL, 0)


def test_a_job_that_failed_goes_on_where_it_ended(spark: Any, servers: Servers, tmp_path: Path) -> None:
    adders = Adders(servers, "resumed")
    frame = stopping(numbers(spark), 1900, tmp_path / "gate", fails=True)
    writer = adders.writer(frame, job="resumed")
    with opened(adders, tmp_path / "gate"), pytest.raises(Exception, match="this attempt ends here"):
        writer.save()
    assert adders.sum().count < ROWS
    writer.save()
    assert adders.sum() == Sum(ROWS, TOTAL, 0)
    writer.save()
    assert adders.sum().count == ROWS


def test_other_rows_under_the_name_of_a_job_are_refused(spark: Any, servers: Servers, tmp_path: Path) -> None:
    adders = Adders(servers, "refused")
    frame = stopping(numbers(spark, 2000, 1), 1900, tmp_path / "gate", fails=True)
    with opened(adders, tmp_path / "gate"), pytest.raises(Exception, match="this attempt ends here"):
        adders.writer(frame, job="refused").save()
    sent = adders.sum().count
    other = numbers(spark, 2000, 1).sortWithinPartitions("number", ascending=False)
    with pytest.raises(Exception, match="has other rows, or another order, than when it was first tried"):
        adders.writer(other, job="refused").save()
    assert adders.sum().count == sent
    # A job that has ended takes no other rows under its name, either.
    adders.writer(numbers(spark, 10, 1), job="ended").save()
    with pytest.raises(Exception, match="the job 'ended' had other rows, 10, than these 11"):
        adders.writer(numbers(spark, 11, 1), job="ended").save()
    assert adders.sum().count == sent + 10


def test_what_agents_refuse_is_told(spark: Any, servers: Servers) -> None:
    adders = Adders(servers, "strict")
    frame = numbers(spark, 10, 1).selectExpr("number - 2 AS number")
    with pytest.raises(Exception, match=r"2 of them were refused: agent .* a number is at least 0"):
        adders.writer(frame).save()
    assert adders.sum().count == 8
    adders.writer(frame, refusals="ignore").save()
    with pytest.raises(Exception, match="10 of them were refused: there is no agent 'nobody'"):
        adders.writer(frame, to="nobody").save()


def test_columns_say_where_a_row_goes(spark: Any, servers: Servers) -> None:
    adders = Adders(servers, "by column")
    frame = numbers(spark, 10, 1).selectExpr("number", "'by column' AS to", f"'{ADD}' AS type")
    writer = frame.write.format("quorate").mode("append")
    keys = ("url", "user", "password")
    writer.options(**{key: adders.options[key] for key in keys}).save()
    assert adders.sum() == Sum(10, 45, 0)


def test_a_master_that_dies_loses_and_doubles_nothing(spark: Any, servers: Servers, tmp_path: Path) -> None:
    adders = Adders(servers, "failover")
    frame = stopping(numbers(spark), 1900, tmp_path / "gate")
    dead: list[int] = []
    with opened(adders, tmp_path / "gate", lambda: dead.append(servers.kill_master("s0"))):
        adders.writer(frame).save()
    assert adders.sum() == Sum(ROWS, TOTAL, 0)
    servers.start_replica("s0", dead[0])


def test_a_stream_that_is_killed_and_begun_again_sends_each_row_once(
    spark: Any, servers: Servers, tmp_path: Path
) -> None:
    adders = Adders(servers, "streamed")
    numbers(spark, 3000, 3).write.parquet(str(tmp_path / "source"))
    frame = spark.readStream.schema("number bigint, label string").option("maxFilesPerTrigger", 1)
    rows = stopping(frame.parquet(str(tmp_path / "source")), 1900, tmp_path / "gate", fails=True)

    def run() -> None:
        writer = rows.writeStream.format("quorate").options(**adders.options)
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
        query.start().awaitTermination(120)

    with opened(adders, tmp_path / "gate"), pytest.raises(Exception, match="this attempt ends here"):
        run()
    assert adders.sum().count < 3000
    run()
    assert adders.sum() == Sum(3000, 3000 * 2999 // 2, 0)
    # As if Spark had died before it wrote down that the last batch was done.
    commits = sorted((tmp_path / "checkpoint" / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    commits[-1].unlink()
    commits[-1].with_name(f".{commits[-1].name}.crc").unlink()
    run()
    assert adders.sum().count == 3000
