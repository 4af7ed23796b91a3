"""Results of the jobs: plain values, ready for a table, for JSON or for a test."""

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

__all__ = [
    "AgentResult",
    "Cover",
    "Divergence",
    "Report",
    "RerunReport",
    "ServerReport",
    "Side",
    "Source",
    "Span",
    "TotalRow",
    "Totals",
]


@attrs.frozen(order=True)
class Span:
    """Positions ``first`` to ``last``, both included."""

    first: int
    last: int

    def __str__(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first}..{self.last}"

    def __len__(self) -> int:
        return self.last - self.first + 1


@attrs.frozen
class Source:
    """The trace of one incarnation of one replica."""

    replica: int
    incarnation: int
    rows: int
    """Rows in the files, duplicates counted."""
    span: Span
    """Lowest and highest position."""
    holes: tuple[Span, ...] = ()
    """Positions inside the span that have no row."""
    duplicates: tuple[Span, ...] = ()
    """Positions that have more than one row."""
    dropped: int = 0
    """Rows the writer says it could not write (disk full, or too slow a disk)."""
    accepted: str = ""
    """The first entry that ended otherwise when it was applied again, if that was accepted, and how."""

    def __str__(self) -> str:
        return f"replica {self.replica} (incarnation {self.incarnation})"


@attrs.frozen
class Cover:
    """The source from which some positions are taken when the replicas' traces are merged."""

    replica: int
    incarnation: int
    span: Span


@attrs.frozen
class Side:
    """The record of some of the replicas at a position where the replicas differ."""

    sources: tuple[tuple[int, int], ...]
    """(replica, incarnation) of those that recorded this."""
    values: Mapping[str, Any]
    """The columns in which the sides differ; bytes as hexadecimal text."""


@attrs.frozen
class Divergence:
    """The first position at which two replicas recorded different reactions."""

    position: int
    agent: str
    sides: tuple[Side, ...]
    later: int = 0
    """At least this many later positions differ too."""

    def __str__(self) -> str:
        parts: list[str] = []
        for side in self.sides:
            who = ", ".join(f"replica {replica} ({incarnation})" for replica, incarnation in side.sources)
            what = ", ".join(f"{name}={value!r}" for name, value in side.values.items())
            parts.append(f"{who}: {what}")
        more = f"; at least {self.later} later positions differ too" if self.later else ""
        return f"position {self.position}, agent {self.agent}: " + " | ".join(parts) + more


