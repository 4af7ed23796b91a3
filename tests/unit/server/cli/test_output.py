"""Output that cannot be printed: processes continue, and characters are escaped."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest

from quorate.agents import AgentId
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


def quorate(*words: object, encoding: str) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        [sys.executable, "-m", "quorate", *map(str, words)],
        capture_output=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"},
    )


NAME = "\u00e9\u65e5\U0001f600"
LISTED = {
    "ascii": b"\\u00e9\\u65e5\\ud83d\\ude00",
    "ascii:surrogateescape": b"\\u00e9\\u65e5\\ud83d\\ude00",
    "latin-1": b"\xe9\\u65e5\\ud83d\\ude00",
    "utf-8": NAME.encode(),
    "ascii:replace": b"???",
}


@pytest.fixture
def config(serve: Any, target: Any, xml: Any) -> Path:
    """The configuration of a server with an agent called NAME."""
    known = [(AgentId(0, 0, 1025), NAME, "bank:Account", 3)]
    served = target(known=known, states={NAME: msgspec.msgpack.encode({"owner": NAME})})
    return xml(serve(served).port, plain=True)


@pytest.mark.parametrize("encoding", LISTED)
def test_characters_that_the_encoding_of_the_output_lacks_are_escaped(config: Path, encoding: str) -> None:
    done = quorate("agents", config, encoding=encoding)
    assert (done.returncode, done.stderr) == (0, b"")
    assert LISTED[encoding] in done.stdout


def test_escaped_json_is_json(config: Path) -> None:
    done = quorate("inspect", config, NAME, "--server", "s0", encoding="ascii")
    shown = json.loads(done.stdout.decode("ascii"))
    assert (shown["name"], shown["state"]) == (NAME, {"owner": NAME})


def test_an_error_is_escaped_too(tmp_path: Path) -> None:
    done = quorate("check", tmp_path / f"{NAME}.xml", encoding="ascii")
    assert done.returncode == 1
    assert LISTED["ascii"] in done.stderr


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
