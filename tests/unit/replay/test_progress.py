"""The progress of a job, on a terminal and elsewhere."""

import io
from types import SimpleNamespace
from typing import Any

from rich.console import Console

from quorate.replay.progress import LINE_EVERY_S, Progress


class Spark:
    """A session with one active stage, of which some tasks are finished."""

    def __init__(self, done: int, tasks: int) -> None:
        stage = SimpleNamespace(numCompletedTasks=done, numTasks=tasks)
        tracker = SimpleNamespace(getActiveStageIds=lambda: [7], getStageInfo=lambda _: stage)
        self.sparkContext = SimpleNamespace(statusTracker=lambda: tracker)


class Stopped:
    """A session that has ended."""

    @property
    def sparkContext(self) -> Any:
        raise ConnectionError("the session has ended")


def test_without_a_terminal_a_long_step_is_reported_now_and_then() -> None:
    now = 0.0
    console = Console(file=io.StringIO(), width=200)
    progress = Progress(console, "starting Spark", clock=lambda: now)
    progress.refresh()
    progress.step("reading [3] files")
    with progress.watching(Spark(2, 8)):
        now += LINE_EVERY_S
        progress.refresh()
        now += LINE_EVERY_S / 2
        progress.refresh()
        assert console.file.getvalue() == "quorate: reading [3] files: 2 of 8 parts done\n"  # type: ignore[attr-defined]


def test_a_session_that_has_ended_is_no_error() -> None:
    now = 0.0
    console = Console(file=io.StringIO(), width=200)
    progress = Progress(console, "starting Spark", clock=lambda: now)
    with progress.watching(Stopped()):
        now += LINE_EVERY_S
        progress.refresh()
    now += LINE_EVERY_S
    progress.refresh()
    assert console.file.getvalue() == 2 * "quorate: starting Spark\n"  # type: ignore[attr-defined]


def test_a_terminal_shows_each_step() -> None:
    console = Console(file=io.StringIO(), width=80, force_terminal=True)
    with Progress(console, "starting Spark") as progress:
        progress.step("reading 3 files")
        with progress.watching(Spark(2, 8)):
            progress.refresh()
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "reading 3 files: 2 of 8 parts done" in shown
