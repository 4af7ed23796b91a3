"""The side of the server in an AMQP 1.0 connection, without I/O: Proton's engine, and what links mean here.

Bytes and the time come in, and what has become of requests; requests and bytes to write come out. Proton
keeps to the protocol: frames, sessions, credit, the state of deliveries. Source: AMQP 1.0; its JMS mapping.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from ...messaging.agents.protocol import Settlement
from ...messaging.client.destinations import Destination
from ...messaging.client.message import Message
from .core import INVALID, Failed, Surroundings, end_link, refuse_link
from .engine import Condition, Delivery, Event, Link, Terminus
from .links import SETTLEMENTS, TRANSACTIONAL, Consuming, settlement_of
from .messages import encode_message
from .producing import AmqpProducers
from .requests import DeleteTemporary, Drain, EndDurable, FindDurable, Give, Settle, Subscribe, Unsubscribe
from .terminus import GLOBAL, capabilities, read_source, subscription_name

__all__ = ["AmqpSession"]

AHEAD: Final = 1000
"""Messages that are written to a link and that the client has not taken off the connection."""
INCOMING: Final = 4 * 1024 * 1024
"""Bytes that a client may send ahead in a session."""
MAX_LINKS: Final = 1000


class AmqpSession(AmqpProducers):
    """One connection of a client."""

    def __init__(self, now: float, surroundings: Surroundings) -> None:
        super().__init__(now, surroundings)
        self._consumers: dict[str, Consuming] = {}
        self._links = 0
        self._hungry: set[str] = set()
        """Consumers whose clients want more than is written ahead."""

    def deliver(self, name: str, message: Message) -> bool:
        """Send a message to a consumer. Return False if its client does not want it now."""
        consuming = self._consumers.get(name)
        if self.closed or consuming is None or consuming.link.credit <= 0:
            return False
        link = consuming.link
        consuming.tags += 1
        delivery = link.delivery(str(consuming.tags))
        delivery.number = message.number
        link.stream(encode_message(message, self._wall_ms()))
        link.advance()
        consuming.given -= 1
        if consuming.settled or consuming.browses:
            delivery.settle()
            if not consuming.browses:
                self._settle(consuming, message.number, Settlement.ACCEPTED)
        else:
            consuming.unsettled[message.number] = delivery
        if consuming.given <= 0 < link.credit:
            self._hungry.add(name)
        return True

    def ended(self, name: str, condition: str, text: str) -> None:
        """Take note that the destination has ended a consumer."""
        consuming = self._consumers.pop(name, None)
        if consuming is not None and not self.closed:
            end_link(consuming.link, condition, text)

    def _open_session(self, event: Any) -> None:
        event.session.incoming_capacity = INCOMING
        event.session.open()

    def _close_session(self, event: Any) -> None:
        session: Any = event.session
        for consuming in [each for each in self._consumers.values() if each.link.session == session]:
            self._end_consumer(consuming, ends=False)
        session.close()

    # Links

    def _open_link(self, event: Any) -> None:
        link: Any = event.link
        self._links += 1
        if self._links > MAX_LINKS:
            refuse_link(link, "amqp:resource-limit-exceeded", f"a connection has at most {MAX_LINKS} links")
            return
        link.snd_settle_mode = link.remote_snd_settle_mode
        link.rcv_settle_mode = Link.RCV_FIRST
        link.max_message_size = self._max_bytes
        try:
            if link.is_sender:
                self._open_consumer(link)
            else:
                self._open_producer(link)
        except ValueError as error:
            refuse_link(link, INVALID, str(error))

    def _close_link(self, event: Any) -> None:
        link = event.link
        held: Any = getattr(link, "held", None)
        looked_up = held.looked_up if isinstance(held, Consuming) else ""
        self._leave(link, closes=True)
        if not looked_up:
            link.close()
            return
        client_id: str = held.client_id
        end = partial(end_link, link)
        self._ask(lambda token: EndDurable(token, client_id, looked_up), lambda _: link.close(), end)

    def _detach_link(self, event: Any) -> None:
        self._leave(event.link, closes=False)
        event.link.detach()

    def _leave(self, link: Any, *, closes: bool) -> None:
        self._links -= 1
        held = getattr(link, "held", None)
        if held is None:
            return
        if isinstance(held, Consuming):
            self._end_consumer(held, ends=closes and held.durable)
        if held.temporary is not None:
            self._requests.append(DeleteTemporary(held.temporary))

    def _end_consumer(self, consuming: Consuming, *, ends: bool) -> None:
        self._hungry.discard(consuming.name)
        if self._consumers.pop(consuming.name, None) is not None:
            self._requests.append(Unsubscribe(consuming.name, ends))

    # Clients that receive

    def _open_consumer(self, link: Any) -> None:
        source = link.remote_source
        name = f"c{next(self._names)}"
        consuming = link.held = Consuming(link, name)
        consuming.settled = link.remote_snd_settle_mode == Link.SND_SETTLED

        def failed(condition: str, text: str) -> None:
            self._consumers.pop(name, None)
            refuse_link(link, condition, text)

        if source.type == Terminus.UNSPECIFIED:
            self._look_up(link, consuming)
        elif source.dynamic:

            def made(temporary: Destination) -> None:
                consuming.temporary = temporary
                self._subscribe(consuming, temporary, failed)

            self._dynamic(link, source, made)
        else:
            self._subscribe(consuming, None, failed)

    def _look_up(self, link: Any, consuming: Consuming) -> None:
        """Answer a client that asks for a durable subscription by its name, to end it."""
        is_global = GLOBAL in capabilities(link.remote_source.capabilities) or "|global" in link.name
        consuming.client_id = "" if is_global else self.container
        consuming.looked_up = subscription_name(link.name)

        def found(_: Any) -> None:
            link.source.type = Terminus.SOURCE
            link.source.durability = Terminus.DELIVERIES
            link.source.expiry_policy = Terminus.EXPIRE_NEVER
            link.target.copy(link.remote_target)
            link.open()

        client_id, name = consuming.client_id, consuming.looked_up
        self._ask(lambda token: FindDurable(token, client_id, name), found, partial(refuse_link, link))

    def _subscribe(self, consuming: Consuming, temporary: Destination | None, failed: Failed) -> None:
        link, name = consuming.link, consuming.name
        wanted = read_source(link.remote_source, link.name, self.container, temporary)
        consuming.browses = wanted.browses
        consuming.durable = bool(wanted.options.durable)
        self._consumers[name] = consuming

        def opened(_: Any) -> None:
            link.source.copy(link.remote_source)
            link.target.copy(link.remote_target)
            if temporary is not None:
                link.source.address = temporary.title
            link.source.filter.clear()
            if wanted.filters:
                link.source.filter.put_object(wanted.filters)
            link.open()
            consuming.opened = True
            self._flowed(consuming)

        destination, options, browses = wanted.destination, wanted.options, wanted.browses
        self._ask(lambda token: Subscribe(token, name, destination, options, browses), opened, failed)

    def _flow(self, event: Any) -> None:
        held = getattr(event.link, "held", None)
        if isinstance(held, Consuming) and held.opened and held.name in self._consumers:
            self._flowed(held)

    def _flowed(self, consuming: Consuming) -> None:
        """Let the service deliver as many messages as the client wants."""
        link, name = consuming.link, consuming.name
        credit = min(link.credit, max(0, AHEAD - link.queued))
        if credit < link.credit:
            self._hungry.add(name)
        if credit != consuming.given:
            consuming.given = credit
            self._requests.append(Give(name, credit))
        if link.drain_mode and link.credit and not consuming.draining:
            consuming.draining = True

            def drained(_: Any) -> None:
                consuming.draining = False
                if link.drain_mode and name in self._consumers:
                    link.drained()
                    consuming.given = 0
                    self._requests.append(Give(name, 0))

            self._ask(lambda token: Drain(token, name), drained, lambda _, __: drained(None))

    def _written(self) -> None:
        """Take note that all that was to be written is with the service: there is room for more."""
        for name in list(self._hungry):
            consuming = self._consumers.get(name)
            if consuming is None or consuming.link.queued <= AHEAD // 2:
                self._hungry.discard(name)
                if consuming is not None:
                    self._flowed(consuming)

    def _delivery(self, event: Any) -> None:
        delivery: Any = event.delivery
        if delivery.link.is_receiver:
            self._incoming(delivery)
        elif delivery.updated:
            self._disposed(delivery)

    def _disposed(self, delivery: Any) -> None:
        """Settle what the client has decided about a message."""
        consuming: Consuming | None = getattr(delivery.link, "held", None)
        number: int = getattr(delivery, "number", -1)
        if consuming is None or number not in consuming.unsettled:
            return
        state: Any = delivery.remote_state
        if state == TRANSACTIONAL:
            self._accept_later(consuming, delivery, number)
            return
        settlement = settlement_of(state, delivery.remote)
        if settlement is None:
            if not delivery.settled:
                return
            settlement = Settlement.RETURNED
        del consuming.unsettled[number]
        delivery.update(state)
        delivery.settle()
        self._settle(consuming, number, settlement)

    def _accept_later(self, consuming: Consuming, delivery: Any, number: int) -> None:
        """Settle a message when its transaction ends."""
        name, transaction = self._transaction_of(delivery)
        if transaction is None:
            delivery.local.condition = Condition("amqp:transaction:unknown-id", f"no transaction {name[:80]}")
            delivery.update(Delivery.REJECTED)
            return
        data = delivery.remote.data
        outcome = data[1] if data is not None and len(data) > 1 else None
        settlement = SETTLEMENTS.get(getattr(outcome, "descriptor", Delivery.ACCEPTED), Settlement.RETURNED)
        if settlement != Settlement.ACCEPTED:
            # What the client does not accept is no part of what the transaction does.
            del consuming.unsettled[number]
            delivery.settle()
            self._settle(consuming, number, settlement)
            return
        self._requests.append(Settle(consuming.name, (number,), Settlement.ACCEPTED, name))
        if delivery.settled:
            del consuming.unsettled[number]
            delivery.settle()
        else:
            transaction.deliveries.append((consuming, number))
            delivery.local.data = data
            delivery.update(TRANSACTIONAL)

    def _settle(self, consuming: Consuming, number: int, settlement: Settlement) -> None:
        self._requests.append(Settle(consuming.name, (number,), settlement, ""))

    def _handler_of(self, kind: Any) -> Callable[[Any, Any], None] | None:
        return self._link_handlers.get(kind) or super()._handler_of(kind)

    _link_handlers: Final[dict[Any, Callable[[Any, Any], None]]] = {
        Event.SESSION_REMOTE_OPEN: _open_session,
        Event.SESSION_REMOTE_CLOSE: _close_session,
        Event.LINK_REMOTE_OPEN: _open_link,
        Event.LINK_REMOTE_CLOSE: _close_link,
        Event.LINK_REMOTE_DETACH: _detach_link,
        Event.LINK_FLOW: _flow,
        Event.DELIVERY: _delivery,
    }
