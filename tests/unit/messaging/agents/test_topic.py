"""A topic and its subscriptions, through the notifications of their clients."""

import pytest

from quorate.messaging.agents.protocol import OpenConsumer, Refused, Settlement, Unsubscribe, Unsubscribed

from .clients import Client, Site


@pytest.fixture
def site() -> Site:
    return Site()


@pytest.fixture
def producer(site: Site) -> Client:
    return site.client()


@pytest.fixture
def one(site: Site) -> Client:
    return site.client()


@pytest.fixture
def two(site: Site) -> Client:
    return site.client()


def test_each_subscriber_gets_each_message(site: Site, producer: Client, one: Client, two: Client) -> None:
    topic = site.topic()
    one.consume(topic)
    two.consume(topic)
    producer.publish(topic, "a", "b")
    assert (one.texts(), two.texts()) == (["a", "b"], ["a", "b"])
    one.settle(topic, 1, 2)
    assert site.depth(topic) == 2
    two.settle(topic, 1)
    two.settle(topic, 2)
    assert site.depth(topic) == 0
    assert not site.agent(topic).log.shares


def test_messages_without_subscribers_are_not_kept(site: Site, producer: Client, one: Client) -> None:
    topic = site.topic()
    (confirmed,) = producer.publish(topic, "a")
    assert confirmed.upto == 1
    assert site.depth(topic) == 0
    one.consume(topic)
    producer.publish(topic, "b")
    assert one.texts() == ["b"]


def test_a_durable_subscription_keeps_messages_while_its_subscriber_is_away(
    site: Site, producer: Client, one: Client, two: Client
) -> None:
    topic = site.topic()
    one.consume(topic, subscription="audit", client_id="c", durable=True)
    one.close(topic)
    producer.publish(topic, "a", "b")
    two.consume(topic, subscription="audit", client_id="c", durable=True)
    assert two.texts() == ["a", "b"]


def test_a_durable_subscription_survives_the_connection(
    site: Site, producer: Client, one: Client, two: Client
) -> None:
    topic = site.topic()
    one.consume(topic, subscription="audit", client_id="c", durable=True)
    producer.publish(topic, "a")
    one.end(topic)
    two.consume(topic, subscription="audit", client_id="c", durable=True)
    assert two.messages() == [("a", 1, 1)]


def test_a_subscription_that_is_not_durable_ends_with_its_consumer(
    site: Site, producer: Client, one: Client
) -> None:
    topic = site.topic()
    one.consume(topic)
    producer.publish(topic, "a", "b")
    one.close(topic)
    assert site.agent(topic).subscriptions == {}
    assert site.depth(topic) == 0


def test_consumers_of_a_shared_subscription_share_its_messages(
    site: Site, producer: Client, one: Client, two: Client
) -> None:
    topic = site.topic()
    one.consume(topic, subscription="work", shared=True)
    two.consume(topic, subscription="work", shared=True)
    producer.publish(topic, *"abcd" * 16)
    assert (len(one.texts()), len(two.texts())) == (32, 32)


def test_a_shared_subscription_ends_with_its_last_consumer(
    site: Site, producer: Client, one: Client, two: Client
) -> None:
    topic = site.topic()
    one.consume(topic, subscription="work", shared=True, window=1)
    two.consume(topic, subscription="work", shared=True, window=1)
    producer.publish(topic, "a", "b", "c")
    one.close(topic)
    two.settle(topic, 2)
    assert set(two.texts()) == {"a", "b"}
    two.close(topic)
    assert site.depth(topic) == 0


def test_only_one_consumer_has_a_subscription_that_is_not_shared(
    site: Site, one: Client, two: Client
) -> None:
    topic = site.topic()
    options = {"subscription": "audit", "client_id": "c", "durable": True}
    one.consume(topic, **options)
    (refused,) = two.tell(topic, OpenConsumer(1, **options))  # type: ignore[arg-type]
    assert isinstance(refused, Refused)
    assert refused.reason == "in-use"


def test_a_selector_of_a_subscription_keeps_only_what_matches(
    site: Site, producer: Client, one: Client
) -> None:
    topic = site.topic()
    one.consume(topic, selector="region = 'EU'", subscription="eu", client_id="c", durable=True)
    one.close(topic)
    producer.publish(topic, *"abc", **{".region": ["EU", "US", "EU"]})
    producer.publish(topic, *"def", **{".region": "US"})
    one.consume(topic, selector="region = 'EU'", subscription="eu", client_id="c", durable=True)
    assert one.texts() == ["a", "c"]
    one.settle(topic, 1, 3)
    assert site.depth(topic) == 0


def test_another_selector_makes_a_durable_subscription_anew(
    site: Site, producer: Client, one: Client
) -> None:
    topic = site.topic()
    options = {"subscription": "audit", "client_id": "c", "durable": True}
    one.consume(topic, **options)
    one.close(topic)
    producer.publish(topic, "a", **{".region": "EU"})
    one.consume(topic, selector="region = 'EU'", **options)
    assert one.texts() == []
    assert site.depth(topic) == 0


def test_a_shared_subscription_has_one_selector(site: Site, one: Client, two: Client) -> None:
    topic = site.topic()
    one.consume(topic, subscription="work", shared=True, selector="a = 1")
    (refused,) = two.tell(topic, OpenConsumer(1, "a = 2", subscription="work", shared=True))
    assert isinstance(refused, Refused)
    assert "in use with another selector" in refused.text


def test_no_local_leaves_out_the_messages_of_the_own_connection(
    site: Site, producer: Client, one: Client
) -> None:
    topic = site.topic()
    one.consume(topic, no_local=True)
    one.publish(topic, "mine")
    producer.publish(topic, "theirs")
    assert one.texts() == ["theirs"]
    one.settle(topic, 2)
    assert site.depth(topic) == 0


def test_unsubscribing_ends_a_durable_subscription_with_its_messages(
    site: Site, producer: Client, one: Client
) -> None:
    topic = site.topic()
    one.consume(topic, subscription="audit", client_id="c", durable=True)
    producer.publish(topic, "a")
    (refused,) = (each for each in one.tell(topic, Unsubscribe("audit", "c")) if isinstance(each, Refused))
    assert refused.reason == "in-use"
    one.close(topic)
    assert one.tell(topic, Unsubscribe("audit", "c")) == [Unsubscribed()]
    assert site.depth(topic) == 0
    (refused,) = (each for each in one.tell(topic, Unsubscribe("audit", "c")) if isinstance(each, Refused))
    assert refused.reason == "no-such-subscription"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"durable": True}, "needs a name"),
        ({"shared": True}, "needs a name"),
        ({"durable": True, "subscription": "s"}, "needs the client id"),
        ({"exclusive": True}, "prices is a topic"),
    ],
)
def test_a_subscription_that_cannot_be_is_refused(
    site: Site, one: Client, options: dict[str, object], text: str
) -> None:
    topic = site.topic()
    (refused,) = one.tell(topic, OpenConsumer(1, **options))  # type: ignore[arg-type]
    assert isinstance(refused, Refused)
    assert text in refused.text
    assert site.agent(topic).subscriptions == {}


def test_one_subscriber_returns_a_message_and_the_other_does_not_notice(
    site: Site, producer: Client, one: Client, two: Client
) -> None:
    topic = site.topic()
    one.consume(topic)
    two.consume(topic)
    producer.publish(topic, "a")
    assert (one.messages(), two.messages()) == ([("a", 1, 0)], [("a", 1, 0)])
    one.settle(topic, 1, settlement=Settlement.RETURNED)
    assert (one.messages(), two.messages()) == ([("a", 1, 1)], [])
