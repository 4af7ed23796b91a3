import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.hachannel.codec.buffers import LONG_BYTES, Body
from quorate.hachannel.codec.framing import FrameDamaged, FrameError, FrameReader, FrameTooLong, frame_parts


def joined(bodies: list[bytes]) -> bytes:
    return b"".join(frame_parts(bodies))


@given(st.lists(st.binary(max_size=50)), st.data())
def test_frames_survive_any_way_of_cutting_the_stream(bodies: list[bytes], data: st.DataObject) -> None:
    stream = joined(bodies)
    reader = FrameReader()
    got: list[bytes] = []
    position = 0
    while position < len(stream):
        size = data.draw(st.integers(1, len(stream) - position))
        got += reader.feed(stream[position : position + size])
        position += size
    assert got == bodies


def test_a_frame_over_the_limit_is_refused_at_its_header() -> None:
    reader = FrameReader(max_bytes=10)
    with pytest.raises(FrameTooLong, match="11 bytes"):
        reader.feed((11).to_bytes(4, "big") + bytes(4))


@given(st.lists(st.binary(max_size=2000), min_size=1, max_size=4), st.data())
def test_whichever_bit_is_flipped_no_damaged_body_is_handed_on(
    bodies: list[bytes], data: st.DataObject
) -> None:
    stream = bytearray(joined(bodies))
    bit = data.draw(st.integers(0, 8 * len(stream) - 1))
    stream[bit // 8] ^= 1 << bit % 8
    reader, got, position = FrameReader(), list[bytes](), 0
    try:
        while position < len(stream):
            size = data.draw(st.integers(1, len(stream) - position))
            got += reader.feed(bytes(stream[position : position + size]))
            position += size
    except FrameError:
        pass
    else:
        # A length became larger: the rest is waited for.
        assert reader.pending
    assert got == bodies[: len(got)] != bodies


def test_a_damaged_frame_is_told_from_a_long_one() -> None:
    stream = bytearray(joined([b"sound", b"spoiled"]))
    stream[-1] ^= 1
    with pytest.raises(FrameDamaged, match="7 bytes came damaged"):
        FrameReader().feed(bytes(stream))


def test_the_limit_may_be_raised_between_frames() -> None:
    reader = FrameReader(max_bytes=4)
    assert reader.feed(joined([b"four"])) == [b"four"]
    reader.max_bytes = 10
    assert reader.feed(joined([b"eight888"])) == [b"eight888"]


def test_a_text_protocol_looks_like_a_frame_that_is_too_long() -> None:
    with pytest.raises(FrameTooLong):
        FrameReader().feed(b"GET / HTTP/1.1\r\n")


@given(st.lists(st.one_of(st.binary(max_size=9), st.lists(st.binary(max_size=9), max_size=4))))
def test_a_body_in_parts_is_framed_as_if_it_were_whole(bodies: list[Body]) -> None:
    whole = [b"".join(body) if isinstance(body, list) else body for body in bodies]
    assert b"".join(frame_parts(bodies)) == joined(whole)


def test_long_parts_are_handed_on_as_they_are_and_short_ones_joined() -> None:
    long = b"x" * LONG_BYTES
    parts = frame_parts([b"a", b"b", [b"head", long, long, b"tail"], b"c"])
    assert [part is long for part in parts] == [False, True, False, True, False]
    assert FrameReader().feed(b"".join(parts)) == [b"a", b"b", b"head" + 2 * long + b"tail", b"c"]


def test_a_frame_in_tiny_pieces_takes_little_more_memory_than_in_large_ones() -> None:
    body = bytes(range(256)) * 800
    stream = joined([body, b"next"])
    reader = FrameReader()
    tracemalloc.start()
    got: list[bytes] = []
    for start in range(0, len(stream), 3):
        got += reader.feed(stream[start : start + 3])
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert got == [body, b"next"]
    assert most < 4 * len(body)


def test_nothing_is_framed_as_nothing() -> None:
    assert frame_parts([]) == []