@attrs.frozen
class ServerReport:
    """The result for the traces of all replicas of one server."""

    server: str
    server_id: int
    sources: tuple[Source, ...]
    last: int
    """The highest position found."""
    uncovered: tuple[Span, ...] = ()
    """Positions from 1 to ``last`` that no replica has, though none was told to remove them."""
    divergence: Divergence | None = None
    cover: tuple[Cover, ...] = ()
    """The source of each range of positions, so that every position is read once."""
    compared: int = 0
    """Positions that two or more replicas have and that were compared."""
    alone: int = 0
    """Positions that only one replica has."""
    apart: tuple[int, ...] = ()
    """The replicas of which nothing was compared."""
    truncated: bool = False
    """Whether there were too many faulty places to list all of them."""
    names: tuple[str, ...] = ()
    """The names of the server in the files; more than one is a fault."""
    removed: int = 0
    """No replica has the positions up to this one: the retention of the traces has removed them."""

    @property
    def replicas(self) -> tuple[int, ...]:
        """The replicas that have a trace."""
        return tuple(sorted({source.replica for source in self.sources}))

    @property
    def problems(self) -> list[str]:
        """One sentence per fault; empty when the trace is whole and agreed."""
        found: list[str] = []
        if self.divergence is not None:
            found.append(f"{self.server}: {self.difference}")
        for source in self.sources:
            if source.duplicates:
                found.append(f"{self.server}: {source} has positions twice: {spans(source.duplicates)}")
            if source.holes:
                why = f" (its writer dropped {source.dropped} rows)" if source.dropped else ""
                found.append(f"{self.server}: {source} has a hole: {spans(source.holes)}{why}")
        if self.uncovered:
            found.append(f"{self.server}: not covered by any replica: {spans(self.uncovered)}")
        if len(self.names) > 1:
            found.append(f"{self.server}: server {self.server_id} has several names: {', '.join(self.names)}")
        if len(self.replicas) > 1:
            found += [
                f"{self.server}: nothing of replica {replica} was compared: no other one has its positions"
                for replica in self.apart
            ]
        if self.truncated:
            found.append(f"{self.server}: there are more faults than were listed")
        return found

    @property
    def ok(self) -> bool:
        """Whether there is no fault."""
        return not self.problems

    @property
    def notes(self) -> list[str]:
        """One sentence for each thing that is no fault and limits what the comparison tells."""
        found = [
            f"{self.server}: {source} was started with --accept-code-change: {source.accepted}"
            for source in self.sources
            if source.accepted
        ]
        if self.removed:
            found.append(f"{self.server}: {self.retained}")
        replicas = self.replicas
        if len(replicas) == 1:
            only = f"only replica {replicas[0]} has a readable trace"
            found.append(f"{self.server}: {only}, so it was compared with no other")
        elif self.alone:
            found.append(
                f"{self.server}: {self.alone:,} positions are in the trace of one replica only, not compared"
            )
        return found

    @property
    def retained(self) -> str:
        """What the retention of the traces has left, as the rest of a sentence about the server."""
        return f"the positions up to {self.removed:,} were removed by the retention of its traces"

    @property
    def difference(self) -> str:
        """The first difference as the rest of a sentence about the server; "" if there is none."""
        if self.divergence is None:
            return ""
        differing = {source for side in self.divergence.sides for source in side.sources}
        changed = [
            f"{source} was started with --accept-code-change"
            for source in self.sources
            if source.accepted and (source.replica, source.incarnation) in differing
        ]
        return "; ".join([f"the traces differ at {self.divergence}", *changed])

    @property
    def agreement(self) -> str:
        """One sentence: which replicas agree, and at how many positions; "" if that cannot be said."""
        if not self.compared or not self.ok:
            return ""
        *former, last = (str(replica) for replica in self.replicas)
        replicas = f"replicas {', '.join(former)} and {last}"
        shared = f"all {self.compared:,} positions that two or more of them have"
        return f"{self.server}: {replicas} agree at {shared}"


@attrs.frozen
class Report:
    """The outcome of ``verify``."""

    servers: tuple[ServerReport, ...]
    bad_files: tuple[str, ...] = ()
    """One line per file or directory that could not be used, with its path. The rest of the report stands
    without it."""
    absent: tuple[str, ...] = ()
    """One line per replica that has no trace and ought to have one."""
    remarks: tuple[str, ...] = ()
    """One line for each file that was left out, and each replica that has no trace, without a fault."""
    files: int = 0
    rows: int = 0
    program: str = ""
    """What has read the files: Spark or DuckDB, with the version."""
    seconds: float = 0.0

    @property
    def problems(self) -> list[str]:
        """One sentence per fault, those of unreadable files and of missing replicas included."""
        faults = [problem for server in self.servers for problem in server.problems]
        return [*self.bad_files, *self.absent, *faults]

    @property
    def notes(self) -> list[str]:
        """One sentence for each thing that is no fault and limits what the comparison tells."""
        return [*self.remarks, *(note for server in self.servers for note in server.notes)]

    @property
    def doubts(self) -> list[str]:
        """The problems that may change what a reader of the merged traces finds, such as totals."""
        found = [f"{server.server}: {server.difference}" for server in self.servers if server.divergence]
        found += [
            f"{server.server}: not covered by any replica: {spans(server.uncovered)}"
            for server in self.servers
            if server.uncovered
        ]
        found += [f"{server.server}: {server.retained}" for server in self.servers if server.removed]
        return [*self.bad_files, *found]

    @property
    def ok(self) -> bool:
        """Whether every trace is whole, readable, and agreed on by all replicas."""
        return not self.problems

    def server(self, name_or_id: str | int) -> ServerReport:
        """Return the report of one server, or raise KeyError."""
        for server in self.servers:
            if name_or_id in (server.server, server.server_id):
                return server
        raise KeyError(name_or_id)


