"""The audit of a mesh reads the traces of real daemons, and names what is wrong in them."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from quorate import Servers
from quorate.__main__ import cli
from quorate.mesh import connect
from quorate.replay import MeshAudit, NoTrace, audit_mesh, local_session, verify

from .running import BOUND_S, ROOT

pytestmark = pytest.mark.processes
pa: Any = pytest.importorskip("pyarrow")
pq: Any = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("duckdb")
COUNT = 300

Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the data of a mesh in which a subscriber has moved, and all daemons have stopped in order."""
    path = tmp_path_factory.mktemp("mesh")
    config = path / "mesh.xml"
    text = (ROOT / "examples" / "mesh.xml").read_text()
    config.write_text(text.replace("<cluster ", '<property name="trace_roll_s" value="0.5"/><cluster ', 1))
    data = path / "data"
    with Servers(config, free_ports=True, data=data) as servers:
        ends = servers.url("m0").removeprefix("quorate://").split(",")
        with connect(f"quorate://{ends[0]}", user="root", password="root") as mesh:
            mesh.create("prices")
        cursor = path / "audit.cursor"
        for number, end in enumerate(ends):
            with (
                connect(f"quorate://{end}", user="root", password="root") as mesh,
                mesh.subscribe("prices", name="audit", cursor=cursor) as reader,
            ):
                for each in range(COUNT // 3):
                    mesh.publish_nowait("prices", b"%d/%d" % (number, each))
                mesh.flush(BOUND_S)
                for _ in range(COUNT // 3):
                    reader.receive(BOUND_S)
                    reader.acknowledge()
    return data / "m0"


def audit(place: Path) -> MeshAudit:
    with local_session(memory="512m") as session:
        return audit_mesh(session, place)


def test_a_mesh_that_did_everything_right_is_found_so(traces: Path) -> None:
    found = audit(traces)
    assert found.ok, (found.problems, found.doubts)
    (topic,) = found.topics
    assert (topic.topic, topic.messages, topic.publishers, topic.waiting) == ("prices", COUNT, 3, 0)
    assert topic.deliveries - topic.again == COUNT
    assert [(each.daemon, each.lives, each.killed, each.taken) for each in found.daemons] == [
        (daemon, 1, 0, COUNT // 3) for daemon in range(3)
    ]


def changed(traces: Path, place: Path, change: Callable[[Rows], Rows | None]) -> MeshAudit:
    """Audit a copy of the traces in which the events of each daemon were changed."""
    shutil.copytree(traces, place)
    for daemon in sorted(place.iterdir()):
        files = sorted((daemon / "trace").glob("*.parquet"))
        tables = [pq.read_table(file) for file in files]
        rows = [row for table in tables for row in table.to_pylist()]
        made = change(rows) or rows
        for number, row in enumerate(made, 1):
            row["position"] = number
        table = pa.Table.from_pylist(made, schema=tables[0].schema)
        for file in files:
            file.unlink()
        pq.write_table(table, files[0])
    return audit(place)


def deliveries(rows: Rows) -> Rows:
    return [row for row in rows if row["kind"] == "deliver"]


def other_content(rows: Rows) -> None:
    for row in rows:
        if row["kind"] == "have" and row["replica"] == 1:
            row["stamp"] += 1


def stored_twice(rows: Rows) -> Rows:
    first = next(row for row in rows if row["kind"] == "append")
    again = {**first, "cause": first["cause"] + 10_000, "number": first["number"] + 10_000}
    return [*rows, again]


def delivered_out_of_order(rows: Rows) -> Rows | None:
    if rows[0]["replica"] != 0:
        return None
    mine = deliveries(rows)
    whole = {**mine[0], "cause": mine[0]["cause"], "number": mine[-1]["number"]}
    late = {**whole, "number": whole["cause"]}
    whole["cause"] += 1
    kept = [row for row in rows if row["kind"] != "deliver"]
    return [*kept, whole, late]


def delivered_twice(rows: Rows) -> Rows:
    return [*rows, {**deliveries(rows)[0]}]


def never_delivered(rows: Rows) -> Rows | None:
    if rows[0]["replica"] != 2:
        return None
    own = [row for row in deliveries(rows) if f"/{row['replica']}/{row['incarnation']}" in row["agent"]]
    last, first = own[-1]["number"], own[0]["cause"]
    kept = [row for row in rows if row not in own]
    ends = [{**own[0], "number": first}, {**own[0], "cause": last, "number": last}]
    return [*kept, *ends]


def removed_bodies_too_early(rows: Rows) -> Rows:
    return [row for row in rows if row["kind"] not in ("ack", "cursor")]


def removed_records_too_early(rows: Rows) -> None:
    trims = [row for row in rows if row["kind"] == "trim"]
    if rows[0]["replica"] == 1 and trims:
        trims[-1]["number"] += 10_000


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (other_content, "content"),
        (stored_twice, "stored twice"),
        (delivered_out_of_order, "order"),
        (delivered_twice, "delivered twice"),
        (never_delivered, "skipped"),
        (removed_bodies_too_early, "bodies"),
        (removed_records_too_early, "records"),
    ],
)
def test_what_is_wrong_is_named(
    traces: Path, tmp_path: Path, change: Callable[[Rows], Rows | None], rule: str
) -> None:
    found = changed(traces, tmp_path / "m0", change)
    assert {each.partition(":")[0] for each in found.problems} == {rule}


def test_events_that_are_missing_are_named(traces: Path, tmp_path: Path) -> None:
    place = tmp_path / "m0"
    shutil.copytree(traces, place)
    # How many events a file has depends on how fast they came.
    files = sorted((place / "0" / "trace").glob("*.parquet"))
    file, table = next((file, found) for file in files if len(found := pq.read_table(file)) > 3)
    pq.write_table(table.filter([number != 2 for number in range(len(table))]), file)
    assert any("lacks events " in doubt for doubt in audit(place).doubts)


def test_the_command_prints_the_audit_and_other_jobs_say_that_this_is_a_mesh(traces: Path) -> None:
    result = CliRunner().invoke(cli, ["replay", "mesh", str(traces), "--json", "--engine", "local"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["topics"][0]["messages"] == COUNT
    with local_session(memory="512m") as session, pytest.raises(NoTrace, match="quorate replay mesh"):
        verify(session, traces)
