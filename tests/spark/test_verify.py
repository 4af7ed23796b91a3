"""Verification on Spark: one tree of traces in which every server has another fault."""

from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as parquet
import pytest

from quorate.agents import AgentId
from quorate.engine import Reaction
from quorate.replay import NoTrace, ReplayError, Report, reactions, totals, verify
from quorate.replay.frames import Trace
from quorate.replay.schema import Origin
from quorate.server.trace.retention import Retention
from quorate.server.trace.writer import TraceWriter

pytestmark = pytest.mark.spark

ROWS = 40_000  # a little more than two blocks


def row(position: int, **changes: Any) -> Reaction:
    made = Reaction(
        position=position,
        index=position // 10,
        step=position % 10,
        now_ns=1_700_000_000_000_000_000 + position // 10,
        agent=AgentId(0, 0, 1025 + position % 7),
        cls="bank:Account",
        kind="react",
        sender=AgentId(0, 0, 1),
        type="bank:Deposit",
        payload=b"\x91" + bytes([position % 100]),
        request=0,
        error="",
        sends=1,
        outputs=position.to_bytes(16, "big"),
        stamp=1100,
    )
    return msgspec.structs.replace(made, **changes) if changes else made


def write(data: Path, server: str, replica: int, incarnation: int, rows: list[Reaction]) -> Path:
    trace = data / server / str(replica) / "trace"
    writer = TraceWriter(trace, Origin(server, int(server[1:]), replica, incarnation))
    writer.write(rows)
    writer.close()
    assert writer.problem is None
    return next(trace.glob(f"{incarnation}-*.parquet"))


SMALL = 300


def plant(data: Path) -> dict[str, Path]:
    """Write one server per fault."""
    good = [row(position) for position in range(1, SMALL + 1)]
    long = [row(position) for position in range(1, ROWS + 1)]

    def server(name: str, *replicas: list[Reaction]) -> None:
        for replica, rows in enumerate(replicas):
            write(data, name, replica, 5, rows)

    server("s0", long, long, long)
    changed = [*good]
    changed[99] = row(100, payload=b"\x91\x63")
    server("s1", good, changed, good)
    swapped = [*good]
    swapped[99], swapped[100] = row(100, payload=good[100].payload), row(101, payload=good[99].payload)
    server("s2", good, good, swapped)
    server("s3", good, good[:50] + good[60:], good)
    server("s4", good, [*good[:50], *good[49:]], good)
    server("s5", good, good[:200], good[120:])
    server("s6", good[:100], good[:90], good[150:])
    # Killed and back with a later incarnation, after a transfer; the others lack nothing.
    server("s7", good[:100], good, good)
    write(data, "s7", 0, 6, good[180:])
    server("s8", long, [*long[:20_000], row(20_001, type="bank:Withdraw"), *long[20_001:]], long)
    damaged = write(data, "s9", 0, 5, good)
    write(data, "s9", 1, 5, good)
    content = damaged.read_bytes()
    truncated = damaged.with_name("5-000002.parquet")
    truncated.write_bytes(content[: len(content) // 2])
    damaged.with_name("5-000003.parquet.part").write_bytes(content[:100])
    foreign = damaged.with_name("5-000003.parquet")
    parquet.write_table(parquet.read_table(damaged).replace_schema_metadata(None), foreign)
    return {"truncated": truncated, "foreign": foreign}


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Path]]:
    data = tmp_path_factory.mktemp("data [all] {servers}")
    return data, plant(data)


@pytest.fixture(scope="module")
def report(session: Any, planted: tuple[Path, dict[str, Path]]) -> Report:
    return verify(session, planted[0])


def test_equal_and_whole_traces_have_no_fault(report: Report) -> None:
    server = report.server("s0")
    assert server.problems == []
    assert (server.last, server.compared) == (ROWS, ROWS)
    assert [source.rows for source in server.sources] == [ROWS] * 3


def test_a_changed_payload_is_found_with_both_sides(report: Report) -> None:
    divergence = report.server("s1").divergence
    assert divergence is not None
    assert (divergence.position, divergence.later) == (100, 0)
    assert {tuple(replica for replica, _ in side.sources): side.values for side in divergence.sides} == {
        (0, 2): {"payload": "9100"},
        (1,): {"payload": "9163"},
    }


def test_a_swapped_order_is_a_divergence_at_the_first_of_the_two(report: Report) -> None:
    divergence = report.server("s2").divergence
    assert divergence is not None
    assert (divergence.position, divergence.later) == (100, 1)


