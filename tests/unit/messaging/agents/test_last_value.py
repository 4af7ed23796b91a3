"""Last-value queues: of the messages with one key only the latest waits."""

from quorate.messaging.agents.protocol import Settlement

from .clients import Site


def test_a_message_replaces_the_waiting_one_with_its_key() -> None:
    site = Site()
    queue = site.queue(last_value=True)
    producer, one = site.client(), site.client()
    producer.publish(queue, "eu 1", key="eu")
    producer.publish(queue, "us 1", key="us")
    producer.publish(queue, "eu 2", "eu 3", "none", key=["eu", "eu", None])
    assert site.depth(queue) == 3
    one.consume(queue)
    assert one.texts() == ["us 1", "eu 3", "none"]
    assert site.agent(queue).replaced == 2


def test_a_message_that_a_consumer_has_is_not_replaced() -> None:
    site = Site()
    queue = site.queue(last_value=True)
    producer, one = site.client(), site.client()
    one.consume(queue, window=1)
    producer.publish(queue, "eu 1", key="eu")
    producer.publish(queue, "eu 2", key="eu")
    assert one.texts() == ["eu 1"]
    one.settle(queue, 1)
    assert one.texts() == ["eu 2"]
    one.settle(queue, 2)
    assert site.depth(queue) == 0
    assert not site.agent(queue).keys


def test_an_older_value_that_comes_back_is_dropped_where_a_later_one_waits() -> None:
    site = Site()
    queue = site.queue(last_value=True)
    producer, one = site.client(), site.client()
    one.consume(queue, window=1)
    producer.publish(queue, "eu 1", key="eu")
    producer.publish(queue, "eu 2", key="eu")
    one.settle(queue, 1, settlement=Settlement.RETURNED)
    assert one.texts() == ["eu 1", "eu 2"]
    assert site.depth(queue) == 1


def test_an_older_value_that_comes_back_later_is_kept_where_nothing_waits() -> None:
    site = Site()
    queue = site.queue(last_value=True)
    producer, one = site.client(), site.client()
    one.consume(queue)
    producer.publish(queue, "eu 1", key="eu")
    one.settle(queue, 1, settlement=Settlement.RETURNED)
    assert one.messages() == [("eu 1", 1, 0), ("eu 1", 1, 1)]
