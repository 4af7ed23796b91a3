"""Losses, repetitions and differences are found, whatever hides them."""

from quorate.demo.flights import Numbers
from quorate.demo.totals import Delivery, Difference, delivery, differences, overall, series_totals


def counted(*rows: int) -> Numbers:
    last = repeated = 0
    for row in rows:
        if row <= last:
            repeated += 1
        last = max(last, row)
    return {
        "count": len(rows),
        "last": last,
        "repeated": repeated,
        "rows_sum": sum(rows),
        "rows_squared_sum": sum(row * row for row in rows),
    }


def test_equal_sources_have_no_differences() -> None:
    way = {"EWR": counted(1, 2), "UA": counted(1)}

    assert differences([way, dict(way), dict(way)]) == []


def test_a_number_that_differs_in_one_source_is_named() -> None:
    found = differences([{"EWR": {"count": 2}}, {"EWR": {"count": 2}}, {"EWR": {"count": 3}}])

    assert found == [Difference("EWR", "count", (2, 2, 3))]
    assert str(found[0]) == "EWR.count: 2 / 2 / 3"


def test_an_agent_that_a_source_lacks_is_a_difference() -> None:
    assert [each.agent for each in differences([{"EWR": {"count": 2}}, {}])] == ["EWR"]
    assert [each.agent for each in differences([{"EWR": {}}, {}])] == ["EWR"]


def test_an_absent_number_is_not_the_same_as_none() -> None:
    assert differences([{"EWR": {"delay_min": None}}, {"EWR": {}}])


def test_all_delivered_once_is_zero_and_zero() -> None:
    assert delivery({"EWR": counted(1, 2, 5)}, {"EWR": counted(1, 2, 5)}) == Delivery(3, 0, 0)


def test_a_loss_and_a_repetition_do_not_cancel_out() -> None:
    assert delivery({"EWR": counted(1, 2, 3)}, {"EWR": counted(1, 2, 2)}) == Delivery(3, 1, 1)


def test_a_repetition_later_in_the_series_is_counted() -> None:
    assert delivery({"EWR": counted(1, 2, 3)}, {"EWR": counted(1, 2, 3, 1)}) == Delivery(3, 0, 1)


def test_a_stranger_in_place_of_a_row_is_a_loss_and_a_duplicate() -> None:
    assert delivery({"EWR": counted(1, 2, 3)}, {"EWR": counted(1, 2, 4)}) == Delivery(3, 1, 1)


def test_an_agent_that_does_not_answer_has_lost_everything() -> None:
    assert delivery({"EWR": counted(1, 2, 3)}, {}) == Delivery(3, 3, 0)


def test_overall_adds_up_what_is_known() -> None:
    assert overall({"a": {"x": 1}, "b": {"x": None}, "c": {"x": 2}}, ["a", "b", "c", "d"], "x") == 3


def test_the_series_of_no_probes_is_empty() -> None:
    assert series_totals(0) == counted()
    assert series_totals(4) == counted(1, 2, 3, 4)
