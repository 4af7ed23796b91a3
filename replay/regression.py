"""New code on old traffic: what agents do otherwise, and where a condition first holds."""

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from .agent_rerun import watch_of
from .discovery import Traces
from .errors import ReplayError
from .frames import Progress, Trace
from .job import Job, start
from .queries import Session
from .reports import AgentResult, Report, RerunReport
from .rerun_job import Selection, run_again

__all__ = ["AgentChange", "BisectReport", "Breach", "RegressionReport", "bisect", "regress"]

MAX_CHANGES = 1000
"""Agents that are listed."""


@attrs.frozen
class AgentChange:
    """An agent that does something else with the new code."""

    server: str
    agent: str
    cls: str
    reactions: int
    different: int
    """Reactions whose outputs or errors are not those of the trace."""
    position: int | None
    """The first of them; None if only the final state differs."""
    difference: str
    """What is different there."""
    state: Mapping[str, tuple[Any, Any]]
    """The attributes whose final values differ: with the code before, and with the new code."""

    def __str__(self) -> str:
        text = f"{self.server}: agent {self.agent} ({self.cls})"
        if self.position is not None:
            text += f" does something else at position {self.position} and {self.different - 1:,} later ones"
            text += f": {self.difference}"
        for name, (before, after) in list(self.state.items())[:3]:
            text += f"; {name} ends as {after!r}, and was {before!r}"
        return text


@attrs.frozen
class RegressionReport:
    """The outcome of `regress`."""

    changes: tuple[AgentChange, ...]
    """Those with the earliest difference first."""
    more: int
    """Changed agents that are not listed."""
    agents: int
    reactions: int
    different: int
    not_run: tuple[str, ...]
    """One sentence for each reason why agents were not run."""
    notes: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def problems(self) -> list[str]:
        """One sentence per agent that does something else, and per reason why some were not run."""
        found = [*self.doubts, *(str(change) for change in self.changes), *self.not_run]
        if self.more:
            found.append(f"{self.more:,} more agents do something else")
        return found

    @property
    def ok(self) -> bool:
        """Whether the new code does all that the trace says, and ends in the same states."""
        return not self.problems


def regress(
    session: Session,
    traces: Traces | Trace,
    code: Sequence[str],
    *,
    before: Sequence[str] = (),
    server: str | int | None = None,
    report: Report | None = None,
    progress: Progress | None = None,
) -> RegressionReport:
    """Run new code of agents on the recorded notifications, and compare outputs and final states.

    ``code`` are directories in which the modules of the agents are looked for first; ``before`` the same for
    the code that has written the trace, where nothing means what this process imports. Each agent gets the
    notifications of the trace, also where the new code of others would have sent something else. A
    ``report`` of `verify` on the same files saves a pass over them.
    Raises NoTrace when nothing can be read, ReplayError when the session fails.
    """
    job = start(session, traces, server=server, report=report, progress=progress)
    job.step(f"running {job.reactions:,} reactions with the code before")
    old = {(each.server, each.agent): each for each in run_again(job, Selection(code=before))}
    job.step(f"running {job.reactions:,} reactions with the new code")
    new = run_again(job, Selection(code=code))
    changes = [change for each in new if (change := compared(each, old.get((each.server, each.agent))))]
    changes.sort(key=lambda change: (change.position is None, change.position or 0, change.server))
    skipped = RerunReport(tuple(attrs.evolve(each, diverged=None) for each in new))
    return RegressionReport(
        tuple(changes[:MAX_CHANGES]),
        max(0, len(changes) - MAX_CHANGES),
        len(new),
        sum(each.reactions for each in new),
        sum(each.different for each in new),
        tuple(skipped.problems),
        notes_on([*old.values()]),
        tuple(job.report.doubts),
        job.seconds,
    )


def compared(new: AgentResult, old: AgentResult | None) -> AgentChange | None:
    """Return what is different about an agent; None if nothing is, or if the new code was not run."""
    if new.skipped:
        return None
    known = old is not None and not old.skipped
    changed = differing((old.state if old else None) or {}, new.state or {}) if known else {}
    if new.diverged is None and not changed:
        return None
    return AgentChange(
        new.server,
        new.agent,
        new.cls,
        new.reactions,
        new.different,
        new.diverged,
        new.difference,
        changed,
    )


