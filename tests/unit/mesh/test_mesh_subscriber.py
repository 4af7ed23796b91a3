"""A subscriber of a mesh: each message once, and the cursor of what it has acknowledged."""

import pytest

from quorate.mesh.client.subscriber import Subscriber, decode_cursor, encode_cursor
from quorate.mesh.frames import Deliver
from quorate.mesh.model import Data, Dot, Stream, Uid, encode_record

ONE, OTHER = (Stream(Uid(1, 0, 5, 1), daemon, 5) for daemon in (0, 1))


def deliver(stream: Stream, *messages: tuple[int, int], publisher: str = "p#1", seen: int = 0) -> Deliver:
    """Return a delivery of (position, number of the publisher)."""
    records = [(at, encode_record(Data(publisher, number, b"%d" % number, 0))) for at, number in messages]
    return Deliver(1, stream, records, seen)


def attached() -> Subscriber:
    subscriber = Subscriber("prices", "audit", "token")
    subscriber.attached([Dot(0, 5, 2)])
    return subscriber


def test_a_message_that_comes_again_is_dropped_and_acknowledged_to_the_daemon() -> None:
    subscriber = attached()
    assert [each.number for each in subscriber.receive(deliver(ONE, (3, 1), (4, 2)))] == [1, 2]
    assert subscriber.acknowledge(1) is not None
    assert not subscriber.receive(deliver(ONE, (3, 1), (4, 2)))
    repeated = subscriber.acknowledge_repeated(1)
    assert repeated is not None
    assert repeated.positions == [(ONE, 4)]


def test_a_message_that_a_publisher_sent_to_two_daemons_comes_once() -> None:
    subscriber = attached()
    subscriber.receive(deliver(ONE, (1, 1), (2, 2)))
    assert [each.number for each in subscriber.receive(deliver(OTHER, (1, 2), (2, 3)))] == [3]


def test_a_cursor_has_what_was_acknowledged_and_no_more() -> None:
    subscriber = attached()
    first, second, _ = subscriber.receive(deliver(ONE, (1, 1), (2, 2), (3, 3)))
    assert first.publisher == "p"
    subscriber.acknowledge(1, second)
    assert subscriber.cursor is not None
    again = Subscriber("prices", "audit", "other", cursor=decode_cursor(encode_cursor(subscriber.cursor)))
    assert again.dots == [Dot(0, 5, 2)]
    assert again.token == "token"
    assert [each.number for each in again.receive(deliver(ONE, (2, 2), (3, 3)))] == [3]


def test_a_message_that_was_not_received_is_not_acknowledged() -> None:
    subscriber = attached()
    (message,) = subscriber.receive(deliver(ONE, (1, 1)))
    subscriber.acknowledge(1, message)
    assert subscriber.acknowledge(1, message) is None


def test_what_may_have_come_before_is_marked() -> None:
    received = attached().receive(deliver(ONE, (1, 1), (2, 2), seen=1))
    assert [each.redelivered for each in received] == [True, False]


@pytest.mark.parametrize("data", [b"", b"something", b"quorate mesh cursor 1\n\xc1"])
def test_what_is_no_cursor_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="cursor"):
        decode_cursor(data)
