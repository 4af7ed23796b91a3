"""The log of a replica: one line for each event, in a file that is rotated."""

import contextlib
import threading
import time
from pathlib import Path
from typing import Any, cast

from twisted.logger import ILogObserver, LogEvent, LogLevel, formatEvent, globalLogPublisher
from twisted.python.failure import Failure
from twisted.python.logfile import LogFile

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
        """Open the file. Raises OSError when the directory cannot be written."""
        directory.mkdir(parents=True, exist_ok=True)
        self.lost = 0
        self.errors = 0
        """Errors that Twisted reported: each is a defect."""
        self._directory = directory
        self._closed = False
        self._lock = threading.RLock()
        self._file: Any = self._open()
        """None: it is to be opened again."""
        globalLogPublisher.addObserver(cast("ILogObserver", self._observe))

    def line(self, text: str) -> None:
        """Write one line; line ends within it are shown as spaces, other control characters as escapes."""
        now = time.time()
        clock = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now))
        flat = _printable(" ".join(text.split("\n")))[:LINE_CHARS]
        self._write(f"{clock}.{int(now * 1000) % 1000:03d}Z {flat}\n")

    def close(self) -> None:
        """Close the file; lines that come later are dropped."""
        globalLogPublisher.removeObserver(cast("ILogObserver", self._observe))
        with self._lock:
            self._closed = True
            self._let_go()

    def _open(self) -> Any:
        return cast("Any", LogFile)(
            "log",
            str(self._directory),
            rotateLength=ROTATE_BYTES,
            maxRotatedFiles=KEPT_FILES,
            defaultMode=0o640,
        )

    def _let_go(self) -> None:
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
                # Where it could not be rotated it is closed already, and takes nothing any more.
                self._let_go()

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
            self._write("".join(f"{_printable(line)}\n" for line in lines))


def _printable(text: str) -> str:
    """The text without what a terminal would obey: much of it comes from peers and clients."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
