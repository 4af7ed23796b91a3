"""The check of order, on the traces of two servers, with one place put out of order after the other."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from quorate.engine import Reaction
from quorate.replay import OrderReport, order

from .two_servers import TOURS, Rows, Tour, World, write

pytestmark = pytest.mark.spark


def check(session: Any, data: Path, rows: Rows) -> OrderReport:
    write(data, rows)
    return order(session, data)


def swapped(rows: list[Reaction], first: int, second: int) -> list[Reaction]:
    """Let two notifications come at each other's positions."""
    places = ("position", "index", "step", "now_ns")
    changed = [*rows]
    for own, other in ((first, second), (second, first)):
        taken = {name: getattr(rows[other], name) for name in places}
        changed[other] = msgspec.structs.replace(rows[own], **taken)
    return changed


def test_all_that_two_servers_send_each_other_is_in_order(session: Any, tmp_path: Path) -> None:
    found = check(session, tmp_path, World().rows)
    assert found.problems == []
    assert (found.notifications, found.pairs) == (3 * TOURS, 3)


def test_notifications_of_one_sender_that_change_places_are_found(session: Any, tmp_path: Path) -> None:
    rows = World().rows
    first, second = [place for place, row in enumerate(rows["s1"]) if row.link == 0][4:6]
    rows["s1"] = swapped(rows["s1"], first, second)
    found = {each.rule: each for each in check(session, tmp_path, rows).disorders}
    assert found["sender"].position == found["link"].position == rows["s1"][second].position
    assert "gets what #0.0.1025 sent at position" in str(found["sender"])


def test_an_effect_before_its_cause_is_found(session: Any, tmp_path: Path) -> None:
    rows = World().rows
    own = [place for place, row in enumerate(rows["s1"]) if row.type == Tour.type_name and row.link < 0]
    place = own[3]
    rows["s1"][place] = msgspec.structs.replace(rows["s1"][place], cause=rows["s1"][place].position + 5)
    found = [each for each in check(session, tmp_path, rows).disorders if each.rule == "effect"]
    assert [(each.server, each.position) for each in found] == [("s1", rows["s1"][place].position)]


def test_a_log_that_goes_back_is_found(session: Any, tmp_path: Path) -> None:
    rows = World().rows
    rows["s0"][9] = msgspec.structs.replace(rows["s0"][9], now_ns=rows["s0"][8].now_ns - 1)
    (found,) = check(session, tmp_path, rows).disorders
    assert (found.server, found.position, found.rule) == ("s0", rows["s0"][9].position, "log")
