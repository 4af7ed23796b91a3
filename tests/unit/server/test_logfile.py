"""The log of a replica: what others say cannot write to the terminal of whoever reads it."""

from pathlib import Path

from twisted.logger import Logger

from quorate.server.logfile import LINE_CHARS, ReplicaLog


def test_control_characters_are_escaped_and_a_line_stays_one(tmp_path: Path) -> None:
    log = ReplicaLog(tmp_path)
    log.line("client\x1b[2J said\r\n\x00\ud800 é")
    log.line("\x07" * LINE_CHARS)
    log.close()
    first, second = (tmp_path / "log").read_text().splitlines()
    assert first.partition(" ")[2] == r"client\x1b[2J said\r \x00\ud800 é"
    assert len(second.partition(" ")[2]) == LINE_CHARS


def test_the_traceback_of_a_defect_is_escaped_too(tmp_path: Path) -> None:
    log = ReplicaLog(tmp_path)
    try:
        raise ValueError("bad\x1b[31m")
    except ValueError:
        Logger().failure("a defect")
    log.close()
    text = (tmp_path / "log").read_text()
    assert "Traceback" in text
    assert "\x1b" not in text
    assert log.errors == 1
