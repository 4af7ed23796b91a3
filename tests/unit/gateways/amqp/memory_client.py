"""A client with Proton's engine, and the connection of the server, in memory."""

from collections.abc import Callable
from typing import Any, TypeVar

from quorate.agents import Pack
from quorate.gateways.amqp.core import Surroundings
from quorate.gateways.amqp.engine import (
    Collector,
    Connection,
    Described,
    Message,
    Terminus,
    Transport,
    symbol,
    ulong,
)
from quorate.gateways.amqp.requests import LogIn, Open, OpenProducer, Subscribe
from quorate.gateways.amqp.session import AmqpSession
from quorate.messaging import Queue
from quorate.messaging.client.message import Message as Received
from quorate.messaging.client.session_base import Browser

MAX_BYTES = 200_000
R = TypeVar("R")


def received(number: int, body: bytes = b"hello", **columns: Any) -> Received:
    """A message as a destination delivers it."""
    given = {"number": number, "id": "#0.0.9/1", "serial": number, "time": 1000, **columns}
    pack = Pack.of([body], **{name: [each] for name, each in given.items()})
    return Received(Browser(Queue("orders")), pack, 0, number)


class Client:
    """A client of a session."""

    def __init__(
        self,
        user: str = "anna",
        password: str = "secret",
        container: str = "c1",
        login: bool = True,
        alone: bool = False,
    ):
        self.now = 1.0
        self.certificate = False
        surroundings = Surroundings("s0", MAX_BYTES, lambda: self.certificate, lambda: 5000)
        self.session = AmqpSession(self.now, surroundings)
        self.requests: list[Any] = []
        self.transport = Transport()
        self.connection = Connection()
        self.connection.container = container
        self.connection.hostname = "host"
        self.connection.user, self.connection.password = user, password
        self.collector = Collector()
        self.connection.collect(self.collector)
        self.transport.sasl().allowed_mechs("PLAIN EXTERNAL" if not password else "PLAIN")
        self.transport.sasl().allow_insecure_mechs = True
        self.transport.bind(self.connection)
        if alone:
            self.connection.desired_capabilities = [symbol("sole-connection-for-container")]
        self.connection.open()
        if login:
            self.pump()
            assert self.took(LogIn) == LogIn(user, password)
            self.session.logged_in()
            self.pump()
            self.done(Open)
            self.channel = self.connection.session()
            self.channel.open()
            self.pump()

    def pump(self) -> None:
        """Carry bytes both ways until there are no more."""
        while True:
            moved = False
            while (pending := self.transport.pending()) > 0:
                data = bytes(self.transport.peek(pending))
                self.transport.pop(pending)
                self.session.received(self.now, data)
                moved = True
            self.requests += self.session.requests()
            data = self.session.data_to_send(self.now)
            self.requests += self.session.requests()
            if data and self.transport.capacity() > 0:
                self.transport.push(data)
                moved = True
            while self.collector.peek() is not None:
                self.collector.pop()
            if not moved:
                return

    def took(self, kind: type[R]) -> R:
        """Return the first request of a kind, which is taken out."""
        found = next(each for each in self.requests if isinstance(each, kind))
        self.requests.remove(found)
        return found

    def done(self, kind: Any, result: Any = None) -> Any:
        """Carry out the first request of a kind."""
        request = self.took(kind)
        self.session.done(request.token, result)
        self.pump()
        return request

    def failed(self, kind: Any, condition: str, text: str) -> None:
        """Have the first request of a kind fail."""
        self.session.failed(self.took(kind).token, condition, text)
        self.pump()

    def sender(self, address: str | None = "orders", name: str = "s", **capabilities: Any) -> Any:
        """Open a link on which the client sends."""
        link = self.channel.sender(name)
        link.target.address = address
        self._open(link, link.target, **capabilities)
        if address:
            self.done(OpenProducer)
        return link

    def receiver(
        self, address: str = "orders", name: str = "r", credit: int = 10, **capabilities: Any
    ) -> Any:
        """Open a link on which the client receives."""
        link = self.channel.receiver(name)
        link.source.address = address
        self._open(link, link.source, **capabilities)
        self.subscribed = self.done(Subscribe)
        link.flow(credit)
        self.pump()
        return link

    def _open(
        self, link: Any, terminus: Any, kind: str = "", set_up: Callable[[Any], None] | None = None
    ) -> None:
        if kind:
            terminus.capabilities.put_object(symbol(kind))
        if set_up is not None:
            set_up(link)
        link.open()
        self.pump()

    def send(self, link: Any, message: Any, transaction: bytes | None = None) -> Any:
        """Send a message; return its delivery."""
        delivery = link.delivery(str(link.queued) + str(id(message)))
        if transaction is not None:
            delivery.local.data = [transaction]
            delivery.update(0x34)
        link.stream(message if isinstance(message, bytes) else message.encode())
        link.advance()
        self.pump()
        return delivery

    def coordinator(self) -> Any:
        """Open the link for transactions."""
        link = self.channel.sender("transactions")
        link.target.type = Terminus.COORDINATOR
        link.open()
        self.pump()
        return link

    def begin(self, link: Any) -> bytes:
        """Begin a transaction; return its name."""
        delivery = self.send(link, Message(body=Described(ulong(0x31), [None])))
        assert delivery.remote_state == 0x33
        return bytes(delivery.remote.data[0])

    def end(self, link: Any, name: bytes, *, fails: bool = False) -> Any:
        """End a transaction; return the delivery of that."""
        return self.send(link, Message(body=Described(ulong(0x32), [name, fails])))

    def deliver(self, link: Any, *numbers: int, **columns: Any) -> list[Any]:
        """Have messages delivered on a link; return the deliveries, each with its message."""
        for number in numbers:
            assert self.session.deliver(self.subscribed.consumer, received(number, **columns))
        self.pump()
        return self.got(link)

    @staticmethod
    def got(link: Any) -> list[Any]:
        """Return what has come on a link."""
        found: list[Any] = []
        while (delivery := link.current) is not None and delivery.readable and not delivery.partial:
            message = Message()
            message.decode(bytes(link.recv(delivery.pending)))
            delivery.message = message
            found.append(delivery)
            link.advance()
        return found

    def settle(self, delivery: Any, state: Any, transaction: bytes | None = None) -> list[Any]:
        """Settle a delivery; return the requests of that."""
        self.requests.clear()
        if transaction is not None:
            delivery.local.data = [transaction, Described(ulong(int(state)), [])]
            state = 0x34
        delivery.update(state)
        delivery.settle()
        self.pump()
        found, self.requests = self.requests, []
        return found
