from collections import deque
from typing import Any

import pytest

from quorate.hachannel.group.delivery import StableWaits
from quorate.hachannel.group.handler import GroupLimits, QueueFull
from quorate.hachannel.group.link_settings import link_settings
from quorate.hachannel.group.order import Order
from quorate.hachannel.group.wire import (
    CHUNK_BYTES,
    CHUNK_HEAD_BYTES,
    Hello,
    decode_head,
    decode_pack,
    decode_part,
    encode_hello,
    encode_pack,
    encode_parts,
    encode_refusal,
    parse_hello,
    shared_of,
)
from quorate.hachannel.model.errors import ProtocolError
from quorate.hachannel.model.settings import Settings
from quorate.hachannel.model.submitters import Source
from quorate.hachannel.transport.connection import LinkSettings
from quorate.testing.servers.memory_network import MemoryNet


def order(me: int = 1, incarnation: int = 5, **limits: int) -> Order[str]:
    return Order(me, incarnation, GroupLimits(**limits), 100)


def source(replica: int, number: int, incarnation: int = 5) -> Source:
    return Source(replica, incarnation, 1, number)


def test_a_pack_of_several_messages_fits_in_an_entry_whatever_its_limit_is() -> None:
    mine = order(pack_bytes=1000)
    mine.append([b"x" * size for size in (30, 30, 30, 1, 100, 0, 0)], "all")
    packs = [mine.pack() for _ in range(4)]
    assert not mine
    assert [list(map(len, decode_pack(pack))) for pack in packs] == [[30, 30], [30, 1], [100], [0, 0]]
    # 64 bytes are left for what surrounds it.
    assert max(map(len, packs)) <= 100 + 10


def test_connections_of_a_group_take_what_its_settings_allow() -> None:
    assert link_settings(Settings()) == LinkSettings()
    assert link_settings(Settings(suspect_s=15.0)).silence_s == 30.0
    large = link_settings(Settings(max_payload_bytes=40 << 20, window_bytes=100 << 20))
    assert large.max_frame_bytes >= (40 << 20) + 4096
    assert large.buffer_bytes >= (140 << 20)
    # Pieces of a state, and entries beside it.
    parts = link_settings(Settings(part_bytes=32 << 20, max_payload_bytes=1 << 20, transfer_window=4))
    assert parts.buffer_bytes >= 2 * 4 * (32 << 20)


def test_messages_are_numbered_across_packs_and_members() -> None:
    mine = order()
    mine.append([b"a", b"b"], "ab")
    first = mine.pack()
    mine.append([b"c"], "c")
    second = mine.pack()
    assert mine.in_flight == 2
    assert mine.deliver(source(1, 1), first) == (1, [b"a", b"b"])
    assert list(mine.delivered()) == [("ab", 2)]
    assert mine.deliver(source(2, 1), encode_pack([b"x"])) == (3, [b"x"])
    assert list(mine.delivered()) == []
    assert mine.deliver(source(1, 2), second) == (4, [b"c"])
    assert list(mine.delivered()) == [("c", 4)]
    assert mine.in_flight == 0


def test_packs_of_an_earlier_life_hand_back_no_ticket() -> None:
    mine = order()
    mine.append([b"a"], "a")
    pack = mine.pack()
    assert mine.deliver(source(1, 1, incarnation=4), encode_pack([b"x"])) == (1, [b"x"])
    assert list(mine.delivered()) == []
    mine.deliver(source(1, 1), pack)
    assert list(mine.delivered()) == [("a", 2)]


def test_tickets_are_handed_back_with_the_index_of_their_last_message() -> None:
    mine = order(pack_messages=3)
    for number in range(5):
        mine.append([b"%d" % number], str(number))
    mine.deliver(source(2, 1), encode_pack([b"other"] * 10))
    assert list(mine.delivered()) == []
    number = 0
    while mine:
        number += 1
        mine.deliver(source(1, number), mine.pack())
    assert list(mine.delivered()) == [("0", 11), ("1", 12), ("2", 13), ("3", 14), ("4", 15)]


def test_packs_keep_their_limits_but_never_are_empty() -> None:
    mine = order(pack_bytes=10, pack_messages=4)
    mine.append([b"x" * 50, b"y" * 5, b"z" * 5, b"", b"", b"", b""], "all")
    sizes = []
    while mine:
        sizes.append([len(payload) for payload in decode_pack(mine.pack())])
    assert sizes == [[50], [5, 5, 0, 0], [0, 0]]
    assert mine.accepting


def test_the_queue_is_bounded_by_count_and_by_bytes() -> None:
    mine = order(queue_messages=3, queue_bytes=20)
    mine.append([b"a", b"b"], "ab")
    with pytest.raises(QueueFull):
        mine.append([b"c", b"d"], "cd")
    with pytest.raises(QueueFull, match="wait for earlier ones"):
        mine.append([b"x" * 19], "x")
    # No waiting helps here.
    with pytest.raises(QueueFull, match="4 messages of 4 bytes are more than may ever wait: give fewer"):
        mine.append([b"a", b"b", b"c", b"d"], "abcd")
    with pytest.raises(QueueFull, match="1 messages of 21 bytes are more than may ever wait"):
        mine.append([b"x" * 21], "x")
    assert mine.drop() == ["ab"]
    assert not mine


