"""Restoring a server: the data of the first replica of a new cluster, made from a backup."""

import contextlib
import shutil
import time
from pathlib import Path
from typing import Final

from ...agents import AgentError
from ...engine import Capture, Engine, SnapshotError, another_life, import_modules
from ...hachannel import Seat
from ...hachannel.journal.durable_log import Remembered
from ...hachannel.journal.frame_file import sync_directory
from ...hachannel.journal.journal import Journal
from ...hachannel.journal.new_cluster import first_view
from ...hachannel.model.log import Accepted, Activated, LogRecord, Reset
from ...hachannel.model.view import NO_VIEW, Tag, Voter
from ..config import Config, Replica, Server
from ..network.addresses import encode_address
from ..settings import ReplicaSettings
from ..storage.data_directory import DataDirectory
from ..storage.durability import identity_of
from ..storage.journal_files import JournalFiles
from ..storage.state_store import SCHEMA, StateStore
from .backups import BackupError, SavedState

__all__ = ["check_agents", "restore"]

DRAFT: Final = ".restoring-"
"""Beginning of the name of a directory in which a restore works."""


def check_agents(config: Config, server: Server, replica: Replica, saved: SavedState) -> str:
    """Load all agents of a saved state, and return its digest. Raises BackupError if it is another one.

    The classes of the agents have to be importable.
    """
    assert saved.state.end is not None
    settings = ReplicaSettings.read(config, server, replica)
    engine = Engine(
        server.id,
        config.names,
        settings.engine,
        routes=config.routes(server.id),
        causal=config.causal_domains(server.id),
    )
    try:
        import_modules(settings.agent_modules)
        engine.load(saved.state.end.header, saved.state.agents.values())
    except (SnapshotError, AgentError, ValueError) as error:
        raise BackupError(
            f"The state in {saved.backup.name} cannot be loaded here: {error}; make the code of the agents "
            "importable, with PYTHONPATH, or give --unchecked."
        ) from None
    digest = engine.digest()
    if digest != saved.state.end.digest:
        raise BackupError(
            f"The state in {saved.backup.name} is not the one that was copied: its digest is {digest.hex()}, "
            f"and was {saved.state.end.digest.hex()}. With later versions of the agents' classes that is so: "
            "then give --unchecked. Otherwise use another backup."
        )
    return digest.hex()


def restore(data: Path, config: Config, server: Server, replica: int, saved: SavedState) -> Path:
    """Write the directory of a replica that begins a new cluster with a saved state; return its path.

    Raises BackupError, with nothing written, if a replica of the server has data in `data` already, or the
    state cannot be that of this server; DataDirectoryError, JournalError, and OSError when it cannot be
    written.
    """
    header = _header(config, server, saved)
    _refuse_to_overwrite(data, server)
    # What was interrupted is not taken for a replica that has nothing.
    draft = data / f"{DRAFT}{server.name}-{replica}"
    shutil.rmtree(draft, ignore_errors=True)
    try:
        directory = DataDirectory.open(draft, server.name, replica)
        try:
            _write(directory, server, replica, header, saved)
        finally:
            directory.close()
        path = data / server.name / str(replica)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            path.rmdir()
        directory.path.rename(path)
        sync_directory(path.parent)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return path


def _header(config: Config, server: Server, saved: SavedState) -> bytes:
    """Return the header of the state; that of another life if there are other servers."""
    assert saved.state.end is not None
    if saved.manifest.server_id != server.id:
        raise BackupError(
            f"{saved.backup.name} is of the server with id {saved.manifest.server_id}, and {server.name} has "
            f"{server.id}: ids of agents have it; give {server.name} that id in the file."
        )
    if len(config.servers) == 1:
        return saved.state.end.header
    try:
        return another_life(saved.state.end.header, server.id, time.time_ns())
    except SnapshotError as error:
        raise BackupError(f"{saved.backup.name} cannot be restored: {error}.") from None


def _refuse_to_overwrite(data: Path, server: Server) -> None:
    for each in server.replicas:
        path = data / server.name / str(each.id)
        if path.exists() and any(path.iterdir()):
            raise BackupError(
                f"{path} is there already, and nothing was written: a restore overwrites nothing. Move away "
                f"the directories of all replicas of {server.name}, or give another place with --data."
            )


def _write(directory: DataDirectory, server: Server, replica: int, header: bytes, saved: SavedState) -> None:
    """Write a saved state, and the first view of a new cluster, in one transaction. Raises JournalError."""
    files, index = JournalFiles(directory.path), saved.backup.index
    identity = identity_of(server, replica)
    journal = Journal.open(files.path, identity, directory.incarnation, schema=SCHEMA)
    try:
        files.mark_created()
        store = StateStore(journal.path)
        capture = Capture(index, header, True, (), lambda _: None)
        capture.agents.extend(saved.state.agents.values())
        base = Tag(NO_VIEW, index)
        seats = tuple(Seat(each.id, encode_address(each), each.witness) for each in server.replicas)
        me = Voter(replica, directory.incarnation)
        view = first_view(Remembered(base=base, last=index, commit=index), me, seats)
        records: list[LogRecord] = [Reset(base), Accepted(view), Activated(view.number)]
        journal.write(records, also=lambda connection: store.save(connection, capture))
    finally:
        journal.close()
