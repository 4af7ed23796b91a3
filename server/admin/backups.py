"""Backups of a running server: copies of its state, whole or of what has changed since the one before."""

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Final

import attrs

from ...engine import CollectedState, SnapshotError
from . import wire
from .backup_archive import ArchiveEnd, ArchiveWriter, BackupDamaged, Manifest, read_archive, read_manifest
from .backup_places import BackupPlace
from .client import CALL_TIMEOUT_S, ServerAdmin
from .connection import AdminError, CallFailed
from .health import is_down
from .replica_status import gather

__all__ = ["Backup", "BackupError", "SavedState", "back_up", "backups", "forget_old", "read_state"]

NAME: Final = re.compile(r"([0-9]{6})-([0-9]{16})-(whole|changes)\.backup")
"""Number of the backup, the entry after which its state is, and its kind."""
MAX_CHANGES: Final = 50
"""Backups of changes after a whole one; the next one is whole again."""
TRIES: Final = 3
"""How often a copy is begun that a replica interrupts."""
WAIT_S: Final = 10.0
"""The longest wait for a replica that can be copied: longer than a failover takes."""
POLL_S: Final = 0.2
HOLDERS: Final = ("slave", "master")
"""The roles of replicas that are copied, those that are rather asked first."""


class BackupError(AdminError):
    """A backup cannot be made or used. The text is one sentence."""


@attrs.frozen
class Backup:
    """One backup in a place."""

    name: str
    number: int
    index: int
    """The state is the one after this entry."""
    whole: bool


def backups(place: BackupPlace) -> list[Backup]:
    """Return the backups of a server, the oldest first. Raises BackupError."""
    try:
        names = place.names()
    except Exception as error:  # file systems have exceptions of their own
        raise BackupError(f"The backups cannot be listed: {_why(error)}.") from None
    found = [(name, match) for name in names if (match := NAME.fullmatch(name))]
    return [Backup(name, int(match[1]), int(match[2]), match[3] == "whole") for name, match in found]


@attrs.frozen
class BackedUp:
    """What `back_up` has made."""

    backup: Backup
    size_bytes: int
    replica: int


