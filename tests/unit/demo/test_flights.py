"""The agents of the demo, in a harness."""

from quorate.demo.flights import (
    Airport,
    AskTotals,
    Carrier,
    Departed,
    Flown,
    Numbers,
    Probe,
    Pulse,
    Totals,
    flatten,
)
from quorate.demo.totals import series_totals
from quorate.testing.harness import Harness


def numbers_of(harness: Harness, name: str) -> Numbers:
    (answer,) = harness.send(name, AskTotals())
    assert isinstance(answer, Totals)
    return answer.numbers


def test_an_airport_counts_delays_by_hour_and_notifies_the_carrier() -> None:
    harness = Harness(0, {"s0": 0, "s1": 1})
    harness.deploy(Airport, "EWR")

    effects = [
        harness.post(harness.note("EWR", note))
        for note in (
            Departed(1, "UA", 5, 2, -11, 227, 1400),
            Departed(2, "UA", 16, None, None, None, 416),
            Departed(7, "EV", 5, -4, 3, 50, 300),
        )
    ]

    sent = [note for each in effects for _, note in each.network[1]]
    assert [note.to for note in sent] == ["UA", "UA", "EV"]
    assert harness.decoded(sent)[1] == Flown(2, None, None, 416)
    numbers = numbers_of(harness, "EWR")
    assert (numbers["count"], numbers["cancelled"], numbers["repeated"]) == (3, 1, 0)
    assert (numbers["delay_sum"], numbers["delay_min"], numbers["delay_max"]) == (-2, -4, 2)
    assert (numbers["flights_by_hour.05"], numbers["delay_by_hour.05"]) == (2, -2)
    assert (numbers["rows_sum"], numbers["rows_squared_sum"], numbers["last"]) == (10, 54, 7)


def test_a_carrier_counts_what_was_flown() -> None:
    harness = Harness()
    harness.deploy(Carrier, "UA")

    harness.send("UA", Flown(1, -11, 227, 1400))
    harness.send("UA", Flown(2, None, None, 416))

    numbers = numbers_of(harness, "UA")
    assert (numbers["count"], numbers["not_flown"]) == (2, 1)
    assert (numbers["air_time_sum"], numbers["distance_sum"], numbers["delay_sum"]) == (227, 1400, -11)


def test_an_agent_detects_a_repeated_notification() -> None:
    harness = Harness()
    harness.deploy(Pulse, "pulse")

    for row in (1, 2, 2, 3):
        harness.send("pulse", Probe(row))

    numbers = numbers_of(harness, "pulse")
    assert (numbers["count"], numbers["repeated"], numbers["last"]) == (4, 1, 3)


def test_probes_in_order_have_the_totals_of_the_series() -> None:
    harness = Harness()
    harness.deploy(Pulse, "pulse")

    for row in range(1, 12):
        harness.send("pulse", Probe(row))

    assert numbers_of(harness, "pulse") == series_totals(11)


def test_lists_are_flattened_by_position_and_absent_stays_absent() -> None:
    assert flatten({"a": 1, "b": None, "c": [4, 5]}) == {"a": 1, "b": None, "c.00": 4, "c.01": 5}
