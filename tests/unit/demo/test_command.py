"""What the command says before any server starts."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from quorate.demo import data, story
from quorate.demo.command import command
from quorate.demo.result import Result, Timeline, Verdict
from quorate.demo.story import Options, run
from quorate.demo.totals import Delivery


def made(good: bool) -> Result:
    verdict = Verdict({}, {}, {}, (), Delivery(0, 0 if good else 1, 0), True)
    return Result(1, 2, 1.0, None, Timeline(), verdict, (), {})


def test_a_directory_in_use_is_not_touched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "something").write_text("mine")

    assert run(Options(data=tmp_path)) == 1
    assert "is not empty" in " ".join(capsys.readouterr().out.split())
    assert [path.name for path in tmp_path.iterdir()] == ["something"]


def test_missing_flights_are_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(data, "find_spec", lambda _name: None)

    assert run(Options()) == 1
    out = capsys.readouterr().out
    assert 'pip install "quorate[demo]"' in out
    assert "Traceback" not in out


def test_options_reach_the_run_and_its_status_is_the_exit_status(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Options] = []

    def fake(options: Options) -> int:
        seen.append(options)
        return 1

    monkeypatch.setattr(story, "run", fake)
    outcome = CliRunner().invoke(
        command, ["--rows", "5", "--json", "--no-kill", "--report", "r.html", "--seed", "7"]
    )

    assert outcome.exit_code == 1
    assert (seen[0].rows, seen[0].as_json, seen[0].kill, seen[0].seed) == (5, True, False, 7)


def test_no_rows_is_wrong_usage() -> None:
    assert CliRunner().invoke(command, ["--rows", "0"]).exit_code == 2


@pytest.mark.parametrize("good", [True, False])
def test_with_json_only_one_line_goes_to_standard_output(
    good: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fake(_options: Options, _directory: Path, screen: story.Screen, _began_s: float) -> Result:
        screen.show("on the way")
        return made(good)

    monkeypatch.setattr(story, "_run", fake)

    assert run(Options(as_json=True, report=tmp_path / "r.html")) == (0 if good else 1)
    captured = capsys.readouterr()
    assert json.loads(captured.out)["lost"] == (0 if good else 1)
    assert captured.out.count("\n") == 1
    assert "on the way" in captured.err


def test_ctrl_c_is_130_and_removes_the_temporary_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Path] = []

    def fake(_options: Options, directory: Path, _screen: story.Screen, _began_s: float) -> Result:
        seen.append(directory)
        raise KeyboardInterrupt

    monkeypatch.setattr(story, "_run", fake)

    assert run(Options()) == 130
    assert not seen[0].exists()


def test_a_run_that_failed_keeps_its_directory_and_says_where(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(story.tempfile, "mkdtemp", lambda prefix: str(tmp_path))

    def fake(*_: object) -> Result:
        raise story.DemoError("The cluster is lost.")

    monkeypatch.setattr(story, "_run", fake)

    assert run(Options()) == 1
    assert tmp_path.exists()
    out = capsys.readouterr().out
    assert "The cluster is lost." in out
    assert "Logs and traces are kept" in out