def test_a_snapshot_carries_positions_and_recent_indices() -> None:
    mine, donor = order(), order(me=2)
    mine.append([b"a"], "a")
    mine.append([b"b"], "b")
    pack = mine.pack()
    donor.deliver(source(0, 1), encode_pack([b"first"]))
    donor.deliver(source(1, 1), pack)
    donor.deliver(source(0, 2), encode_pack([b"last"]))
    mine.restore(donor.head())
    assert mine.position == 4
    assert list(mine.delivered()) == [("a", 2), ("b", 3)]
    assert mine.drop() == []


def test_a_state_with_only_an_earlier_life_hands_back_no_ticket() -> None:
    mine, donor = order(), order(me=0)
    mine.append([b"a"], "a")
    mine.pack()
    donor.deliver(source(1, 1, incarnation=4), encode_pack([b"x"]))
    mine.restore(donor.head())
    assert list(mine.delivered()) == []
    assert mine.drop() == ["a"]


def test_a_snapshot_has_the_indices_of_the_last_life_of_a_member() -> None:
    mine, donor = order(pack_messages=1), order(me=0)
    mine.append([b"a"], "a")
    mine.append([b"b"], "b")
    packs = [mine.pack(), mine.pack()]
    donor.deliver(source(1, 2, incarnation=4), encode_pack([b"x"]))
    donor.deliver(source(1, 1), packs[0])
    mine.restore(donor.head())
    assert list(mine.delivered()) == [("a", 2)]
    assert mine.drop() == ["b"]


def test_tickets_come_back_when_all_members_hold_their_entry() -> None:
    waits = StableWaits[str]()
    for entry in (5, 5, 6, 9):
        waits.add(entry, f"of {entry}", entry * 10)
    reached = {upto: list(waits.reached(upto)) for upto in (4, 5, 8)}
    assert reached == {4: [], 5: [("of 5", 50), ("of 5", 50)], 8: [("of 6", 60)]}
    assert waits.drop() == [("of 9", 90)]
    assert list(waits.reached(9)) == []


@pytest.mark.parametrize(
    ("sizes", "parts"),
    [
        ([], 0),
        ([0], 1),
        ([20] * 10_000, 1),
        ([0] * 300_000, 2),
        ([CHUNK_BYTES], 1),
        ([1, CHUNK_BYTES - 1], 2),
        ([CHUNK_BYTES // 2, CHUNK_BYTES // 4] * 2, 2),
    ],
)
def test_small_chunks_of_a_state_share_its_parts_and_come_as_they_were(sizes: list[int], parts: int) -> None:
    chunks = [bytes([number % 256]) * size for number, size in enumerate(sizes)]
    encoded = list(encode_parts(deque(chunks)))
    assert len(encoded) == parts
    assert all(len(part) <= CHUNK_BYTES + 2 * CHUNK_HEAD_BYTES for part in encoded)
    assert [chunk for part in encoded for chunk in decode_part(part)] == chunks


def test_a_large_chunk_of_a_state_is_cut() -> None:
    state = bytes(range(256)) * 8200
    encoded = list(encode_parts(deque([b"a", state, b"b"])))
    chunks = [chunk for part in encoded for chunk in decode_part(part)]
    assert b"".join(chunks) == b"a" + state + b"b"
    assert [len(chunk) for chunk in chunks] == [1, CHUNK_BYTES, CHUNK_BYTES, 2048, 1]


def test_foreign_bytes_are_refused_with_a_sentence() -> None:
    with pytest.raises(ProtocolError, match="not a pack of messages"):
        decode_pack(b"nonsense")
    with pytest.raises(ProtocolError, match="not a part of the state"):
        decode_part(b"\x91\x01")
    with pytest.raises(ProtocolError, match="version 9"):
        decode_head(b"\x93\x09\x00\x90")


@pytest.mark.parametrize(
    ("frame", "says"),
    [
        (b"", "not the hello"),
        (b"x" * 5000, "5000 bytes"),
        (b"\x94\xa7quorate\x01\xa5group\x80", "no member of a group"),
        (b"\x94\xa7quorate\x04\xa5group\x80", "not the hello"),
        (encode_refusal("go away"), "refused: go away"),
    ],
)
def test_a_frame_that_is_no_hello_is_refused_with_a_sentence(frame: bytes, says: str) -> None:
    with pytest.raises(ProtocolError, match=says):
        parse_hello(frame)


def test_a_hello_survives_its_encoding() -> None:
    hello = Hello(1, 2, "abc", (1, 3), shared_of(Settings(mode="MAJORITY")), calls=True)
    assert parse_hello(encode_hello(hello)) == hello


@pytest.mark.parametrize(("size", "count", "limit"), [(30, 100, 1000), (17 << 20, 2, 18 << 20)])
def test_a_group_accepts_messages_up_to_the_limit_of_its_settings(
    net: MemoryNet, make: Any, size: int, count: int, limit: int
) -> None:
    """Packs stay below a small limit; one message may be larger than a connection takes by default."""
    members = [make(me, settings=Settings(max_payload_bytes=limit)).join() for me in range(3)]
    net.until(lambda: all(len(member.group.members) == 3 for member in members))
    members[1].send(*[b"%d " % number + b"x" * size for number in range(count)])
    net.until(lambda: all(len(member.log) == count for member in members))
    net.until(lambda: len(members[1].results) == count)
    assert members[1].results == list(range(1, count + 1))
