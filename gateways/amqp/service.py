"""The service that AMQP 1.0 clients connect to."""

import importlib.util
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure

from ...agents import Notification
from ...messaging.agents.selector import SelectorError
from ...messaging.client.destinations import Destination, Queue, Topic, address_of
from ...messaging.client.errors import (
    DestinationFull,
    InUse,
    InvalidSelector,
    MessageTooLarge,
    NoSuchDestination,
    NoSuchSubscription,
    NotAllowed,
    TransactionRolledBack,
)
from ...messaging.client.message import Message
from ...services.base import ServiceContext
from ...tls.layer import proven_user
from ..browsing import Browsing
from ..link import BROWSING, CONSUMING, PUBLISHING, GatewayLink
from ..service import GatewayService
from ..session import Pushing
from ..subscription_names import (
    NAMES,
    FindSubscription,
    ForgetSubscription,
    NameSubscription,
    SubscriptionFound,
    SubscriptionNames,
)
from .requests import (
    DeleteTemporary,
    Drain,
    EndDurable,
    FindDurable,
    Give,
    LogIn,
    MakeTemporary,
    Open,
    OpenProducer,
    Publish,
    Settle,
    Subscribe,
    Unsubscribe,
)

if TYPE_CHECKING:
    from .session import AmqpSession

    _Link = GatewayLink[AmqpSession]
else:
    _Link = GatewayLink

__all__ = ["AmqpService"]

MAX_MESSAGE_BYTES: Final = 8 * 1024 * 1024
LACKING: Final = "it needs Qpid Proton, which is not installed: pip install quorate[amqp]"
Found = Callable[[BaseException | None, "Topic | None"], None]
"""Is told the topic of a subscription, or why it was not found."""
_CONDITIONS: Final[tuple[tuple[type[BaseException], str], ...]] = (
    (NoSuchDestination, "amqp:not-found"),
    (NoSuchSubscription, "amqp:not-found"),
    (NotAllowed, "amqp:unauthorized-access"),
    (InUse, "amqp:resource-locked"),
    (InvalidSelector, "amqp:invalid-field"),
    (MessageTooLarge, "amqp:link:message-size-exceeded"),
    (DestinationFull, "amqp:resource-limit-exceeded"),
    (TransactionRolledBack, "amqp:transaction:rollback"),
    (ValueError, "amqp:invalid-field"),
)


