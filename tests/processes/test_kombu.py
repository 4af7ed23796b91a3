"""Programs with Kombu against a real server: exchanges, queues and what channels do."""
# ruff: noqa: E402  what follows needs Kombu, which may be missing

from collections.abc import Iterator
from typing import Any

import pytest

kombu = pytest.importorskip("kombu", reason="Kombu is not installed: pip install quorate[celery]")

import quorate.gateways.kombu
from quorate import Servers, connect
from quorate.gateways.kombu import Transport
from quorate.messaging import NoSuchDestination, Session

from .foreign_clients import cluster, running
from .running import BOUND_S

pytestmark = pytest.mark.processes
QUEUES = ("work", "urgent", "small")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    text = cluster("StompService", *QUEUES, topics='<topic name="kombu" tree="true"/>')
    with running(tmp_path_factory.mktemp("kombu"), text) as servers:
        yield servers


def url(servers: Servers, user: str = "anna") -> str:
    return servers.url("s0").replace("quorate://", f"quorate://{user}:{user}@")


@pytest.fixture
def connection(server: Servers) -> Iterator[Any]:
    with kombu.Connection(url(server)) as found:
        yield found
    with kombu.Connection(url(server)) as left:
        for name in QUEUES:
            kombu.Queue(name)(left.default_channel).purge()


class Consumer:
    """A consumer, and what it has heard."""

    def __init__(self, connection: Any, *queues: Any, prefetch: int = 0, **options: Any) -> None:
        self.connection = connection
        self.heard: list[Any] = []
        self.channel = connection.channel()
        self.consumer = self.channel.Consumer(
            list(queues), on_message=self.heard.append, accept=["json", "text/plain"], **options
        )
        if prefetch:
            self.consumer.qos(prefetch_count=prefetch)
        self.consumer.consume()

    def get(self, count: int) -> list[Any]:
        """Return this many messages, and forget them."""
        while len(self.heard) < count:
            self.connection.drain_events(timeout=BOUND_S)
        found, self.heard[:] = self.heard[:count], self.heard[count:]
        return found

    def bodies(self, count: int) -> list[Any]:
        found = self.get(count)
        for each in found:
            each.ack()
        return [each.payload for each in found]

    def close(self) -> None:
        self.channel.close()

    def nothing(self) -> bool:
        """Return whether nothing more comes."""
        try:
            self.connection.drain_events(timeout=0.3)
        except TimeoutError:
            return not self.heard
        return False


def publish(
    connection: Any, body: Any, exchange: Any = "", routing_key: str = "work", **options: Any
) -> None:
    connection.Producer().publish(body, exchange=exchange, routing_key=routing_key, **options)


# Queues


def test_a_message_has_all_that_was_sent(connection: Any) -> None:
    publish(connection, {"a": [1]}, headers={"x": {"y": 1}}, priority=3, correlation_id="c", reply_to="r")
    (message,) = Consumer(connection, kombu.Queue("work")).get(1)
    message.ack()
    assert message.payload == {"a": [1]}
    assert message.headers == {"x": {"y": 1}}
    assert message.properties["correlation_id"] == "c"
    assert message.properties["reply_to"] == "r"
    assert message.delivery_info["priority"] == 3
    assert not message.delivery_info["redelivered"]


def test_a_queue_that_the_server_does_not_have_is_named(connection: Any) -> None:
    with pytest.raises(kombu.exceptions.ChannelError, match='declare <queue name="nowhere"/>'):
        kombu.Queue("nowhere")(connection.default_channel).declare()


def test_limits_of_a_queue_are_not_for_clients(connection: Any) -> None:
    with pytest.raises(kombu.exceptions.ChannelError, match="x-max-length"):
        kombu.Queue("work", max_length=5)(connection.default_channel).declare()


def test_a_passive_declaration_counts_what_waits(connection: Any) -> None:
    for number in range(3):
        publish(connection, number)
    assert kombu.Queue("work")(connection.default_channel).queue_declare(passive=True).message_count == 3


def test_the_more_urgent_comes_first(connection: Any) -> None:
    for priority in (0, 9, None, 5):
        publish(connection, priority, priority=priority)
    assert Consumer(connection, kombu.Queue("work")).bodies(4) == [9, 5, 0, None]


