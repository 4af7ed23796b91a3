import contextlib
import struct

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.agents import AgentId
from quorate.client.errors import ProtocolError
from quorate.client.frames import (
    PACK_BYTES,
    Bye,
    ClientInput,
    ClientNote,
    ClientOutput,
    Close,
    FrameBuffer,
    Hello,
    Ping,
    Pong,
    ServerNote,
    Welcome,
    decode_client_frame,
    decode_server_frame,
    encode_frame,
    note_size,
    pack_outputs,
)

SENDER = AgentId(0, 0, 1025)
CLIENT_FRAMES = [
    Hello("quorate-client", 1, "root", "root", None, 0),
    Hello("quorate-client", 1, "root", "root", "#0.0.1026", 7),
    ClientInput(
        7, 3, [ClientNote("alice", "bank:Deposit", b"\x81", 1), ClientNote(SENDER, "bank:Deposit", b"")]
    ),
    ClientInput(7, 3, []),
    Ping(5, 7),
    Close(7),
]
SERVER_FRAMES = [
    Welcome(1, "#0.0.1026", [("localhost", 2560), ("::1", 2561)], 60.0, 1048576, 16384, 2),
    Bye("expired", "it is no more"),
    ClientOutput(2, 8, [ServerNote(SENDER, "bank:Balance", b"\x81", 1)]),
    ClientOutput(2, 8, []),
    Pong(5),
]


def bodies(data, max_frame=1 << 24):
    buffer = FrameBuffer(max_frame)
    buffer.feed(data)
    found = []
    while (body := buffer.next()) is not None:
        found.append(body)
    return found


@pytest.mark.parametrize("frame", CLIENT_FRAMES)
def test_client_frames_survive_the_wire(frame):
    (body,) = bodies(encode_frame(frame))
    assert decode_client_frame(body) == frame
    with pytest.raises(ProtocolError):
        decode_server_frame(body)


@pytest.mark.parametrize("frame", SERVER_FRAMES)
def test_server_frames_survive_the_wire(frame):
    (body,) = bodies(encode_frame(frame))
    assert decode_server_frame(body) == frame
    with pytest.raises(ProtocolError):
        decode_client_frame(body)


@given(st.lists(st.integers(1, 40), max_size=50))
def test_frames_are_cut_the_same_however_the_stream_is_chopped(sizes):
    data = b"".join(encode_frame(frame) for frame in CLIENT_FRAMES)
    buffer = FrameBuffer(1 << 20)
    found, at = [], 0
    for size in [*sizes, len(data)]:
        buffer.feed(data[at : at + size])
        at += size
        while (body := buffer.next()) is not None:
            found.append(decode_client_frame(body))
    assert found == CLIENT_FRAMES
    assert len(buffer) == 0


@given(st.binary(max_size=200))
def test_any_bytes_are_a_frame_or_a_protocol_error(data):
    for decode in (decode_client_frame, decode_server_frame):
        with contextlib.suppress(ProtocolError):
            decode(data)


SCALARS = st.none() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=5) | st.binary(max_size=5)
TREES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=6), max_leaves=20)


@pytest.mark.slow
@given(TREES)
def test_any_message_pack_is_a_frame_or_a_protocol_error(value):
    with contextlib.suppress(ProtocolError):
        decode_client_frame(msgspec.msgpack.encode(value))


@pytest.mark.parametrize("length", [0, 1001, 0xFFFFFFFF])
def test_a_frame_of_a_wrong_size_is_an_error_before_it_is_read(length):
    buffer = FrameBuffer(1000)
    buffer.feed(struct.pack(">I", length))
    with pytest.raises(ProtocolError, match=f"a frame of {length} bytes"):
        buffer.next()


def test_later_versions_may_add_fields_at_the_end():
    assert decode_client_frame(msgspec.msgpack.encode([5, 1, 2, 3, "new"])) == Ping(1, 2, 3)
    assert decode_client_frame(msgspec.msgpack.encode([5, 1])) == Ping(1, 0)


def test_nested_arrays_do_not_exhaust_the_stack():
    with pytest.raises(ProtocolError):
        decode_client_frame(b"\x91" * 100_000)


@given(st.text(max_size=30), st.text(max_size=30), st.binary(max_size=300), st.integers(-(2**63), 2**63 - 1))
def test_the_size_of_a_notification_is_never_underestimated(to, kind, payload, request):
    encoded = msgspec.msgpack.encode(ClientNote(to, kind, payload, request))
    assert len(encoded) <= note_size(to, kind, payload)
    big = AgentId(2**63, 2**63, 2**63)
    assert len(msgspec.msgpack.encode(ServerNote(big, kind, payload, request))) <= note_size(
        big, kind, payload
    )


def test_outputs_are_packed_into_few_frames_with_consecutive_numbers():
    notes = [ServerNote(SENDER, "bank:Balance", bytes(50_000), n) for n in range(12)]
    frames = [decode_server_frame(body) for data in pack_outputs(9, 100, notes) for body in bodies(data)]
    assert [n.request for frame in frames for n in frame.notes] == list(range(12))
    assert [frame.first_seq for frame in frames] == [100, 105, 110]
    assert all(frame.in_ack == 9 for frame in frames)
    assert all(sum(len(n.payload) for n in frame.notes) <= PACK_BYTES for frame in frames)
    assert len(pack_outputs(9, 100, [])) == 1
