"""The protocol of AMQP without I/O: what a client may do, what it gets, and what ends its links."""

from typing import Any

import pytest

pytest.importorskip("proton", reason="Qpid Proton is not installed: pip install quorate[amqp]")

from hypothesis import example, given
from hypothesis import strategies as st

from quorate.gateways.amqp.engine import (
    UNDESCRIBED,
    Array,
    Data,
    Delivery,
    Described,
    Link,
    Message,
    Terminus,
    int32,
    symbol,
    ulong,
)
from quorate.gateways.amqp.producing import CREDIT, MAX_TRANSACTIONS
from quorate.gateways.amqp.requests import (
    Close,
    Commit,
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
    Rollback,
    Settle,
    Subscribe,
    Unsubscribe,
)
from quorate.messaging import Queue, Topic
from quorate.messaging.agents.protocol import Settlement

from .memory_client import MAX_BYTES, Client, received


@pytest.fixture
def client() -> Client:
    return Client()


def reason(endpoint: Any) -> tuple[str, str]:
    return endpoint.remote_condition.name, endpoint.remote_condition.description


# The log-in


def test_a_wrong_password_ends_the_connection() -> None:
    client = Client(login=False)
    client.pump()
    assert client.took(LogIn) == LogIn("anna", "secret")
    client.session.refused("wrong user or password")
    client.pump()
    assert client.took(Close) == Close("wrong user or password")
    assert client.transport.sasl().outcome == 1


def test_a_certificate_is_as_good_as_a_password() -> None:
    client = Client(user="", password="", login=False)
    client.certificate = True
    client.pump()
    assert client.took(LogIn) == LogIn("", "")


def test_without_a_certificate_only_passwords_are_offered() -> None:
    client = Client(user="", password="", login=False)
    client.pump()
    assert client.requests == []


def test_a_client_that_does_not_log_in_is_given_up() -> None:
    client = Client(login=False)
    assert client.session.deadline == 11.0
    client.session.tick(11.0)
    assert client.session.requests() == [Close("the client has not logged in in time")]


def test_a_client_without_sasl_is_told_so() -> None:
    session = Client(login=False).session
    session.received(1.0, b"AMQP\x00\x01\x00\x00")
    (close,) = session.requests()
    assert close == Close("the client has not logged in: it has to use SASL, with PLAIN or EXTERNAL")
    assert session.data_to_send(1.0) == b"AMQP\x03\x01\x00\x00"


@given(st.binary(min_size=1, max_size=200), st.integers(1, 50))
def test_garbage_before_the_log_in_ends_the_connection_at_most(data: bytes, size: int) -> None:
    session = Client(login=False).session
    for first in range(0, len(data), size):
        session.received(1.0, data[first : first + size])
    assert all(isinstance(each, Close | LogIn) for each in session.requests())


@given(st.binary(min_size=8, max_size=300))
def test_garbage_after_the_log_in_ends_the_connection(data: bytes) -> None:
    client = Client()
    client.session.received(1.0, b"\x00\x00\x00\x01" + data)
    client.session.data_to_send(1.0)
    (close,) = client.session.requests()
    assert isinstance(close, Close)
    assert "AMQP" in close.reason


@given(st.integers(0, 5000), st.integers(1, 255))
@example(497, 1)
def test_a_changed_byte_of_a_message_never_breaks_the_server(place: int, change: int) -> None:
    client = Client()
    link = client.sender()
    body = {"a": [int32(1), "x", {"b": b"y"}], "c": 1.5}
    data = bytearray(Message(body=body, properties={"n": 1}, annotations={symbol("x"): 1}).encode())
    data[place % len(data)] ^= change
    delivery = client.send(link, bytes(data))
    published = [each for each in client.requests if isinstance(each, Publish)]
    assert published or delivery.remote_state == Delivery.REJECTED


# The connection


def test_two_clients_of_one_name_if_one_wants_to_be_alone() -> None:
    client = Client(container="only", login=False, alone=True)
    client.pump()
    client.session.logged_in()
    client.pump()
    opening = client.took(Open)
    assert (opening.container, opening.alone) == ("only", True)
    client.session.failed(opening.token, "amqp:invalid-field", "another client is connected as 'only'")
    client.pump()
    assert client.connection.remote_condition.description == "another client is connected as 'only'"
    assert client.connection.remote_condition.info == {symbol("invalid-field"): symbol("container-id")}