def test_an_expired_message_does_not_come(connection: Any) -> None:
    publish(connection, "late", expiration=0.001)
    publish(connection, "good")
    assert Consumer(connection, kombu.Queue("work")).bodies(1) == ["good"]


def test_a_channel_gets_as_many_as_its_prefetch_count(connection: Any) -> None:
    for number in range(5):
        publish(connection, number)
    consumer = Consumer(connection, kombu.Queue("work"), prefetch=2)
    first = consumer.get(2)
    assert consumer.nothing()
    consumer.consumer.qos(prefetch_count=3)
    first += consumer.get(1)
    assert consumer.nothing()
    first[0].ack()
    assert [each.payload for each in consumer.get(1)] == [3]


def test_unacknowledged_messages_may_be_many_and_large(connection: Any) -> None:
    for number in range(60):
        publish(connection, f"{number}" + "x" * 50_000, delivery_mode=1)
    assert len(Consumer(connection, kombu.Queue("work"), prefetch=60).get(60)) == 60


def test_what_a_channel_has_not_acknowledged_comes_again(connection: Any) -> None:
    publish(connection, "work")
    first = Consumer(connection, kombu.Queue("work"))
    first.get(1)
    first.close()
    (message,) = Consumer(connection, kombu.Queue("work")).get(1)
    assert message.delivery_info["redelivered"]
    message.ack()


def test_a_cancelled_consumer_may_still_acknowledge(connection: Any) -> None:
    publish(connection, "first")
    publish(connection, "second")
    consumer = Consumer(connection, kombu.Queue("work"), prefetch=1)
    (message,) = consumer.get(1)
    consumer.consumer.cancel()
    message.ack()
    assert Consumer(connection, kombu.Queue("work")).bodies(1) == ["second"]


def test_what_was_not_yet_given_out_at_the_cancel_is_not_redelivered(connection: Any) -> None:
    for number in range(3):
        publish(connection, number)
    consumer = Consumer(connection, kombu.Queue("work"), prefetch=3)
    consumer.bodies(1)
    consumer.consumer.cancel()
    found = Consumer(connection, kombu.Queue("work")).get(2)
    assert [(each.payload, each.delivery_info["redelivered"]) for each in found] == [(1, False), (2, False)]


def test_a_rejected_message_comes_again_or_is_dead(connection: Any) -> None:
    publish(connection, "work")
    consumer = Consumer(connection, kombu.Queue("work"))
    consumer.get(1)[0].requeue()
    (message,) = consumer.get(1)
    assert message.delivery_info["redelivered"]
    message.reject()
    assert consumer.nothing()


def test_a_message_is_settled_once(connection: Any) -> None:
    publish(connection, "work")
    consumer = Consumer(connection, kombu.Queue("work"))
    (message,) = consumer.get(1)
    consumer.channel.basic_ack(message.delivery_tag)
    with pytest.raises(kombu.exceptions.ChannelError, match="no message"):
        consumer.channel.basic_ack(message.delivery_tag)


def test_acknowledging_several_at_once(connection: Any) -> None:
    for number in range(4):
        publish(connection, number)
    consumer = Consumer(connection, kombu.Queue("work"))
    consumer.get(4)[2].ack(multiple=True)
    consumer.close()
    assert Consumer(connection, kombu.Queue("work")).bodies(1) == [3]


def test_getting_one_message_after_the_other(connection: Any) -> None:
    queue = kombu.Queue("work")(connection.default_channel)
    for number in range(2):
        publish(connection, number)
    first = queue.get()
    assert (first.payload, queue.get(no_ack=True).payload, queue.get()) == (0, 1, None)
    first.reject(requeue=True)
    assert queue.get(no_ack=True).payload == 0


def test_a_purge_counts(connection: Any) -> None:
    for number in range(1200):
        publish(connection, number, delivery_mode=1)
    publish(connection, "last")
    queue = kombu.Queue("work")(connection.default_channel)
    assert (queue.purge(), queue.purge(), queue.get()) == (1201, 0, None)


