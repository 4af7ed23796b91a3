"""What a replica keeps on its disk, and how it comes back from there.

The journal holds the ordered log and the engine's state as of some entry. A start loads the state and applies
the committed entries after it once more; then the channel goes on from there.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, Protocol

import attrs
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Cooperator
from twisted.internet.threads import deferToThread

from ...agents import AgentError
from ...engine import Capture, Engine, EngineStopped, Nondeterministic, Reaction, SnapshotError, StagedPart
from ...hachannel import LogRecord
from ...hachannel.journal.durable_log import DurableLog
from ...hachannel.journal.errors import FRAMES_SUFFIX, frames_path
from ...hachannel.journal.journal import Damaged, Identity, Journal, JournalError, database_error
from ...hachannel.model.log import Appended
from ...hachannel.model.messages import PAYLOAD, Entry
from ...hachannel.transfer.pacing import rest_after
from ..config import Server
from ..errors import StartError
from .data_directory import directory_error
from .disk_writer import DiskWriter
from .fsync import sync_directory
from .recovery_progress import RecoveryProgress
from .state_store import SCHEMA, StateStore

__all__ = ["JOURNAL_FILE", "Durability", "DurabilityHost", "DurabilitySettings", "Recovery", "identity_of"]

JOURNAL_FILE: Final = "journal.db"
MADE_FILE: Final = "journal.made"
"""Says that there was a journal: one that is missing or empty is a loss then, not a beginning."""
ASIDE: Final = "aside-"
_SUFFIXES: Final = ("", "-wal", FRAMES_SUFFIX)
"""Of the names of the files of a journal."""
KEPT_ASIDE: Final = 2
MAX_FLAWS: Final = 100
"""Lines about agents that cannot be stored; more are not written."""
SLICE_AGENTS: Final = 200
SLICE_BYTES: Final = 1024 * 1024
"""Agents, and bytes of them, encoded for a snapshot at a time: a few milliseconds."""
CAPTURE_SHARE: Final = 0.25
"""Of the time, at most, agents are encoded for a snapshot while others are served."""
MAX_REST_S: Final = 1.0
"""What held up a slice for longer was not the slice."""


def identity_of(server: Server, replica: int) -> Identity:
    """Whose journal that of a replica is."""
    facts = f"{server.id} {server.name} {server.clustered} {server.mode}"
    return Identity(blake2b(facts.encode(), digest_size=8).hexdigest(), server.name, replica)


@attrs.frozen
class DurabilitySettings:
    """When the engine's state is saved, so that a start has little to apply again."""

    snapshot_entries: int = 4096
    """After so many entries."""
    snapshot_bytes: int = 8 * 1024 * 1024
    """After so many bytes of payloads."""


class DurabilityHost(Protocol):
    """The replica."""

    @property
    def interrupted(self) -> bool:
        """The start is to be given up."""
        ...

    def persisted(self, token: int) -> None:
        """The records up to this token are durable."""
        ...

    def disk_failed(self, sentence: str) -> None:
        """Nothing more can be made durable: the replica cannot go on."""
        ...

    def trace_flushed(self) -> "Deferred[Any]":
        """Fires when the reactions so far are in the files of the trace, or cannot be."""
        ...

    def log(self, line: str) -> None:
        """Write a line to the log."""
        ...

    def tell(self, line: str) -> None:
        """Write a line to the log, and to whoever has started the replica."""
        ...


@attrs.frozen
class Recovery:
    """What came back."""

    log: DurableLog
    incarnation: int
    """The voter this replica is: the one it was, or a new one."""
    trace: list[Reaction]
    """Of the entries that were applied again: perhaps no file of the trace has them."""
    lines: list[str]
    """For the log."""


