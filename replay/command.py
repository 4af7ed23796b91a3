"""``quorate replay``: the jobs on the command line."""

import json
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Any

import attrs
import click

from .chains import chain, slowest
from .errors import ReplayError
from .exactly_once import exactly_once
from .failovers import failovers
from .garbage import garbage
from .hot import DEFAULT_TOP, hot
from .live import compare, not_compared, read_live
from .mesh_audit import audit_mesh
from .monitoring import FAULTS, monitor
from .options import (
    COULD_NOT_RUN,
    EXITS,
    WENT_WRONG,
    Options,
    fail,
    finish,
    job_options,
    master_option,
    memory_option,
    opened,
    opened_files,
    present,
    py_files_option,
    show_doubts,
    write_report,
)
from .order import order
from .queries import queries_of
from .regression import bisect, regress
from .rerun_job import rerun, state_at
from .session import spark_session
from .tables import (
    as_json,
    bisect_page,
    chain_page,
    exactly_once_page,
    failovers_page,
    garbage_page,
    hot_page,
    mesh_page,
    order_page,
    regress_page,
    show_page,
    slowest_page,
    totals_page,
    verify_page,
    workload_page,
)
from .totals import totals
from .workload import MAX_ROWS, workload

__all__ = ["command"]

top_option = click.option(
    "--top",
    type=click.IntRange(1, 10_000),
    default=DEFAULT_TOP,
    show_default=True,
    metavar="N",
    help="How many are listed.",
)


