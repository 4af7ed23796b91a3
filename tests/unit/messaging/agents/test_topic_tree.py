"""Topics that form a tree, and subscriptions for patterns."""

import pytest

from quorate.messaging.agents.protocol import OpenConsumer, OpenProducer, Refused
from quorate.messaging.agents.topic_tree import matcher

from .clients import Client, Site


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("a", ["a"], ["a.b", "b"]),
        ("a.*", ["a.b", "a.c"], ["a", "a.b.c"]),
        ("a.#", ["a", "a.b", "a.b.c"], ["ab", "b"]),
        ("a.*.c", ["a.b.c"], ["a.c", "a.b.d", "a.b.c.d"]),
        ("a.*.#", ["a.b", "a.b.c.d"], ["a"]),
    ],
)
def test_patterns(pattern: str, matching: list[str], others: list[str]) -> None:
    matches = matcher(pattern)
    assert [each for each in matching if not matches(each)] == []
    assert [each for each in others if matches(each)] == []


def publish(client: Client, tree: str, producer: int, subject: str, *bodies: str) -> None:
    """Publish to a topic of a tree."""
    client.tell(tree, OpenProducer(producer, subject))
    client._serials[tree, producer] = 0
    client.publish(tree, *bodies, producer=producer)


def test_a_subscription_gets_what_its_pattern_matches_in_one_order() -> None:
    site = Site()
    tree = site.topic("prices", tree=True)
    one, two, three, producer = (site.client() for _ in range(4))
    one.consume(tree, pattern="prices.#")
    two.consume(tree, pattern="prices.*.de")
    three.consume(tree)
    for number, subject in enumerate(("prices.eu.de", "prices.us", "prices", "prices.eu.fr"), 1):
        publish(producer, tree, number, subject, subject)
    assert one.texts() == ["prices.eu.de", "prices.us", "prices", "prices.eu.fr"]
    assert two.texts() == ["prices.eu.de"]
    assert three.texts() == ["prices"]


def test_a_durable_subscription_for_a_pattern_keeps_what_comes_and_begins_anew_with_another() -> None:
    site = Site()
    tree = site.topic("prices", tree=True)
    one, producer = site.client(), site.client()
    options = {"subscription": "audit", "client_id": "c", "durable": True}
    one.consume(tree, pattern="prices.eu.*", **options)
    one.close(tree)
    publish(producer, tree, 1, "prices.eu.de", "kept")
    publish(producer, tree, 2, "prices.us", "other")
    assert site.depth(tree) == 1
    one.consume(tree, 2, pattern="prices.#", **options)
    assert one.texts(2) == []


@pytest.mark.parametrize(
    ("request_", "part"),
    [
        (OpenProducer(1, "prices.*"), "is a pattern"),
        (OpenProducer(1, "prices..de"), "single dots"),
        (OpenProducer(1, "news"), "no topic of the tree prices"),
        (OpenConsumer(1, pattern="prices.#.de"), "is the last word"),
        (OpenConsumer(1, pattern="news.*"), "no pattern for topics of the tree prices"),
    ],
)
def test_what_does_not_belong_to_the_tree_is_refused(
    request_: OpenProducer | OpenConsumer, part: str
) -> None:
    site = Site()
    tree = site.topic("prices", tree=True)
    (refused,) = site.client().tell(tree, request_)
    assert isinstance(refused, Refused)
    assert part in refused.text


def test_a_plain_topic_has_no_topics_in_it() -> None:
    site = Site()
    topic = site.topic("prices")
    for request in (OpenProducer(1, "prices.eu"), OpenConsumer(1, pattern="prices.*")):
        (refused,) = site.client().tell(topic, request)
        assert isinstance(refused, Refused)
        assert "is no tree of topics" in refused.text