def test_a_queue_of_the_server_is_not_deleted(connection: Any) -> None:
    with pytest.raises(kombu.exceptions.ChannelError, match="belongs to the server"):
        kombu.Queue("work")(connection.default_channel).delete()


# Exchanges


def test_a_bound_queue_gets_what_others_publish_to_the_exchange(server: Servers, connection: Any) -> None:
    exchange = kombu.Exchange("orders", type="topic")
    queue = kombu.Queue("work", exchange, routing_key="eu.#")
    queue(connection.default_channel).declare()
    try:
        with kombu.Connection(url(server)) as other:
            # This program knows nothing of the queue.
            for key in ("eu.de", "us.ny", "eu"):
                publish(other, key, kombu.Exchange("orders", type="topic"), key)
        publish(connection, "direct")
        # Nobody was connected that had declared it, and it is there.
        consumer = Consumer(connection, queue)
        assert sorted(consumer.bodies(3)) == ["direct", "eu", "eu.de"]
        consumer.close()
    finally:
        queue(connection.default_channel).unbind_from(exchange, "eu.#")
    publish(connection, "eu.fr", exchange, "eu.fr")
    assert Consumer(connection, kombu.Queue("work")).nothing()


def test_a_fanout_reaches_the_queues_of_all_clients(server: Servers, connection: Any) -> None:
    exchange = kombu.Exchange("news", type="fanout", durable=False)
    with kombu.Connection(url(server)) as other:
        here, there = (
            Consumer(each, kombu.Queue(name, exchange, exclusive=True, auto_delete=True))
            for name, each in (("here", connection), ("there", other))
        )
        publish(connection, "hello", exchange, "any", declare=[exchange])
        assert (here.bodies(1), there.bodies(1)) == (["hello"], ["hello"])


def test_an_answer_waits_in_a_queue_that_was_declared_before(server: Servers, connection: Any) -> None:
    queue = kombu.Queue("answers-7", durable=False, auto_delete=True)
    with kombu.Connection(url(server)) as asking:
        queue(asking.default_channel).declare()
        publish(connection, 42, routing_key="answers-7", delivery_mode=1)
        publish(connection, 43, routing_key="answers-7")
        assert Consumer(connection, queue).bodies(2) == [42, 43]


def test_an_exchange_has_one_type(connection: Any) -> None:
    channel = connection.default_channel
    kombu.Exchange("orders", type="topic")(channel).declare()
    with pytest.raises(kombu.exceptions.ChannelError, match="was declared as topic"):
        kombu.Exchange("orders", type="fanout")(channel).declare()


# Connections


def test_programs_of_the_server_share_queues(server: Servers, connection: Any) -> None:
    with connect(server.url("s0"), user="root", password="root") as other, Session(other) as session:
        session.send("work", {"x": 1}, correlation_id="c")
        consumer = Consumer(connection, kombu.Queue("work"))
        (message,) = consumer.get(1)
        message.ack()
        consumer.close()
        assert (message.payload, message.properties["correlation_id"]) == ({"x": 1}, "c")
        publish(connection, {"y": 2})
        assert session.consumer("work").receive(timeout=BOUND_S).body == '{"y": 2}'


def test_a_wrong_password_is_said(server: Servers) -> None:
    wrong = url(server).replace("anna:anna", "anna:wrong")
    with pytest.raises(Exception, match="password"), kombu.Connection(wrong) as connection:
        connection.connect()


def test_exchanges_need_their_tree_of_topics(server: Servers) -> None:
    options = {"tree": "elsewhere"}
    with (
        kombu.Connection(url(server), transport_options=options) as connection,
        pytest.raises(NoSuchDestination, match='declare <topic name="elsewhere" tree="true"/>'),
    ):
        publish(connection, 1, kombu.Exchange("news", type="fanout"), "")


def test_a_url_is_shown_without_its_password(server: Servers) -> None:
    shown = kombu.Connection(url(server)).as_uri()
    assert shown == url(server).replace("anna:anna", "anna:**")


def test_a_connection_may_name_its_parts() -> None:
    connection = kombu.Connection("localhost", "anna", "secret", port=7, transport="quorate")
    assert isinstance(connection.transport, Transport)
    assert quorate.gateways.kombu.Transport is Transport
