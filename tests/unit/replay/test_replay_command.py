"""What the command does before Spark has a say."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from quorate.agents import AgentId
from quorate.engine import Reaction
from quorate.replay import AgentResult, JavaNotFound, ReplayError, RerunReport, SparkMissing
from quorate.replay.command import command
from quorate.replay.live import compare, read_live
from quorate.replay.queries import escape
from quorate.replay.schema import Origin, arrow_schema
from quorate.replay.session import check_user, failure_line, spark_api
from quorate.server.trace.writer import TraceWriter


def result(agent: str, state: Any, **changes: Any) -> AgentResult:
    return AgentResult("s0", agent, "bank:Account", 3, 0, 1, 9, state, **changes)


def one_row(data: Path) -> None:
    made = Reaction(
        position=1,
        index=1,
        step=0,
        now_ns=1_700_000_000_000_000_000,
        agent=AgentId(0, 0, 1025),
        cls="bank:Account",
        kind="react",
        sender=AgentId(0, 0, 1),
        type="<b>bank:Deposit</b>",
        payload=b"",
        request=0,
        error="",
        sends=0,
        outputs=b"",
        stamp=1100,
    )
    writer = TraceWriter(data / "s0" / "0" / "trace", Origin("s0", 0, 0, 1))
    writer.write([made])
    writer.close()


def test_importing_the_package_does_not_import_spark(tmp_path: Path) -> None:
    import subprocess

    code = (
        "import sys, quorate.replay.command; sys.exit('pyspark' in sys.modules or 'pyarrow' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_no_trace_argument_is_wrong_usage() -> None:
    assert CliRunner().invoke(command, ["verify"]).exit_code == 2


def test_no_java_is_one_sentence_and_status_3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object, **__: object) -> None:
        raise JavaNotFound("there is no Java.")

    one_row(tmp_path)
    monkeypatch.setattr("quorate.replay.options.spark_session", none)
    done = CliRunner().invoke(command, ["verify", str(tmp_path), "--engine", "spark"])
    assert (done.exit_code, done.stderr) == (3, "quorate: there is no Java.\n")


def test_a_small_trace_is_read_without_spark(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    one_row(tmp_path)
    page = tmp_path / "report.html"
    done = CliRunner().invoke(command, ["totals", str(tmp_path), "--json", "--report", str(page)])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["program"].startswith("DuckDB ")
    assert [row["type"] for row in found["rows"]] == ["<b>bank:Deposit</b>"]
    text = page.read_text()
    assert "<td>&lt;b&gt;bank:Deposit&lt;/b&gt;</td>" in text
    assert "<svg" in text


def test_a_report_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    one_row(tmp_path)
    done = CliRunner().invoke(command, ["totals", str(tmp_path), "--report", str(tmp_path / "no" / "r.html")])
    assert done.exit_code == 3
    assert done.stderr.startswith("quorate: the report cannot be written: ")


@pytest.mark.parametrize("job", [["verify"], ["totals"], ["show", "--agent", "0.0.1025"]])
def test_traces_without_a_row_are_one_sentence_and_status_1(job: list[str], tmp_path: Path) -> None:
    parquet: Any = pytest.importorskip("pyarrow.parquet")
    schema = arrow_schema(Origin("s0", 0, 0, 1).metadata(0))
    for replica in ("0", "1"):
        (tmp_path / replica).mkdir()
        parquet.write_table(schema.empty_table(), tmp_path / replica / "1-000001.parquet")
    done = CliRunner().invoke(command, [job[0], str(tmp_path), *job[1:]])
    assert done.exit_code == 1
    assert done.stderr.startswith("quorate: none of the 2 trace files can be read; the first is ")
    assert done.stderr.endswith("1-000001.parquet: there is no row in it\n")


def test_a_missing_pyspark_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")  # which is asked for first
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(
        SparkMissing, match=r"needs pyspark, which is not installed: run `pip install 'quorate\[rep"
    ):
        spark_api()


def test_a_user_without_a_name_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getuid", lambda: 54321)
    with pytest.raises(ReplayError, match="user 54321 has none: run this as a user"):
        check_user()


def test_the_line_with_the_reason_is_shown_from_the_java_log(tmp_path: Path) -> None:
    log = tmp_path / "spark.log"
    assert failure_line(log) == ""
    log.write_text("Error: could not create the Java Virtual Machine.\n\tat a.B.c(B.scala:1)\n... 3 more\n")
    assert failure_line(log) == "Error: could not create the Java Virtual Machine."


def test_names_with_wildcards_are_taken_literally() -> None:
    assert escape("/data/{a}[b]*?\\x") == "/data/\\{a\\}\\[b\\]\\*\\?\\\\x"


def test_live_states_come_in_three_forms(tmp_path: Path) -> None:
    path = tmp_path / "live.json"
    lines = [
        json.dumps({"id": f"#0.0.{stamp}", "name": None, "state": {"balance": stamp}}) for stamp in (1, 2)
    ]
    expected = {"#0.0.1": {"balance": 1}, "#0.0.2": {"balance": 2}}
    for text in ("\n".join(lines), f"[{', '.join(lines)}]", json.dumps(expected)):
        path.write_text(text)
        assert read_live(path) == expected
    twice = '{"id": "#0.0.1", "state": {"balance": %d}}'
    for text in ("{", "[1]", '{"balance": 3}', "[]", "{}", f"[{twice % 1}, {twice % 2}]"):
        path.write_text(text)
        with pytest.raises(ReplayError):
            read_live(path)


def test_live_agents_are_compared_attribute_by_attribute() -> None:
    again = RerunReport(
        (
            result("#0.0.1", {"balance": 1, "owner": "a"}),
            result("#0.0.2", {"balance": 2}),
            result("#0.0.3", None, deleted=True),
            result("#0.0.4", None, skipped="no class"),
        )
    )
    live = {
        "#0.0.1": {"balance": 3, "owner": "a"},
        "#0.0.2": {"balance": 2},
        "#0.0.3": {},
        "#0.0.4": {},
        "#0.0.5": {},
    }
    assert compare(again, live) == [
        "agent #0.0.1 differs from the live one: balance is 1, live 3",
        "agent #0.0.3 is live, and was deleted according to the trace",
        "agent #0.0.4 cannot be compared with the live one: no class",
        "agent #0.0.5 is live, and the trace does not know it",
    ]


def test_agents_not_run_again_are_one_problem_per_reason() -> None:
    agents = tuple(result(f"#0.0.{stamp}", None, skipped="no module bank") for stamp in range(3))
    assert RerunReport(agents).problems == [
        "s0: agent #0.0.0 and 2 others (bank:Account) not run again: no module bank"
    ]
