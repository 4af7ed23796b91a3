"""The command line itself: what it lists, what it imports, how it ends."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest

import quorate.__main__ as command_line
from quorate.server.config import ConfigError, Problem


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "quorate", *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def raising(error: BaseException) -> Callable[[], object]:
    def run() -> object:
        raise error

    return run


LIBRARIES = ("twisted", "lxml", "rich", "pyspark", "importlib.metadata")


@pytest.mark.parametrize(
    ("module", "libraries"),
    [
        ("quorate.server.config", ("twisted", "rich", "importlib.metadata")),
        ("quorate.server.cli.check", ("twisted", "importlib.metadata")),
        ("quorate.server.cli.start", ("rich", "importlib.metadata")),
    ],
)
def test_a_command_imports_no_library_that_it_does_not_need(module: str, libraries: tuple[str, ...]) -> None:
    code = f"import sys, {module}; print([name for name in {libraries} if name in sys.modules])"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert result.stdout == "[]\n"


def test_help_lists_the_commands_without_importing_them() -> None:
    code = (
        "import sys; sys.argv = ['quorate', '--help']\n"
        "import quorate.__main__ as m\n"
        "try: m.main()\n"
        "except SystemExit as e: assert not e.code\n"
        f"print([name for name in {LIBRARIES} if name in sys.modules])\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert all(f"  {name} " in result.stdout for name in command_line.COMMANDS)
    assert result.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1])
def test_up_and_start_end_in_order_before_they_have_begun_and_when_they_end(number: signal.Signals) -> None:
    code = (
        "import signal, sys; sys.argv = ['quorate', 'start']\n"
        "import quorate.__main__ as m\n"
        f"m.cli.main = lambda **_: {{}}signal.raise_signal({number.value})\n"
        "try: m.main()\n"
        f"finally: signal.raise_signal({number.value})\n"
    )
    for ending in ("", "None and "):
        result = subprocess.run(
            [sys.executable, "-c", code.format(ending)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (result.returncode, result.stderr) == (0, "")


def test_wrong_usage_is_2_and_a_wrong_file_is_1() -> None:
    assert run("check").returncode == 2
    assert run("nonsense").returncode == 2
    wrong = run("check", "no such file.xml")
    assert (wrong.returncode, wrong.stderr) == (
        1,
        "no such file.xml: there is no such file; check the path.\n",
    )


def test_the_version_is_printed() -> None:
    result = run("--version")
    assert result.returncode == 0
    assert result.stdout.startswith("quorate, version ")


@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        (click.ClickException("a sentence."), 1, "Error: a sentence.\n"),
        (ConfigError([Problem("f.xml", 3, "mend it.")]), 1, "f.xml:3: mend it.\n"),
        (KeyboardInterrupt(), 130, ""),
        (click.Abort(), 130, ""),
        (
            ZeroDivisionError("of\nnought"),
            70,
            "Unexpected error: ZeroDivisionError: of nought. Run `quorate --traceback COMMAND ...`, "
            "or set QUORATE_TRACEBACK=1, for the details.\n",
        ),
    ],
)
def test_an_exception_becomes_one_sentence_and_an_exit_status(
    error: BaseException,
    status: int,
    text: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("QUORATE_TRACEBACK", raising=False)
    assert command_line.guarded(raising(error)) == status
    assert capsys.readouterr().err == text


def test_the_traceback_is_shown_where_it_is_asked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUORATE_TRACEBACK", "1")
    assert command_line.guarded(raising(ZeroDivisionError())) == 70
    assert "Traceback" in capsys.readouterr().err


def test_a_command_with_a_missing_dependency_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError("No module named 'pyspark'", name="pyspark")

    monkeypatch.setattr(command_line.importlib, "import_module", missing)
    status = command_line.guarded(lambda: command_line.cli.main(["replay"], standalone_mode=False))
    assert status == 1
    assert "needs the module pyspark" in capsys.readouterr().err


def test_a_reader_that_goes_away_is_no_error() -> None:
    script = f"{sys.executable} -m quorate --help | head -c 10"
    result = subprocess.run(script, shell=True, capture_output=True, text=True, timeout=60, check=False)
    assert result.stderr == ""


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", [("--help",), ("check", "--help"), ("check", "{file}")])
def test_an_output_that_cannot_be_written_is_one_sentence(
    tmp_path: Path, arguments: tuple[str, ...], unbuffered: str
) -> None:
    file = tmp_path / "a3servers.xml"
    file.write_text(
        '<config><domain name="D1"/><server id="0" name="s0" hostname="localhost">'
        '<network domain="D1" port="100"/></server></config>'
    )
    command = [sys.executable, "-m", "quorate", *(each.format(file=file) for each in arguments)]
    with open("/dev/full", "w", encoding="utf-8") as full:
        result = subprocess.run(
            command,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        )
    assert (result.returncode, result.stderr) == (
        1,
        "quorate: the standard output cannot be written (No space left on device).\n",
    )


def test_an_output_that_is_closed_is_no_error() -> None:
    script = f"{sys.executable} -m quorate --help >&-"
    result = subprocess.run(script, shell=True, capture_output=True, text=True, timeout=60, check=False)
    assert (result.returncode, result.stderr) == (0, "")


def test_a_disk_error_of_the_command_is_not_blamed_on_the_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.guarded(raising(OSError(28, "No space left on device"))) == 70
    assert "Unexpected error: OSError" in capsys.readouterr().err
