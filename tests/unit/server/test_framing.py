import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.hachannel.framing import FrameReader, FrameTooLong, join_frames


@given(st.lists(st.binary(max_size=50)), st.data())
def test_frames_survive_any_way_of_cutting_the_stream(bodies: list[bytes], data: st.DataObject) -> None:
    stream = join_frames(bodies)
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
        reader.feed((11).to_bytes(4, "big"))


def test_the_limit_may_be_raised_between_frames() -> None:
    reader = FrameReader(max_bytes=4)
    assert reader.feed(join_frames([b"four"])) == [b"four"]
    reader.max_bytes = 10
    assert reader.feed(join_frames([b"eight888"])) == [b"eight888"]


def test_a_text_protocol_looks_like_a_frame_that_is_too_long() -> None:
    with pytest.raises(FrameTooLong):
        FrameReader().feed(b"GET / HTTP/1.1\r\n")
