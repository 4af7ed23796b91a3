"""`quorate skip`, and `quorate status` of a replica that runs and does not answer."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from quorate.server.cli import skip, status
from quorate.server.storage.running_file import RunningReport, remove_running, write_running
from quorate.server.storage.skip_orders import SkipOrder, SkipOrders

ORDER = SkipOrder(17, 4242, 9)


def run(command: Any, *args: object) -> Result:
    result = CliRunner().invoke(command, [str(arg) for arg in args])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.output
    return result


def report(pid: int, entry: int = 17, position: int = 4242) -> RunningReport:
    return RunningReport(pid, entry, 9, 34.0, position, "#0.0.1025 'loop'", "shop:Loop", "shop:Add", "#0.0.1")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """The directory of s0.1."""
    path = tmp_path / "data" / "s0" / "1"
    path.mkdir(parents=True)
    return path


def test_status_names_what_a_process_runs_that_does_not_answer(
    xml: Any, free_port: int, tmp_path: Path, directory: Path, hold: Any
) -> None:
    config = xml(free_port, free_port + 1)
    process = hold(tmp_path / "data")
    write_running(directory, report(process.pid))
    shown = run(status.command, config, "--wait", 0)
    assert shown.exit_code == 1
    assert "runs, does not answer" in shown.stdout.splitlines()[2]
    assert "down" in shown.stdout.splitlines()[1]
    assert (
        f"quorate: s0.1 runs as process {process.pid} and does not answer: entry 17 has been running for "
        "34 s: agent #0.0.1025 'loop' (shop:Loop) reacts to shop:Add from #0.0.1, reaction 4242; if that "
        f"does not end: quorate skip {config} --server s0 17"
    ) in shown.stderr
    replica = json.loads(run(status.command, config, "--wait", 0, "--json").stdout)["servers"][0]["replicas"][
        1
    ]
    assert (replica["role"], replica["pid"]) == ("runs, does not answer", process.pid)
    assert (replica["running"]["entry"], replica["running"]["agent"]) == (17, "#0.0.1025 'loop'")


def test_status_does_not_take_the_words_of_a_former_process_for_those_of_the_present_one(
    xml: Any, free_port: int, tmp_path: Path, directory: Path, hold: Any
) -> None:
    config = xml(free_port, free_port + 1)
    process = hold(tmp_path / "data")
    write_running(directory, report(process.pid + 1))
    shown = run(status.command, config)
    assert (
        f"s0.1 runs as process {process.pid} and does not answer: it starts (its log says so)" in shown.stderr
    )
    assert "is down" not in shown.stderr


def test_skip_writes_the_order_for_every_replica_of_this_machine(
    xml: Any, free_port: int, tmp_path: Path, directory: Path
) -> None:
    """Also for one that was killed while it ran the reaction."""
    config = xml(free_port, free_port + 1, free_port + 2)
    other = tmp_path / "data" / "s0" / "0"
    other.mkdir()
    write_running(directory, report(1))
    shown = run(skip.command, config, "--server", "s0", 17)
    assert shown.exit_code == 0, shown.stderr
    assert shown.stdout.splitlines() == [
        "s0.0: entry 17, reaction 4242 is to be skipped",
        "s0.1: entry 17, reaction 4242 is to be skipped",
    ]
    assert SkipOrders(directory).read() == SkipOrders(other).read() == {ORDER}


def test_skip_waits_until_the_reaction_has_ended(
    xml: Any,
    free_port: int,
    tmp_path: Path,
    directory: Path,
    hold: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = xml(free_port, free_port + 1)
    write_running(directory, report(hold(tmp_path / "data").pid))
    monkeypatch.setattr("time.sleep", lambda _: remove_running(directory))
    shown = run(skip.command, config, "--server", "s0", 17)
    assert (shown.exit_code, shown.stdout.splitlines()[-1]) == (0, "s0.1 goes on")


def test_skip_says_what_to_do_with_a_reaction_that_goes_on(
    xml: Any,
    free_port: int,
    tmp_path: Path,
    directory: Path,
    hold: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = xml(free_port, free_port + 1)
    process = hold(tmp_path / "data")
    write_running(directory, report(process.pid))
    monkeypatch.setattr(skip, "WAIT_S", 0)
    shown = run(skip.command, config, "--server", "s0", 17)
    assert shown.exit_code == 1
    assert f"kill -9 {process.pid}" in shown.stderr


def test_skip_refuses_a_reaction_that_another_replica_has_run_to_its_end(
    serve: Any, target: Any, xml: Any, free_port: int, directory: Path
) -> None:
    config = xml(serve(target(applied=17)).port, free_port)
    write_running(directory, report(1))
    shown = run(skip.command, config, "--server", "s0", 17)
    assert shown.exit_code == 1
    assert "s0.0 has applied entry 17 already" in shown.stderr
    assert f"give {ORDER} in place of 17" in shown.stderr
    assert SkipOrders(directory).read() == frozenset()
    assert run(skip.command, config, "--server", "s0", ORDER).exit_code == 0
    assert SkipOrders(directory).read() == {ORDER}


@pytest.mark.parametrize(
    ("argument", "sentence"),
    [
        ("18", "None of s0.1 says that it runs a reaction of entry 18. They say: s0.1: entry 17 has been"),
        ("x", "'x' is not the number of an entry"),
        ("17.1", "give ENTRY.POSITION.BIRTH"),
    ],
)
def test_an_order_for_a_reaction_that_nothing_is_known_of_is_refused(
    xml: Any, free_port: int, directory: Path, argument: str, sentence: str
) -> None:
    config = xml(free_port, free_port + 1)
    write_running(directory, report(1))
    shown = run(skip.command, config, "--server", "s0", argument)
    assert shown.exit_code == (1 if argument == "18" else 2)
    assert sentence in shown.stderr
    assert SkipOrders(directory).read() == frozenset()


def test_replicas_at_several_reactions_of_an_entry_are_told_apart(
    xml: Any, free_port: int, tmp_path: Path, directory: Path
) -> None:
    config = xml(free_port, free_port + 1)
    other = tmp_path / "data" / "s0" / "0"
    other.mkdir()
    write_running(directory, report(1))
    write_running(other, report(1, position=4243))
    shown = run(skip.command, config, "--server", "s0", 17)
    assert shown.exit_code == 1
    assert "give one of 17.4242.9, 17.4243.9 in its place" in shown.stderr


def test_without_a_directory_on_this_machine_there_is_nothing_to_order(
    xml: Any, free_port: int, tmp_path: Path
) -> None:
    shown = run(skip.command, xml(free_port), "--server", "s0", 17)
    assert shown.exit_code == 1
    assert f"No replica of s0 has a directory in {tmp_path / 'data'}" in shown.stderr


def test_other_machines_are_named_with_the_command_to_run_there(tmp_path: Path, directory: Path) -> None:
    config = tmp_path / "a3servers.xml"
    config.write_text(
        '<config><property name="secret" value="x"/><domain name="D1"/><cluster id="0" name="s0">'
        '<server id="1" hostname="localhost"><network domain="D1" port="1"/></server>'
        '<server id="2" hostname="192.0.2.7"><network domain="D1" port="1"/></server>'
        '<server id="3" hostname="192.0.2.8" witness="true"><network domain="D1" port="1"/></server>'
        "</cluster></config>"
    )
    shown = run(skip.command, config, "--server", "s0", ORDER)
    assert shown.exit_code == 0, shown.stderr
    assert shown.stdout.splitlines()[1:] == [
        f"on 192.0.2.7 run, too: quorate skip {config} --server s0 {ORDER}"
    ]
