"""What the journal recovers after writes with a reset, and after writes that failed."""

import sqlite3
import tempfile
from pathlib import Path

from quorate.hachannel.journal.journal import Damaged, Identity, Journal, WriteFailed
from quorate.hachannel.model.log import Appended, Reset, Truncated
from quorate.hachannel.model.messages import Entry
from quorate.hachannel.model.view import Tag, ViewNumber


class Refusing(sqlite3.Connection):
    """A database that refuses the next transaction, and takes those after it: the disk was full."""

    refuses = False

    def execute(self, sql, *args):
        if self.refuses and sql == "COMMIT":
            type(self).refuses = False
            super().execute("ROLLBACK")
            raise sqlite3.OperationalError("disk I/O error")
        return super().execute(sql, *args)


def test_a_write_with_entries_and_a_state_that_replaces_them_is_recovered():
    """A learner took entries of one master, then the state of another one, which is older than their end."""
    view = ViewNumber(3, 0, 1)
    old = tuple(Entry(view, index, 0, b"old") for index in (1, 2, 3))
    new = (Entry(ViewNumber(4, 1, 2), 3, 0, b"new"),)
    with tempfile.TemporaryDirectory() as directory:
        path, identity = Path(directory) / "journal.db", Identity("c", "s", 0)
        journal = Journal.open(path, identity, 7)
        journal.write([Appended(old), Reset(Tag(view, 2)), Appended(new)])
        journal.close()
        try:
            journal = Journal.open(path, identity, 7, existing=True)
        except Damaged as error:
            raise AssertionError(f"its own write is taken for damage: {error}") from None
        journal.close()
        assert list(journal.recovered) == list(new)


def test_a_journal_closed_after_a_failed_write_recovers_nothing_of_it():
    """The frame of that write is in the file, and its transaction is not. Closing must not make it valid."""
    old, new = ViewNumber(3, 0, 1), ViewNumber(4, 1, 2)
    with tempfile.TemporaryDirectory() as directory:
        path, identity = Path(directory) / "journal.db", Identity("c", "s", 0)

        def connect(*args, **options):
            return sqlite3.connect(*args, factory=Refusing, **options)

        journal = Journal.open(path, identity, 7, connect=connect)
        journal.write([Appended((Entry(old, 1, 0, b"one"), Entry(old, 2, 0, b"old")))])
        Refusing.refuses = True
        try:
            journal.write([Truncated(1), Appended((Entry(new, 2, 0, b"new"),))], also=lambda _: None)
        except WriteFailed:
            pass
        else:
            raise AssertionError("it was to fail")
        finally:
            Refusing.refuses = False
        journal.close()
        journal = Journal.open(path, identity, 7, existing=True)
        journal.close()
        kept = [entry.payload for entry in journal.recovered]
        assert kept == [b"one", b"old"], f"it has half of a write: {kept}"
