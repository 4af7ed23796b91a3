"""A replica as the clients and threads of its process see it."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final

from ...agents import AgentId, Note, Notification, encode, outside
from ...agents.envelope import check_address
from ...client.local.registry import register, unregister
from ...client.local.server import DirectSend, LocalListener, LocalOffer, LocalServer
from ...client.local.thread_queue import ThreadQueue
from ..context import ReplicaContext
from ..master.master import MasterSide
from ..master.node_port import NodePort
from ..node.outputs import Output
from .direct_sends import DirectSends
from .thread_queues import ThreadQueues

__all__ = ["LocalReplica"]

MAX_OFFERS: Final = 4096
"""Clients of this process that may wait for this replica to become master."""


class LocalReplica(LocalServer):
    """The `LocalServer` of a replica, from its start to its end."""

    def __init__(self, context: ReplicaContext, port: NodePort, master: MasterSide) -> None:
        server = context.server
        self.server_name = server.name
        self.server_id = server.id
        self.replica = context.replica.id
        self.name = f"{server.name}/{self.replica}" if server.clustered else server.name
        self._context = context
        self._port = port
        self._thread = threading.get_ident()
        self._listener: LocalListener | None = None
        self._offers: list[LocalOffer] = []
        self._ended = ""
        self.queues = ThreadQueues(context.log, lambda: self.in_server_thread)
        self._sends = DirectSends(master.submissions, self.schedule, master.services.when_accepting)
        master.services.listen_local = self._listen

    # For the replica

    def start(self) -> None:
        """Let the process find this replica. Called in the server's thread."""
        self._thread = threading.get_ident()
        register(self)

    def fill(self, out: Output) -> None:
        """Put what entries have for queues into these."""
        if out.state_after is not None:
            self.queues.state_replaced(
                f"this replica has got the state after entry {out.state_after} from another one"
            )
        for puts in out.puts:
            self.queues.put(puts)

    def mastership_lost(self) -> None:
        """Drop the notifications of threads that wait: this replica is master no longer."""
        self._sends.flush()

    def close(self) -> None:
        """End everything that clients and threads have of this replica."""
        unregister(self)
        self._ended = f"{self.name} in this process has stopped"
        self._sends.close(self._ended)
        self.queues.close(self._ended)
        offers, self._offers = self._offers, []
        for offer in offers:
            offer.refused(self._ended)

    def _listen(self, listener: LocalListener | None) -> None:
        self._listener = listener
        if listener is not None:
            offers, self._offers = self._offers, []
            for offer in offers:
                self._offer(offer)

    # The interface LocalServer

    @property
    def role(self) -> str:
        """The role at this moment."""
        return "stopped" if self._ended else self._port.node.role

    @property
    def is_master(self) -> bool:
        """Whether the replica serves as master at this moment."""
        return not self._ended and self._port.node.serving

    @property
    def in_server_thread(self) -> bool:
        """Whether the caller runs in the thread of the server."""
        return threading.get_ident() == self._thread

    def direct_send_to(self, agent: AgentId | str, notification: Notification) -> "Future[DirectSend]":
        """Send a notification to an agent, if this replica is the master."""
        payload = encode(notification)
        check_address(agent, 0)
        return self._sends.send(Note(agent, outside(self.server_id), notification.type_name, payload))

    def queue(self, name: str) -> ThreadQueue:
        """Return a queue that agents put notifications into."""
        return self.queues.queue(name)

    def open_link(self, offer: LocalOffer) -> None:
        """Accept the offer as soon as this replica is master."""
        self.schedule(lambda: self._offer(offer))

    def schedule(self, function: Callable[[], None]) -> None:
        """Call a function soon in the thread of the server."""
        self._context.reactor.callFromThread(function)

    def _offer(self, offer: LocalOffer) -> None:
        if self._ended:
            offer.refused(self._ended)
        elif self._context.replica.witness:
            offer.refused(f"{self.name} in this process is a witness, which is never master")
        elif self._listener is None:
            if len(self._offers) >= MAX_OFFERS:
                self._offers = [each for each in self._offers if each.waiting]
            if len(self._offers) >= MAX_OFFERS:
                offer.refused(f"{MAX_OFFERS} clients wait already until {self.name} is master")
            else:
                self._offers.append(offer)
        else:
            end = offer.accepted()
            if end is not None:
                self._listener(end)
