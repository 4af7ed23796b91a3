"""The durable side of a replica: its journal over the incarnations of the replica.

| what is written | when | by |
|---|---|---|
| log records: entries, promises, commit indexes | after each step of the node | `DiskWriter`, with a sync |
| a snapshot of the engine's state | when the log after the last one is large, and at a stop | `Snapshotter` |
| a state from another replica | part by part, then with the record that resets the log | `DiskWriter` |

The reactor thread requests all writes and encodes the agents; the journal's thread (`DiskWriter`) writes. The
two share a `WriteQueue`. A start (`recovery`) reads the last complete state and the entries after it.
"""

from collections.abc import Sequence
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, Protocol

from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Cooperator
from twisted.internet.threads import deferToThread

from ...engine import Capture, Engine, StagedPart
from ...hachannel import LogRecord
from ...hachannel.journal.journal import Damaged, Identity, Journal, JournalError
from ..config import Server
from ..errors import StartError
from .data_directory import directory_error
from .disk_writer import DiskWriter
from .journal_files import JournalFiles
from .recovery import Recovery, recover
from .recovery_progress import ProgressHost
from .snapshotter import SnapshotHost, SnapshotSettings, Snapshotter
from .state_store import SCHEMA, StateStore

__all__ = ["Durability", "DurabilityHost", "identity_of"]


def identity_of(server: Server, replica: int) -> Identity:
    """Return the identity in the journal of a replica: no other replica may use that journal."""
    facts = f"{server.id} {server.name} {server.clustered} {server.mode}"
    return Identity(blake2b(facts.encode(), digest_size=8).hexdigest(), server.name, replica)


class DurabilityHost(ProgressHost, SnapshotHost, Protocol):
    """The replica."""

    def persisted(self, token: int) -> None:
        """The records up to this token are durable."""
        ...

    def disk_failed(self, sentence: str) -> None:
        """Nothing more can be made durable: the replica cannot go on."""
        ...


class Durability:
    """The journal of one replica. Call `open`, then `write` and `stage` with the node's output, then `close`.

    It can be opened again after `close`.
    """

    def __init__(
        self,
        directory: Path,
        identity: Identity,
        clustered: bool,
        reactor: Any,
        host: DurabilityHost,
        settings: SnapshotSettings | None = None,
        *,
        guest: bool = False,
        accept_code_change: bool = False,
    ) -> None:
        """Touch nothing yet. `directory` exists and is locked by this process.

        guest: a replica that has no journal may join a cluster, but not found one.
        accept_code_change: see `recover`.
        """
        self._files = JournalFiles(directory)
        self._identity = identity
        self._clustered = clustered
        self._reactor = reactor
        self._host = host
        self._settings = settings or SnapshotSettings()
        self._disk: DiskWriter | None = None
        self._snapshotter: Snapshotter | None = None
        self._guest = guest
        self._accept_code_change = accept_code_change
        self._journal_lost = False
        """The journal was set aside: the next one is new, and that of a guest."""

    @property
    def path(self) -> Path:
        """The journal's database."""
        return self._files.path

    @property
    def saved(self) -> int:
        """The engine's state on the disk is the one after this entry."""
        return 0 if self._snapshotter is None else self._snapshotter.saved

    @property
    def writes(self) -> int:
        """Transactions of the open journal so far."""
        return 0 if self._disk is None else self._disk.writes

    def open(self, incarnation: int, engine: Engine) -> Recovery:
        """Open or create the journal, and bring `engine` to the state that it had.

        `incarnation` is that of the replica if it has no journal yet. In a cluster, a damaged journal is set
        aside and a new one is created: the state then comes from the other replicas.
        Raises StartError when the replica cannot start, StartInterrupted when the host is interrupted.
        """
        try:
            try:
                return self._open(incarnation, engine)
            except Damaged as error:
                if not self._clustered:
                    raise StartError(
                        f"{error} Restore the directory from a copy, or remove {self.path.stem}.* in it to "
                        "start with nothing."
                    ) from None
                kept = self._files.set_aside(incarnation)
                self._host.announce(
                    f"{error} It is kept as {kept}; the state comes from the other replicas."
                    if kept
                    else f"{error} The state comes from the other replicas."
                )
                self._journal_lost = True
                return self._open(incarnation, engine)
        except JournalError as error:
            raise StartError(str(error)) from None
        except OSError as error:
            raise StartError(directory_error(self._files.directory, error)) from None

    def _open(self, incarnation: int, engine: Engine) -> Recovery:
        journal = Journal.open(
            self.path,
            self._identity,
            incarnation,
            existing=not self._journal_lost and self._files.expected(),
            guest=self._journal_lost or self._guest,
            schema=SCHEMA,
        )
        store = StateStore(self.path)
        try:
            self._files.mark_created()
            recovery = recover(
                journal,
                store,
                engine,
                self._host,
                clustered=self._clustered,
                accept_code_change=self._accept_code_change,
            )
        except BaseException:
            journal.close()
            raise
        self._journal_lost = False
        self._disk = DiskWriter(
            journal, store, self._reactor.callFromThread, self._host.persisted, self._host.disk_failed
        )
        self._snapshotter = Snapshotter(
            engine, recovery, self._disk, self._reactor, self._host, self._settings
        )
        return recovery

    def write(self, records: Sequence[LogRecord], token: int, installed: Capture | None) -> None:
        """Make records durable, with the whole state if it was just replaced. See `DiskWriter.write`."""
        if self._disk is None or self._snapshotter is None:
            return
        if installed is not None:
            self._snapshotter.installed(installed)
        else:
            self._snapshotter.appended(records)
        self._disk.write(records, token, installed)

    def snapshot(self) -> None:
        """Save the state soon, however short the log after the saved one is."""
        if self._snapshotter is not None:
            self._snapshotter.want()

    def stage(self, part: StagedPart) -> None:
        """Write a part of an incoming state, beside the stored one."""
        if self._disk is not None:
            self._disk.stage(part)

    def close(self, *, save: bool) -> "Deferred[None]":
        """Write what is queued, and the state if `save`; the result fires when that is done. Never fails.

        With `save`, nothing may be applied to the engine any more.
        """
        disk, self._disk = self._disk, None
        if disk is None or self._snapshotter is None:
            return succeed(None)
        done: Deferred[Any] = succeed(None)
        if save:
            # One slice in each turn of the reactor, which handles signals and connections in between.
            turns = Cooperator(lambda: lambda: True, partial(self._reactor.callLater, 0))
            done = turns.coiterate(self._snapshotter.save_all())
        else:
            self._snapshotter.stop()
        done.addErrback(lambda failure: self._host.log(f"saving the state: {failure.getErrorMessage()}"))
        done.addCallback(lambda _: deferToThread(disk.close))
        done.addErrback(lambda failure: self._host.log(f"closing the journal: {failure.getErrorMessage()}"))
        return done.addCallback(lambda _: None)
