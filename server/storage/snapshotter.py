"""Snapshots: the engine's state, saved while the replica works, so that a start has little to apply again."""

from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol

import attrs
from twisted.internet.defer import Deferred

from ...engine import Capture, Engine
from ...hachannel import LogRecord
from ...hachannel.model.log import Appended
from ...hachannel.model.messages import Entry
from ...hachannel.transfer.pacing import rest_after
from .disk_writer import DiskWriter
from .recovery import Recovery
from .recovery_progress import FIRST_REPORT_S, REPORT_INTERVAL_S

__all__ = ["SnapshotHost", "SnapshotSettings", "Snapshotter"]

MAX_FLAWS: Final = 100
"""Lines in the log about agents that cannot be stored; further ones are left out."""
SLICE_AGENTS: Final = 200
SLICE_BYTES: Final = 1024 * 1024
"""Agents, and bytes of them, that are encoded in one turn of the reactor: a few milliseconds."""
CAPTURE_SHARE: Final = 0.25
"""The largest share of the time in which agents are encoded."""
MAX_REST_S: Final = 1.0
"""The longest pause between two slices. If one took longer, something else held up the process."""
LARGE_BYTES: Final = 64 * 1024 * 1024
"""A state of this size, saved at a stop, is announced: to write it takes about a second."""
MIB: Final = 1024 * 1024


@attrs.frozen
class SnapshotSettings:
    """The bounds of the log after the saved state: a snapshot begins when either is reached."""

    snapshot_entries: int = 4096
    snapshot_bytes: int = 8 * 1024 * 1024
    """Bytes of payloads."""


class SnapshotHost(Protocol):
    """The replica."""

    def flush_trace(self) -> "Deferred[Any]":
        """Write the reactions so far to the trace's files; the result fires after that, or its failure."""
        ...

    def log(self, line: str) -> None:
        """Write a line to the log."""
        ...

    def announce(self, line: str) -> None:
        """Write a line to the log, and to whoever has started the replica."""
        ...


class Snapshotter:
    """Captures the engine's state slice by slice, has the trace flushed, and has the disk writer save it.

    It works in the reactor thread, for one use of the journal.
    """

    def __init__(
        self,
        engine: Engine,
        recovery: Recovery,
        disk: DiskWriter,
        reactor: Any,
        host: SnapshotHost,
        settings: SnapshotSettings,
    ) -> None:
        self._engine = engine
        self._log = recovery.log
        self._disk = disk
        self._reactor = reactor
        self._host = host
        self._settings = settings
        self._capture: Capture | None = None
        """The one that is being made or saved."""
        self._logged_flaws: set[str] = set()
        self.saved = recovery.saved
        """The state on the disk is the one after this entry."""
        self._entries = self._bytes = 0
        """The size of the log after the saved state, or after the capture that is under way."""
        self._wanted = False
        """True if a snapshot is due, however short that log is."""
        # Those count that a start has applied again: a replica that is killed soon after each of its starts
        # would have more to apply each time.
        self._count(recovery.unsaved)

    def appended(self, records: Sequence[LogRecord]) -> None:
        """Count the entries of records that are about to be written; begin a snapshot if one is due."""
        for record in records:
            if isinstance(record, Appended):
                self._count(record.entries)
        if self._due:
            self.begin()

    def want(self) -> None:
        """Begin a snapshot as soon as none is under way."""
        self._wanted = True
        if self._due:
            self.begin()

    def installed(self, capture: Capture) -> None:
        """Give up the capture under way: another state, which is `capture`, replaces the engine's."""
        self._capture = None
        self._wanted = False
        self._entries = self._bytes = 0
        self.saved = capture.index

    def begin(self) -> None:
        """Begin a snapshot of the present state."""
        self._wanted = False
        self._entries = self._bytes = 0
        # The saved state may be after an entry that had nothing for the engine, and the log begins there.
        self._capture = self._engine.capture(self.saved)
        # In a later turn, when the reactions so far are on their way to the trace.
        self._reactor.callLater(0, self._encode_slice, self._capture)

    def stop(self) -> None:
        """Give up the capture under way, and begin no other."""
        self._capture = None

    def save_all(self) -> Iterator[None]:
        """Queue the present state, after the one that is being captured; stop everything else.

        Each step of the iterator encodes a slice of the agents. Nothing may be applied to the engine between
        the steps.
        """
        under_way = self._capture
        self.stop()
        return self._save_all(under_way)

    def _save_all(self, under_way: Capture | None) -> Iterator[None]:
        if under_way is not None:
            while not under_way.step(SLICE_AGENTS, SLICE_BYTES):
                yield
            self._disk.save(under_way, 0, _nothing, at_once=True)
        capture = self._engine.capture(self.saved)
        report_at = self._reactor.seconds() + FIRST_REPORT_S
        while not capture.step(SLICE_AGENTS, SLICE_BYTES):
            if self._reactor.seconds() >= report_at:
                report_at += REPORT_INTERVAL_S
                progress = f"{len(capture.agents)} of {len(capture.covered)} agents that have changed"
                self._host.announce(f"stopping: the state is being saved, {progress} so far")
            yield
        if capture.size_bytes >= LARGE_BYTES:
            self._host.announce(f"stopping: {capture.size_bytes // MIB} MiB of state are written")
        self._log_flaws(capture)
        self._disk.save(capture, self._trim_limit(capture), _nothing, at_once=True)

    def _count(self, entries: Sequence[Entry]) -> None:
        self._entries += len(entries)
        self._bytes += sum(len(entry.payload) for entry in entries)

    @property
    def _due(self) -> bool:
        """There is much to apply again, and nothing is being captured."""
        settings = self._settings
        short = self._entries < settings.snapshot_entries and self._bytes < settings.snapshot_bytes
        if short and not self._wanted:
            return False
        # The engine may be captured by somebody else, too: for an incoming state.
        return self._capture is None and not self._engine.capturing

    def _encode_slice(self, capture: Capture) -> None:
        """Encode some agents; after the last, have the trace flushed and then the state saved."""
        if self._capture is not capture:
            return
        began = self._reactor.seconds()
        if not capture.step(SLICE_AGENTS, SLICE_BYTES):
            took_s = self._reactor.seconds() - began
            rest_s = rest_after(took_s, CAPTURE_SHARE, MAX_REST_S)
            self._reactor.callLater(rest_s, self._encode_slice, capture)
            return
        self._log_flaws(capture)
        # Entries before the saved state are not applied again after a crash: their reactions must be in the
        # files of the trace by then.
        self._host.flush_trace().addBoth(lambda _: self._save(capture))

    def _save(self, capture: Capture) -> None:
        if self._capture is capture:
            self._disk.save(capture, self._trim_limit(capture), lambda: self._saved(capture))

    def _trim_limit(self, capture: Capture) -> int:
        """Return the index up to which the journal's entries may go, once the capture is saved."""
        # The log in memory keeps entries that other replicas may still need.
        return min(self._log.base.at, capture.index)

    def _saved(self, capture: Capture) -> None:
        capture.written = True
        if self._capture is capture:
            self._capture = None
            self.saved = capture.index

    def _log_flaws(self, capture: Capture) -> None:
        """Log the agents whose state cannot be stored, each once."""
        for flaw in capture.flaws:
            if flaw not in self._logged_flaws and len(self._logged_flaws) < MAX_FLAWS:
                self._logged_flaws.add(flaw)
                self._host.log(
                    f"{flaw}; it is kept as of the last state that could be, with the reactions since"
                )


def _nothing() -> None:
    """Do nothing: nobody waits for the end of this save."""
