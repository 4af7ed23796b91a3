"""The result of a run of the demo."""

from collections.abc import Mapping

import attrs

from .totals import Delivery, Difference, TotalsByAgent


@attrs.frozen
class Killed:
    """A master that the demo killed."""

    replica: int
    pid: int
    at_s: float
    """Monotonic clock, right after the signal was sent."""


@attrs.frozen
class Event:
    """Something that happened to the cluster while flights were fed."""

    at_s: float
    """Seconds since the first flight was sent."""
    kind: str
    """``killed``, ``answered`` (the first answer after the demo's kill), ``master``, ``back`` or ``gone``."""
    text: str


@attrs.define
class Timeline:
    """Measurements taken while flights were fed; times are seconds since the first one was sent."""

    samples: list[tuple[float, int]] = attrs.field(factory=list[tuple[float, int]])
    """(time, flights acknowledged so far)."""
    probes: list[tuple[float, float]] = attrs.field(factory=list[tuple[float, float]])
    """(time of sending, milliseconds until the acknowledgement)."""
    events: list[Event] = attrs.field(factory=list[Event])


@attrs.frozen
class Verdict:
    """The totals of the three sources, compared."""

    from_agents: TotalsByAgent
    """The answers of the agents to `AskTotals`."""
    from_traces: TotalsByAgent
    """The states after the traced reactions were run again on Spark."""
    from_csv: TotalsByAgent
    """The results of Spark SQL over the CSV."""
    differences: tuple[Difference, ...]
    delivery: Delivery
    replicas_agree: bool
    remarks: tuple[str, ...] = ()
    """One line per finding of the replay, for example where two replicas differ."""

    @property
    def totals_equal(self) -> bool:
        """Every number is the same in all three sources."""
        return not self.differences

    @property
    def good(self) -> bool:
        """Nothing was lost, nothing came twice, and all totals and replicas agree."""
        delivered = not self.delivery.lost and not self.delivery.duplicated
        return self.totals_equal and self.replicas_agree and delivered


@attrs.frozen
class Result:
    """A whole run."""

    rows: int
    notifications: int
    """Reactions that the flights caused in airports and carriers: two per flight."""
    seconds: float
    """Time from sending the first flight until every carrier had its last one."""
    failover_ms: float | None
    """Time from SIGKILL to the first acknowledgement of a probe sent after it; None if nothing was killed."""
    timeline: Timeline
    verdict: Verdict
    airports: tuple[str, ...]
    carriers: Mapping[str, str]
    """Names by code."""
    command_line: str = ""
    total_seconds: float = 0.0

    @property
    def killed_s(self) -> float | None:
        """The time at which the demo killed the master, in seconds since the first flight was sent."""
        if self.failover_ms is None:
            return None
        answers = [event.at_s for event in self.timeline.events if event.kind == "answered"]
        return answers[0] - self.failover_ms / 1000 if answers else None

    @property
    def notifications_per_s(self) -> float:
        """The mean rate over `seconds`."""
        return self.notifications / self.seconds if self.seconds else 0.0

    def summary(self, report: str | None) -> dict[str, str | float | int | bool | None]:
        """Return the numbers for ``--json``."""
        return {
            "rows": self.rows,
            "notifications": self.notifications,
            "seconds": round(self.seconds, 3),
            "notifications_per_s": round(self.notifications_per_s, 1),
            "failover_ms": None if self.failover_ms is None else round(self.failover_ms, 1),
            "lost": self.verdict.delivery.lost,
            "duplicated": self.verdict.delivery.duplicated,
            "totals_equal": self.verdict.totals_equal,
            "replicas_agree": self.verdict.replicas_agree,
            "report": report,
        }