def test_a_silent_client_is_given_up(client: Client) -> None:
    deadline = client.session.deadline
    assert deadline is not None
    client.session.tick(client.now + 61)
    client.session.data_to_send(client.now + 61)
    assert [type(each) for each in client.session.requests()] == [Close]


def test_refused_later_the_client_is_told_why(client: Client) -> None:
    client.session.refused("the rights of the user have changed; connect again")
    client.pump()
    assert reason(client.connection)[1] == "the rights of the user have changed; connect again"
    assert isinstance(client.took(Close), Close)


# Clients that send


def test_a_message_is_accepted_when_the_destination_has_it(client: Client) -> None:
    link = client.sender()
    assert link.credit == CREDIT
    delivery = client.send(link, Message(body="hello", durable=True))
    assert not delivery.settled
    publish = client.done(Publish)
    assert (publish.destination, publish.body, publish.columns) == (
        Queue("orders"),
        b"hello",
        {"encoding": "text"},
    )
    assert (delivery.remote_state, delivery.settled) == (Delivery.ACCEPTED, True)


def test_a_message_that_is_refused_says_why(client: Client) -> None:
    link = client.sender()
    delivery = client.send(link, Message(body="hello"))
    client.failed(Publish, "amqp:resource-limit-exceeded", "queue orders is full")
    assert delivery.remote_state == Delivery.REJECTED
    assert delivery.remote.condition.description == "queue orders is full"


def test_credit_comes_back_with_the_answers(client: Client) -> None:
    link = client.sender()
    for number in range(CREDIT):
        client.send(link, Message(body=number))
    assert link.credit == 0
    for _ in range(CREDIT):
        client.done(Publish)
    assert link.credit == CREDIT


def test_each_message_may_say_where_it_goes(client: Client) -> None:
    link = client.sender(address=None)
    annotations = {symbol("x-opt-jms-dest"): 1}
    client.send(link, Message(address="prices", body="1", annotations=annotations))
    assert client.done(Publish).destination == Topic("prices")
    lost = client.send(link, Message(body="2"))
    assert lost.remote_state == Delivery.REJECTED


@pytest.mark.parametrize(
    ("address", "kind", "destination"),
    [
        ("orders", "", Queue("orders")),
        ("prices", "topic", Topic("prices")),
        ("topic://prices", "", Topic("prices")),
        ("/queue/orders", "", Queue("orders")),
        ("queue:orders", "queue", Queue("orders")),
        ("topic/x", "queue", Queue("topic/x")),
    ],
)
def test_addresses(client: Client, address: str, kind: str, destination: Any) -> None:
    link = client.channel.sender("s")
    link.target.address = address
    if kind:
        link.target.capabilities.put_object(symbol(kind))
    link.open()
    client.pump()
    assert client.done(OpenProducer).destination == destination


def test_where_nothing_can_be_sent_the_link_is_closed(client: Client) -> None:
    link = client.channel.sender("s")
    link.target.address = "nowhere"
    link.open()
    client.pump()
    client.failed(OpenProducer, "amqp:not-found", "there is no queue nowhere")
    assert reason(link) == ("amqp:not-found", "there is no queue nowhere")


def test_a_message_that_is_too_large_closes_its_link(client: Client) -> None:
    link = client.sender()
    client.send(link, Message(body=b"x" * (MAX_BYTES + 1)))
    assert reason(link)[0] == "amqp:link:message-size-exceeded"
    assert not [each for each in client.requests if isinstance(each, Publish)]


def test_a_temporary_queue_lives_as_long_as_its_link(client: Client) -> None:
    link = client.channel.sender("s")
    link.target.dynamic = True
    link.open()
    client.pump()
    client.done(MakeTemporary, Queue("temporary-1"))
    assert link.remote_target.address == "temporary-1"
    link.close()
    client.pump()
    assert client.took(DeleteTemporary) == DeleteTemporary(Queue("temporary-1"))


