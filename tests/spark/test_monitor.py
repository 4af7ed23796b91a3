"""The monitor over growing traces, on Spark: what it tells, and that it goes on from its checkpoint."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from quorate.replay import monitor
from quorate.replay.schema import Origin
from quorate.server.trace.writer import TraceWriter

from .test_data_source import row

pytestmark = pytest.mark.spark


class Replica:
    def __init__(self, data: Path, replica: int, server: str = "s0") -> None:
        self._writer = TraceWriter(
            data / server / str(replica) / "trace", Origin(server, int(server[1:]), replica, 5)
        )

    def write(self, *positions: int, other: int = 0) -> None:
        rows = [row(position) for position in positions]
        self._writer.write(
            [msgspec.structs.replace(each, payload=b"?") if each.position == other else each for each in rows]
        )
        assert self._writer.flush()


def test_faults_are_told_once_over_restarts(spark: Any, tmp_path: Path) -> None:
    data, checkpoint = tmp_path / "data", tmp_path / "checkpoint"
    told: list[tuple[str, str, int]] = []

    def run() -> list[tuple[str, str, int]]:
        told.clear()
        monitor(
            spark,
            [str(data)],
            checkpoint,
            lambda found: told.append((found["server"], found["kind"], found["position"])),
            idle_s=3600,
            once=True,
        )
        return [each for each in told if each[1] != "rate"]

    first, second, alone = Replica(data, 0), Replica(data, 1), Replica(data, 0, "s1")
    first.write(*range(1, 101))
    second.write(*range(1, 51))
    alone.write(*range(1, 21))
    assert run() == []
    second.write(*range(51, 101), other=77)
    alone.write(*range(26, 41))
    assert sorted(run()) == [("s0", "divergence", 77), ("s1", "hole", 21)]
    first.write(*range(101, 201))
    second.write(*range(101, 201), other=150)
    assert run() == []
    assert ("s0", "rate", 200) in told


def test_silence_is_told_by_time_alone(spark: Any, tmp_path: Path) -> None:
    Replica(tmp_path / "data", 0).write(*range(1, 11))

    class Enough(Exception):
        pass

    def tell(found: dict[str, Any]) -> None:
        if found["kind"] == "silent":
            raise Enough(found["text"])

    with pytest.raises(Enough, match="s0 has not reacted for 2 s"):
        monitor(spark, [str(tmp_path / "data")], tmp_path / "checkpoint", tell, idle_s=2, every_s=0.5)
