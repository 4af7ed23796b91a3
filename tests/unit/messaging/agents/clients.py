"""Clients of destinations in tests: connections at another server, whose proxies the test plays."""

from collections.abc import Iterable
from typing import Any, TypeVar

from quorate import AgentId, Notification, Pack
from quorate.agents import FIRST_CONNECTION_STAMP, Note, encode
from quorate.agents.proxy import ConnectionEnded
from quorate.engine import NetInput
from quorate.messaging.agents.destination import Destination
from quorate.messaging.agents.protocol import (
    CloseConsumer,
    Confirmed,
    ConsumerClosed,
    ConsumerOpened,
    Deliver,
    OpenConsumer,
    OpenProducer,
    ProducerOpened,
    Publish,
    Settle,
    Settlement,
)
from quorate.messaging.agents.settings import DestinationSettings
from quorate.testing import Harness

__all__ = ["Client", "Site"]

N = TypeVar("N", bound=Notification)
_CLIENTS = 9
"""The server of the clients."""
SERVERS = {"s0": 0, "s1": 1, "s2": 2, "clients": _CLIENTS}


class Site:
    """A server with destinations, and clients whose proxies are played by the test."""

    def __init__(self, server: int = 0) -> None:
        self.server = server
        self.harness = Harness(server, SERVERS)
        self._clients: dict[AgentId, Client] = {}
        self._sent = self._received = 0

    def queue(self, title: str = "orders", **settings: Any) -> str:
        """Make a queue, and return its address."""
        return self._destination("queue", title, settings)

    def topic(self, title: str = "prices", **settings: Any) -> str:
        """Make a topic, and return its address."""
        return self._destination("topic", title, settings)

    def _destination(self, kind: str, title: str, settings: dict[str, Any]) -> str:
        name = f"{kind}:{title}"
        made = DestinationSettings(**settings)
        self.harness.deploy(Destination, name=name, kind=kind, title=title, settings=made)
        return name

    def client(self) -> "Client":
        """Return a new client."""
        stamp = FIRST_CONNECTION_STAMP + 1000 * self.server + len(self._clients)
        identity = AgentId(_CLIENTS, _CLIENTS, stamp)
        client = self._clients[identity] = Client(self, identity)
        return client

    def agent(self, name: str) -> Destination:
        """Return the agent of a destination."""
        agent = self.harness.agent(name)
        assert isinstance(agent, Destination)
        return agent

    def depth(self, name: str) -> int:
        """Return how many messages a destination has."""
        return self.agent(name).depth

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.harness.advance(seconds)
        self.hand_out()

    def post(self, sender: AgentId, to: str, notifications: Iterable[Notification]) -> None:
        """Have one entry applied with these notifications, and hand out what leaves the server."""
        notes = [Note(to, sender, each.type_name, encode(each)) for each in notifications]
        first = self._sent + 1
        self._sent += len(notes)
        self.apply(NetInput(_CLIENTS, 1, first, notes))
        self.hand_out()

    def apply(self, item: NetInput) -> None:
        """Apply an entry."""
        self.harness.apply(item)

    def hand_out(self) -> None:
        """Give the clients what has left the server for them."""
        first, notes = self.harness.engine.pending(_CLIENTS)
        for note, each in zip(notes, self.harness.decoded(notes), strict=True):
            assert isinstance(note.to, AgentId)
            self._clients[note.to].got.append(each)
        self.harness.acknowledge(_CLIENTS, first + len(notes) - 1)


class Client:
    """A client, with what it has got."""

    def __init__(self, site: Site, identity: AgentId) -> None:
        self.id = identity
        self.got: list[Notification] = []
        self._site = site
        self._serials: dict[tuple[str, int], int] = {}

    def tell(self, to: str, *notifications: Notification) -> list[Notification]:
        """Send notifications in one entry, and return all that this client has got since it last asked."""
        self._site.post(self.id, to, notifications)
        return self.take(Notification)

    def take(self, kind: type[N]) -> list[N]:
        """Return, and forget, what came of this type."""
        found = [each for each in self.got if isinstance(each, kind)]
        self.got = [each for each in self.got if not isinstance(each, kind)]
        return found

    def end(self, to: str) -> None:
        """End the connection, as its proxy tells a destination that watches it."""
        self._site.post(self.id, to, [ConnectionEnded()])

    # Producers

    def produce(self, to: str, producer: int = 1) -> ProducerOpened:
        """Open a producer."""
        self._site.post(self.id, to, [OpenProducer(producer)])
        (opened,) = self.take(ProducerOpened)
        return opened

    def publish(
        self, to: str, *bodies: str, producer: int = 1, transaction: int = 0, **columns: Any
    ) -> list[Confirmed]:
        """Publish texts in one pack, and return the confirmations. Opens the producer if need be."""
        key = to, producer
        if key not in self._serials:
            self.produce(to, producer)
            self._serials[key] = 0
        first = self._serials[key] + 1
        self._serials[key] += len(bodies)
        pack = Pack.of([body.encode() for body in bodies], **columns)
        self._site.post(self.id, to, [Publish(producer, first, pack, transaction)])
        return self.take(Confirmed)

    # Consumers

    def consume(self, to: str, consumer: int = 1, **options: Any) -> None:
        """Open a consumer."""
        self._site.post(self.id, to, [OpenConsumer(consumer, **options)])
        assert self.take(ConsumerOpened) == [ConsumerOpened(consumer)]

    def texts(self, consumer: int = 1) -> list[str]:
        """Return, and forget, the texts that a consumer has got."""
        return [text for text, _, _ in self.messages(consumer)]

    def messages(self, consumer: int = 1) -> list[tuple[str, int, int]]:
        """Return, and forget, what a consumer has got: text, number, how often it was delivered before."""
        mine = [each for each in self.got if isinstance(each, Deliver) and each.consumer == consumer]
        self.got = [each for each in self.got if each not in mine]
        found: list[tuple[str, int, int]] = []
        for each in mine:
            columns = each.pack.column("number"), each.pack.column("deliveries")
            for body, number, deliveries in zip(each.pack.bodies(), *columns, strict=True):
                assert isinstance(number, int)
                found.append((body.decode(), number, deliveries if isinstance(deliveries, int) else 0))
        return found

    def settle(
        self,
        to: str,
        *numbers: int,
        consumer: int = 1,
        settlement: Settlement = Settlement.ACCEPTED,
        **options: Any,
    ) -> None:
        """Settle messages by their numbers."""
        ranges = [each for number in numbers for each in (number, 1)]
        self._site.post(self.id, to, [Settle(consumer, settlement, ranges, **options)])

    def close(self, to: str, consumer: int = 1, seen: Iterable[int] = ()) -> None:
        """Close a consumer; the application has seen these messages."""
        ranges = [each for number in seen for each in (number, 1)]
        self._site.post(self.id, to, [CloseConsumer(consumer, ranges)])
        assert self.take(ConsumerClosed) == [ConsumerClosed(consumer)]
