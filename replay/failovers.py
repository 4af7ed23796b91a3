"""The report of failovers: when another replica became master, and how long nothing was done."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import attrs
import msgspec

from .discovery import Traces
from .frames import Progress, Trace
from .job import start
from .queries import Session, values
from .reports import Report
from .schema import EVENTS_SUFFIX

__all__ = ["Failover", "FailoverReport", "failovers"]

MAX_INDEX = 2**62
PARTS = "parts(part_server, low, high)"
TIMES = """
SELECT part_server, low, high, min(now_ns) AS first_ns, max(now_ns) AS last_ns
FROM {rows} JOIN {parts} ON server_id = part_server AND index > low AND index <= high
GROUP BY part_server, low, high
"""
"""The times of the entries between two changes of the master."""

MAX_FAILOVERS = 500
"""Changes of the master that are reported, the latest ones."""


@attrs.frozen
class Failover:
    """A change of the master."""

    server_id: int
    server: str
    view: str
    """The number of the view in which the new master serves."""
    index: int
    """The last entry of the view before."""
    former: int
    """The replica that was master before."""
    master: int
    reason: str
    noticed_ns: int
    """When the new master had the view, in nanoseconds since 1970 on its clock; 0 if its events lack it."""
    serving_ns: int
    """When its networks and services were started; 0 if they were not, or its events lack it."""
    last_ns: int = 0
    """The time of the last entry with reactions before the change; 0 if there is none."""
    first_ns: int = 0
    """The time of the first one after it; 0 if there is none."""

    @property
    def silence_s(self) -> float | None:
        """Seconds without a reaction around the change, also if there was nothing to do; None if unknown."""
        return (self.first_ns - self.last_ns) / 1e9 if self.first_ns and self.last_ns else None

    @property
    def takeover_s(self) -> float | None:
        """Seconds from the last entry before the change until the new master served; None if unknown."""
        return (self.serving_ns - self.last_ns) / 1e9 if self.serving_ns and self.last_ns else None


@attrs.frozen
class FailoverReport:
    """The outcome of `failovers`."""

    failovers: tuple[Failover, ...]
    """In the order of servers and entries."""
    problems: tuple[str, ...] = ()
    """One sentence for each file of events that cannot be read, and what makes the rows incomplete."""
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether everything could be read."""
        return not self.problems


def failovers(
    session: Session,
    traces: Traces | Trace,
    *,
    server: str | int | None = None,
    report: Report | None = None,
    progress: Progress | None = None,
) -> FailoverReport:
    """Find every change of the master, and how long its server was silent.

    It reads the events beside the trace files: views and mastership, each with the time on the clock of the
    replica that has noticed it. A ``report`` of `verify` on the same files saves a pass over them.
    Raises NoTrace when nothing can be read, ReplayError when the session fails.
    """
    job = start(session, traces, server=server, report=report, progress=progress)
    job.step("reading views and roles")
    events, problems = read_events({path.parent for path in job.trace.files.paths})
    changes = find_changes([each for each in events if each.server_id in job.names])
    notes: list[str] = []
    if len(changes) > MAX_FAILOVERS:
        notes.append(f"the first {len(changes) - MAX_FAILOVERS:,} changes of the master are left out")
        changes = changes[-MAX_FAILOVERS:]
    told = {each.server_id for each in events}
    notes += [
        f"{name}: no file of events lies beside its traces, so its changes of the master are not known"
        for number, name in job.names.items()
        if number not in told
    ]
    if changes:
        changes = with_times(changes, job.ask(TIMES, parts=values(parts_of(changes), PARTS)))
    return FailoverReport(tuple(changes), (*problems, *job.report.doubts), tuple(notes), job.seconds)


class Event(msgspec.Struct):
    """One line of a file of events."""

    server: str
    server_id: int
    replica: int
    event: str
    at_ns: int
    reason: str = ""
    view: Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,18}(\.[0-9]{1,18})?$")] = "0"
    """For ``view``: its number, and the replica that has proposed it."""
    index: int = 0
    """For ``view``: the last entry before it."""
    master: int = -1
    """For ``view``."""

    @property
    def order(self) -> tuple[int, ...]:
        """The number of the view as numbers, which are ordered as the views are."""
        return tuple(int(part) for part in self.view.split("."))


_decode = msgspec.json.Decoder(Event).decode


def read_events(directories: Iterable[Path]) -> tuple[list[Event], list[str]]:
    """Return the events in some directories, and a sentence for each file that is damaged."""
    events: list[Event] = []
    problems: list[str] = []
    for path in sorted(path for each in directories for path in each.glob(f"*{EVENTS_SUFFIX}")):
        try:
            lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        except (OSError, UnicodeDecodeError) as error:
            problems.append(f"{path}: it cannot be read: {error}")
            continue
        for number, line in enumerate(lines, 1):
            try:
                events.append(_decode(line))
            except msgspec.DecodeError:
                # A process that was killed has perhaps not written the end of its last line.
                if number < len(lines) or line.endswith("\n"):
                    problems.append(f"{path}: line {number} is no event")
    return events, problems


def find_changes(events: Sequence[Event]) -> list[Failover]:
    """Return the changes of the master, in the order of servers and views, without the times of entries."""
    views: dict[tuple[int, tuple[int, ...]], Event] = {}
    noticed: dict[tuple[int, tuple[int, ...]], int] = {}
    serving: dict[tuple[int, int], list[int]] = {}
    for event in events:
        if event.event == "view":
            key = (event.server_id, event.order)
            views.setdefault(key, event)
            if event.replica == event.master:
                noticed[key] = event.at_ns
        elif event.event == "master":
            serving.setdefault((event.server_id, event.replica), []).append(event.at_ns)
    changes: list[Failover] = []
    former: dict[int, int] = {}
    for key, event in sorted(views.items()):
        server, master = key[0], event.master
        before = former.get(server, master)
        former[server] = master
        if before != master:
            at_ns = noticed.get(key, 0)
            served = [each for each in serving.get((server, master), ()) if at_ns and each >= at_ns]
            changes.append(
                Failover(
                    server,
                    event.server,
                    event.view,
                    event.index,
                    before,
                    master,
                    event.reason,
                    at_ns,
                    min(served, default=0),
                )
            )
    return changes


def parts_of(changes: Sequence[Failover]) -> list[tuple[int, int, int]]:
    """Return the entries between the changes: server, the last entry before, and the last entry of it."""
    found: list[tuple[int, int, int]] = []
    for server in {each.server_id for each in changes}:
        ends = sorted({each.index for each in changes if each.server_id == server})
        found += [(server, low, high) for low, high in pairwise([-1, *ends, MAX_INDEX])]
    return found


def with_times(changes: Sequence[Failover], times: Sequence[dict[str, Any]]) -> list[Failover]:
    """Add the times of the entries before and after each change, from those of the parts between them."""
    timed: list[Failover] = []
    for each in changes:
        own = [part for part in times if part["part_server"] == each.server_id]
        last_ns = max((part["last_ns"] for part in own if part["high"] <= each.index), default=0)
        first_ns = min((part["first_ns"] for part in own if part["low"] >= each.index), default=0)
        timed.append(attrs.evolve(each, last_ns=last_ns, first_ns=first_ns))
    return timed
