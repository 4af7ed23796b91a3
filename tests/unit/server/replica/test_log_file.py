"""The log of a replica: what is said in it cannot write to a terminal, and a full disk stops nobody."""

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest
from twisted.logger import Logger

from quorate.server.replica.log_file import LINE_CHARS, ReplicaLog


def test_control_characters_are_escaped_and_a_line_stays_one(tmp_path: Path) -> None:
    log = ReplicaLog(tmp_path)
    log.open()
    log.line("client\x1b[2J said\r\n\x00\ud800 é")
    log.line("\x07" * LINE_CHARS)
    log.close()
    first, second = (tmp_path / "log").read_text().splitlines()
    assert first.partition(" ")[2] == r"client\x1b[2J said\r \x00\ud800 é"
    assert len(second.partition(" ")[2]) == LINE_CHARS


def test_the_traceback_of_a_defect_is_escaped_too(tmp_path: Path) -> None:
    log = ReplicaLog(tmp_path)
    log.open()
    try:
        raise ValueError("bad\x1b[31m")
    except ValueError:
        Logger().failure("a defect")
    log.close()
    text = (tmp_path / "log").read_text()
    assert "Traceback" in text
    assert "\x1b" not in text
    assert log.errors == 1


@pytest.mark.parametrize("step", ["rename", "open"])
def test_a_log_that_cannot_be_rotated_loses_lines_and_goes_on_once_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr("quorate.server.replica.log_file.ROTATE_BYTES", 100)
    log = ReplicaLog(tmp_path)
    log.open()
    log.line("x" * 100)
    with monkeypatch.context() as trouble:
        if step == "rename":
            trouble.setattr(os, "rename", refuse)
        else:
            trouble.setattr("twisted.python.logfile.open", refuse, raising=False)
        for _ in range(3):
            log.line("lost")
        assert log.lost == 3
    log.line("found")
    log.close()
    assert (tmp_path / "log").read_text().endswith(" found\n")
    assert "x" * 100 in (tmp_path / "log.1").read_text()


def test_lines_are_json_objects_by_choice(tmp_path: Path) -> None:
    log = ReplicaLog(tmp_path, {"server": "s0", "replica": 1})
    log.open()
    log.line('client "a\x1b"\nsaid é')
    try:
        raise ValueError("bad")
    except ValueError:
        Logger().failure("a defect")
    log.close()
    said, defect = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert said.pop("time").endswith("Z")
    assert said == {"level": "info", "server": "s0", "replica": 1, "text": r'client "a\x1b" said é'}
    assert (defect["level"], defect["text"]) == ("error", "error: a defect: bad")
    assert "Traceback" in defect["traceback"]
