"""A publisher of a mesh: numbers, repetitions over connections, and refusals."""

import itertools

from quorate.mesh.client.publisher import Publisher
from quorate.mesh.frames import Published, Refused
from quorate.mesh.model import Position, Stream, Uid

PLACE = Position(Stream(Uid(1, 0, 5, 1), 0, 5), 7)


class Wire:
    """The frames of a publisher."""

    def __init__(self) -> None:
        self.publisher = Publisher("prices", "me")
        self._requests = itertools.count(1)

    def sent(self) -> list[tuple[int, int, int, list[bytes]]]:
        """Return (request, first, previous, bodies) of each new frame."""
        frames = self.publisher.frames(self._requests)
        return [(each.request, each.first, each.previous, each.bodies) for each in frames]


def test_messages_are_sent_once_in_frames() -> None:
    wire = Wire()
    assert wire.publisher.add([b"a", b"b"]) == (1, 2)
    assert wire.sent() == [(1, 1, 0, [b"a", b"b"])]
    assert wire.sent() == []
    wire.publisher.add([b"c"])
    assert wire.sent() == [(2, 3, 2, [b"c"])]


def test_what_is_not_acknowledged_is_sent_again_over_a_new_connection() -> None:
    wire = Wire()
    wire.publisher.add([b"a"])
    wire.sent()
    wire.publisher.add([b"b"])
    wire.sent()
    confirmation = wire.publisher.published(Published(1, PLACE))
    assert confirmation is not None
    assert confirmation.numbers == (1,)
    wire.publisher.connected()
    (frame,) = wire.publisher.frames(itertools.count(9))
    assert (frame.first, frame.previous, frame.acknowledged, frame.after) == (2, 1, 1, PLACE)
    assert wire.publisher.published(Published(2, PLACE)) is None


def test_a_refused_message_is_left_out_and_later_ones_are_sent_again() -> None:
    wire = Wire()
    for body in (b"a", b"b", b"c"):
        wire.publisher.add([body])
        wire.sent()
    confirmation = wire.publisher.refused(Refused(2, "full", "no room"))
    assert confirmation is not None
    assert confirmation.numbers == (2,)
    assert wire.publisher.refused(Refused(3, "gap", "earlier ones were refused")) is None
    assert wire.sent() == [(4, 3, 1, [b"c"])]
    assert wire.publisher.published(Published(1, PLACE)) is not None
    assert wire.publisher.published(Published(4, PLACE)) is not None
    assert wire.publisher.unacknowledged == 0


def test_numbers_with_a_hole_are_sent_in_two_frames() -> None:
    wire = Wire()
    wire.publisher.add([b"a"])
    wire.sent()
    wire.publisher.add([b"b"])
    wire.sent()
    wire.publisher.refused(Refused(2, "full", "no room"))
    wire.publisher.add([b"c", b"d"])
    wire.publisher.connected()
    assert wire.sent() == [(3, 1, 0, [b"a"]), (4, 3, 1, [b"c", b"d"])]


def test_a_lost_order_makes_another_publisher_of_it() -> None:
    wire = Wire()
    wire.publisher.add([b"a"])
    wire.sent()
    wire.publisher.published(Published(1, PLACE))
    wire.publisher.add([b"b"])
    wire.sent()
    assert wire.publisher.refused(Refused(2, "order lost", "its daemon lost its disk")) is None
    (frame,) = wire.publisher.frames(itertools.count(9))
    assert (frame.publisher, frame.first, frame.previous, frame.after) == ("me#2", 2, 0, None)
    assert wire.publisher.orders_lost == 1
