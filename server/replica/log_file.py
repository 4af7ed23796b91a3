"""The log of a replica: one line for each event, in a file that is rotated."""

import contextlib
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from twisted.logger import ILogObserver, LogEvent, LogLevel, formatEvent, globalLogPublisher
from twisted.python.failure import Failure
from twisted.python.logfile import LogFile

from ...engine.error_text import printable
from ..storage.private_files import PRIVATE_FILE, make_directory

__all__ = ["ReplicaLog"]

ROTATE_BYTES = 4 * 1024 * 1024
KEPT_FILES = 4
LINE_CHARS = 4000


class ReplicaLog:
    """Writes ``DIRECTORY/log``; older lines are in ``log.1`` to ``log.4``.

    Also takes what Twisted reports as errors (an exception nobody handled, say), with the traceback. When the
    disk refuses, lines are lost and counted in `lost`: a log must not stop the server. Lines come from any
    thread. With `labels` each line is a JSON object with these members, ``time``, ``level`` (``info``, or
    ``error`` for a defect), ``text``, and ``traceback`` of a defect.
    """

    def __init__(self, directory: Path, labels: Mapping[str, str | int] | None = None) -> None:
        self.on_announce: Callable[[str], None] | None = None
        """Called with the lines meant for the user who started the replica."""
        self.lost = 0
        self.errors = 0
        """Errors that Twisted reported: each is a defect."""
        self._directory = directory
        self._labels = labels
        self._closed = True
        self._lock = threading.RLock()
        self._file: Any = None
        """The open file; None if the next line has to open it again."""

    def open(self) -> None:
        """Open the file; lines before are dropped. Raises OSError when the directory cannot be written."""
        make_directory(self._directory)
        self._file = self._open()
        self._closed = False
        globalLogPublisher.addObserver(cast("ILogObserver", self._observe))

    def line(self, text: str) -> None:
        """Write one line; line ends within it are shown as spaces, other control characters as escapes."""
        self._line(text, "info")

    def _line(self, text: str, level: str, traceback: Sequence[str] = ()) -> None:
        now = time.time()
        clock = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now))
        clock = f"{clock}.{int(now * 1000) % 1000:03d}Z"
        flat = printable(" ".join(text.split("\n")))[:LINE_CHARS]
        lines = [printable(each) for each in traceback]
        if self._labels is None:
            self._write("".join(f"{each}\n" for each in (f"{clock} {flat}", *lines)))
            return
        members = {"time": clock, "level": level, **self._labels, "text": flat}
        if lines:
            members["traceback"] = "\n".join(lines)
        self._write(json.dumps(members, ensure_ascii=False) + "\n")

    def announce(self, line: str) -> None:
        """Write a line, and show it to the user who started the replica."""
        self.line(line)
        self.show(line)

    def show(self, line: str) -> None:
        """Show a line to the user who started the replica, without writing it."""
        if self.on_announce is not None:
            # The terminal of the user may be closed, and a disk behind it full.
            with contextlib.suppress(OSError, ValueError):
                self.on_announce(line)

    def close(self) -> None:
        """Close the file; lines that come later are dropped."""
        globalLogPublisher.removeObserver(cast("ILogObserver", self._observe))
        with self._lock:
            self._closed = True
            self._close_file()

    def _open(self) -> Any:
        return cast("Any", LogFile)(
            "log",
            str(self._directory),
            rotateLength=ROTATE_BYTES,
            maxRotatedFiles=KEPT_FILES,
            defaultMode=PRIVATE_FILE,
        )

    def _close_file(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):
                file.close()

    def _write(self, text: str) -> None:
        with self._lock:
            if self._closed:
                return
            try:
                if self._file is None:
                    self._file = self._open()
                self._file.write(text)
            except OSError:
                self.lost += 1
                # A file that could not be rotated is closed already, and cannot be written.
                self._close_file()

    def _observe(self, event: LogEvent) -> None:
        if event.get("log_level") not in (LogLevel.error, LogLevel.critical):
            return
        self.errors += 1
        failure = cast("Failure | None", event.get("log_failure"))
        if failure is None:
            self._line(f"error: {formatEvent(event)}", "error")
        else:
            text = f"error: {formatEvent(event)}: {failure.getErrorMessage()}"
            self._line(text, "error", failure.getTraceback().splitlines())
