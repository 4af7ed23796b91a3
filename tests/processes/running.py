"""Processes whose lines a test waits for."""

import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BOUND_S = 60.0
"""Longer than anything takes that happens at all."""

Wanted = str | Callable[[str], bool]


class Running:
    """A process that goes on; its output and its errors are waited for, line by line, never slept for."""

    def __init__(
        self,
        command: Sequence[object],
        *,
        cwd: Path = ROOT,
        env: Mapping[str, str] | None = None,
        before: Sequence[str] = (),
    ) -> None:
        """Start Python with these arguments. `before` goes in front: `ip netns exec NAME`, say."""
        self.process = subprocess.Popen(
            [*before, sys.executable, *map(str, command)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            bufsize=1,
            cwd=cwd,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **(env or {})},
        )
        self.lines: list[str] = []
        """What was read so far."""
        self._queue: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._queue.put(line.rstrip("\n"))
        self._queue.put(None)

    def say(self, line: str) -> None:
        """Write a line to its input."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def hang_up(self) -> None:
        """End its input."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def until(self, wanted: Wanted) -> str:
        """Read until a line is, or contains, what is wanted; return it."""
        # The bound is on silence: a busy machine may take its time, as long as it goes on.
        while True:
            try:
                line = self._queue.get(timeout=BOUND_S)
            except queue.Empty:
                raise AssertionError(f"it did not come; the last lines: {self.lines[-5:]}") from None
            assert line is not None, f"the process ended; the last lines: {self.lines[-5:]}"
            self.lines.append(line)
            if wanted in line if isinstance(wanted, str) else wanted(line):
                return line

    def until_all(self, *texts: str) -> list[str]:
        """Read until each text was part of a line; return those lines."""
        found: dict[str, str] = {}

        def another(line: str) -> bool:
            fresh = {text: line for text in texts if text in line and text not in found}
            found.update(fresh)
            return len(found) == len(texts)

        self.until(another)
        return [found[text] for text in texts]

    def rest(self) -> list[str]:
        """Read until its end; return everything that it said."""
        while (line := self._queue.get(timeout=BOUND_S)) is not None:
            self.lines.append(line)
        return self.lines

    def signal(self, number: int) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    def ended(self) -> int:
        """Wait for its end; return the status."""
        return self.process.wait(BOUND_S)

    def end(self) -> None:
        """Kill it, whatever it does."""
        self.process.kill()
        self.process.wait()


def until(condition: Callable[[], object], what: str = "it") -> None:
    """Ask until the answer is true, with a bound."""
    pause = threading.Event()
    for _ in range(int(BOUND_S / 0.05)):
        if condition():
            return
        pause.wait(0.05)
    raise AssertionError(f"{what} did not happen")