def differing(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return the attributes whose values differ, those included that only one side has."""
    return {
        name: (before.get(name), after.get(name))
        for name in [*before, *(name for name in after if name not in before)]
        if before.get(name) != after.get(name) or (name in before) != (name in after)
    }


def notes_on(old: Sequence[AgentResult]) -> tuple[str, ...]:
    """Return what limits the comparison: where the code before is not that of the trace."""
    notes: list[str] = []
    other = [each for each in old if each.diverged is not None]
    unknown = [each for each in old if each.skipped]
    if other:
        notes.append(
            f"the code before does not do what the trace says either, for {len(other):,} agents, the first "
            f"at position {min(each.diverged or 0 for each in other)}: is it the code of that time?"
        )
    if unknown:
        notes.append(
            f"{len(unknown):,} agents could not be run with the code before, so their final states are not "
            f"compared: {unknown[0].skipped}"
        )
    return tuple(notes)


@attrs.frozen
class Breach:
    """The first reaction after which a condition held for an agent."""

    server: str
    agent: str
    cls: str
    position: int
    at_ns: int
    type: str
    sender: str
    cause: int
    before: Mapping[str, Any] | None
    """The state before the reaction; None if it was its first one."""
    after: Mapping[str, Any] | None


@attrs.frozen
class BisectReport:
    """The outcome of `bisect`."""

    breaches: tuple[Breach, ...]
    """The first one of each server that has one."""
    agents: int
    """Agents that have what the condition names."""
    breached: int
    """Agents for which the condition held at some time."""
    problems: tuple[str, ...] = ()
    """Conditions that cannot be evaluated, agents that were not run, and what makes the result incomplete."""
    seconds: float = 0.0


def bisect(
    session: Session,
    traces: Traces | Trace,
    condition: str,
    *,
    agent: str | None = None,
    cls: str = "",
    code: Sequence[str] = (),
    server: str | int | None = None,
    report: Report | None = None,
    progress: Progress | None = None,
) -> BisectReport:
    """Find the first notification of each server after which a condition holds for an agent.

    ``condition`` is a Python expression over the attributes of the agent, such as ``balance < 0``. It is
    evaluated after each reaction, in one pass, so it need not hold from there on. Agents that lack an
    attribute it names are passed over. ``agent`` ("#0.0.1025") or ``cls``, the name of a class, leave the
    others out.
    Raises NoTrace when nothing can be read, ReplayError when the session fails or the condition is none.
    """
    try:
        watch_of(condition, cls)
    except ValueError as error:
        raise ReplayError(f"{error}.") from error
    job = start(session, traces, server=server, report=report, progress=progress)
    job.step(f"looking at agents after each of {job.reactions:,} reactions")
    results = run_again(job, Selection(agent=agent, code=code, condition=condition, cls=cls))
    failed = [each for each in results if each.breach]
    found = [each for each in results if each.breached is not None and not each.breach]
    first: dict[str, AgentResult] = {}
    for each in sorted(found, key=lambda each: each.breached or 0):
        first.setdefault(each.server, each)
    problems = [
        f"{each.server}: agent {each.agent} ({each.cls}), at position {each.breached}: {each.breach}"
        for each in failed
    ]
    looked = sum(each.looked for each in results)
    if not looked:
        problems.append(f"no agent was found that has all attributes of the condition {condition!r}")
    problems += RerunReport(tuple(attrs.evolve(each, diverged=None) for each in results)).problems
    return BisectReport(
        tuple(breach(job, each, code) for each in first.values()),
        looked,
        len(found),
        (*job.report.doubts, *problems),
        job.seconds,
    )


WHERE = """
SELECT position, now_ns, type, sender, cause FROM {rows}
WHERE server_id = {server_id} AND position = {position}
"""


def breach(job: Job, result: AgentResult, code: Sequence[str]) -> Breach:
    """Return the reaction after which the condition first held, and the states around it."""
    at = result.breached or 0
    server_id = next(number for number, name in job.names.items() if name == result.server)
    row = job.ask(WHERE, server_id=server_id, position=at)[0]
    states = [
        next(
            (
                each.state
                for each in run_again(job, Selection(result.agent, place, code=code))
                if each.server == result.server
            ),
            None,
        )
        for place in (at - 1, at)
    ]
    return Breach(
        result.server,
        result.agent,
        result.cls,
        at,
        row["now_ns"],
        row["type"],
        row["sender"],
        row["cause"],
        states[0],
        states[1],
    )
