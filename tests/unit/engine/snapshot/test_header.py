"""The header of a stored state, made that of another life of its server."""

from typing import Any

import msgspec
import pytest

from quorate.agents import AgentId, Note
from quorate.engine import SnapshotError, StampedNote, another_life
from quorate.engine.server_links import LinkState
from quorate.engine.snapshot.header import Snapshot, encode_header, read_header

FROM, TO = AgentId(0, 0, 1025), AgentId(1, 1, 1025)


def header(*links: LinkState) -> Snapshot:
    numbers = {"server": 0, "birth": 7, "applied": 3, "now_ns": 9, "position": 4, "next_stamp": 1025}
    others: dict[str, Any] = {"dead_letters": 0, "chain": b"", "timers": [], "keys": {}, "paused": []}
    return Snapshot(**numbers, **others, links=list(links))


def test_what_waits_is_numbered_anew_and_nothing_is_taken_for_known() -> None:
    waiting = [Note(TO, FROM, "note", b"x")]
    before = header(LinkState(1, 5, 40, 20, waiting))
    after = read_header(another_life(encode_header(before), 0, 100), 0)
    assert after.links == [LinkState(1, 0, 0, 1, waiting)]
    assert msgspec.structs.replace(after, links=before.links) == msgspec.structs.replace(before, birth=100)


def test_another_life_is_later_whatever_the_clock_says() -> None:
    assert read_header(another_life(encode_header(header()), 0, 1), 0).birth == 8


def test_notifications_with_places_in_a_causal_order_are_refused() -> None:
    stamped = StampedNote(TO, FROM, "note", b"x", count=1)
    link = LinkState(1, 5, 40, 20, [Note(TO, FROM, "note", b"x")], [stamped])
    with pytest.raises(SnapshotError, match="notifications for server 1 wait in a domain with causal order"):
        another_life(encode_header(header(link)), 0, 100)
