"""`quorate stop` against replicas that are a fake target behind a real port."""

import signal
from functools import partial
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from quorate.server.cli import stop


def run(*args: object) -> Result:
    result = CliRunner().invoke(stop.command, [str(arg) for arg in args])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.output
    return result


@pytest.mark.parametrize("durability", ["disk", "memory"])
def test_stop_asks_slaves_before_the_master_and_waits(
    serve: Any, target: Any, xml: Any, durability: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a busy machine a slave may not answer in time, and is then asked last, rightly.
    monkeypatch.setattr(stop, "gather", partial(stop.gather, timeout_s=60.0))
    asked: list[Any] = []
    servers: list[Any] = []

    def on_stop(made: Any) -> None:
        asked.append(made)
        if durability == "memory":
            servers[made.replica].close()
        elif len(asked) == 3:
            # As slaves with disks do, which wait for the master.
            for served in servers:
                served.close()

    for number, role in enumerate(("slave", "master", "slave")):
        made = target(replica=number, role=role)
        made.on_stop = partial(on_stop, made)
        servers.append(serve(made))
    shown = run(xml(*(served.port for served in servers), durability=durability))
    assert shown.exit_code == 0, shown.stderr
    # All slaves are asked to stop before any is waited for.
    assert [made.replica for made in asked] in ([0, 2, 1], [2, 0, 1])
    assert [made.together for made in asked] == [durability == "disk"] * 3
    assert "s0.1 stopped" in shown.stdout


def test_stop_stops_the_master_even_if_its_output_fails(
    serve: Any, target: Any, xml: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    slave, master = target(replica=0, role="slave"), target(replica=1)
    served = [serve(slave), serve(master)]
    slave.on_stop, master.on_stop = served[0].close, served[1].close
    said: list[str] = []

    def echo(text: str, err: bool = False) -> None:
        if not err:
            raise BrokenPipeError
        said.append(text)

    monkeypatch.setattr(click, "echo", echo)
    monkeypatch.setattr("quorate.server.cli.output.drop_output", lambda: None)
    shown = run(xml(*(each.port for each in served)))
    assert (shown.exit_code, slave.stops, master.stops) == (0, 1, 1)
    assert len(said) == 1
    assert "nothing more is printed; the replicas are stopped anyway" in said[0]


def test_stop_of_one_replica_leaves_the_others(serve: Any, target: Any, xml: Any, free_port: int) -> None:
    made = target(replica=0)
    served = serve(made)
    config = xml(served.port, free_port)
    shown = run(config, "--server", "s0", "--replica", 1)
    assert (shown.exit_code, made.stops) == (0, 0)
    assert "s0.1 was down" in shown.stdout
    made.on_stop = served.close
    assert run(config, "--server", "s0", "--replica", 0).exit_code == 0
    assert made.together is False
    assert run(config, "--replica", 1).exit_code == 2
    assert "no replica 7" in run(config, "--server", "s0", "--replica", 7).stderr


def test_stop_ends_a_replica_that_does_not_listen_yet(
    xml: Any, free_port: int, tmp_path: Path, hold: Any
) -> None:
    data = tmp_path / "elsewhere"
    starting = hold(data)
    config = xml(free_port, free_port + 1)
    assert "s0.1 was down" in run(config).stdout
    shown = run(config, "--data", data)
    assert starting.wait(10) == -signal.SIGTERM
    assert shown.exit_code == 0, shown.stderr
    assert "s0.0 was down" in shown.stdout
    assert "s0.1 stopped" in shown.stdout


def test_stop_stops_the_others_when_one_refuses(serve: Any, target: Any, xml: Any) -> None:
    refusing, good = serve(target(role="slave"), secret="one"), target(replica=1)
    served = serve(good)
    good.on_stop = served.close
    shown = run(xml(refusing.port, served.port))
    assert (shown.exit_code, good.stops) == (1, 1)
    assert shown.stdout == "s0.1 stopped\n"
    assert shown.stderr.startswith("quorate: s0.0: localhost:")
    assert "property 'secret'" in shown.stderr


def test_stop_lists_the_replicas_that_still_run(
    serve: Any, target: Any, xml: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stop, "STOP_TIMEOUT_S", 0.0)
    shown = run(xml(serve(target()).port))
    assert shown.exit_code == 1
    assert "s0.0: still running" in shown.stderr
