"""A connection inside of one process: bytes in order, bounds, and ends, between two event loops."""

from collections import deque
from collections.abc import Callable

from quorate.client.local.link import HELD_BYTES, LinkEnd, new_link


class Loop:
    """The event loop of one side; `run` makes its calls."""

    def __init__(self) -> None:
        self.calls: deque[Callable[[], None]] = deque()
        self.ended = False

    def schedule(self, call: Callable[[], None]) -> None:
        if self.ended:
            raise RuntimeError("the loop is closed")
        self.calls.append(call)

    def run(self) -> None:
        while self.calls:
            self.calls.popleft()()


class Side:
    """One end, and what has happened there."""

    def __init__(self, loop: Loop, end: LinkEnd) -> None:
        self.loop = loop
        self.end = end
        self.happened: list[object] = []
        end.received = self.happened.append
        end.lost = self.happened.append
        end.paused = lambda: self.happened.append("pause")
        end.resumed = lambda: self.happened.append("resume")


def sides() -> tuple[Side, Side]:
    loops = Loop(), Loop()
    ends = new_link(loops[0].schedule, loops[1].schedule)
    return Side(loops[0], ends[0]), Side(loops[1], ends[1])


def test_bytes_arrive_in_order_in_the_loop_of_the_other_side() -> None:
    near, far = sides()
    near.end.write(b"a")
    near.end.write(b"b")
    assert far.happened == []
    far.loop.run()
    far.end.write(b"c")
    near.loop.run()
    assert (far.happened, near.happened) == ([b"ab"], [b"c"])


def test_a_side_that_is_not_read_is_paused_once_and_resumed_when_it_was_read() -> None:
    near, far = sides()
    near.end.write(b"x" * HELD_BYTES)
    near.end.write(b"y")
    assert near.happened == ["pause"]
    far.loop.run()
    near.loop.run()
    assert near.happened == ["pause", "resume"]
    assert far.happened == [b"x" * HELD_BYTES + b"y"]


def test_a_side_that_pauses_reading_gets_the_rest_and_the_end_later() -> None:
    near, far = sides()
    far.end.pause_reading()
    near.end.write(b"a")
    near.end.close("done")
    far.loop.run()
    assert far.happened == []
    far.end.resume_reading()
    far.loop.run()
    assert far.happened == [b"a", "done"]


def test_nothing_happens_on_a_side_after_it_has_closed() -> None:
    near, far = sides()
    far.end.write(b"late")
    near.end.close("enough")
    near.end.write(b"lost")
    near.loop.run()
    far.loop.run()
    assert near.happened == []
    assert far.happened == ["enough"]
    far.end.write(b"lost, too")
    near.loop.run()
    assert near.happened == []


def test_a_side_whose_loop_has_ended_is_reported_to_the_other() -> None:
    near, far = sides()
    far.loop.ended = True
    near.end.write(b"a")
    near.loop.run()
    assert near.happened == ["the event loop of the other side has ended"]
    near.loop.ended = True
    near.end.write(b"b")
    near.end.close("no loop is left")
