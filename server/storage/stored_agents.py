"""The agents in the journal of a replica that does not run, for reading only."""

import contextlib
import sqlite3
import tempfile
from collections.abc import Generator
from pathlib import Path

from ...hachannel.journal.journal import database_error
from .journal_files import JOURNAL_FILE
from .state_store import StateStore, StoredState

__all__ = ["stored_state"]


@contextlib.contextmanager
def stored_state(directory: Path) -> Generator[StoredState | None]:
    """Open the state that was last saved in a replica's directory; None if there is no journal or no state.

    Changes nothing: a save that was interrupted is completed in a copy. Lock the directory meanwhile.
    Raises Damaged, also while the agents are read, and JournalError.
    """
    path = directory / JOURNAL_FILE
    if not path.exists() or not path.stat().st_size:
        yield None
        return
    with contextlib.ExitStack() as opened:
        try:
            connection = _connect(path, opened)
            store = StateStore(path)
            if store.unfinished(connection):
                connection = _copy(connection, opened)
                store.recover(connection)
            stored = store.read(connection)
            if stored is not None:
                opened.enter_context(contextlib.closing(stored.agents))
            yield stored
        except sqlite3.Error as error:
            raise database_error(path, error) from None


def _connect(path: Path, opened: contextlib.ExitStack) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    return opened.enter_context(contextlib.closing(connection))


def _copy(connection: sqlite3.Connection, opened: contextlib.ExitStack) -> sqlite3.Connection:
    place = opened.enter_context(tempfile.TemporaryDirectory(prefix="quorate-check-"))
    copy = opened.enter_context(contextlib.closing(sqlite3.connect(Path(place) / JOURNAL_FILE)))
    connection.backup(copy)
    return copy
