"""Frames of STOMP: what is read from bytes of any pieces, what is written, and what is refused."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.gateways.stomp.frames import BadFrame, Frame, FrameReader, encode_frame

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)


def read(data: bytes, version: str = "1.2", size: int = 10_000) -> list[Frame]:
    reader = FrameReader()
    reader.version = version
    return [frame for start in range(0, len(data), size) for frame in reader.feed(data[start : start + size])]


@given(
    st.lists(
        st.tuples(st.dictionaries(TEXT.filter(bool), TEXT, max_size=5), st.binary(max_size=50)), max_size=5
    ),
    st.integers(1, 20),
    st.sampled_from(["1.1", "1.2"]),
)
def test_what_is_written_is_read_again_in_pieces_of_any_size(frames, size, version) -> None:
    sent = []
    for headers, body in frames:
        if version == "1.1":
            headers = {name.replace("\r", ""): value.replace("\r", "") for name, value in headers.items()}
            headers.pop("", None)
        sent.append(Frame("SEND", {**headers, "content-length": str(len(body))}, body))
    data = b"".join(encode_frame(frame, version) for frame in sent)
    assert read(data, version, size) == sent


def test_heartbeats_and_ends_of_lines_of_both_kinds_are_skipped() -> None:
    data = b"\n\r\n\nSEND\r\ndestination:/queue/a\r\n\r\nhello\0\n\n\r\nBEGIN\ntransaction:t\n\n\0"
    assert read(data) == [
        Frame("SEND", {"destination": "/queue/a"}, b"hello"),
        Frame("BEGIN", {"transaction": "t"}),
    ]


def test_a_body_with_zero_bytes_has_a_length() -> None:
    assert read(b"SEND\ncontent-length:3\n\na\0b\0")[0].body == b"a\0b"


def test_the_first_of_repeated_headers_counts() -> None:
    assert read(b"SEND\nfoo:one\nfoo:two\n\n\0")[0].get("foo") == "one"


def test_escapes_of_the_versions() -> None:
    data = b"SEND\na\\cb:1\\n2\\\\3\n\n\0"
    assert read(data, "1.2")[0].headers == {"a:b": "1\n2\\3"}
    assert read(data, "1.1")[0].headers == {"a:b": "1\n2\\3"}
    assert read(data, "1.0")[0].headers == {"a\\cb": "1\\n2\\\\3"}
    assert read(b"SEND\na:1\\r2\n\n\0", "1.2")[0].get("a") == "1\r2"


def test_spaces_around_headers_count_since_version_1_1() -> None:
    data = b"SEND\na: b \n\n\0"
    assert read(data, "1.0")[0].get("a") == "b"
    assert read(data, "1.1")[0].get("a") == " b "


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"\x16\x03\x01\x02\x00", "this is not STOMP"),
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "this is not STOMP"),
        (b"A" * 40, "this is not STOMP"),
        (b"SEND\nfoo\n\n\0", "'foo' is not a header"),
        (b"SEND\n:foo\n\n\0", "is not a header"),
        (b"SEND\nfoo:\\x\n\n\0", "escape"),
        (b"SEND\nfoo:bar\\\n\n\0", "escape"),
        (b"SEND\nfoo:\xff\n\n\0", "not UTF-8"),
        (b"SEND\nfoo:1\0", "no empty line"),
        (b"SEND\ncontent-length:x\n\n\0", "not a number of bytes"),
        (b"SEND\ncontent-length:9999999999\n\n\0", "are allowed"),
        (b"SEND\ncontent-length:1\n\nab\0", "longer than its content-length"),
        (b"BEGIN\ntransaction:t\n\nbody\0", "BEGIN has a body"),
        (b"SEND\n" + b"a:b\n" * 300 + b"\n\0", "more than 256 headers"),
        (b"SEND\na:" + b"b" * 70_000, "more than 65536 bytes"),
        (b"SEND\n\n" + b"b" * 1_100_000, "more than 1048576 bytes"),
    ],
)
def test_what_is_no_frame_is_refused_with_a_sentence(data: bytes, problem: str) -> None:
    with pytest.raises(BadFrame, match=problem):
        read(data, size=4096)


@given(st.binary(max_size=300), st.integers(1, 50))
def test_garbage_is_refused_or_waits_and_nothing_else_happens(data: bytes, size: int) -> None:
    with contextlib.suppress(BadFrame):
        for frame in read(data, size=size):
            assert frame.command.isalpha()
