"""Messages as part of a transaction of the package ``transaction``, which ZODB, Pyramid and others use."""

import uuid
from typing import Any, Final

from .xa import XASession

__all__ = ["join_transaction"]

_FORMAT: Final = 1


def join_transaction(session: XASession, manager: Any = None) -> None:
    """Make what the session sends and receives from now on part of the present transaction.

    It is committed or given up with that, in two phases. To be called once in each transaction. manager: a
    transaction manager; that of the thread unless given. It needs the package ``transaction``.

    That package keeps no record of its decisions: a program that dies between the votes and the end leaves
    prepared branches, which an administrator ends (``quorate xa``). `Coordinator` ends them by itself.
    """
    if manager is None:
        import transaction  # pyright: ignore[reportMissingImports, reportMissingTypeStubs]

        manager = transaction.manager
    manager.get().join(_DataManager(session, manager))


class _DataManager:
    """What the package calls in the course of a transaction: see its interface ``IDataManager``."""

    def __init__(self, session: XASession, manager: Any) -> None:
        self.transaction_manager = manager
        self._session = session
        self._name = uuid.uuid4().hex
        session.tpc_begin(session.xid(_FORMAT, self._name, "quorate"))
        self._ended = False

    def abort(self, transaction: Any) -> None:
        """Give the branch up before the commit has begun."""
        del transaction
        self._roll_back()

    def tpc_begin(self, transaction: Any) -> None:
        """Begin the commit."""

    def commit(self, transaction: Any) -> None:
        """Do what has to be done before the vote."""

    def tpc_vote(self, transaction: Any) -> None:
        """Prepare the branch. Raises if a destination refuses, which ends the whole transaction."""
        del transaction
        try:
            self._ended = not self._session.tpc_prepare()
        except Exception:
            self._ended = True
            raise

    def tpc_finish(self, transaction: Any) -> None:
        """Commit the branch."""
        del transaction
        if not self._ended:
            self._ended = True
            self._session.tpc_commit()

    def tpc_abort(self, transaction: Any) -> None:
        """Give the branch up after the commit has begun."""
        del transaction
        self._roll_back()

    def _roll_back(self) -> None:
        if not self._ended:
            self._ended = True
            self._session.tpc_rollback()

    def sortKey(self) -> str:  # noqa: N802
        """Return where it stands among the participants, the same place in all transactions."""
        return f"quorate:{self._name}"