# Transactions


def test_a_transaction_is_committed(client: Client) -> None:
    coordinator, link, receiver = client.coordinator(), client.sender(), client.receiver()
    name = client.begin(coordinator)
    sent = client.send(link, Message(body="x"), name)
    assert client.done(Publish).transaction == name.decode()
    assert sent.remote_state == 0x34
    (delivery,) = client.deliver(receiver, 7)
    settled = client.settle(delivery, Delivery.ACCEPTED, name)
    assert settled == [Settle(client.subscribed.consumer, (7,), Settlement.ACCEPTED, name.decode())]
    end = client.end(coordinator, name)
    assert client.done(Commit).transaction == name.decode()
    assert end.remote_state == Delivery.ACCEPTED


def test_a_transaction_is_rolled_back(client: Client) -> None:
    coordinator = client.coordinator()
    end = client.end(coordinator, client.begin(coordinator), fails=True)
    client.done(Rollback)
    assert end.remote_state == Delivery.ACCEPTED


def test_a_transaction_with_a_refused_message_is_not_committed(client: Client) -> None:
    coordinator, link = client.coordinator(), client.sender()
    name = client.begin(coordinator)
    client.send(link, Message(body="x"), name)
    client.failed(Publish, "amqp:resource-limit-exceeded", "queue orders is full")
    end = client.end(coordinator, name)
    client.done(Rollback)
    assert end.remote_state == Delivery.REJECTED
    assert end.remote.condition.name == "amqp:transaction:rollback"
    assert "queue orders is full" in end.remote.condition.description


def test_transactions_that_are_not_there(client: Client) -> None:
    coordinator, link, receiver = client.coordinator(), client.sender(), client.receiver()
    assert client.end(coordinator, b"none").remote.condition.name == "amqp:transaction:unknown-id"
    assert client.send(link, Message(body="x"), b"none").remote_state == Delivery.REJECTED
    (delivery,) = client.deliver(receiver, 7)
    assert client.settle(delivery, Delivery.ACCEPTED, b"none") == []
    assert client.send(coordinator, Message(body="x")).remote_state == Delivery.REJECTED


def test_transactions_are_bounded(client: Client) -> None:
    coordinator = client.coordinator()
    for _ in range(MAX_TRANSACTIONS):
        client.begin(coordinator)
    more = client.send(coordinator, Message(body=Described(ulong(0x31), [None])))
    assert more.remote.condition.name == "amqp:resource-limit-exceeded"


# Clients that receive


def test_messages_come_as_credit_is_given(client: Client) -> None:
    link = client.receiver(credit=2)
    consumer = client.subscribed.consumer
    assert client.took(Give) == Give(consumer, 2)
    assert [each.message.body for each in client.deliver(link, 1, 2)] == [b"hello", b"hello"]
    assert not client.session.deliver(consumer, received(3))
    link.flow(1)
    client.pump()
    assert client.took(Give) == Give(consumer, 1)
    assert len(client.deliver(link, 3)) == 1


@pytest.mark.parametrize(
    ("state", "failed", "undeliverable", "settlement"),
    [
        (Delivery.ACCEPTED, False, False, Settlement.ACCEPTED),
        (Delivery.REJECTED, False, False, Settlement.REJECTED),
        (Delivery.RELEASED, False, False, Settlement.RELEASED),
        (Delivery.MODIFIED, True, False, Settlement.RETURNED),
        (Delivery.MODIFIED, False, False, Settlement.RELEASED),
        (Delivery.MODIFIED, True, True, Settlement.REJECTED),
    ],
)
def test_outcomes(
    client: Client, state: Any, failed: bool, undeliverable: bool, settlement: Settlement
) -> None:
    (delivery,) = client.deliver(client.receiver(), 7)
    client.requests.clear()
    delivery.local.failed, delivery.local.undeliverable = failed, undeliverable
    assert client.settle(delivery, state) == [Settle(client.subscribed.consumer, (7,), settlement, "")]


