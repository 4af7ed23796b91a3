"""The commands of administrators, carried out by a running replica."""

from collections.abc import Callable, Mapping
from typing import Any

from twisted.internet.defer import Deferred

from ...agents import AgentId, AgentPage, AgentRow, ListAgents, Note
from ...engine import AgentState, DeadLetter, Timer
from ...hachannel import ChangeRefused, Channel
from ...hachannel import NotMaster as ChannelMaster
from ...hachannel.transport.addresses import Address
from ..admin import wire
from ..admin.protocol import MASTER, NotMaster
from ..network.addresses import decode_address
from ..node.divergence import SLICE_AGENTS, SLICE_BYTES
from .backup import BackupSource
from .figures import destination_figures
from .replica import Replica
from .status import build_status

__all__ = ["Administration"]


class Administration:
    """The `AdminTarget` of a replica."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._backup = BackupSource(replica)

    # Queries

    @property
    def server_id(self) -> int:
        """Identifier of the server."""
        return self._replica.context.server.id

    def status(self) -> "Deferred[Mapping[str, Any]]":
        """Return the status of the replica and the digest of its state: see `AdminTarget`."""
        engine = self._replica.node.engine
        found, digest = build_status(self._replica), engine.incremental_digest()
        answer: Deferred[Mapping[str, Any]] = Deferred()

        def step() -> None:
            try:
                done = digest.step(SLICE_AGENTS, SLICE_BYTES)
            except Exception as error:
                answer.errback(error)
                return
            if not done:
                self._replica.context.reactor.callLater(0, step)
            elif engine.has_digest(digest):
                answer.callback({**found, "digest": digest.digest.hex()})
            else:
                # The engine's state was replaced while its digest was computed.
                self.status().chainDeferred(answer)

        step()
        return answer

    @property
    def role(self) -> str:
        """The role of the replica: see `Node.role`."""
        return self._replica.node.role

    def master_address(self) -> Address | None:
        """Return where the master listens, None if unknown."""
        return self._replica.master_address()

    def diagnosis(self) -> str:
        """Return what keeps the replica from being master or slave: see `Replica.diagnosis`."""
        return self._replica.diagnosis()

    def agentless(self) -> str:
        """Return "": this server may have agents."""
        return ""

    def command(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Refuse: this is no daemon of a mesh."""
        del name, arguments
        raise ChangeRefused(f'{self._replica.context.server.name} has no mode="mesh".')

    def lacks_all(self) -> str:
        """Return why this replica holds no agents, if it is a witness; "" otherwise."""
        context, addresses = self._replica.context, self._replica.peers.addresses
        me = context.replica.id
        if me not in addresses.witnesses:
            return ""
        others = [str(id) for id in addresses.ids if id not in addresses.witnesses]
        which = " or ".join([", ".join(others[:-1]), others[-1]] if others[1:] else others)
        return f"{context.server.name}.{me} is a witness, which holds no agents: ask replica {which}."

    def page(self, ask: ListAgents) -> AgentPage:
        """Return a page of the agents, at the cost of that page. Raises ValueError for a wrong `after`."""
        return self._replica.node.engine.page(ask)

    def timers(
        self, address: AgentId | str | None, after: tuple[int, int] | None, limit: int
    ) -> list[Timer] | None:
        """Return the timers of an agent, or of all: see `AdminTarget`."""
        engine = self._replica.node.engine
        if address is None:
            return engine.timers(None, after, limit)
        cell = engine.find(address)
        return None if cell is None else engine.timers(cell.identity, after, limit)

    def letters(self, after: int, limit: int) -> list[DeadLetter]:
        """Return kept dead letters with numbers above `after`, oldest first."""
        return self._replica.node.engine.letters(after, limit)

    def inspect(self, address: AgentId | str) -> tuple[AgentRow, bytes] | None:
        """Return an agent with its state, a MessagePack map; None if there is no such agent."""
        engine = self._replica.node.engine
        row, state = engine.row(address), engine.state_of(address)
        return None if row is None or state is None else (row, state)

    def stored(self, identity: AgentId) -> AgentState:
        """Return an agent in the form in which it is stored: see `AdminTarget`."""
        cell = self._replica.node.engine.find(identity)
        assert cell is not None
        return cell.stored()[0]

    # Commands

    def post(self, note: Note) -> "Deferred[Note | None]":
        """Post a notification; fires once committed, with its failure if it failed. Raises NotMaster."""
        self._require_master()
        return self._replica.master.submissions.submit(note)

    def request(self, note: Note, timeout_s: float) -> "Deferred[Note]":
        """Send a notification and wait for its reply. Raises NotMaster."""
        self._require_master()
        return self._replica.master.submissions.request(note, timeout_s)

    def figures(self) -> list[wire.FigureRow]:
        """Return the figures of queues and topics: see `destination_figures`."""
        found = destination_figures(self._replica.node.engine)
        return [wire.FigureRow(each.kind, each.name, dict(each.figures)) for each in found]

    def begin_backup(self, birth: int, have: int) -> wire.BackupBegun:
        """Begin to copy the state: see `BackupSource`. Raises ChangeRefused."""
        return self._backup.begin(birth, have)

    def continue_backup(self, token: int) -> "Deferred[wire.BackupPart]":
        """Return the next part of the copy. Raises ChangeRefused."""
        return self._backup.part(token)

    def admit(self, replica: int, data: bytes, *, witness: bool) -> bool:
        """Add a replica to the cluster. Raises NotMaster, ChangeRefused.

        A master that serves no clients because it has too few copies accepts this as well: the replica may
        bring a copy.
        """
        if decode_address(data) is None:
            raise ChangeRefused(
                "The description of the replica cannot be read: use this version of the command."
            )
        return self._change(lambda channel, now: channel.admit(now, replica, data, witness=witness))

    def remove(self, replica: int) -> bool:
        """Remove a replica from the cluster. Raises NotMaster, ChangeRefused."""
        return self._change(lambda channel, now: channel.remove(now, replica))

    def stop(self, *, together: bool, again: bool) -> "Deferred[None]":
        """Stop the replica in order; `together` with all others of its server."""
        self._replica.again = again
        return self._replica.stop(together=together)

    def _change(self, request: Callable[[Channel, float], bool]) -> bool:
        replica, server = self._replica, self._replica.context.server
        if not server.clustered:
            raise ChangeRefused(f"{server.name} is no <cluster>: its replica cannot be changed.")
        changed: list[bool] = []

        def change(now: float, wall_ns: int) -> None:
            changed.append(replica.node.change(now, wall_ns, request))

        try:
            replica.driver.call(change)
        except ChannelMaster:
            raise NotMaster(replica.master_address(), replica.diagnosis()) from None
        return bool(changed and changed[0])

    def _require_master(self) -> None:
        replica = self._replica
        if replica.serving:
            return
        waits_for = replica.node.waits_for
        diagnosis = replica.diagnosis() or (f"it waits for {waits_for}" if waits_for else "")
        raise NotMaster(replica.master_address(), diagnosis, leads=self.role == MASTER)