class AmqpLink(_Link):
    """One connection of an AMQP client."""

    _service: "AmqpService"
    _container = ""

    def carry_out(self, request: Any) -> None:
        """Carry out a request of the protocol."""
        match request:
            case LogIn(user, password):
                self._service.log_in(self, user, password)
            case Open(token, container, alone):
                self._open(token, container, alone=alone)
            case OpenProducer(token, destination):
                self._open_producer(token, destination)
            case Publish(token, destination, columns, body, transaction):
                self.publish(token, destination, body, columns, transaction)
            case Subscribe():
                self._subscribe(request)
            case Give(name, credit):
                if (consumer := self.consumers.get(name)) is not None:
                    consumer.give(credit)
            case Drain(token, name):
                if (consumer := self.consumers.get(name)) is not None:

                    def drained(error: BaseException | None) -> None:
                        self.ended(token, error)

                    consumer.drain(drained)
                else:
                    self.ended(token, None)
            case Settle(name, numbers, settlement, transaction):
                consumer = self.consumers.get(name)
                if isinstance(consumer, Pushing):
                    self.messaging.settle(consumer, numbers, settlement, transaction)
            case _:
                self._carry_out_rare(request)

    def _carry_out_rare(self, request: Any) -> None:
        match request:
            case Unsubscribe():
                self._unsubscribe(request)
            case MakeTemporary(token, kind):
                self.messaging.make_temporary(
                    Topic if kind == "topic" else Queue,
                    lambda made: self._made(token, made),
                    lambda error: self.ended(token, error),
                )
            case DeleteTemporary(destination):
                self.messaging.delete_temporary(destination)
            case FindDurable(token, client_id, name):

                def found(error: BaseException | None, _: Topic | None) -> None:
                    self.ended(token, error)

                self._find(client_id, name, found)
            case EndDurable(token, client_id, name):

                def found_to_end(error: BaseException | None, topic: Topic | None) -> None:
                    self._end_durable(error, topic, client_id, name, token)

                self._find(client_id, name, found_to_end)
            case _:
                super().carry_out(request)

    def failed(self, token: int, error: BaseException) -> None:
        """Tell the protocol that a request has failed."""
        condition = next(
            (each for kind, each in _CONDITIONS if isinstance(error, kind)), "amqp:internal-error"
        )
        self.core.failed(token, condition, str(error) or type(error).__name__)

    def connectionLost(self, reason: Failure = connectionDone) -> None:  # noqa: N802
        """Twisted: the connection is gone."""
        self._service.forget(self._container, self)
        super().connectionLost(reason)

    def _open(self, token: int, container: str, *, alone: bool) -> None:
        self._container = container
        if alone and not self._service.reserve(container, self):
            self.ended(token, ValueError(f"another client is connected as {container[:80]!r}"))
        else:
            self.ended(token, None)

    def _open_producer(self, token: int, destination: Destination) -> None:
        try:
            self.checked(destination, PUBLISHING)
        except NotAllowed as error:
            self.ended(token, error)
        else:
            self.messaging.prepare(destination, lambda error: self.ended(token, error))

    def _made(self, token: int, destination: Destination) -> None:
        self.core.done(token, destination)
        self.flush_soon()

    # Consumers

    def _subscribe(self, request: Subscribe) -> None:
        name, token, destination = request.consumer, request.token, request.destination

        def deliver(message: Message) -> bool:
            self.flush_soon()
            return self.core.deliver(name, message)

        def ended(error: BaseException) -> None:
            self.consumers.pop(name, None)
            self.core.ended(name, "amqp:resource-deleted", str(error))
            self.flush_soon()

        def opened(error: BaseException | None) -> None:
            if error is not None:
                self.consumers.pop(name, None)
            self.ended(token, error)

        options = request.options
        try:
            self.checked(destination, BROWSING if request.browses else CONSUMING)
            if request.browses:
                reader = Browsing(self.messaging, destination, options.selector, deliver, opened)
                self.consumers[name] = reader
                return
        except (NotAllowed, SelectorError) as error:
            self.ended(token, error)
            return
        pushing = Pushing(self.messaging, destination, deliver, ended, credit=0)
        self.consumers[name] = pushing
        if not options.durable or not isinstance(destination, Topic):
            self.messaging.subscribe(pushing, options, opened)
            return
        pushing.durable = (options.client_id, options.durable)

        def named(error: BaseException | None, before: Topic | None) -> None:
            if error is not None or name not in self.consumers:
                opened(error)
            elif before is None or before == destination:
                self.messaging.subscribe(pushing, options, opened)
            else:
                # As JMS wants it: the same name for another topic is another subscription.
                self.messaging.end_durable(
                    before,
                    options.durable,
                    options.client_id,
                    lambda _: self.messaging.subscribe(pushing, options, opened),
                )

        note = NameSubscription(options.client_id, options.durable, destination.address)
        self._ask_names(note, named)

    def _unsubscribe(self, request: Unsubscribe) -> None:
        consumer = self.consumers.pop(request.consumer, None)
        if isinstance(consumer, Browsing):
            consumer.close()
        if not isinstance(consumer, Pushing):
            return
        durable = consumer.durable

        def closed(error: BaseException | None) -> None:
            if request.ends and durable is not None and isinstance(consumer.destination, Topic):
                self._end_durable(error, consumer.destination, *durable)

        self.messaging.unsubscribe(consumer, closed)

    # Durable subscriptions by their names

    def _find(self, client_id: str, name: str, found: Found) -> None:
        def answered(error: BaseException | None, topic: Topic | None) -> None:
            if error is None and topic is None:
                error = NoSuchSubscription(f"client {client_id!r} has no durable subscription {name}")
            found(error, topic)

        self._ask_names(FindSubscription(client_id, name), answered)

    def _end_durable(
        self, error: BaseException | None, topic: Topic | None, client_id: str, name: str, token: int = 0
    ) -> None:
        """End a durable subscription, once it was found, or its consumer is closed."""
        if error is not None or topic is None:
            self.ended(token, error)
            return

        def ended(error: BaseException | None) -> None:
            if error is None or isinstance(error, NoSuchSubscription | NoSuchDestination):
                self._ctx.send(NAMES, ForgetSubscription(client_id, name))
            elif not token:
                self._ctx.log(f"client {self.peer}: subscription {name} has not ended: {error}")
            self.ended(token, error)

        self.messaging.end_durable(topic, name, client_id, ended)

    def _ask_names(self, note: Notification, answered: Found) -> None:
        def came(found: Any) -> None:
            assert isinstance(found, SubscriptionFound)
            if found.refusal:
                answered(DestinationFull(found.refusal), None)
            else:
                topic = address_of(found.address) if found.address else None
                answered(None, topic if isinstance(topic, Topic) else None)

        def failed(failure: Failure) -> None:
            answered(cast("Any", failure).value, None)

        self._ctx.ask(NAMES, note, reply=SubscriptionFound).addCallbacks(came, failed)


class AmqpService(GatewayService):
    """Service ``AmqpService``; its argument is the port that clients connect to."""

    port_example: ClassVar[str] = "5672"
    tls_needed: ClassVar[bytes] = b"AMQP\x02\x01\x00\x00"

    @classmethod
    def class_flaw(cls) -> str:
        """Return why the service cannot be used here, "" if it can."""
        return super().class_flaw() if importlib.util.find_spec("proton") else LACKING

    def __init__(self) -> None:
        super().__init__()
        self._alone: dict[str, AmqpLink] = {}

    def init(self, ctx: ServiceContext, args: str, first_time: bool) -> None:
        """Listen, as `GatewayService.init` does."""
        super().init(ctx, args, first_time)
        ctx.create(SubscriptionNames, name=NAMES).addErrback(self._not_made)

    def _not_made(self, failure: Failure) -> None:
        self._ctx.log(f"AmqpService: no durable subscriptions: {failure.getErrorMessage()}")

    def make_link(self, ctx: ServiceContext) -> AmqpLink:
        """Return the protocol of a new connection."""
        # Proton is an extra: without it this module can be imported, and says what is missing.
        from .core import Surroundings
        from .session import AmqpSession

        def external() -> bool:
            return bool(proven_user(link.transport))

        def wall_ms() -> int:
            return time.time_ns() // 1_000_000

        core = AmqpSession(
            ctx.reactor.seconds(), Surroundings(ctx.server_name, MAX_MESSAGE_BYTES, external, wall_ms)
        )
        link = AmqpLink(self, ctx, core)
        return link

    def reserve(self, container: str, link: AmqpLink) -> bool:
        """Let a client be the only one of its name. Return False if there is another."""
        return self._alone.setdefault(container, link) is link

    def forget(self, container: str, link: AmqpLink) -> None:
        """Learn that a client is gone."""
        if self._alone.get(container) is link:
            del self._alone[container]