def test_messages_may_be_settled_when_they_are_sent(client: Client) -> None:
    def set_up(link: Any) -> None:
        link.snd_settle_mode = Link.SND_SETTLED

    (delivery,) = client.deliver(client.receiver(set_up=set_up), 7)
    assert delivery.settled
    assert client.took(Settle) == Settle(client.subscribed.consumer, (7,), Settlement.ACCEPTED, "")


def test_a_drain_ends_the_credit_when_nothing_waits(client: Client) -> None:
    link = client.receiver(credit=0)
    link.drain(5)
    client.pump()
    client.done(Drain)
    assert link.credit == 0
    assert [each for each in client.requests if isinstance(each, Give)][-1].credit == 0


def test_what_a_source_says(client: Client) -> None:
    def set_up(link: Any) -> None:
        link.source.durability = Terminus.DELIVERIES
        link.source.expiry_policy = Terminus.EXPIRE_NEVER
        link.source.capabilities.put_object(symbol("topic"))
        filters = {
            symbol("jms-selector"): Described(symbol("apache.org:selector-filter:string"), "n > 1"),
            symbol("no-local"): Described(ulong(0x0000468C00000003), []),
            symbol("other"): Described(symbol("unknown"), "x"),
        }
        link.source.filter.put_object(filters)

    link = client.receiver("prices", name="audit", set_up=set_up)
    options = client.subscribed.options
    assert client.subscribed.destination == Topic("prices")
    assert (options.selector, options.no_local) == ("n > 1", True)
    assert (options.durable, options.client_id, options.shared) == ("audit", "c1", "")
    link.detach()
    client.pump()
    assert client.took(Unsubscribe).ends is False


def test_the_end_of_a_durable_link_ends_its_subscription(client: Client) -> None:
    def set_up(link: Any) -> None:
        link.source.durability = Terminus.DELIVERIES

    link = client.receiver("topic:prices", name="audit", set_up=set_up)
    link.close()
    client.pump()
    assert client.took(Unsubscribe).ends is True


def test_several_links_share_a_subscription(client: Client) -> None:
    def set_up(link: Any) -> None:
        names = [symbol("shared"), symbol("global"), symbol("topic")]
        link.source.capabilities.put_object(Array(UNDESCRIBED, Data.SYMBOL, *names))

    client.receiver("prices", name="w|2", set_up=set_up)
    options = client.subscribed.options
    assert (options.shared, options.durable, options.client_id) == ("w", "", "")


def test_a_durable_subscription_is_found_by_its_name(client: Client) -> None:
    link = client.channel.receiver("audit")
    link.source.type = Terminus.UNSPECIFIED
    link.open()
    client.pump()
    found = client.done(FindDurable)
    assert (found.client_id, found.name) == ("c1", "audit")
    link.close()
    client.pump()
    assert client.done(EndDurable).name == "audit"
    missing = client.channel.receiver("other")
    missing.source.type = Terminus.UNSPECIFIED
    missing.open()
    client.pump()
    client.failed(FindDurable, "amqp:not-found", "there is none")
    assert reason(missing)[0] == "amqp:not-found"


def test_a_queue_is_browsed(client: Client) -> None:
    def set_up(link: Any) -> None:
        link.source.distribution_mode = Terminus.DIST_MODE_COPY

    (delivery,) = client.deliver(client.receiver(set_up=set_up), 7)
    assert client.subscribed.browses
    client.requests.clear()
    assert client.settle(delivery, Delivery.ACCEPTED) == []


def test_the_end_of_a_session_ends_its_consumers(client: Client) -> None:
    client.receiver()
    client.channel.close()
    client.pump()
    assert client.took(Unsubscribe).consumer == client.subscribed.consumer


def test_a_consumer_that_its_destination_ends(client: Client) -> None:
    link = client.receiver()
    client.session.ended(client.subscribed.consumer, "amqp:resource-deleted", "queue orders was deleted")
    client.pump()
    assert reason(link) == ("amqp:resource-deleted", "queue orders was deleted")


def test_a_source_that_cannot_be(client: Client) -> None:
    link = client.channel.receiver("r")
    link.source.address = " "
    link.open()
    client.pump()
    assert reason(link)[0] == "amqp:invalid-field"
    assert not [each for each in client.requests if isinstance(each, Subscribe)]
