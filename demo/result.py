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
    """The three ways compared."""

    from_agents: TotalsByAgent
    """What the agents answered when they were asked."""
    from_traces: TotalsByAgent
    """The reactions of the traces run again on Spark."""
    from_csv: TotalsByAgent
    """Spark SQL over the CSV."""
    differences: tuple[Difference, ...]
    delivery: Delivery
    replicas_agree: bool
    remarks: tuple[str, ...] = ()
    """One line per finding of the replay, for example where two replicas differ."""

    @property
    def totals_equal(self) -> bool:
        """Whether every number is the same on all three ways."""
        return not self.differences

    @property
    def good(self) -> bool:
        """Whether nothing was lost, nothing came twice, and everything agrees."""
        delivered = not self.delivery.lost and not self.delivery.duplicated
        return self.totals_equal and self.replicas_agree and delivered


@attrs.frozen
class Result:
    """A whole run."""

    rows: int
    notifications: int
    """Reactions that the flights caused in airports and carriers: two per flight."""
    seconds: float
    """From sending the first flight until every carrier had got its last one."""
    failover_ms: float | None
    """From SIGKILL to the first acknowledgement of something sent after it; None if nothing was killed."""
    timeline: Timeline
    verdict: Verdict
    airports: tuple[str, ...]
    carriers: Mapping[str, str]
    """Code -> name."""
    command_line: str = ""
    total_seconds: float = 0.0

    @property
    def killed_s(self) -> float | None:
        """When the demo killed the master, in seconds since the first flight was sent."""
        if self.failover_ms is None:
            return None
        answers = [event.at_s for event in self.timeline.events if event.kind == "answered"]
        return answers[0] - self.failover_ms / 1000 if answers else None

    @property
    def notifications_per_s(self) -> float:
        """Mean rate over `seconds`."""
        return self.notifications / self.seconds if self.seconds else 0.0

    def summary(self, report: str | None) -> dict[str, str | float | int | bool | None]:
        """The numbers for ``--json``."""
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
