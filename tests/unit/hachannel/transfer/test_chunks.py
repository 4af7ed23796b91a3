"""Parts of a state on the wire: cut, numbered, sent again, put together."""

import random

import pytest

from quorate.hachannel.model.view import Tag, ViewNumber
from quorate.hachannel.transfer import chunks as module
from quorate.hachannel.transfer.chunks import IncomingChunks, OutgoingChunks

AT = Tag(ViewNumber(1, 0, 1), 9)


def test_a_part_that_is_too_long_travels_in_pieces():
    box = OutgoingChunks(5, 4, 10)
    box.put(b"0123456789", None)
    box.put(b"", AT)
    pieces = list(box.due())
    assert [(piece.number, piece.data, piece.more, piece.at) for piece in pieces] == [
        (0, b"0123", True, None),
        (1, b"4567", True, None),
        (2, b"89", False, None),
        (3, b"", False, AT),
    ]
    assert box.wants_part


def test_the_last_piece_of_a_part_may_be_a_little_longer():
    """The parts of an application that makes them as long as a piece have a few bytes more."""
    box = OutgoingChunks(5, 128, 10)
    for size in (130, 131, 258):
        box.put(bytes(size), None)
    assert [len(piece.data) for piece in box.due()] == [130, 128, 3, 128, 130]


def test_no_more_is_on_its_way_than_the_window_and_what_is_lost_goes_again():
    box = OutgoingChunks(5, 1, 2)
    box.put(b"abcd", None)
    assert [piece.data for piece in box.due()] == [b"a", b"b"]
    assert not list(box.due())
    assert not box.wants_part
    assert box.ack(1)
    assert not box.ack(1)
    assert not box.ack(9)
    assert [piece.data for piece in box.due()] == [b"c"]
    box.again()
    assert [piece.data for piece in box.due()] == [b"b", b"c"]


def test_what_was_taken_although_it_seemed_lost_does_not_go_again():
    box = OutgoingChunks(5, 1, 3)
    box.put(b"abcd", None)
    assert len(list(box.due())) == 3
    box.again()
    assert box.ack(3)
    assert [piece.data for piece in box.due()] == [b"d"]
    box.again()
    assert box.ack(4)
    assert not list(box.due())
    assert box.wants_part


@pytest.mark.parametrize("seed", range(20))
def test_parts_arrive_as_they_were_whatever_is_lost_or_doubled(seed):
    rng = random.Random(seed)
    sent = [bytes(rng.randint(0, 255) for _ in range(rng.randint(0, 9))) for _ in range(20)]
    out, into = OutgoingChunks(1, 3, 3), IncomingChunks(3)
    waiting = list(sent)
    got = []
    while len(got) < len(sent):
        if waiting and out.wants_part:
            data = waiting.pop(0)
            out.put(data, None if waiting else AT)
        pieces = [piece for piece in out.due() if rng.random() < 0.8]
        for piece in rng.sample(pieces, len(pieces)) + pieces[:1]:
            into.add(piece)
        part = into.part()
        if part is not None:
            assert into.part() is None, "the application has one at a time"
            got.append(part[0])
            assert (part[1].at is None) == (len(got) < len(sent))
            assert into.confirm()
        out.ack(into.confirmed)
        out.again()
    assert got == sent
    assert not into.confirm()


def test_a_part_without_end_is_not_believed(monkeypatch):
    monkeypatch.setattr(module, "MAX_PART_BYTES", 5)
    out, into = OutgoingChunks(1, 3, 9), IncomingChunks(9)
    out.put(b"0123456789", None)
    for piece in out.due():
        into.add(piece)
        if piece.number < 2:
            assert into.part() is None
    assert into.too_large
