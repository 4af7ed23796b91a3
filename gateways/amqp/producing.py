"""The links on which AMQP clients send, and their transactions. No I/O."""

from functools import partial
from typing import Any, Final, cast

from ...messaging.client.destinations import Destination
from .addresses import kind_of, parse_address
from .core import INVALID, AmqpConnection, Surroundings, end_link, refuse_link
from .engine import Condition, Delivery, Described, Link, Terminus, is_list, symbol, ulong
from .engine import Message as AmqpMessage
from .links import DECLARED, TRANSACTIONAL, Producing, Transaction
from .messages import BadMessage, decode_message
from .requests import Commit, OpenProducer, Publish, Rollback
from .terminus import capabilities

__all__ = ["AmqpProducers"]

CREDIT: Final = 500
"""Messages that a client may send ahead on a link."""
MAX_TRANSACTIONS: Final = 100
SIZE_EXCEEDED: Final = "amqp:link:message-size-exceeded"
ROLLED_BACK: Final = "amqp:transaction:rollback"
_DECLARE: Final = (ulong(0x31), symbol("amqp:declare:list"))
_DISCHARGE: Final = (ulong(0x32), symbol("amqp:discharge:list"))
_ACCEPTED: Final = Described(ulong(0x24), [])


class AmqpProducers(AmqpConnection):
    """A connection whose client sends."""

    def __init__(self, now: float, surroundings: Surroundings) -> None:
        super().__init__(now, surroundings)
        self._transactions: dict[str, Transaction] = {}

    def _open_producer(self, link: Any) -> None:
        target = link.remote_target
        producing = link.held = Producing(link)

        def opened(_: Any) -> None:
            link.source.copy(link.remote_source)
            link.target.copy(target)
            if producing.temporary is not None:
                link.target.address = producing.temporary.title
            link.open()
            link.flow(CREDIT)

        def made(temporary: Destination) -> None:
            producing.temporary = producing.destination = temporary
            opened(None)

        if target.type == Terminus.COORDINATOR:
            producing.coordinates = True
            opened(None)
        elif target.dynamic:
            self._dynamic(link, target, made)
        elif not target.address:
            opened(None)
        else:
            destination = parse_address(target.address, kind_of(capabilities(target.capabilities)))
            producing.destination = destination
            self._ask(lambda token: OpenProducer(token, destination), opened, partial(refuse_link, link))

    def _incoming(self, delivery: Any) -> None:
        """Take a message, once it is complete."""
        link = delivery.link
        producing: Producing | None = getattr(link, "held", None)
        if delivery.aborted or producing is None:
            delivery.settle()
            return
        if delivery.pending > self._max_bytes:
            text = f"the message has more than {self._max_bytes} bytes"
            delivery.settle()
            end_link(link, SIZE_EXCEEDED, text)
            return
        if delivery.partial or not delivery.readable:
            return
        data = link.recv(delivery.pending) or b""
        link.advance()
        producing.unanswered += 1
        try:
            if producing.coordinates:
                self._coordinate(producing, delivery, data)
            else:
                self._publish(producing, delivery, data)
        except BadMessage as error:
            self._answer(producing, delivery, Delivery.REJECTED, INVALID, str(error))

    def _publish(self, producing: Producing, delivery: Any, data: bytes) -> None:
        message = decode_message(data, self._wall_ms())
        destination = producing.destination or message.to
        if destination is None:
            raise BadMessage("the message says in no field to where it goes, and its link has no target")
        name, transaction = self._transaction_of(delivery)
        if name and transaction is None:
            raise BadMessage(f"there is no open transaction {name[:80]}")

        def done(_: Any) -> None:
            self._answer(producing, delivery, Delivery.ACCEPTED, transaction=name)

        def failed(condition: str, text: str) -> None:
            if transaction is not None:
                transaction.refused = text
            self._answer(producing, delivery, Delivery.REJECTED, condition, text)

        columns, body = message.columns, message.body
        self._ask(lambda token: Publish(token, destination, columns, body, name), done, failed)

    def _answer(
        self,
        producing: Producing,
        delivery: Any,
        state: Any,
        condition: str = "",
        text: str = "",
        transaction: str = "",
    ) -> None:
        """Settle a message of a client, and let it send further ones."""
        if condition:
            delivery.local.condition = Condition(condition, text)
        if transaction and state == Delivery.ACCEPTED:
            delivery.local.data = [transaction.encode(), _ACCEPTED]
            delivery.update(TRANSACTIONAL)
        else:
            delivery.update(state)
        delivery.settle()
        producing.unanswered -= 1
        link = producing.link
        room = CREDIT - producing.unanswered - link.credit
        if room >= CREDIT // 2 and link.state & Link.LOCAL_ACTIVE:
            link.flow(room)

    # Transactions

    def _coordinate(self, producing: Producing, delivery: Any, data: bytes) -> None:
        raw = AmqpMessage()
        try:
            raw.decode(data)
        except Exception as error:
            raise BadMessage("the request of a transaction cannot be read") from error
        body = raw.body
        if isinstance(body, Described) and body.descriptor in _DECLARE:
            self._declare(producing, delivery)
        elif isinstance(body, Described) and body.descriptor in _DISCHARGE and is_list(body.value):
            fields = [*body.value, None, None]
            self._discharge(producing, delivery, _name(fields[0]), fails=bool(fields[1]))
        else:
            raise BadMessage("a transaction is begun and ended by declare and discharge")

    def _declare(self, producing: Producing, delivery: Any) -> None:
        if len(self._transactions) >= MAX_TRANSACTIONS:
            text = f"a connection has at most {MAX_TRANSACTIONS} open transactions"
            self._answer(producing, delivery, Delivery.REJECTED, "amqp:resource-limit-exceeded", text)
            return
        name = f"tx{next(self._names)}"
        self._transactions[name] = Transaction()
        delivery.local.data = [name.encode()]
        self._answer(producing, delivery, DECLARED)

    def _discharge(self, producing: Producing, delivery: Any, name: str, *, fails: bool) -> None:
        transaction = self._transactions.pop(name, None)
        if transaction is None:
            text = f"there is no open transaction {name[:80]}"
            self._answer(producing, delivery, Delivery.REJECTED, "amqp:transaction:unknown-id", text)
            return
        for consuming, number in transaction.deliveries:
            left = consuming.unsettled.pop(number, None)
            if left is not None:
                left.settle()
        if fails or transaction.refused:
            text = f"the transaction was rolled back: {transaction.refused}"

            def given_up(_: Any) -> None:
                if fails:
                    self._answer(producing, delivery, Delivery.ACCEPTED)
                else:
                    self._answer(producing, delivery, Delivery.REJECTED, ROLLED_BACK, text)

            def lost(condition: str, text: str) -> None:
                self._answer(producing, delivery, Delivery.REJECTED, condition, text)

            self._ask(lambda token: Rollback(token, name), given_up, lost)
            return

        def committed(_: Any) -> None:
            self._answer(producing, delivery, Delivery.ACCEPTED)

        def failed(_: str, text: str) -> None:
            self._answer(producing, delivery, Delivery.REJECTED, ROLLED_BACK, text)

        self._ask(lambda token: Commit(token, name), committed, failed)

    def _transaction_of(self, delivery: Any) -> tuple[str, Transaction | None]:
        """Return the transaction to which a delivery belongs: its name, empty for none."""
        if delivery.remote_state != TRANSACTIONAL:
            return "", None
        data = delivery.remote.data
        name = _name(data[0]) if data else "?"
        return name, self._transactions.get(name)


def _name(value: Any) -> str:
    """Return the name of a transaction, which is bytes for the client."""
    if not isinstance(value, bytes | memoryview | bytearray):
        return "?"
    return bytes(cast("bytes", value)).decode(errors="replace")