def back_up(
    admin: ServerAdmin,
    place: BackupPlace,
    *,
    replica: int | None = None,
    whole: bool = False,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> BackedUp:
    """Make a backup of a server while it goes on. Raises BackupError, AdminError.

    It has what has changed since the last backup in the place, unless there is none, `whole` is set, it is of
    another life of the server, or there are `MAX_CHANGES` such backups already.
    replica: the replica that is copied; None: a slave, or the master if no slave can be.
    """
    tries = 0
    while True:
        tries += 1
        chosen = _holder(admin) if replica is None else replica
        try:
            return _copy(admin, place, chosen, whole, now)
        except CallFailed as error:
            if error.failure.kind != "refused" or tries == TRIES:
                raise


def _holder(admin: ServerAdmin) -> int:
    """Return the replica to copy: the slave that is least behind, else the master. Raises AdminError.

    While replicas answer and none can be copied, as during a failover, it waits up to `WAIT_S`.
    """
    ends = admin.seconds() + WAIT_S
    while True:
        ((_, statuses),) = gather([admin])
        held = [each for each in statuses if each.role in HOLDERS and each.status is not None]
        fit = [each for each in held if not (each.status or {}).get("unfit")]
        if fit:
            break
        if is_down(statuses) or admin.seconds() >= ends:
            reasons = "; ".join(f"{each.endpoint.replica} is {each.role}" for each in statuses)
            raise BackupError(f"No replica of {admin.server.name} has a state to copy: {reasons}.")
        admin.sleep(POLL_S)
    best = min(fit, key=lambda each: (HOLDERS.index(each.role), (each.status or {}).get("lag", 0)))
    return best.endpoint.replica


def _copy(
    admin: ServerAdmin, place: BackupPlace, replica: int, whole: bool, now: Callable[[], datetime]
) -> BackedUp:
    known = backups(place)
    base = None if whole or not known else known[-1]
    if base is not None and not any(each.whole for each in known[-MAX_CHANGES:]):
        base = None
    birth = 0 if base is None else _manifest(place, base).birth
    connection = admin.open(replica)
    try:
        have = 0 if base is None else base.index
        begin = wire.BeginBackup(birth, have)
        begun = wire.unpack(connection.call(begin, CALL_TIMEOUT_S), wire.BackupBegun)
        if not begun.have:
            base = None
        manifest = Manifest(
            server=admin.server.name,
            server_id=admin.server.id,
            replica=replica,
            birth=begun.birth,
            base="" if base is None else base.name,
            have=begun.have,
            begun=_time(now),
            version=version("quorate"),
        )
        number = known[-1].number + 1 if known else 1
        made: list[Backup] = []

        def named() -> str:
            return made[0].name

        try:
            with place.writing(named) as file:
                writer = ArchiveWriter(file, manifest)
                index = 0
                while True:
                    ask = wire.ContinueBackup(begun.token)
                    part = wire.unpack(connection.call(ask, CALL_TIMEOUT_S), wire.BackupPart)
                    writer.part(part.data)
                    index = part.index or index
                    if part.last:
                        break
                writer.end(index, _time(now))
                kind = "whole" if base is None else "changes"
                made.append(Backup(f"{number:06}-{index:016}-{kind}.backup", number, index, base is None))
        except AdminError:
            raise
        except Exception as error:  # file systems have exceptions of their own
            raise BackupError(f"The backup cannot be written: {_why(error)}.") from None
    finally:
        connection.close()
    return BackedUp(made[0], writer.size_bytes, replica)


def _why(error: Exception) -> str:
    """Return why a file system refuses something: fsspec has ones with exceptions of their own."""
    strerror = error.strerror if isinstance(error, OSError) else None
    return str(strerror or error or type(error).__name__).rstrip(".")


def _time(now: Callable[[], datetime]) -> str:
    return now().astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _manifest(place: BackupPlace, backup: Backup) -> Manifest:
    try:
        with place.reading(backup.name) as file:
            return read_manifest(file)
    except Exception as error:  # file systems have exceptions of their own
        raise _unreadable(backup, error) from None


def _unreadable(backup: Backup, error: Exception) -> BackupError:
    why = str(error) if isinstance(error, (BackupDamaged, SnapshotError)) else _why(error)
    return BackupError(
        f"The backup {backup.name} cannot be used: {why}; use an earlier one, or make a whole one."
    )


def forget_old(place: BackupPlace, keep: int) -> list[Backup]:
    """Remove all backups but the last `keep` whole ones and what goes on from them. Raises BackupError.

    Returns those that were removed.
    """
    known = backups(place)
    whole = [at for at, each in enumerate(known) if each.whole]
    old = known[: whole[-keep]] if len(whole) > keep else []
    # The latest first: what is left can always be used.
    for each in reversed(old):
        try:
            place.remove(each.name)
        except Exception as error:  # file systems have exceptions of their own
            raise BackupError(f"The backup {each.name} cannot be removed: {_why(error)}.") from None
    return old


@attrs.frozen
class SavedState:
    """The state of a server, read from its backups."""

    backup: Backup
    manifest: Manifest
    """Of that backup."""
    ended: str
    state: CollectedState
    chain: Sequence[Backup]
    """The backups that it is made of, the whole one first."""


def read_state(place: BackupPlace, number: int | None = None) -> SavedState:
    """Read and check the state in a backup: the one with a number, or the last. Raises BackupError."""
    known = backups(place)
    if not known:
        raise BackupError("There is no backup of this server; look into the place, and at the server's name.")
    wanted = known[-1] if number is None else next((each for each in known if each.number == number), None)
    if wanted is None:
        listed = f"{known[0].number} to {known[-1].number}"
        raise BackupError(f"There is no backup {number} of this server; there are {listed}.")
    chain = known[: known.index(wanted) + 1]
    first = max((at for at, each in enumerate(chain) if each.whole), default=None)
    if first is None:
        raise BackupError(f"{wanted.name} goes on from a whole backup that is missing.")
    chain = chain[first:]
    state = CollectedState()
    before: Backup | None = None
    read: tuple[Manifest, ArchiveEnd] | None = None
    for each in chain:
        try:
            read = _read(place, each, before, state)
        except BackupError:
            raise
        except Exception as error:  # file systems have exceptions of their own
            raise _unreadable(each, error) from None
        before = each
    assert read is not None
    return SavedState(wanted, read[0], read[1].ended, state, chain)


def _read(
    place: BackupPlace, backup: Backup, before: Backup | None, state: CollectedState
) -> tuple[Manifest, ArchiveEnd]:
    """Add a backup to the state. Raises BackupDamaged, SnapshotError, and what the file system raises."""
    manifest: Manifest | None = None
    end: ArchiveEnd | None = None
    if before is not None:
        state.follow()
    with place.reading(backup.name) as file:
        for item in read_archive(file):
            if isinstance(item, Manifest):
                manifest = item
                _check_base(item, before)
            elif isinstance(item, ArchiveEnd):
                end = item
            else:
                state.accept(item)
    assert manifest is not None
    assert end is not None
    if state.end is None or end.index != backup.index:
        raise BackupDamaged("it does not have the whole state that its name says")
    return manifest, end


def _check_base(manifest: Manifest, before: Backup | None) -> None:
    base = "" if before is None else before.name
    if manifest.base != base or manifest.have != (0 if before is None else before.index):
        raise BackupDamaged(f"it goes on from {manifest.base or 'nothing'}, and not from {base or 'nothing'}")
