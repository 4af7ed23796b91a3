"""The progress of a job on standard error: a line that changes on a terminal, else a line now and then."""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from threading import Event, Lock, Thread
from typing import Any

from rich.console import Console

__all__ = ["Progress", "finished_tasks"]

POLL_S = 0.5
LINE_EVERY_S = 10.0
"""Without a terminal, a step that takes longer is reported each time that this has passed."""


class Progress:
    """Shows the current step of a job, and how many of its tasks Spark has finished.

    It is a context manager; on leaving it nothing more is shown.
    """

    def __init__(self, console: Console, first: str, clock: Callable[[], float] = time.monotonic) -> None:
        """`console` is that of standard error, `first` the text of the first step."""
        self._console = console
        self._status = console.status(first)
        self._clock = clock
        self._step = first
        self._shown_at = clock()
        self._spark: Any = None
        self._asking = Lock()
        """Held while Spark is asked: a session must not be stopped meanwhile."""
        self._ended = Event()
        self._thread = Thread(target=self._poll, name="progress", daemon=True)

    def __enter__(self) -> "Progress":
        self._status.start()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._status.stop()

    @contextmanager
    def watching(self, spark: Any) -> Generator[None]:
        """Count the tasks of a Spark session, which is not asked any more when the block has ended."""
        self._spark = spark
        try:
            yield
        finally:
            with self._asking:
                self._spark = None

    def step(self, text: str) -> None:
        """Begin a step."""
        self._step = text
        self._status.update(text)

    def refresh(self) -> None:
        """Show the step, if it is time to."""
        due = self._clock() - self._shown_at >= LINE_EVERY_S
        if not self._console.is_terminal and not due:
            return
        text = self._step
        with self._asking:
            tasks = finished_tasks(self._spark)
        if tasks is not None:
            text = f"{text}: {tasks[0]} of {tasks[1]} parts done"
        if self._console.is_terminal:
            self._status.update(text)
        else:
            self._shown_at = self._clock()
            self._console.print(f"quorate: {text}", markup=False, soft_wrap=True)

    def _poll(self) -> None:
        while not self._ended.wait(POLL_S):
            self.refresh()


def finished_tasks(spark: Any) -> tuple[int, int] | None:
    """Return how many tasks of the active stages are finished, and how many there are; None if unknown."""
    if spark is None:
        return None
    try:
        tracker = spark.sparkContext.statusTracker()
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    except Exception:  # the session ends at any time, and what py4j raises then has no common base
        return None
    known = [stage for stage in stages if stage is not None]
    if not known:
        return None
    return sum(stage.numCompletedTasks for stage in known), sum(stage.numTasks for stage in known)