def test_a_hole_inside_an_incarnation_is_found(report: Report) -> None:
    server = report.server("s3")
    assert [str(span) for span in server.sources[1].holes] == ["51..60"]
    assert len(server.problems) == 1
    assert server.uncovered == ()


def test_a_position_twice_is_found(report: Report) -> None:
    server = report.server("s4")
    assert [str(span) for span in server.sources[1].duplicates] == ["50"]
    assert len(server.problems) == 1


def test_a_missing_tail_and_a_late_joiner_are_no_fault(report: Report) -> None:
    server = report.server("s5")
    assert server.problems == []
    assert (server.compared, server.alone) == (SMALL, 0)
    assert server.agreement.startswith("s5: replicas 0, 1 and 2 agree at all 300 positions")


def test_positions_that_nobody_has_are_not_covered(report: Report) -> None:
    server = report.server("s6")
    assert [str(span) for span in server.uncovered] == ["101..150"]
    assert all(not source.holes for source in server.sources)


def test_a_second_incarnation_after_a_transfer_is_no_fault(report: Report) -> None:
    server = report.server("s7")
    assert server.problems == []
    assert [(source.replica, source.incarnation) for source in server.sources] == [
        (0, 5),
        (0, 6),
        (1, 5),
        (2, 5),
    ]


def test_a_difference_deep_inside_a_long_trace_is_found(report: Report) -> None:
    divergence = report.server("s8").divergence
    assert divergence is not None
    assert divergence.position == 20_001
    assert divergence.sides[1].values == {"type": "bank:Withdraw"}


def test_files_that_cannot_be_read_are_listed_and_the_rest_is_used(
    report: Report, planted: tuple[Path, dict[str, Path]]
) -> None:
    assert len(report.bad_files) == 2
    assert report.bad_files[0].startswith(str(planted[1]["truncated"]))
    assert report.bad_files[1] == f"{planted[1]['foreign']}: not the trace of a server"
    assert report.server("s9").ok
    assert not report.ok
    part = planted[1]["foreign"].with_name("5-000003.parquet.part")
    assert report.remarks == (f"{part}: it is not finished; its rows are not read",)


def test_a_page_damaged_after_writing_is_found_and_set_aside(session: Any, tmp_path: Path) -> None:
    good = [row(position) for position in range(1, SMALL + 1)]
    write(tmp_path, "s0", 0, 1, good)
    damaged = write(tmp_path, "s0", 1, 1, good)
    content = bytearray(damaged.read_bytes())
    outputs = parquet.read_metadata(damaged).row_group(0).column(17)
    middle = outputs.data_page_offset + outputs.total_compressed_size // 2
    content[middle] ^= 0xFF
    damaged.write_bytes(content)
    report = verify(session, tmp_path)
    assert [line.split(":")[0] for line in report.bad_files] == [str(damaged)]
    assert report.server("s0").ok


def test_replicas_that_have_no_position_in_common_are_not_said_to_agree(session: Any, tmp_path: Path) -> None:
    write(tmp_path, "s0", 0, 1, [row(position) for position in range(1, 101)])
    write(tmp_path, "s0", 1, 1, [row(position) for position in range(101, 201)])
    server = verify(session, tmp_path).server("s0")
    assert (server.compared, server.alone, server.agreement) == (0, 200, "")
    assert server.problems == [
        f"s0: nothing of replica {replica} was compared: no other one has its positions" for replica in (0, 1)
    ]


def test_two_incarnations_of_one_replica_are_no_agreement_of_replicas(session: Any, tmp_path: Path) -> None:
    rows = [row(position) for position in range(1, 101)]
    write(tmp_path, "s0", 0, 1, rows)
    write(tmp_path, "s0", 0, 2, rows[50:])
    server = verify(session, tmp_path).server("s0")
    assert (server.problems, server.compared, server.agreement) == ([], 0, "")
    assert server.notes == ["s0: only replica 0 has a readable trace, so it was compared with no other"]


