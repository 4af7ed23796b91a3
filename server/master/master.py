"""The master's side of a replica: networks to other servers, services, and submissions of administrators."""

import random

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from ...agents import Note, connection_manager, encode, outside
from ...agents.manager import CloseLocal, ConnectionManagerAgent
from ...engine import Effects
from ..context import ReplicaContext
from ..network.addresses import Addresses
from .declared_agents import DeclaredAgents
from .networks import Networks
from .node_port import NodePort
from .service_host import Services
from .submissions import Submissions

__all__ = ["MasterSide"]


class MasterSide:
    """Everything that only a master runs; idle while the replica is not master."""

    def __init__(
        self,
        context: ReplicaContext,
        port: NodePort,
        addresses: Addresses,
        jitter: random.Random | None = None,
    ) -> None:
        """`addresses` are those of the replicas of this server.

        `jitter` spreads the attempts to connect with other servers; a test gives its own to repeat a run.
        """
        self.submissions = Submissions(context, port)
        self.networks = Networks(context, port, addresses, jitter)
        self.services = Services(context, self.submissions, addresses)
        self._declared = DeclaredAgents(context, port, self.submissions)
        self._log = context.log
        self._port = port
        self._server = context.server.id

    def start(self, first_time: bool) -> None:
        """Start the networks, create declared agents, then start the services in the order of the XML.

        This replica is master now.

        first_time: no entry was ever committed in the life of the cluster.
        """
        self.networks.start()
        if not first_time:
            self._close_local()
        self._declared.create()
        self.services.start(first_time).addErrback(self._log_failure, "starting the services")

    def _close_local(self) -> None:
        """Close the connections that clients in the process of a former master had."""
        manager = self._port.node.engine.find(connection_manager(self._server))
        agent = None if manager is None else manager.agent
        if isinstance(agent, ConnectionManagerAgent) and agent.local:
            order = CloseLocal()
            note = Note(
                connection_manager(self._server), outside(self._server), order.type_name, encode(order)
            )
            self.submissions.post([note])

    def stop(self, reason: str) -> "Deferred[None]":
        """Stop networks and services. Fires when the services have stopped; never fails."""
        self.networks.stop()
        # Before the requests fail: a service that waits for a reply while it starts has not failed.
        self.services.abandon()
        self.submissions.fail(reason)
        return self.services.stop().addErrback(self._log_failure, "stopping the services")

    def carry_out(self, effects: Effects) -> None:
        """Send what a committed entry puts out: replies, emissions, notifications to other servers."""
        # Replies first: the reply that reopens a connection comes before what is emitted on it afterwards.
        for note in effects.replies:
            self.submissions.answer(note)
        if effects.emissions:
            self.services.emit(effects)
        self.networks.send(effects)

    def resume(self) -> None:
        """Let services and networks that wait continue, if the node accepts input."""
        if self.services.waiting and self.submissions.accepting:
            self.services.accept_again()
        self.networks.resume()

    def _log_failure(self, failure: Failure, attempt: str) -> None:
        self._log(f"{attempt} failed: {failure.getErrorMessage()}")
