"""The coordinator of distributed transactions: all participants commit, or none.

The participants have the methods of PEP 249 for two-phase commit: `XASession`, and connections of databases
as those of psycopg. The coordinator has all of them prepare, writes its decision to a synced file, and has
all of them commit. Who dies in between leaves prepared branches: `Coordinator.recover` commits those for
which there is a decision, and rolls the others back.
"""

import logging
import sqlite3
import threading
import uuid
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Protocol, Self

import attrs

__all__ = ["CommitUnfinished", "Coordinator", "CoordinatorError", "DistributedTransaction", "Recovered"]

_log: Final = logging.getLogger("quorate.messaging")
_FORMAT: Final = 1
_SCHEMA: Final = """
create table if not exists coordinator (name text not null);
create table if not exists undone (gtrid text not null, bqual text not null, primary key (gtrid, bqual));
"""


class Participant(Protocol):
    """What takes part: see PEP 249."""

    def xid(self, format_id: int, gtrid: str, bqual: str, /) -> Any:
        """Return an identifier."""
        ...

    def tpc_begin(self, xid: Any, /) -> None:
        """Begin a branch."""
        ...

    def tpc_prepare(self) -> object:
        """Prepare the branch."""
        ...

    def tpc_commit(self, xid: Any = ..., /) -> None:
        """Commit a branch."""
        ...

    def tpc_rollback(self, xid: Any = ..., /) -> None:
        """Roll a branch back."""
        ...

    def tpc_recover(self) -> Sequence[Any]:
        """Return the identifiers of prepared branches."""
        ...


class CoordinatorError(Exception):
    """The coordinator cannot work: the sentence says why."""


class CommitUnfinished(CoordinatorError):
    """The transaction is committed, but a participant could not be told: `Coordinator.recover` tells it."""


@attrs.frozen
class Recovered:
    """What `Coordinator.recover` has done."""

    committed: int
    rolled_back: int


class Coordinator:
    """Coordinates transactions, with its decisions in one file, which one process uses at a time.

    ::

        coordinator = Coordinator("decisions.db")
        coordinator.recover(session, database)
        with coordinator.begin(session, database):
            database.execute("insert into paid values (%s)", [session.consumer("pay").receive().body])

    The ``with`` block commits at its end, and rolls back if it raises.
    """

    def __init__(self, path: str | Path) -> None:
        """Open or make the file of decisions. Raises CoordinatorError if another process has it open."""
        self._guard = threading.Lock()
        self._active = 0
        try:
            self._db = sqlite3.connect(path, timeout=1, isolation_level=None, check_same_thread=False)
            self._db.execute("pragma locking_mode = exclusive")
            self._db.execute("pragma synchronous = extra")
            self._db.executescript(f"begin exclusive; {_SCHEMA} commit;")
            row = self._db.execute("select name from coordinator").fetchone()
            if row is None:
                row = (uuid.uuid4().hex[:12],)
                self._db.execute("insert into coordinator values (?)", row)
        except sqlite3.Error as error:
            raise CoordinatorError(
                f"the file of decisions {path} cannot be used: {error}; another process may have it open"
            ) from error
        self._name = str(row[0])

    def begin(self, *participants: Participant) -> "DistributedTransaction":
        """Return a transaction of these participants, to be used in a ``with`` block."""
        return DistributedTransaction(self, participants)

    def recover(self, *participants: Participant) -> Recovered:
        """End the branches that earlier runs of the program have left with these participants.

        To be called before the first transaction. Branches of other coordinators are passed over. Raises
        CoordinatorError while a transaction of this coordinator is under way, and what participants raise.
        """
        with self._guard:
            if self._active:
                raise CoordinatorError("a transaction is under way; recover before the first one")
            decided = {
                (str(one), str(two)) for one, two in self._db.execute("select gtrid, bqual from undone")
            }
        committed = rolled_back = 0
        for participant in participants:
            for xid in list(participant.tpc_recover()):
                if not str(xid.gtrid).startswith(f"{self._name}-"):
                    continue
                if (xid.gtrid, xid.bqual) in decided:
                    participant.tpc_commit(xid)
                    self._done(xid.gtrid, xid.bqual)
                    committed += 1
                else:
                    participant.tpc_rollback(xid)
                    rolled_back += 1
        return Recovered(committed, rolled_back)

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # For transactions

    def _begin(self) -> str:
        with self._guard:
            self._active += 1
        return f"{self._name}-{uuid.uuid4().hex}"

    def _end(self) -> None:
        with self._guard:
            self._active -= 1

    def _decide(self, gtrid: str, branches: Sequence[str]) -> None:
        """Record durably that these branches are to be committed."""
        with self._guard, self._db:
            self._db.execute("begin")
            self._db.executemany("insert into undone values (?, ?)", [(gtrid, each) for each in branches])

    def _done(self, gtrid: str, branch: str) -> None:
        """Record that a branch is committed. If that is lost, nothing is committed twice."""
        with self._guard:
            self._db.execute("delete from undone where gtrid = ? and bqual = ?", (gtrid, branch))


class DistributedTransaction:
    """One transaction of several participants: see `Coordinator.begin`."""

    def __init__(self, coordinator: Coordinator, participants: Sequence[Participant]) -> None:
        self._coordinator = coordinator
        self._participants = participants
        self._gtrid = ""

    def __enter__(self) -> Sequence[Participant]:
        self._gtrid = self._coordinator._begin()  # pyright: ignore[reportPrivateUsage]
        begun: list[Participant] = []
        try:
            for number, each in enumerate(self._participants):
                each.tpc_begin(each.xid(_FORMAT, self._gtrid, str(number)))
                begun.append(each)
        except BaseException:
            self._roll_back(begun)
            self._coordinator._end()  # pyright: ignore[reportPrivateUsage]
            raise
        return self._participants

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._commit()
            else:
                self._roll_back(self._participants)
        finally:
            self._coordinator._end()  # pyright: ignore[reportPrivateUsage]

    def _commit(self) -> None:
        try:
            prepared = [
                (str(number), each)
                for number, each in enumerate(self._participants)
                # A session that has done nothing says so, and is not to be committed.
                if each.tpc_prepare() is not False
            ]
        except BaseException:
            self._roll_back(self._participants)
            raise
        self._coordinator._decide(self._gtrid, [branch for branch, _ in prepared])  # pyright: ignore[reportPrivateUsage]
        failed: list[Exception] = []
        for branch, each in prepared:
            try:
                each.tpc_commit()
            except Exception as error:
                failed.append(error)
            else:
                self._coordinator._done(self._gtrid, branch)  # pyright: ignore[reportPrivateUsage]
        if failed:
            raise CommitUnfinished(
                f"transaction {self._gtrid} is committed, but {len(failed)} of {len(prepared)} participants "
                f"could not be told ({failed[0]}); Coordinator.recover tells them"
            ) from failed[0]

    def _roll_back(self, participants: Sequence[Participant]) -> None:
        for each in participants:
            try:
                each.tpc_rollback()
            except Exception as error:
                # It may have rolled back already, or be gone; what is prepared is found by `recover`.
                _log.info("transaction %s: a participant was not rolled back: %s", self._gtrid, error)
