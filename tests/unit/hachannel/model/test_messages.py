"""The bytes of the messages."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.hachannel import ProtocolError, View, ViewNumber, Voter, decode_message, encode_message
from quorate.hachannel.model import messages as m
from quorate.hachannel.model.submitters import Source
from quorate.hachannel.model.view import NO_TAG, Seat, Tag

N = ViewNumber(3, 1, 1 << 60)
VIEW = View(
    N, (Voter(0, 1), Voter(1, 1 << 60)), (Voter(1, 1 << 60),), 1, 7, 2, "why", (Seat(0, b"a"), Seat(1))
)
ENTRY = m.Entry(N, 8, 1_700_000_000_000_000_000, b"\x00payload\xff")
FORWARDED = m.Entry(N, 9, 0, b"", 0, Source(2, 1 << 60, 1, 5))

EXAMPLES = [
    m.Data(ENTRY, 7, 3, 6),
    m.Ack(N, 8),
    m.Repair(N, 8),
    m.Heartbeat(N, N, True, True, False, True, False, 1, 2, 3, 4, 5),
    m.Heartbeat(N, N, True, True, False, True, False, 1, 2, 3, 4, 5, 12.5),
    m.Prepare(N, "why"),
    m.Promise(N, VIEW, True, Tag(N, 8), 7, False),
    m.Promise(N, None, False, NO_TAG, 0, False),
    m.Refuse(N, N),
    m.Fetch(N, 1),
    m.Suffix(N, 7, (ENTRY,)),
    m.NewView(VIEW, Tag(N, 7), 0, (ENTRY, ENTRY), True),
    m.Accept(N),
    m.Record(VIEW),
    m.Recorded(N),
    m.Found(N),
    m.Founded(N),
    m.Activate(N),
    m.Yield(N, "why"),
    m.Exit(N, True, "why"),
    m.Join("cluster", True, NO_TAG, 5, 6, b"marker", True, 4, b"birth", True),
    m.Chunk(5, 0, b"chunk", False, Tag(N, 7)),
    m.ChunkAck(5, 1, False),
    m.ChunkAck(5, 1, True, 9),
    m.TailEntries(5, 7, Tag(N, 7), (ENTRY,)),
    m.CatchUp(5, N, Tag(N, 7), (ENTRY,), 6),
    m.CaughtUp(5, 8, 6, False, 1.5),
    m.DirectMessage(b"data"),
    m.Commit(N, 7, 8, 6),
    m.Forward(1, 5, b"payload"),
    m.Forwarded(N, 1, 5),
    m.Data(FORWARDED, 7, 3, 6),
    m.Chunk(5, 1, b"chunk", False, Tag(N, 7), (FORWARDED.source,)),
    m.Unlisted(N),
    m.Seats(N, (Seat(0, b"place"), Seat(3))),
    m.Grant(12.5, 1.0),
    m.Release(12.5),
]


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda message: type(message).__name__)
def test_a_message_survives_its_bytes(message):
    assert decode_message(encode_message(message)) == message


def test_every_message_has_an_example_and_a_number_of_its_own():
    types = m.Message.__args__
    assert {type(message) for message in EXAMPLES} == set(types)
    assert len({kind.__struct_config__.tag for kind in types}) == len(types)


def test_a_payload_travels_untouched():
    assert b"\x00payload\xff" in encode_message(EXAMPLES[0])


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x93\x01", b"\x92\x63\x01", b"nonsense", b"\x91\x01"])
def test_garbage_is_a_protocol_error_of_one_sentence(data):
    with pytest.raises(ProtocolError) as caught:
        decode_message(data)
    assert "\n" not in str(caught.value)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_a_protocol_error(data):
    try:
        message = decode_message(data)
    except ProtocolError:
        return
    encode_message(message)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(EXAMPLES), st.data())
def test_a_message_with_a_flipped_byte_is_a_message_or_a_protocol_error(message, data):
    raw = bytearray(encode_message(message))
    raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    try:
        decode_message(bytes(raw))
    except ProtocolError:
        return


def test_deeply_nested_garbage_is_a_protocol_error():
    with pytest.raises(ProtocolError):
        decode_message(b"\x91" * 100_000)


CHANGES = [m.Reconfig(True, 2, 1 << 60), m.Admit(3, b"place"), m.Dismiss(1)]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: type(change).__name__)
def test_a_change_of_the_configuration_is_a_payload(change):
    assert m.decode_reconfig(m.encode_reconfig(change)) == change


def test_a_payload_that_is_no_change_is_a_protocol_error():
    with pytest.raises(ProtocolError):
        m.decode_reconfig(b"\xc1")
