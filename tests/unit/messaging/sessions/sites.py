"""A simulated cluster with destinations, and clients with sessions on its virtual time."""

from collections.abc import Coroutine
from typing import Any, TypeVar

from quorate.messaging import AsyncSession
from quorate.messaging.agents.destination import Destination
from quorate.messaging.agents.manager import MANAGER, MessagingManager
from quorate.messaging.agents.settings import DestinationSettings
from quorate.testing import SimulatedCluster
from quorate.testing.servers.simulated_client import SimulatedClient

__all__ = ["Site"]

T = TypeVar("T")


class Site:
    """A cluster of three replicas with queues and topics."""

    def __init__(self, seed: int = 0, *queues: str, topics: tuple[str, ...] = (), **settings: Any) -> None:
        # The guard takes most of the time of such runs; units of the destination have it.
        self.cluster = SimulatedCluster(seed=seed, guard=False)
        self.cluster.create(MessagingManager, name=MANAGER)
        made = DestinationSettings(**settings)
        for kind, titles in (("queue", queues), ("topic", topics)):
            for title in titles:
                self.cluster.create(
                    Destination, name=f"{kind}:{title}", kind=kind, title=title, settings=made
                )

    def client(self) -> SimulatedClient:
        """Return a new client."""
        return self.cluster.client()

    def run(self, client: SimulatedClient, coroutine: Coroutine[Any, Any, T]) -> T:
        """Let virtual time pass until a coroutine has ended."""
        return client.run(coroutine)

    def session(self, client: SimulatedClient, **options: Any) -> AsyncSession:
        """Return a session of a client."""
        return AsyncSession(client.connection, **options)
