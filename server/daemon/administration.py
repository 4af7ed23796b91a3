"""The commands of administrators, carried out by a daemon."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from twisted.internet.defer import Deferred, succeed

from ...agents.envelope import Note
from ...agents.ids import AgentId
from ...agents.lifecycle import AgentPage, AgentRow, ListAgents
from ...engine import AgentState, DeadLetter, Timer
from ...hachannel import ChangeRefused
from ...hachannel.transport.addresses import Address
from ...services.daemon_base import CommandRefused
from ..admin import wire

if TYPE_CHECKING:
    from .replica import DaemonReplica

__all__ = ["DaemonAdministration"]


class DaemonAdministration:
    """The `AdminTarget` of a daemon. It has no agents: calls that ask for some are refused before."""

    role = "daemon"

    def __init__(self, daemon: "DaemonReplica") -> None:
        self._daemon = daemon

    @property
    def server_id(self) -> int:
        """Identifier of the server."""
        return self._daemon.context.server.id

    def agentless(self) -> str:
        """Return why there are no agents here."""
        return (
            f"{self._daemon.context.server.name} is a mesh, which has no agents; see `quorate mesh --help`."
        )

    def command(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Carry out a command of the mesh. Raises ChangeRefused."""
        try:
            return self._daemon.service.command(name, arguments)
        except CommandRefused as refused:
            raise ChangeRefused(str(refused)) from None

    def status(self) -> "Deferred[Mapping[str, Any]]":
        """Return the status of the daemon."""
        return succeed(self._daemon.status())

    def stop(self, *, together: bool, again: bool) -> "Deferred[None]":
        """Stop the daemon in order."""
        self._daemon.again = again
        return self._daemon.stop(together=together)

    def master_address(self) -> Address | None:
        """Return None: a mesh has no master."""
        return None

    def diagnosis(self) -> str:
        """Return that nothing keeps the daemon waiting."""
        return ""

    def lacks_all(self) -> str:
        """Return why there are no agents here."""
        return self.agentless()

    def _refuse(self) -> NoReturn:
        raise ChangeRefused(self.agentless())

    def page(self, ask: ListAgents) -> AgentPage:
        """Refuse."""
        del ask
        self._refuse()

    def timers(
        self, address: AgentId | str | None, after: tuple[int, int] | None, limit: int
    ) -> list[Timer] | None:
        """Refuse."""
        del address, after, limit
        self._refuse()

    def letters(self, after: int, limit: int) -> list[DeadLetter]:
        """Refuse."""
        del after, limit
        self._refuse()

    def inspect(self, address: AgentId | str) -> tuple[AgentRow, bytes] | None:
        """Refuse."""
        del address
        self._refuse()

    def stored(self, identity: AgentId) -> AgentState:
        """Refuse."""
        del identity
        self._refuse()

    def post(self, note: Note) -> "Deferred[Note | None]":
        """Refuse."""
        del note
        self._refuse()

    def request(self, note: Note, timeout_s: float) -> "Deferred[Note]":
        """Refuse."""
        del note, timeout_s
        self._refuse()

    def figures(self) -> list[wire.FigureRow]:
        """Return nothing: a daemon has no queues."""
        return []

    def begin_backup(self, birth: int, have: int) -> wire.BackupBegun:
        """Refuse."""
        del birth, have
        self._refuse()

    def continue_backup(self, token: int) -> "Deferred[wire.BackupPart]":
        """Refuse."""
        del token
        self._refuse()

    def admit(self, replica: int, data: bytes, *, witness: bool) -> bool:
        """Refuse."""
        del replica, data, witness
        raise ChangeRefused("The daemons of a mesh are added with `quorate mesh add`.")

    def remove(self, replica: int) -> bool:
        """Refuse."""
        del replica
        raise ChangeRefused("The daemons of a mesh are removed with `quorate mesh forget`.")
