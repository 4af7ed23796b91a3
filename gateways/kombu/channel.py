"""The channels of a connection of Kombu: declarations, publishing, consumers, and what is not settled."""

import contextlib
import functools
import itertools
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, Final
from uuid import uuid4

import attrs

from ...messaging.agents.protocol import Settlement
from ...messaging.client.destinations import Destination, Queue
from ...messaging.client.errors import NoSuchDestination, NoSuchSubscription
from ...messaging.client.message import Message as QuorateMessage
from .broker import Broker, Place, Source
from .facade import BaseChannel, ChannelError, DeclareOk, Message, queue_arguments
from .messages import received, sent
from .names import BadName, exchange_topic, queue_topic
from .queues import DeclaredQueue, argument_flaw

__all__ = ["Channel", "KombuConnection"]

UNBOUNDED: Final = 1000
"""Messages that a consumer may have unsettled if its program names no limit."""
_DEFAULT_KINDS: Final = {"amq.direct": "direct", "amq.topic": "topic", "amq.fanout": "fanout"}


@attrs.define(eq=False)
class KombuConnection:
    """What Kombu calls the connection of a transport: the broker, and what was declared over it."""

    broker: Broker
    client: Any
    """The `kombu.Connection`."""
    queues: dict[str, DeclaredQueue] = attrs.field(factory=dict[str, DeclaredQueue])
    """By their names: those that were declared."""
    keepers: dict[str, list[Source]] = attrs.field(factory=dict[str, list[Source]])
    """By names of transient queues: the consumers without credit that keep their subscriptions."""
    kinds: dict[str, str] = attrs.field(factory=lambda: dict(_DEFAULT_KINDS))
    """The types of exchanges by their names."""
    receivers: dict[Source, tuple["Channel", str]] = attrs.field(factory=dict[Source, tuple["Channel", str]])
    """Whom the messages of a source are for: the tag of a consumer of a channel."""

    def give(self, source: Source, message: QuorateMessage) -> None:
        """Give a message that has come to its consumer."""
        found = self.receivers.get(source)
        if found is not None:
            channel, tag = found
            channel.deliver(tag, source, message)


@attrs.define(eq=False)
class _Consumer:
    """A consumer of a channel."""

    queue: DeclaredQueue
    no_ack: bool
    callback: Callable[[Any], object]
    sources: list[Source]


