"""The service that STOMP clients connect to."""

from typing import Any, ClassVar, Final

from ...messaging.agents.protocol import Settlement
from ...messaging.client.destinations import Destination, Topic
from ...messaging.client.errors import NotAllowed
from ...messaging.client.message import Message
from ...services.base import ServiceContext
from ..link import CONSUMING, GatewayLink
from ..service import GatewayService
from ..session import Pushing
from .frames import MAX_BODY_BYTES, Frame, encode_frame
from .messages import (
    columns_of,
    consumer_options,
    destination_name,
    headers_of,
    parse_destination,
    temporary_kind,
)
from .requests import LogIn, Publish, Settle, Subscribe, Sync, Unsubscribe
from .session import StompSession

__all__ = ["StompService"]

MAX_TEMPORARY: Final = 100
"""Temporary destinations of a connection."""


class StompLink(GatewayLink[StompSession]):
    """One connection of a STOMP client."""

    _client_id = ""

    def __init__(self, service: "StompService", ctx: ServiceContext, core: StompSession) -> None:
        super().__init__(service, ctx, core)
        self._temporary: dict[str, Destination] = {}
        """Destinations that were made for this connection, by the names that the client has given."""
        self._making = False
        self._held: list[Any] = []
        """Requests that came while one was made: they keep their order."""

    def carry_out(self, request: Any) -> None:
        """Carry out a request of the protocol."""
        if self._making:
            self._held.append(request)
            return
        missing = self._missing(request)
        if missing is not None:
            self._make(missing, request)
            return
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

    def _missing(self, request: Any) -> str | None:
        """Return a temporary destination that a request names and that is not made yet."""
        if not isinstance(request, Publish | Subscribe):
            return None
        named = (request.destination, request.headers.get("reply-to", ""))
        return next((each for each in named if temporary_kind(each) and each not in self._temporary), None)

    def _make(self, name: str, request: Publish | Subscribe) -> None:
        kind = temporary_kind(name)
        assert kind is not None
        if len(self._temporary) >= MAX_TEMPORARY:
            text = f"a connection has at most {MAX_TEMPORARY} temporary destinations"
            self.ended(request.token, NotAllowed(text))
            return
        self._making = True

        def made(destination: Destination) -> None:
            self._temporary[name] = destination
            self._making = False
            held, self._held = [request, *self._held], []
            for each in held:
                self.carry_out(each)

        def failed(error: BaseException | None) -> None:
            self._making = False
            self.ended(request.token, error)

        self.messaging.make_temporary(kind, made, failed)

    def _destination(self, text: str) -> Destination:
        return self._temporary.get(text) or parse_destination(text)

    def failed(self, token: int, error: BaseException) -> None:
        """Tell the protocol that a request has failed."""
        self.core.failed(token, str(error) or type(error).__name__)

    def _publish(self, request: Publish) -> None:
        try:
            destination = self._destination(request.destination)
            headers = dict(request.headers)
            if headers.get("reply-to") in self._temporary:
                headers["reply-to"] = destination_name(self._temporary[headers["reply-to"]])
            columns = columns_of(headers, request.body)
        except ValueError as error:
            self.ended(request.token, error)
            return
        self.publish(request.token, destination, request.body, columns, request.transaction)

    def _subscribe(self, request: Subscribe) -> None:
        name = request.subscription
        try:
            destination = self._destination(request.destination)
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
