"""The master's side of a replica: networks to other servers, services, and submissions of administrators."""

import random
from collections.abc import Sequence

from twisted.internet.defer import Deferred, succeed
from twisted.python.failure import Failure

from ...agents import Note, connection_manager, encode, outside
from ...agents.manager import CloseLocal, ConnectionManagerAgent
from ...engine import Effects
from ...hachannel import ViewEvent
from ...services.base import ServerView
from ..config import ServiceSpec
from ..context import ReplicaContext
from ..network.addresses import Addresses
from .declared_agents import DeclaredAgents
from .networks import Networks
from .node_port import NodePort
from .scopes import divided
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
        self.homes: Services | None = None
        """The services that run on every replica of the view; None if all run on the master."""
        specs: Sequence[ServiceSpec] | None = None
        if context.settings.node.homes:
            everywhere, specs = divided(context.replica.services)
            self.homes = Services(context, self.submissions, addresses, everywhere)
            self.homes.may_act = self.submissions.posting
        self.services = Services(context, self.submissions, addresses, specs, self.homes)
        self._declared = DeclaredAgents(context, port, self.submissions)
        self._log = context.log
        self._port = port
        self._server = context.server.id
        self._homes_started: Deferred[None] = succeed(None)

    def start(self, first_time: bool) -> None:
        """Start the networks, create declared agents, then start the services in the order of the XML.

        This replica is master now.

        first_time: no entry was ever committed in the life of the cluster.
        """
        self.networks.start()
        if not first_time:
            self._close_local()
        self._declared.create()
        services = self.services

        def start(_: object) -> "Deferred[None]":
            return services.start(first_time)

        self._homes_started.addCallback(start).addErrback(self._log_failure, "starting the services")
        self._homes_started = succeed(None)

    def start_home(self, first_time: bool) -> None:
        """Start the services of every replica: this one is a member of the view."""
        if self.homes is not None:
            self._homes_started = self.homes.start(first_time)
            self._homes_started.addErrback(self._log_failure, "starting the services for clients")

    def stop_home(self, reason: str) -> "Deferred[None]":
        """Stop the services of every replica. Fires when they have stopped; never fails."""
        if self.homes is None:
            return succeed(None)
        self.homes.abandon()
        self.submissions.fail(reason)
        return self.homes.stop().addErrback(self._log_failure, "stopping the services for clients")

    def end(self, reason: str) -> "Deferred[None]":
        """Stop everything that this replica runs. Fires when it has stopped; never fails."""
        homes = self.stop_home(reason)
        return self.stop(reason).addCallback(lambda _: homes)

    @property
    def failed(self) -> dict[str, str]:
        """Why services could not start so far, by their class."""
        return self.services.failed if self.homes is None else self.homes.failed | self.services.failed

    def status_lines(self) -> dict[str, str]:
        """Return the line of each running service that has set one, by the class of the service."""
        lines = {} if self.homes is None else self.homes.status_lines()
        return lines | self.services.status_lines()

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
        if self.homes is None or not self.submissions.posting():
            self.submissions.fail(reason)
        return self.services.stop().addErrback(self._log_failure, "stopping the services")

    def view_changed(self, event: ViewEvent) -> None:
        """Tell the services that another view is active."""
        view = ServerView(tuple(event.view), event.members)
        for services in (self.homes, self.services):
            if services is not None:
                services.view_changed(view)

    def carry_out(self, effects: Effects) -> None:
        """Send what a committed entry puts out: replies, emissions, notifications to other servers."""
        # Replies first: the reply that reopens a connection comes before what is emitted on it afterwards.
        for note in effects.replies:
            self.submissions.answer(note)
        if effects.emissions:
            if self.homes is not None:
                self.homes.emit(effects)
            self.services.emit(effects)
        self.networks.send(effects)

    def resume(self) -> None:
        """Let services and networks that wait continue, if the node accepts input."""
        for services in (self.homes, self.services):
            if services is not None and services.waiting and self.submissions.accepting:
                services.accept_again()
        self.networks.resume()

    def _log_failure(self, failure: Failure, attempt: str) -> None:
        self._log(f"{attempt} failed: {failure.getErrorMessage()}")