class Channel(BaseChannel):  # type: ignore[misc]  # pyright: ignore[reportUntypedBaseClass]
    """A channel: consumers and what they have not settled. For one thread; any thread may acknowledge."""

    def __init__(self, connection: KombuConnection, number: int) -> None:
        self.connection = connection
        self.channel_id = number
        self.closed = False
        self.no_ack_consumers: set[str] = set()
        self.events: defaultdict[str, set[Any]] = defaultdict(set)
        """Kombu puts functions here that want messages back that nobody is bound for. None come back."""
        self._broker = connection.broker
        self._queues = connection.queues
        self._keepers = connection.keepers
        self._kinds = connection.kinds
        self._consumers: dict[str, _Consumer] = {}
        self._prefetch = 0
        self._tags = itertools.count(1)
        self._unacked: dict[int, tuple[Source, int]] = {}
        self._settling = threading.Lock()

    # Exchanges and queues

    def exchange_declare(
        self,
        exchange: str = "",
        type: str = "direct",
        passive: bool = False,
        **_: Any,
    ) -> None:
        """Learn the type of an exchange. Exchanges need no declaration on the server."""
        known = self._kinds.get(exchange)
        if passive:
            if known is None:
                raise _error(f"the exchange {exchange} was not declared by this connection", 404)
        elif type not in ("direct", "topic", "fanout"):
            raise _error(f"the exchange {exchange} is of type {type}; use direct, topic or fanout", 503)
        elif known not in (None, type):
            raise _error(f"the exchange {exchange} was declared as {known} before, and now as {type}", 406)
        else:
            self._kinds[exchange] = type

    def exchange_delete(self, exchange: str, **_: Any) -> None:
        """Forget an exchange. Bindings stay: they are subscriptions of queues."""
        self._kinds.pop(exchange, None)

    def exchange_bind(self, *_: Any, **__: Any) -> None:
        """Refuse: exchanges have no bindings to each other."""
        raise _error("an exchange cannot be bound to an exchange; bind the queue to both", 540)

    exchange_unbind = exchange_bind

    def prepare_queue_arguments(self, arguments: Mapping[str, Any] | None, **options: Any) -> Any:
        """Return the arguments of a declaration, with those that stand for options of a `kombu.Queue`."""
        return queue_arguments(dict(arguments or {}), **options)

    def queue_declare(
        self,
        queue: str = "",
        passive: bool = False,
        durable: bool = False,
        exclusive: bool = False,
        auto_delete: bool = False,
        arguments: Mapping[str, Any] | None = None,
        **_: Any,
    ) -> Any:
        """Make sure that a queue is there: one of the server, or one that lives as long as its users."""
        name = queue or f"amq.gen-{uuid4()}"
        known = self._queues.get(name)
        if passive:
            depth = 0 if known is not None and known.transient else self._depth(name)
            if depth is None:
                raise _error(f"there is no queue {name}", 404)
            return DeclareOk(name, depth, 0)
        transient = exclusive or auto_delete or not durable
        flaw = argument_flaw(name, arguments, transient=transient)
        if flaw:
            raise _error(flaw, 406)
        if known is None:
            if transient and not (exclusive or auto_delete) and self._depth(name) is not None:
                transient = False
            known = DeclaredQueue(name, self._broker.options.tree, transient, auto_delete)
            if transient:
                self._keep(known, known.own_place())
            elif self._depth(name) is None:
                raise _error(
                    f'there is no queue {name}: declare <queue name="{name}"/> in a3servers.xml, or make it '
                    f"with `quorate queue create`",
                    404,
                )
            self._queues[name] = known
        return DeclareOk(name, 0, 0)

    def _depth(self, name: str) -> int | None:
        """Return how many messages a queue of the server has, None if there is no such queue."""
        try:
            return self._broker.depth(_queue(name))
        except NoSuchDestination:
            return None

    def _keep(self, queue: DeclaredQueue, place: Place) -> None:
        """Have a subscription of a transient queue stay, though nobody consumes."""
        source = Source(self._broker, place, self._broker.arrived)
        self._broker.open(source)
        self._keepers.setdefault(queue.name, []).append(source)

    def queue_bind(self, queue: str, exchange: str = "", routing_key: str = "", **_: Any) -> None:
        """Have a queue get what is published to an exchange, from now on."""
        found = self._known(queue)
        kind = self._kinds.get(exchange)
        if not exchange:
            return
        if kind is None:
            raise _error(f"the exchange {exchange} was not declared by this connection", 404)
        key = (exchange, kind, routing_key or "")
        if key in found.bindings:
            return
        try:
            place = found.binding(*key)
        except BadName as error:
            raise _error(str(error), 406) from None
        if found.transient:
            self._keep(found, place)
        else:
            # The durable subscription stays without its consumer.
            source = Source(self._broker, place, self._broker.arrived)
            self._broker.open(source)
            self._broker.close_sources([source])
        found.bindings[key] = place

    def queue_unbind(self, queue: str, exchange: str = "", routing_key: str = "", **_: Any) -> None:
        """Have a queue get nothing more of an exchange. What came that way and waits is dropped."""
        found = self._known(queue)
        kind = self._kinds.get(exchange) or "direct"
        place = found.bindings.pop((exchange, kind, routing_key or ""), None)
        if place is None:
            return
        if found.transient:
            gone = [each for each in self._keepers.get(queue, []) if each.place == place]
            self._keepers[queue] = [each for each in self._keepers.get(queue, []) if each not in gone]
            self._broker.close_sources(gone)
        else:
            with contextlib.suppress(NoSuchSubscription):
                self._broker.end_durable(place)

    def _known(self, name: str) -> DeclaredQueue:
        """Return a queue that this connection has declared, or one that another has."""
        found = self._queues.get(name)
        if found is None:
            found = DeclaredQueue(name, self._broker.options.tree, self._depth(name) is None)
            self._queues[name] = found
        return found

    def queue_delete(self, queue: str, **_: Any) -> None:
        """Delete a queue that lives with its users. Those of the server an administrator deletes."""
        found = self._known(queue)
        if not found.transient:
            raise _error(
                f"the queue {queue} belongs to the server; purge it, or have an administrator delete it",
                403,
            )
        self._forget(found)

    def _forget(self, queue: DeclaredQueue) -> None:
        self._queues.pop(queue.name, None)
        self._broker.close_sources(self._keepers.pop(queue.name, []))

    def queue_purge(self, queue: str, **_: Any) -> int:
        """Drop the messages of a queue that no consumer has. Return how many."""
        count = 0

        def drop(source: Source, message: QuorateMessage) -> None:
            nonlocal count
            count += 1
            source.settle(message.number, Settlement.ACCEPTED)

        for place in self._known(queue).places():
            source = Source(self._broker, place, drop)
            self._broker.open(source)
            self._broker.limit([source], UNBOUNDED)
            before = -1
            while before != count:
                before = count
                self._broker.drain(source)
            self._broker.cancel([source])
        return count

    # Messages

    def prepare_message(
        self,
        body: Any,
        priority: int | None = None,
        content_type: str | None = None,
        content_encoding: str | None = None,
        headers: Mapping[str, Any] | None = None,
        properties: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Return what `basic_publish` takes."""
        return {
            "body": body,
            "content_type": content_type,
            "content_encoding": content_encoding,
            "headers": dict(headers or {}),
            "properties": {**(properties or {}), "priority": priority},
        }

    def basic_publish(
        self, message: Mapping[str, Any], exchange: str = "", routing_key: str = "", **_: Any
    ) -> None:
        """Send a message, and return when its destination has it. With delivery mode 1 do not wait."""
        routing_key = routing_key or ""
        outgoing = sent(message, exchange, routing_key)
        options = self._broker.options
        places: list[Destination]
        try:
            if exchange:
                places = [exchange_topic(options.tree, exchange, routing_key)]
                if outgoing.transient:
                    outgoing.columns.setdefault("ttl", round(options.transient_ttl_s * 1000))
            else:
                known = self._queues.get(routing_key)
                places = [] if known is not None and known.transient else [_queue(routing_key)]
                if known is None or known.transient:
                    places.append(queue_topic(options.tree, routing_key))
        except BadName as error:
            raise _error(str(error), 406) from None
        wait = options.confirm and not outgoing.transient
        self._broker.publish(places, outgoing.body, outgoing.columns, wait=wait)

    def basic_consume(
        self, queue: str, no_ack: bool, callback: Callable[[Any], object], consumer_tag: str = "", **_: Any
    ) -> str:
        """Have `callback` called by `Transport.drain_events` with the messages of a queue."""
        tag = consumer_tag or f"ctag{self.channel_id}.{next(self._tags)}"
        found = self._known(queue)
        consumer = _Consumer(found, no_ack, callback, [])
        for place in found.places():
            source = Source(self._broker, place, self._broker.arrived)
            self._broker.open(source)
            consumer.sources.append(source)
        self._consumers[tag] = consumer
        if no_ack:
            self.no_ack_consumers.add(tag)
        receivers = self.connection.receivers
        for source in consumer.sources:
            receivers[source] = (self, tag)
        self._broker.limit(consumer.sources, self._limit(consumer))
        return tag

    def _limit(self, consumer: _Consumer) -> int:
        return UNBOUNDED if consumer.no_ack or not self._prefetch else self._prefetch

    def deliver(self, tag: str, source: Source, message: QuorateMessage) -> None:
        """Give a message to the consumer that it came for."""
        consumer = self._consumers[tag]
        made = self._made(message, source, consumer.queue.name, tag, no_ack=consumer.no_ack)
        consumer.callback(made)

    def _made(self, message: QuorateMessage, source: Source, queue: str, tag: str, *, no_ack: bool) -> Any:
        parts = received(message, queue)
        number = next(self._tags)
        with self._settling:
            self._unacked[number] = (source, message.number)
        if no_ack:
            self._settle(number, Settlement.ACCEPTED)
        return Message(
            body=parts.body,
            delivery_tag=number,
            content_type=parts.content_type,
            content_encoding=parts.content_encoding,
            headers=parts.headers,
            properties=parts.properties,
            delivery_info={
                "consumer_tag": tag,
                "exchange": parts.exchange,
                "routing_key": parts.routing_key,
                "priority": parts.properties["priority"],
                "redelivered": message.redelivered,
            },
            channel=self,
        )

    def message_to_python(self, message: Any) -> Any:
        """Return a message as it is: channels make those of Kombu."""
        return message

    def basic_cancel(self, consumer_tag: str, **_: Any) -> None:
        """End a consumer. What it has given to the program may still be acknowledged."""
        consumer = self._consumers.pop(consumer_tag, None)
        self.no_ack_consumers.discard(consumer_tag)
        if consumer is None:
            return
        receivers = self.connection.receivers
        self._broker.cancel(consumer.sources)
        for source in consumer.sources:
            receivers.pop(source, None)
        used = any(each.queue is consumer.queue for each in self._consumers.values())
        if consumer.queue.auto_delete and not used:
            self._forget(consumer.queue)

    def basic_get(self, queue: str, no_ack: bool = False, **_: Any) -> Any:
        """Return the next message of a queue, None if there is none."""
        for place in self._known(queue).places():
            found: list[QuorateMessage] = []
            source = Source(self._broker, place, functools.partial(_collect, found))
            self._broker.open(source)
            self._broker.limit([source], 1)
            self._broker.drain(source)
            # With the message settled the consumer ends.
            self._broker.cancel([source])
            if found:
                return self._made(found[0], source, queue, "", no_ack=no_ack)
        return None

    def basic_ack(self, delivery_tag: int, multiple: bool = False) -> None:
        """Acknowledge a message; with `multiple` all that came before it, too."""
        if multiple:
            with self._settling:
                tags = [each for each in self._unacked if each <= delivery_tag]
            for tag in tags:
                self._settle(tag, Settlement.ACCEPTED)
        else:
            self._settle(delivery_tag, Settlement.ACCEPTED)

    def basic_reject(self, delivery_tag: int, requeue: bool = False, **_: Any) -> None:
        """Give a message back, or have it moved to the dead message queue."""
        self._settle(delivery_tag, Settlement.RETURNED if requeue else Settlement.REJECTED)

    def basic_recover(self, requeue: bool = False) -> None:
        """Have everything delivered again that is not acknowledged."""
        del requeue
        with self._settling:
            tags = list(self._unacked)
        for tag in tags:
            self._settle(tag, Settlement.RETURNED)

    def _settle(self, tag: int, settlement: Settlement) -> None:
        with self._settling:
            found = self._unacked.pop(tag, None)
        if found is None:
            raise _error(f"the channel has no message {tag} to settle; it is settled, or was returned", 406)
        self._broker.settle(*found, settlement)

    def basic_qos(self, prefetch_size: int = 0, prefetch_count: int = 0, *_: Any) -> None:
        """Let each consumer of the channel have so many messages that are not acknowledged."""
        del prefetch_size
        self._prefetch = prefetch_count
        for consumer in self._consumers.values():
            self._broker.limit(consumer.sources, self._limit(consumer))

    def flow(self, active: bool = True) -> None:
        """Have the consumers get nothing, or go on."""
        for consumer in self._consumers.values():
            self._broker.limit(consumer.sources, self._limit(consumer) if active else 0)

    def close(self) -> None:
        """End the channel. What is not acknowledged returns to its queue."""
        if self.closed:
            return
        self.closed = True
        receivers = self.connection.receivers
        for consumer in self._consumers.values():
            for source in consumer.sources:
                receivers.pop(source, None)
        sources = {source for consumer in self._consumers.values() for source in consumer.sources}
        sources |= {source for source, _ in self._unacked.values()}
        self._consumers.clear()
        self._unacked.clear()
        self._broker.close_sources(list(sources))


def _collect(found: list[QuorateMessage], _: Source, message: QuorateMessage) -> None:
    found.append(message)


def _queue(name: str) -> Queue:
    try:
        return Queue(name)
    except ValueError as error:
        raise _error(str(error), 406) from None


def _error(text: str, code: int) -> Exception:
    """Return an error of a channel, with a reply code of AMQP 0-9-1."""
    error: Exception = ChannelError(text, None, None, str(code))
    return error
