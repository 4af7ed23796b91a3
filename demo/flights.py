"""The agents of the demo: one per airport of departure, one per carrier, and one that answers probes.

Their state is integers only, so that totals reached in different ways can be equal to the last digit. The
names of the attributes are the names of the totals; `demo.spark` computes the same without this code.
"""

from collections.abc import Mapping

import attrs

from ..agents import Agent, Context, Notification, reacts

HOURS = 24
CARRIER_SERVER = "s1"

Number = int | None
Numbers = dict[str, Number]


@attrs.frozen
class Departed(Notification):
    """A flight of the time-table. A delay is in minutes and absent when the flight was cancelled."""

    row: int
    carrier: str
    hour: int
    departure_delay_min: int | None
    arrival_delay_min: int | None
    air_time_min: int | None
    distance_miles: int


@attrs.frozen
class Flown(Notification):
    """The part of a flight that concerns its carrier; absent numbers mean cancelled or diverted."""

    row: int
    arrival_delay_min: int | None
    air_time_min: int | None
    distance_miles: int


@attrs.frozen
class AskTotals(Notification):
    """Asks an agent for its totals."""


@attrs.frozen
class Totals(Notification):
    """The answer: every number of the agent's state, by name."""

    numbers: Numbers


@attrs.frozen
class Probe(Notification):
    """One of a numbered series, which measures how long the cluster does not answer."""

    row: int


def flatten(state: Mapping[str, object]) -> Numbers:
    """Return the numbers of an agent's state by name; items of a list get ``.00``, ``.01``... after it."""
    numbers: Numbers = {}
    for name, value in state.items():
        if value is None or isinstance(value, int):
            numbers[name] = value
        elif isinstance(value, list):
            items: list[object] = value  # pyright: ignore[reportUnknownVariableType]
            numbers.update(
                {f"{name}.{at:02}": item for at, item in enumerate(items) if isinstance(item, int)}
            )
    return numbers


@attrs.define
class Counted(Agent):
    """Counts numbered notifications so that every loss and every repetition shows.

    Numbers arrive in ascending order (clients and servers are FIFO), so one that is not above the last was
    repeated.
    """

    count: int = 0
    last: int = 0
    repeated: int = 0
    rows_sum: int = 0
    rows_squared_sum: int = 0

    def note_row(self, row: int) -> None:
        """Count a notification by its number."""
        self.count += 1
        if row <= self.last:
            self.repeated += 1
        else:
            self.last = row
        self.rows_sum += row
        self.rows_squared_sum += row * row

    @reacts
    def totals(self, ctx: Context, _ask: AskTotals) -> None:
        """Answer with every number of the state."""
        ctx.send(ctx.sender, Totals(flatten(attrs.asdict(self))))


def _zeros() -> list[int]:
    return [0] * HOURS


@attrs.define
class Airport(Counted):
    """The departures of an airport. Sends each flight on to its carrier, which is on another server."""

    cancelled: int = 0
    delay_sum: int = 0
    delay_min: int | None = None
    delay_max: int | None = None
    flights_by_hour: list[int] = attrs.field(factory=_zeros)
    delay_by_hour: list[int] = attrs.field(factory=_zeros)

    @reacts
    def departed(self, ctx: Context, note: Departed) -> None:
        """Count the flight, and send it on to its carrier."""
        self.note_row(note.row)
        delay = note.departure_delay_min
        if delay is None:
            self.cancelled += 1
        else:
            self.delay_sum += delay
            self.delay_min = delay if self.delay_min is None else min(self.delay_min, delay)
            self.delay_max = delay if self.delay_max is None else max(self.delay_max, delay)
            self.flights_by_hour[note.hour] += 1
            self.delay_by_hour[note.hour] += delay
        flown = Flown(note.row, note.arrival_delay_min, note.air_time_min, note.distance_miles)
        ctx.send(f"{note.carrier}@{CARRIER_SERVER}", flown)


@attrs.define
class Carrier(Counted):
    """The flights of a carrier from all airports."""

    not_flown: int = 0
    delay_sum: int = 0
    delay_min: int | None = None
    delay_max: int | None = None
    air_time_sum: int = 0
    distance_sum: int = 0

    @reacts
    def flown(self, _ctx: Context, note: Flown) -> None:
        """Count the flight; distance is what was really flown."""
        self.note_row(note.row)
        delay = note.arrival_delay_min
        if delay is None:
            self.not_flown += 1
            return
        self.delay_sum += delay
        self.delay_min = delay if self.delay_min is None else min(self.delay_min, delay)
        self.delay_max = delay if self.delay_max is None else max(self.delay_max, delay)
        self.air_time_sum += note.air_time_min or 0
        self.distance_sum += note.distance_miles


@attrs.define
class Pulse(Counted):
    """Counts the probes that measure the failover."""

    @reacts
    def probe(self, _ctx: Context, note: Probe) -> None:
        """Count the probe."""
        self.note_row(note.row)