@pytest.mark.parametrize("kept", [100, 0])
def test_a_code_change_that_was_accepted_is_told(session: Any, tmp_path: Path, kept: int) -> None:
    """Also if the trace of the first incarnation lacks what ended otherwise in the second."""
    rows = [row(position) for position in range(1, 101)]
    changed = [*rows[:50], *(row(position, sends=2) for position in range(51, 101))]
    write(tmp_path, "s0", 0, 1, rows[: kept or 50])
    accepted = "entry 5 ended otherwise than before: agent #0.0.1027 ..."
    writer = TraceWriter(tmp_path / "s0/0/trace", Origin("s0", 0, 0, 2, accepted=accepted))
    writer.write(changed[20:])
    writer.close()
    server = verify(session, tmp_path).server("s0")
    start = "s0: replica 0 (incarnation 2) was started with --accept-code-change"
    assert server.notes[0] == f"{start}: {accepted}"
    if kept:
        assert server.problems[0].startswith("s0: the traces differ at position 51, agent #0.0.1027: ")
        assert server.problems[0].endswith(start.removeprefix("s0: "))
    else:
        assert server.problems == []


def test_a_replica_that_the_configuration_declares_and_that_has_no_trace_is_named(
    session: Any, tmp_path: Path
) -> None:
    for replica in (0, 1):
        origin = Origin("s0", 0, replica, 1, {"s0": 0, "s1": 1}, {"s0": [0, 1, 2], "s1": [0]})
        writer = TraceWriter(tmp_path / "s0" / str(replica) / "trace", origin)
        writer.write([row(1)])
        writer.close()
    assert verify(session, tmp_path, server=0).problems == [
        "s0: replica 2 has no readable trace, though the configuration declares it"
    ]
    assert verify(session, tmp_path).remarks[0].startswith("s1: none of its replicas has a readable trace")


def test_a_file_in_a_directory_whose_name_spark_would_pass_over_is_read(session: Any, tmp_path: Path) -> None:
    path = write(tmp_path, "s0", 0, 1, [row(position) for position in range(1, 101)])
    write(tmp_path, "s0", 1, 1, [row(position) for position in range(1, 101)])
    hidden = tmp_path / "_hidden" / ".old"
    hidden.mkdir(parents=True)
    path.rename(hidden / path.name)
    report = verify(session, tmp_path)
    assert (report.server("s0").compared, report.rows) == (100, 200)


def test_rows_that_are_not_read_end_the_verification(
    session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "s0", 0, 1, [row(position) for position in range(1, 101)])
    everything = Trace.expected_rows
    monkeypatch.setattr(
        Trace,
        "expected_rows",
        lambda trace: {source: rows + 1 for source, rows in everything(trace).items()},
    )
    with pytest.raises(
        ReplayError, match="100 rows were read of server 0, replica 0, incarnation 1, and its"
    ):
        verify(session, tmp_path)


def test_merged_reactions_have_every_position_once(
    session: Any, report: Report, planted: tuple[Path, dict[str, Path]]
) -> None:
    frame = reactions(session, planted[0], report=report)
    table = frame.toArrow() if hasattr(frame, "toArrow") else frame.to_arrow_table()
    grouped = table.group_by("server").aggregate([("position", "count"), ("position", "count_distinct")])
    counts = {
        found["server"]: (found["position_count"], found["position_count_distinct"])
        for found in grouped.to_pylist()
    }
    expected = {"s0": ROWS, "s8": ROWS, "s6": SMALL - 50}
    assert counts == {f"s{at}": (expected.get(f"s{at}", SMALL),) * 2 for at in range(10)}


def test_totals_count_each_reaction_once(session: Any, planted: tuple[Path, dict[str, Path]]) -> None:
    found = totals(session, planted[0], server="s5")
    assert [(line.cls, line.type, line.reactions, line.agents) for line in found.rows] == [
        ("bank:Account", "bank:Deposit", SMALL, 7)
    ]


def test_a_server_that_is_not_in_the_trace_is_said_so(
    session: Any, planted: tuple[Path, dict[str, Path]]
) -> None:
    with pytest.raises(NoTrace, match="no reaction of that server"):
        verify(session, planted[0], server="s77")


def test_what_retention_has_removed_is_a_note_of_verify_and_a_doubt_of_totals(
    session: Any, tmp_path: Path
) -> None:
    for replica in range(2):
        place = tmp_path / "s0" / str(replica) / "trace"
        keep = Retention(place, 0, 1, 0)
        writer = TraceWriter(place, Origin("s0", 0, replica, 5), retention=keep)
        for first in (1, 101, 201):
            writer.write([row(position) for position in range(first, first + 100)])
            assert writer.flush()
        writer.close()
    report = verify(session, tmp_path)
    assert report.ok, report.problems
    assert report.server("s0").removed == 200
    sentence = "s0: the positions up to 200 were removed by the retention of its traces"
    assert sentence in report.notes
    assert sentence in report.doubts
