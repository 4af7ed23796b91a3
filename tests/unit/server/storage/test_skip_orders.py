"""Orders to skip a reaction, and what a replica says that it runs, as files."""

from pathlib import Path

import pytest

from quorate.server.storage.running_file import RunningReport, read_running, remove_running, write_running
from quorate.server.storage.skip_orders import SkipOrder, SkipOrders

ORDER = SkipOrder(17, 4242, 1_700_000_000_000_000_001)


def test_orders_are_kept_in_the_directory_until_they_are_removed(tmp_path: Path) -> None:
    orders = SkipOrders(tmp_path)
    assert orders.read() == frozenset()
    orders.add(ORDER)
    orders.add(ORDER)
    orders.add(SkipOrder(18, 4243, 1))
    assert SkipOrders(tmp_path).read() == {ORDER, SkipOrder(18, 4243, 1)}
    orders.remove(ORDER)
    orders.remove(ORDER)
    assert orders.read() == {SkipOrder(18, 4243, 1)}


def test_other_files_are_no_orders(tmp_path: Path) -> None:
    orders = SkipOrders(tmp_path)
    orders.add(ORDER)
    for name in ("17", "1.2", "1.2.x", "1.2.3.4", ".hidden", "1.2.-3", "1.2." + "9" * 30):
        (tmp_path / "skips" / name).touch()
    assert orders.read() == {ORDER}


def test_the_name_of_an_order_is_read_back() -> None:
    assert SkipOrder.parse(str(ORDER)) == ORDER
    with pytest.raises(ValueError, match=r"ENTRY\.POSITION\.BIRTH"):
        SkipOrder.parse("17.x.1")


def test_what_runs_is_written_read_and_removed(tmp_path: Path) -> None:
    report = RunningReport(1, 17, 9, 3.4, 4242, "#0.0.1025 'loop'", "shop:Loop", "shop:Add", "#0.0.1")
    assert read_running(tmp_path) is None
    write_running(tmp_path, report)
    assert read_running(tmp_path) == report
    assert report.reaction == SkipOrder(17, 4242, 9)
    assert report.sentence == (
        "entry 17 has been running for 3 s: agent #0.0.1025 'loop' (shop:Loop) reacts to shop:Add from "
        "#0.0.1, reaction 4242"
    )
    remove_running(tmp_path)
    assert read_running(tmp_path) is None


def test_a_damaged_file_says_nothing_and_code_of_the_platform_cannot_be_skipped(tmp_path: Path) -> None:
    (tmp_path / "running").write_bytes(b"{half")
    assert read_running(tmp_path) is None
    report = RunningReport(1, 17, 9, 3.4)
    assert report.reaction is None
    assert report.sentence.endswith("at present no code of an agent")