class Durability:
    """The disk of one replica, over its incarnations: `open`, then `write` what the node says, `close`."""

    def __init__(
        self,
        directory: Path,
        identity: Identity,
        clustered: bool,
        reactor: Any,
        host: DurabilityHost,
        settings: DurabilitySettings | None = None,
        *,
        guest: bool = False,
    ) -> None:
        """Nothing is touched yet. `directory` exists and belongs to this process.

        guest: a journal that has to be made is that of a replica that may join a cluster and founds none.
        """
        self.path = directory / JOURNAL_FILE
        self._directory = directory
        self._identity = identity
        self._clustered = clustered
        self._reactor = reactor
        self._host = host
        self._settings = settings or DurabilitySettings()
        self._disk: DiskWriter | None = None
        self._engine: Engine | None = None
        self._log: DurableLog | None = None
        self._new_guest = guest
        self._guest = False
        """There was a journal, and it is of no use."""
        self._capture: Capture | None = None
        self._flawed: set[str] = set()
        """What was said of agents whose state cannot be stored."""
        self._entries = self._bytes = 0
        """Recorded since the last snapshot began, and not in a state that was saved."""
        self.saved = 0
        """The engine's state on the disk is the one after this entry."""

    # Coming back

    def open(self, life: int, engine: Engine) -> Recovery:
        """Bring `engine` to where it was; `life` is the incarnation of a replica that has no journal yet.

        In a cluster, a journal that is damaged is put aside: the state comes from the others then. Raises
        StartError when the replica cannot start, StartInterrupted when it is not to any more.
        """
        lines: list[str] = []
        try:
            try:
                return self._open(life, engine, lines)
            except Damaged as error:
                if not self._clustered:
                    raise StartError(
                        f"{error} Restore the directory from a copy, or remove {self.path.stem}.* in it to "
                        "start with nothing."
                    ) from None
                kept = self._set_aside(life)
                self._host.tell(
                    f"{error} It is kept as {kept}; the state comes from the other replicas."
                    if kept
                    else f"{error} The state comes from the other replicas."
                )
                self._guest = True
                return self._open(life, engine, lines)
        except JournalError as error:
            raise StartError(str(error)) from None
        except OSError as error:
            raise StartError(directory_error(self._directory, error)) from None

    def _open(self, life: int, engine: Engine, lines: list[str]) -> Recovery:
        made = self._directory / MADE_FILE
        existing = not self._guest and (made.exists() or self._has_frames())
        journal = Journal.open(
            self.path,
            self._identity,
            life,
            existing=existing,
            guest=self._guest or self._new_guest,
            schema=SCHEMA,
        )
        store = StateStore(self.path)
        try:
            if not made.exists():
                made.touch()
                sync_directory(self._directory)
            trace = self._restore(journal, store, engine, lines)
        except BaseException:
            journal.close()
            raise
        self._guest = False
        self._engine = engine
        self._log = DurableLog(journal.remembered, journal.recovered)
        # One that ends again before it has saved its state would have ever more to apply again.
        unsaved = [entry for entry in journal.recovered if entry.index > self.saved]
        self._entries = len(unsaved)
        self._bytes = sum(len(entry.payload) for entry in unsaved)
        journal.recovered = ()
        self._capture = None
        self._disk = DiskWriter(
            journal, store, self._reactor.callFromThread, self._host.persisted, self._host.disk_failed
        )
        return Recovery(self._log, journal.incarnation, trace, lines)

    def _has_frames(self) -> bool:
        """Whether a file of frames has something, which comes after the mark: it is as good a mark."""
        try:
            return frames_path(self.path).stat().st_size > 0
        except FileNotFoundError:
            return False

    def _restore(
        self, journal: Journal, store: StateStore, engine: Engine, lines: list[str]
    ) -> list[Reaction]:
        try:
            if store.unfinished(journal.connection):
                journal.write([], also=store.settle)
            stored = store.read(journal.connection)
            if stored is not None:
                with closing(stored.agents):
                    engine.load(stored.header, stored.agents)
        except sqlite3.Error as error:
            raise database_error(self.path, error) from None
        except (SnapshotError, AgentError, ValueError) as error:
            raise StartError(f"The state in {self.path} cannot be loaded: {error}.") from None
        remembered = journal.remembered
        self.saved = 0 if stored is None else stored.index
        if not remembered.base.at <= self.saved <= remembered.commit <= remembered.last:
            raise Damaged(
                f"The journal {self.path} is damaged: it has a state after entry {self.saved}, entries "
                f"{remembered.base.at + 1} to {remembered.last}, and {remembered.commit} is committed."
            )
        return self._replay(journal, engine, lines)

    def _replay(self, journal: Journal, engine: Engine, lines: list[str]) -> list[Reaction]:
        """Apply the committed entries after the state. What they say to the outside was said, or will be."""
        trace: list[Reaction] = []
        commit = journal.remembered.commit
        entries = [each for each in journal.recovered if self.saved < each.index <= commit]
        entries = [each for each in entries if each.kind == PAYLOAD]
        with RecoveryProgress(entries, self._host) as progress:
            for entry in progress:
                trace += self._apply_again(entry, engine, lines)
        if journal.remembered.accepted is not None:
            lines.append(
                f"recovered: the state after entry {self.saved}, {len(entries)} entries applied again, "
                f"{journal.remembered.last - journal.remembered.commit} not known to be committed"
            )
        return trace

    def _apply_again(self, entry: Entry, engine: Engine, lines: list[str]) -> list[Reaction]:
        try:
            return engine.apply(entry.index, entry.stamp_ns, entry.payload).trace
        except EngineStopped as error:
            raise StartError(f"Entry {entry.index} cannot be applied again: {error}.") from None
        except Nondeterministic as error:
            others = (
                f"; or, if the other replicas go on, move {self.path.stem}.* out of {self._directory} "
                "and start this one: it gets the state from them"
            )
            raise StartError(
                f"Entry {entry.index} cannot be applied again: {error}. Mend the agent's class, for all "
                f"replicas alike, and start them{others if self._clustered else ''}."
            ) from None
        except Exception as error:  # the node, too, goes on after a defect
            lines.append(f"defect: entry {entry.index} was not applied as a whole: {error!r}")
            return []

    def _set_aside(self, life: int) -> str:
        """Rename what there is of the journal; returns its new name. Only the last few are kept."""
        kept = ""
        for suffix in _SUFFIXES:
            path = self._directory / (self.path.name + suffix)
            if path.exists():
                name = f"{ASIDE}{life}.db{suffix}"
                path.replace(self._directory / name)
                kept = kept or name
        sync_directory(self._directory)
        lives = {path.name.partition(".")[0] for path in self._directory.glob(f"{ASIDE}*.db*")}
        for old in sorted(lives)[:-KEPT_ASIDE]:
            for suffix in _SUFFIXES:
                (self._directory / f"{old}.db{suffix}").unlink(missing_ok=True)
        return kept

    # Going on

    @property
    def writes(self) -> int:
        """Transactions so far."""
        return 0 if self._disk is None else self._disk.writes

    def write(self, records: Sequence[LogRecord], token: int, installed: Capture | None) -> None:
        """Make records durable, with the whole state if it was just replaced. See `DiskWriter.write`."""
        if self._disk is None:
            return
        for record in records:
            if isinstance(record, Appended):
                self._entries += len(record.entries)
                self._bytes += sum(len(entry.payload) for entry in record.entries)
        if installed is not None:
            self._capture = None
            self._entries = self._bytes = 0
            self.saved = installed.index
        elif self._due:
            self._begin_snapshot()
        self._disk.write(records, token, installed)

    def stage(self, taken: StagedPart) -> None:
        """Write what has come of a state, beside the one that is there."""
        if self._disk is not None:
            self._disk.stage(taken)

    @property
    def _due(self) -> bool:
        """A snapshot is to begin: there is much to apply again, and nothing is being captured."""
        settings = self._settings
        if self._entries < settings.snapshot_entries and self._bytes < settings.snapshot_bytes:
            return False
        # A state that comes in is captured, too, for the write that it goes with.
        return self._capture is None and self._engine is not None and not self._engine.capturing

    def _begin_snapshot(self) -> None:
        assert self._engine is not None
        self._entries = self._bytes = 0
        # It may be after an entry that held nothing for the engine, from which on the log begins.
        self._capture = self._engine.capture(self.saved)
        # Later: the reactions up to here are on their way to the trace.
        self._reactor.callLater(0, self._slice, self._capture)

    def _slice(self, capture: Capture) -> None:
        """Encode some of the agents; then have the trace and the state written."""
        if self._capture is not capture:
            return
        began = self._reactor.seconds()
        if not capture.step(SLICE_AGENTS, SLICE_BYTES):
            took_s = self._reactor.seconds() - began
            self._reactor.callLater(rest_after(took_s, CAPTURE_SHARE, MAX_REST_S), self._slice, capture)
            return
        self._report(capture)
        # What is in the state is not applied again after a crash: its reactions must be in the trace by then.
        self._host.trace_flushed().addBoth(lambda _: self._save(capture))

    def _report(self, capture: Capture) -> None:
        """Name the agents whose state cannot be stored, each once."""
        for flaw in capture.flaws:
            if flaw not in self._flawed and len(self._flawed) < MAX_FLAWS:
                self._flawed.add(flaw)
                self._host.log(
                    f"{flaw}; it is kept as of the last state that could be, with the reactions since"
                )

    def _save(self, capture: Capture) -> None:
        if self._capture is capture and self._disk is not None and self._log is not None:
            # Other replicas may need entries that are in the state: the log in memory keeps those.
            trim = min(self._log.base.at, capture.index)
            self._disk.save(capture, trim, lambda: self._saved(capture))

    def _saved(self, capture: Capture) -> None:
        capture.written = True
        if self._capture is capture:
            self._capture = None
            self.saved = capture.index

    # The end

    def close(self, *, save: bool) -> "Deferred[None]":
        """Write what waits, and the state if `save`; fires when that is done. Never fails.

        With `save`, nothing may be applied to the engine any more.
        """
        disk, self._disk = self._disk, None
        if disk is None:
            return succeed(None)
        under_way, self._capture = self._capture, None
        done: Deferred[Any] = succeed(None)
        if save:
            # A slice in each turn: signals are heard meanwhile, and connections are closed.
            turns = Cooperator(lambda: lambda: True, partial(self._reactor.callLater, 0))
            done = turns.coiterate(self._save_all(disk, under_way))
        done.addErrback(lambda failure: self._host.log(f"saving the state: {failure.value}"))
        done.addCallback(lambda _: deferToThread(disk.close))
        done.addErrback(lambda failure: self._host.log(f"closing the journal: {failure.value}"))
        return done.addCallback(_nothing)

    def _save_all(self, disk: DiskWriter, under_way: Capture | None) -> Iterator[None]:
        """Queue the state as it is now, after what was captured before; a step for each slice of agents."""
        assert self._engine is not None
        assert self._log is not None
        if under_way is not None:
            while not under_way.step(SLICE_AGENTS, SLICE_BYTES):
                yield
            disk.save(under_way, 0, _nothing, at_once=True)
        capture = self._engine.capture(self.saved)
        while not capture.step(SLICE_AGENTS, SLICE_BYTES):
            yield
        self._report(capture)
        disk.save(capture, min(self._log.base.at, capture.index), _nothing, at_once=True)

    def renew(self, life: int) -> "Deferred[None]":
        """Close, and put aside a journal whose state is not that of the others; `open` makes a new one.

        Fails with OSError.
        """

        def aside(_: None) -> None:
            self._host.log(f"the journal is kept as {self._set_aside(life)}")
            self._guest = True

        return self.close(save=False).addCallback(aside)


def _nothing(_: object = None) -> None:
    """Nobody waits for it, or for what comes of it."""