@attrs.frozen
class AgentResult:
    """The result of running one agent's reactions again."""

    server: str
    agent: str
    cls: str
    reactions: int
    """Reactions that were run again."""
    errors: int
    """The number of those that are recorded as having raised."""
    first: int
    last: int
    """First and last position run again."""
    state: Mapping[str, Any] | None
    """The final state as JSON values; None when deleted or not known."""
    deleted: bool = False
    diverged: int | None = None
    """The first position whose outputs, or state in a snapshot, differ from the recorded ones."""
    skipped: str = ""
    """One sentence: why the agent was not run again; "" if it was."""
    omitted: int = 0
    """Reactions that were not run again, because the administrator skipped them."""
    difference: str = ""
    """The difference at ``diverged``, in one sentence."""
    different: int = 0
    """How many reactions were not as recorded."""
    breached: int | None = None
    """The first position after which the condition held that was looked for; None if it never did."""
    breach: str = ""
    """Why the condition could not be evaluated there; "" if it could."""
    looked: bool = False
    """Whether a condition was given that says something of this agent."""
    begins: int | None = None
    """The position of the snapshot with which the rerun began; None: it began with the agent's creation."""


@attrs.frozen
class RerunReport:
    """The outcome of ``rerun``."""

    agents: tuple[AgentResult, ...]
    seconds: float = 0.0

    @property
    def reactions(self) -> int:
        """The number of reactions that were run again."""
        return sum(agent.reactions for agent in self.agents)

    @property
    def problems(self) -> list[str]:
        """A sentence per agent whose outputs differ, and per class and reason of those not run again."""
        found: list[str] = []
        skipped: dict[tuple[str, str, str], list[str]] = {}
        for agent in self.agents:
            if agent.diverged is not None:
                found.append(
                    f"{agent.server}: agent {agent.agent} ({agent.cls}) does something else at position "
                    f"{agent.diverged}: {agent.difference}"
                )
            if agent.skipped:
                skipped.setdefault((agent.server, agent.cls, agent.skipped), []).append(agent.agent)
        for (server, cls, why), agents in skipped.items():
            more = f" and {len(agents) - 1} others" if len(agents) > 1 else ""
            found.append(f"{server}: agent {agents[0]}{more} ({cls}) not run again: {why}")
        return found

    @property
    def notes(self) -> list[str]:
        """A sentence per agent of which reactions were not run again without a fault, or if there is none."""
        if not self.agents:
            return ["no agent reacted, so none was run again"]
        middle = [agent for agent in self.agents if agent.begins is not None and not agent.skipped]
        begun = (
            [
                f"{middle[0].server}: agent {middle[0].agent} ({middle[0].cls}) was created before the trace "
                f"begins, and run again from its snapshot at {middle[0].begins}"
                + (f"; so were {len(middle) - 1} others" if len(middle) > 1 else "")
            ]
            if middle
            else []
        )
        return begun + [
            f"{agent.server}: agent {agent.agent} ({agent.cls}): the administrator skipped {agent.omitted} "
            "of its reactions, so they were not run again"
            for agent in self.agents
            if agent.omitted
        ]

    @property
    def ok(self) -> bool:
        """Whether every agent was run again and did what the trace says."""
        return not self.problems

    def agent(self, agent: str, server: str | None = None) -> AgentResult:
        """Return the result of one agent by its id ("#0.0.1025"), or raise KeyError."""
        for result in self.agents:
            if result.agent == agent and server in (None, result.server):
                return result
        raise KeyError(agent)

    def state(self, agent: str, server: str | None = None) -> Mapping[str, Any] | None:
        """Return the final state of one agent as JSON values; None when it was deleted."""
        return self.agent(agent, server).state


@attrs.frozen
class TotalRow:
    """Counts of one type of notification for the agents of one class."""

    server: str
    cls: str
    kind: str
    type: str
    reactions: int
    errors: int
    agents: int
    """The number of agents that got it."""
    payload_bytes: int


@attrs.frozen
class Totals:
    """The outcome of ``totals``."""

    rows: tuple[TotalRow, ...]
    seconds: float = 0.0

    @property
    def reactions(self) -> int:
        """The number of reactions in all rows."""
        return sum(row.reactions for row in self.rows)

    @property
    def errors(self) -> int:
        """The number of reactions that raised."""
        return sum(row.errors for row in self.rows)


def spans(found: Sequence[Span], limit: int = 5) -> str:
    """Return a few spans as text."""
    text = ", ".join(str(span) for span in found[:limit])
    return text if len(found) <= limit else f"{text} and {len(found) - limit} more"
