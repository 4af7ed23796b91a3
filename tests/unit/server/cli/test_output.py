"""Processes that continue when their lines cannot be printed."""

import os
import subprocess
import sys

import click
import pytest

from quorate.server.cli.output import Printer


def test_after_a_failed_line_nothing_is_printed_and_that_is_reported_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # What is written to the standard output of the tests is not to be dropped.
    monkeypatch.setattr("quorate.server.cli.output.drop_output", lambda: None)
    printer = Printer("the replicas continue")
    printer(lambda: click.echo("one"))

    def full() -> None:
        raise OSError(28, os.strerror(28))

    printer(full)
    printer(full)
    printer(lambda: click.echo("two"))
    said = capsys.readouterr()
    assert said.out == "one\n"
    assert said.err == (
        "quorate: the standard output cannot be written (No space left on device): nothing more is printed; "
        "the replicas continue\n"
    )


@pytest.mark.parametrize("error", [BrokenPipeError(), SystemExit(1), ValueError("closed")])
def test_a_reader_that_has_gone_does_not_end_the_process(
    error: BaseException, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quorate.server.cli.output.drop_output", lambda: None)

    def gone() -> None:
        raise error

    Printer("it goes on")(gone)
    assert "(its reader has gone): nothing more is printed; it goes on" in capsys.readouterr().err


def test_a_character_that_the_terminal_cannot_show_is_escaped() -> None:
    program = (
        "import click\n"
        "from quorate.server.cli.output import Printer\n"
        "printer = Printer('it goes on')\n"
        "printer(lambda: click.echo('5 \\u20ac'))\n"
        "printer(lambda: click.echo('two'))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": "latin-1"},
    )
    assert (done.stdout, done.stderr) == ("5 \\u20ac\ntwo\n", "")


def test_a_process_that_could_not_print_ends_with_its_own_status() -> None:
    program = (
        "from rich.console import Console\n"
        "from quorate.server.cli.output import Printer\n"
        "printer, console = Printer('it goes on'), Console()\n"
        "printer(lambda: console.print('one'))\n"
        "printer(lambda: console.print('two'))\n"
    )
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run(
            [sys.executable, "-c", program],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert (done.returncode, done.stderr.count("\n")) == (0, 1), done.stderr
