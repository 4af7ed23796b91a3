"""Begin a new cluster with the data that one stopped replica has on its disk."""

import sqlite3
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from ...hachannel import Seat
from ...hachannel.journal.journal import Journal, database_error
from ...hachannel.journal.new_cluster import NothingThere, begin_again, first_view
from ...hachannel.model.messages import PAYLOAD
from ...hachannel.model.view import Voter
from ..config import Server
from ..network.addresses import encode_address
from ..storage.data_directory import DataDirectory
from ..storage.durability import identity_of
from ..storage.journal_files import JOURNAL_FILE
from ..storage.state_store import StateStore

__all__ = ["NewCluster", "NewClusterError"]


class NewClusterError(Exception):
    """A new cluster cannot be begun, and nothing was changed. The text is one sentence."""


class NewCluster:
    """The locked directory of a stopped replica. Made by `open`, released by `close`."""

    def __init__(self, server: Server, replica: int, directory: DataDirectory, journal: Journal) -> None:
        self._name = f"{server.name}.{replica}"
        self._directory = directory
        self._journal = journal
        self._me = Voter(replica, directory.incarnation)
        self._seats = tuple(Seat(each.id, encode_address(each), each.witness) for each in server.replicas)

    @classmethod
    def open(cls, data: Path, server: Server, replica: int) -> Self:
        """Lock the directory, and read and check every row of the journal in it.

        Raises NewClusterError, DataDirectoryError, and JournalError when it is damaged.
        """
        path = data / server.name / str(replica) / JOURNAL_FILE
        if not path.exists():
            raise NewClusterError(
                f"{path.parent} has no journal of {server.name}.{replica}; give its directory with --data."
            )
        directory = DataDirectory.open(data, server.name, replica)
        try:
            journal = Journal.open(path, identity_of(server, replica), directory.incarnation, existing=True)
            try:
                _check_agents(path, journal)
                made = cls(server, replica, directory, journal)
                first_view(journal.remembered, made._me, made._seats)
            except BaseException:
                journal.close()
                raise
        except NothingThere:
            directory.close()
            raise NewClusterError(
                f"{server.name}.{replica} holds no data of {server.name}: it never was part of it, or its "
                "journal was damaged and moved away."
            ) from None
        except BaseException:
            directory.close()
            raise
        return made

    def report(self) -> list[str]:
        """Return lines that describe what the replica holds and what is lost with the others."""
        remembered = self._journal.remembered
        view, last, commit = remembered.accepted, remembered.last, remembered.commit
        lines = [f"{self._name} holds what was done up to entry {last}{self._when()}."]
        if view is not None:
            members = ", ".join(map(str, view.replicas()))
            lines.append(f"The last view it knows of is {view.number.counter}, of the replicas {members}.")
            if self._me.replica not in view.replicas():
                lines.append(f"It was not part of that view: what {members} acknowledged in it is LOST.")
        if remembered.unfit:
            lines.append(
                "Its state was found to be ANOTHER than that of the other replicas, since an agent is not "
                "deterministic. It counts as right from now on."
            )
        if last > commit:
            lines.append(
                f"It does not know whether the entries {commit + 1} to {last} were acknowledged: they are "
                "kept, and count as done."
            )
        lines += [
            "What other replicas acknowledged after that is LOST, although clients and other servers believe "
            "that it is safe. Messages that this server sent to other servers since then are not taken back.",
            "If any other replica with a later entry can be started with its directory, do that instead.",
            "The other replicas do not belong to the new cluster: REMOVE the directory of each before it is "
            "started again; then it receives all data from this one. A replica that is started with its old "
            "directory stops as soon as it connects to the new cluster. Until then, for example while the "
            "network is cut, a majority of the old replicas serves BESIDE the new cluster, and what they "
            "acknowledge is lost later.",
        ]
        return lines

    def left_out(self) -> list[Seat]:
        """Return the seats of the last view of this replica that are not in the file."""
        view, declared = self._journal.remembered.accepted, {seat.replica for seat in self._seats}
        return [] if view is None else [seat for seat in view.seats if seat.replica not in declared]

    def begin_again(self) -> None:
        """Write the beginning of the new cluster into the journal. Raises JournalError."""
        begin_again(self._journal, self._me, self._seats)

    def close(self) -> None:
        """Close the journal and unlock the directory."""
        self._journal.close()
        self._directory.close()

    def _when(self) -> str:
        stamps = [entry.stamp_ns for entry in self._journal.recovered if entry.kind == PAYLOAD]
        if not any(stamps):
            return ""
        return f", of {datetime.fromtimestamp(max(stamps) / 1e9, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _check_agents(path: Path, journal: Journal) -> None:
    """Check that the stored agents can be read. Raises JournalError when they are damaged."""
    store = StateStore(path)
    try:
        if store.unfinished(journal.connection):
            # A save that was interrupted by a kill is completed, as at a start.
            journal.write([], also=store.recover)
        stored = store.read(journal.connection)
        for _ in () if stored is None else stored.agents:
            pass
    except sqlite3.Error as error:
        raise database_error(path, error) from None
