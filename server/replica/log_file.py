"""The log of a replica: one line for each event, in a file that is rotated."""

import contextlib
import threading
import time
from collections.abc import Callable
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
    thread.
    """

    def __init__(self, directory: Path) -> None:
        self.on_announce: Callable[[str], None] | None = None
        """Called with the lines meant for the user who started the replica."""
        self.lost = 0
        self.errors = 0
        """Errors that Twisted reported: each is a defect."""
        self._directory = directory
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
        now = time.time()
        clock = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now))
        flat = printable(" ".join(text.split("\n")))[:LINE_CHARS]
        self._write(f"{clock}.{int(now * 1000) % 1000:03d}Z {flat}\n")

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
            self.line(f"error: {formatEvent(event)}")
        else:
            self.line(f"error: {formatEvent(event)}: {failure.getErrorMessage()}")
            lines = failure.getTraceback().splitlines()
            self._write("".join(f"{printable(line)}\n" for line in lines))
