"""The service that STOMP clients connect to."""

from typing import Any, ClassVar

from ...messaging.agents.protocol import Settlement
from ...messaging.client.destinations import Topic
from ...messaging.client.errors import NotAllowed
from ...messaging.client.message import Message
from ...services.base import ServiceContext
from ..link import CONSUMING, GatewayLink
from ..service import GatewayService
from ..session import Pushing
from .frames import MAX_BODY_BYTES, Frame, encode_frame
from .messages import columns_of, consumer_options, headers_of, parse_destination
from .requests import LogIn, Publish, Settle, Subscribe, Sync, Unsubscribe
from .session import StompSession

__all__ = ["StompService"]


class StompLink(GatewayLink[StompSession]):
    """One connection of a STOMP client."""

    _client_id = ""

    def carry_out(self, request: Any) -> None:
        """Carry out a request of the protocol."""
        match request:
            case LogIn(user, password, client_id):
                self._client_id = client_id
                self._service.log_in(self, user, password)
            case Publish():
                self._publish(request)
            case Subscribe():
                self._subscribe(request)
            case Unsubscribe():
                self._unsubscribe(request)
            case Settle():
                self._settle(request)
            case Sync(token):
                self.messaging.sync(lambda error: self.ended(token, error))
            case _:
                super().carry_out(request)

    def failed(self, token: int, error: BaseException) -> None:
        """Tell the protocol that a request has failed."""
        self.core.failed(token, str(error) or type(error).__name__)

    def _publish(self, request: Publish) -> None:
        try:
            destination = parse_destination(request.destination)
            columns = columns_of(request.headers, request.body)
        except ValueError as error:
            self.ended(request.token, error)
            return
        self.publish(request.token, destination, request.body, columns, request.transaction)

    def _subscribe(self, request: Subscribe) -> None:
        name = request.subscription
        try:
            destination = parse_destination(request.destination)
            self.checked(destination, CONSUMING)
            options = consumer_options(request.headers, self._client_id or self.user)
        except (ValueError, NotAllowed) as error:
            self.ended(request.token, error)
            return

        def deliver(message: Message) -> None:
            headers, body = headers_of(message)
            self.core.deliver(name, message.number, headers, body)
            self.flush_soon()

        def ended(error: BaseException) -> None:
            self.core.ended(name, str(error))
            self.flush()

        pushing = self.consumers[name] = Pushing(self.messaging, destination, deliver, ended)
        self.messaging.subscribe(pushing, options, lambda error: self.ended(request.token, error))

    def _unsubscribe(self, request: Unsubscribe) -> None:
        pushing = self.consumers.pop(request.subscription, None)
        if pushing is None:
            self.ended(request.token, None)
            return
        options = consumer_options(
            {"id": request.subscription, **request.headers}, self._client_id or self.user
        )

        def closed(error: BaseException | None) -> None:
            if error is None and options.durable and isinstance(pushing.destination, Topic):
                self.messaging.end_durable(
                    pushing.destination,
                    options.durable,
                    options.client_id,
                    lambda error: self.ended(request.token, error),
                )
            else:
                self.ended(request.token, error)

        self.messaging.unsubscribe(pushing, closed)

    def _settle(self, request: Settle) -> None:
        pushing = self.consumers.get(request.subscription)
        settlement = Settlement.ACCEPTED
        if not request.accepted:
            settlement = Settlement.RETURNED if request.requeue else Settlement.REJECTED
        if pushing is not None:
            self.messaging.settle(pushing, request.numbers, settlement, request.transaction)
        if request.token:
            self.messaging.sync(lambda error: self.ended(request.token, error))


class StompService(GatewayService):
    """Service ``StompService``; its argument is the port that clients connect to."""

    port_example: ClassVar[str] = "61613"
    tls_needed: ClassVar[bytes] = encode_frame(Frame("ERROR", {"message": "this server speaks TLS"}), "1.2")

    def make_link(self, ctx: ServiceContext) -> StompLink:
        """Return the protocol of a new connection."""
        core = StompSession(ctx.reactor.seconds(), ctx.server_name, MAX_BODY_BYTES)
        return StompLink(self, ctx, core)