def code_option(text: str, *, required: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the option for the directories of agents' code."""
    place = click.Path(exists=True, file_okay=False)
    return click.option(
        "--code", metavar="DIRECTORY", multiple=True, required=required, type=place, help=text
    )


@click.group(name="replay")
def command() -> None:
    """Check, count and run again what the servers traced.

    TRACE is a data directory (all traces below it are taken), a trace file or a glob.
    """


@command.command("verify", epilog=EXITS)
@job_options
@click.option("--no-rerun", is_flag=True, help="Compare the replicas only; do not run the agents again.")
@click.option(
    "--live",
    metavar="STATE.json",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Compare the final states with these, as `quorate inspect --json` prints them.",
)
@click.pass_context
def verify_command(ctx: click.Context, options: Options, no_rerun: bool, live: Path | None) -> None:
    """Check that every replica's trace is whole, that they agree, and that the agents do it again."""
    if live is not None and no_rerun:
        raise click.UsageError("--live needs the agents to be run again; leave out --no-rerun.")
    states = None if live is None else live_states(live)
    with opened(options) as job:
        report = job.report
        again = None if no_rerun else rerun(job.session, job.trace, report=report, progress=job.step)
    differences = [] if again is None or states is None else compare(again, states)
    uncompared = [] if again is None or states is None else not_compared(again, states)
    notes = [*report.notes, *(again.notes if again else ()), *uncompared]
    diverged = [] if again is None else [agent for agent in again.agents if agent.diverged is not None]
    if report.problems or diverged or differences:
        status = WENT_WRONG
    elif again is not None and not again.ok:
        status = COULD_NOT_RUN
    else:
        status = 0
    problems = [*report.problems, *(again.problems if again else ()), *differences]
    value = {"ok": not status, "problems": problems, "notes": notes, "verify": report, "rerun": again}
    finish(ctx, options, job, verify_page(report, again, problems, notes), value, status=status)


@command.command("exactly-once", epilog=EXITS)
@job_options
@click.pass_context
def exactly_once_command(ctx: click.Context, options: Options) -> None:
    """Check that what agents sent to agents arrived, and arrived once."""
    with opened(options) as job:
        audit = exactly_once(job.session, job.trace, report=job.report, progress=job.step)
    value = {"ok": audit.ok, "problems": audit.problems, "notes": audit.notes, "audit": audit}
    finish(ctx, options, job, exactly_once_page(audit), value)


@command.command("failovers", epilog=EXITS)
@job_options
@click.pass_context
def failovers_command(ctx: click.Context, options: Options) -> None:
    """List the changes of the master, and how long each server was silent."""
    with opened(options) as job:
        found = failovers(job.session, job.trace, report=job.report, progress=job.step)
    finish(ctx, options, job, failovers_page(found), {"ok": found.ok, **attrs.asdict(found)})


@command.command("hot", epilog=EXITS)
@job_options
@top_option
@click.pass_context
def hot_command(ctx: click.Context, options: Options, top: int) -> None:
    """List the agents that take most time, and how much room each server has."""
    with opened(options) as job:
        found = hot(job.session, job.trace, top=top, report=job.report, progress=job.step)
    value = {"problems": job.report.doubts, **attrs.asdict(found)}
    finish(ctx, options, job, hot_page(found), value, doubts=True)


@command.command("totals", epilog=EXITS)
@job_options
@click.pass_context
def totals_command(ctx: click.Context, options: Options) -> None:
    """Count reactions by class and type of notification."""
    with opened(options) as job:
        counted = totals(job.session, job.trace, report=job.report, progress=job.step)
    value = {"problems": job.report.doubts, **attrs.asdict(counted)}
    finish(ctx, options, job, totals_page(counted), value, doubts=True)


@command.command("show", epilog=EXITS)
@job_options
@click.option("--agent", metavar="ID", required=True, help="The agent, as #0.0.1025 or 0.0.1025.")
@click.option("--at", "position", metavar="POSITION", type=click.IntRange(1), help="Default: the last.")
@click.option("--time", "moment", metavar="TIME", help="Instead: the last one up to this time, UTC.")
@click.pass_context
def show_command(
    ctx: click.Context, options: Options, agent: str, position: int | None, moment: str | None
) -> None:
    """Print the state that an agent had after a position of its server, or at a time."""
    if position is not None and moment is not None:
        raise click.UsageError("--at and --time say the same in two ways; leave out one of them.")
    at_ns = None if moment is None else nanoseconds(moment)
    identity = agent if agent.startswith("#") else f"#{agent}"
    with opened(options) as job:
        result = state_at(
            job.session,
            job.trace,
            identity,
            position,
            report=job.report,
            progress=job.step,
            at_ns=at_ns,
        )
    write_report(options, show_page(result, job.report.doubts))
    status = show_doubts(job.report.doubts)
    if options.json:
        click.echo(as_json({"problems": job.report.doubts, **attrs.asdict(result)}))
    elif result.skipped:
        fail(f"agent {identity} was not run again: {result.skipped}")
    else:
        shown = {
            "id": result.agent,
            "class": result.cls,
            "position": result.last,
            "reactions": result.reactions,
            "deleted": result.deleted,
            "state": result.state,
        }
        click.echo(as_json(shown))
        if result.diverged is not None:
            click.echo(f"quorate: at position {result.diverged}: {result.difference}", err=True)
    ctx.exit(COULD_NOT_RUN if result.skipped else WENT_WRONG if result.diverged is not None else status)


@command.command("order", epilog=EXITS)
@job_options
@click.pass_context
def order_command(ctx: click.Context, options: Options) -> None:
    """Check that what agents sent to agents arrived in that order."""
    with opened(options) as job:
        found = order(job.session, job.trace, report=job.report, progress=job.step)
    value = {"ok": found.ok, "problems": found.problems, **attrs.asdict(found)}
    finish(ctx, options, job, order_page(found), value, status=0 if found.ok else WENT_WRONG)


@command.command("mesh", epilog=EXITS)
@job_options
@click.pass_context
def mesh_command(ctx: click.Context, options: Options) -> None:
    """Check a mesh over the traces of all its daemons: order, exactly once, what was removed when."""
    with opened_files(options, mesh=True) as (session, trace, step):
        audit = audit_mesh(session, trace, step)
        page = attrs.evolve(mesh_page(audit), program=queries_of(session).name)
    value = {"ok": audit.ok, **attrs.asdict(audit)}
    present(options, page, value, page.problems)
    ctx.exit(0 if audit.ok else WENT_WRONG)


@command.command("chain", epilog=EXITS)
@job_options
@click.option(
    "--at", "place", metavar="SERVER:POSITION", required=True, help="The notification, as s0:40000."
)
@click.pass_context
def chain_command(ctx: click.Context, options: Options, place: str) -> None:
    """Print what led to a notification, and all that it has caused."""
    server, _, position = place.rpartition(":")
    if not server or not position.isdecimal() or not int(position):
        raise click.BadParameter(f"{place!r} is not a server and a position; write it as s0:40000.")
    with opened(options) as job:
        found = chain(job.session, job.trace, (server, int(position)), report=job.report, progress=job.step)
    finish(ctx, options, job, chain_page(found), attrs.asdict(found), doubts=True)


@command.command("slowest", epilog=EXITS)
@job_options
@top_option
@click.pass_context
def slowest_command(ctx: click.Context, options: Options, top: int) -> None:
    """List the notifications whose last effect came latest, and latencies by type."""
    with opened(options) as job:
        found = slowest(job.session, job.trace, top=top, report=job.report, progress=job.step)
    finish(ctx, options, job, slowest_page(found), attrs.asdict(found), doubts=True)


@command.command("regress", epilog=EXITS)
@job_options
@code_option("The directory of the new code; may be given several times.", required=True)
@click.option(
    "--before",
    metavar="DIRECTORY",
    multiple=True,
    type=click.Path(exists=True, file_okay=False),
    help="That of the code that has written the trace. Default: what this command imports.",
)
@click.pass_context
def regress_command(
    ctx: click.Context, options: Options, code: tuple[str, ...], before: tuple[str, ...]
) -> None:
    """Run new code on the recorded notifications, and tell which agents do something else."""
    with opened(options) as job:
        found = regress(job.session, job.trace, code, before=before, report=job.report, progress=job.step)
    value = {"ok": found.ok, "problems": found.problems, **attrs.asdict(found)}
    status = WENT_WRONG if found.changes or found.doubts else COULD_NOT_RUN if found.not_run else 0
    finish(ctx, options, job, regress_page(found), value, status=status)


@command.command("bisect", epilog=EXITS)
@job_options
@click.option("--until", "condition", metavar="EXPRESSION", required=True, help="As 'balance < 0'.")
@click.option("--agent", metavar="ID", help="Only this agent, as #0.0.1025 or 0.0.1025.")
@click.option("--class", "cls", metavar="NAME", default="", help="Only agents of this class.")
@code_option("Where the code of the agents is, if not where this command imports.")
@click.pass_context
def bisect_command(
    ctx: click.Context, options: Options, condition: str, agent: str | None, cls: str, code: tuple[str, ...]
) -> None:
    """Find the first notification after which a condition holds for an agent."""
    identity = None if agent is None else f"#{agent.removeprefix('#')}"
    with opened(options) as job:
        found = bisect(
            job.session,
            job.trace,
            condition,
            agent=identity,
            cls=cls,
            code=code,
            report=job.report,
            progress=job.step,
        )
    status = WENT_WRONG if found.breaches or found.problems else 0
    finish(ctx, options, job, bisect_page(found), attrs.asdict(found), status=status)


@command.command("garbage", epilog=EXITS)
@job_options
@click.option(
    "--idle",
    "idle_s",
    metavar="SECONDS",
    type=click.FloatRange(0),
    default=3600.0,
    show_default=True,
    help="How long an agent has got nothing.",
)
@top_option
@click.pass_context
def garbage_command(ctx: click.Context, options: Options, idle_s: float, top: int) -> None:
    """List agents that have been idle for long, dead letters, and how far back the trace goes."""
    with opened(options) as job:
        found = garbage(job.session, job.trace, idle_s=idle_s, top=top, report=job.report, progress=job.step)
    finish(ctx, options, job, garbage_page(found), attrs.asdict(found), doubts=True)


@command.command("workload", epilog=EXITS)
@job_options
@click.option(
    "--out",
    "target",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    metavar="FILE",
    help="Where the load is written, as Parquet.",
)
@click.option(
    "--rows",
    type=click.IntRange(1),
    default=MAX_ROWS,
    show_default=True,
    help="How many notifications it has at most; later ones are left out.",
)
@click.pass_context
def workload_command(ctx: click.Context, options: Options, target: Path, rows: int) -> None:
    """Write the load that servers had to a file, without names and contents, for `quorate bench`."""
    with opened(options) as job:
        found = workload(job.session, job.trace, target, rows=rows, report=job.report, progress=job.step)
    finish(ctx, options, job, workload_page(found, target), attrs.asdict(found), doubts=True)


@command.command("monitor")
@click.argument("traces", metavar="TRACE...", nargs=-1, required=True)
@click.option(
    "--checkpoint",
    metavar="DIRECTORY",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Where it keeps how far it is, to go on from there.",
)
@click.option(
    "--idle",
    "idle_s",
    metavar="SECONDS",
    type=click.FloatRange(0.1, 86_400),
    default=60.0,
    show_default=True,
    help="After how long it tells that nothing comes.",
)
@click.option("--class", "cls", metavar="NAME", default="", help="Tell idle agents of this class.")
@click.option(
    "--every",
    "every_s",
    metavar="SECONDS",
    type=click.FloatRange(0.1, 3600),
    default=2.0,
    show_default=True,
    help="How often it looks for new files.",
)
@click.option("--once", is_flag=True, help="End when all that there is was read.")
@click.option("--server", metavar="NAME", help="Only this server (name or id).")
@click.option("--json", "json_wanted", is_flag=True, help="Print a line of JSON for each finding.")
@memory_option
@master_option
@py_files_option
@click.pass_context
def monitor_command(
    ctx: click.Context,
    traces: tuple[str, ...],
    checkpoint: Path,
    idle_s: float,
    cls: str,
    every_s: float,
    once: bool,
    server: str | None,
    json_wanted: bool,
    memory: str,
    master: str | None,
    py_files: tuple[str, ...],
) -> None:
    """Watch the traces of running servers: divergences, holes, silence and rates, until interrupted.

    Exit status: 0 if nothing was wrong, 1 for a divergence or a hole, 2 for wrong usage, 3 if it could not
    run. Runs on Spark.
    """
    problems = 0

    def tell(found: dict[str, Any]) -> None:
        nonlocal problems
        problems += found["kind"] in FAULTS
        at = datetime.fromtimestamp(found["at_ms"] / 1000, UTC).isoformat(timespec="seconds")
        click.echo(json.dumps(found) if json_wanted else f"{at} {found['kind']}: {found['text']}")

    try:
        with (
            spark_session("quorate monitor", memory=memory, master=master, py_files=py_files) as spark,
            interruption() as stop,
        ):
            monitor(
                spark,
                traces,
                checkpoint,
                tell,
                idle_s=idle_s,
                watched=cls,
                server=server,
                every_s=every_s,
                once=once,
                stop=stop,
            )
    except KeyboardInterrupt:
        pass
    except ReplayError as error:
        fail(str(error))
    ctx.exit(WENT_WRONG if problems else 0)


@contextmanager
def interruption() -> Generator[Event]:
    """Give an event that the user's interruption sets, instead of what Spark does then."""
    stop = Event()

    def set_stop(*_: object) -> None:
        stop.set()

    before = {number: signal.signal(number, set_stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def nanoseconds(text: str) -> int:
    """Return a time in nanoseconds since 1970."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a time; write it as 2026-03-02T10:15:00.") from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1_000_000) * 1000


def live_states(path: Path) -> dict[str, Any]:
    """Read the live states; a file without any ends the command."""
    try:
        return read_live(path)
    except ReplayError as error:
        fail(str(error))
