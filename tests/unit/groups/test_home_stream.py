"""The items of a group at a home: frames, windows, and members that come from elsewhere."""

import pytest

from quorate.agents import AgentId
from quorate.client.frames import StreamItems, decode_server_frame
from quorate.groups import home_stream
from quorate.groups.agents.items import Casts, Page, Skipped, decode_item, encode_item
from quorate.groups.home_stream import HomeStream, Reader

GROUP = AgentId(0, 0, 1030)
ALICE, BOB = AgentId(0, 0, 10**12), AgentId(0, 0, 10**12 + 1)


def page(text: bytes, count: int = 1, to: list[AgentId] | None = None) -> Page:
    return Page(count, encode_item(Casts(ALICE, [text] * count)), to or [])


def frame(stream: HomeStream, reader: Reader) -> list[tuple[int, int, bytes]]:
    data = stream.next_frame(reader)
    assert data is not None
    decoded = decode_server_frame(data[4:])
    assert isinstance(decoded, StreamItems)
    assert decoded.stream == GROUP
    return decoded.pages


def test_members_at_the_same_place_get_the_same_bytes() -> None:
    stream = HomeStream(GROUP)
    alice, bob = stream.begin(ALICE, 4), stream.begin(BOB, 4)
    stream.append(5, page(b"a"))
    stream.append(6, page(b"b", count=3))
    first, second = stream.next_frame(alice), stream.next_frame(bob)
    assert first is second
    assert (alice.sent, bob.sent) == (8, 8)
    assert stream.next_frame(alice) is None


def test_what_is_for_others_is_an_empty_page_in_its_place() -> None:
    stream = HomeStream(GROUP)
    alice, bob = stream.begin(ALICE, 0), stream.begin(BOB, 0)
    stream.append(1, page(b"for bob", to=[BOB]))
    stream.append(2, page(b"for all"))
    assert isinstance(decode_item(frame(stream, alice)[0][2]), Skipped)
    assert [decode_item(data).payloads for _, _, data in frame(stream, bob)] == [[b"for bob"], [b"for all"]]


def test_a_member_is_sent_a_window_beyond_what_it_has_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(home_stream, "WINDOW_ITEMS", 2)
    monkeypatch.setattr(home_stream, "FRAME_BYTES", 1)
    stream = HomeStream(GROUP)
    alice = stream.begin(ALICE, 0)
    for index in range(1, 5):
        stream.append(index, page(b"x"))
    assert [frame(stream, alice)[0][0] for _ in range(2)] == [1, 2]
    assert stream.next_frame(alice) is None
    assert stream.acknowledge(alice, 1)
    assert frame(stream, alice)[0][0] == 3
    assert not stream.acknowledge(alice, 9), "it was not sent that"


def test_acknowledgements_are_told_once_and_free_the_pages() -> None:
    stream = HomeStream(GROUP)
    alice, bob = stream.begin(ALICE, 0), stream.begin(BOB, 0)
    for index in (1, 2):
        stream.append(index, page(b"x"))
    frame(stream, alice), frame(stream, bob)
    stream.acknowledge(alice, 2)
    assert stream.take_acks() == [(ALICE, 2)]
    assert stream.first_kept == 1, "the other member lacks it"
    stream.acknowledge(bob, 2)
    assert stream.take_acks() == [(BOB, 2)]
    assert (stream.take_acks(), stream.first_kept) == ([], 0)


def test_a_member_from_elsewhere_gets_what_is_fetched_and_then_what_came_meanwhile() -> None:
    stream = HomeStream(GROUP)
    bob = stream.resume(BOB, 2)
    stream.append(6, page(b"new"))
    assert stream.next_frame(bob) is None, "earlier items are being fetched"
    assert stream.fetched(bob, [(1, page(b"old", count=3))], 5, more=True) == 3
    assert stream.fetched(bob, [(4, page(b"older", count=2))], 5, more=False) is None
    assert [(first, count) for first, count, _ in frame(stream, bob)] == [(1, 3), (4, 2), (6, 1)]
    assert bob.sent == 6
