"""``quorate replay``: the jobs on the command line."""

import re
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import attrs
import click
from rich.console import Console

from .errors import NoTrace, ReplayError
from .exactly_once import exactly_once
from .failovers import failovers
from .hot import DEFAULT_TOP, hot
from .live import compare, not_compared, read_live
from .progress import Progress
from .reports import Report
from .rerun_job import rerun, state_at
from .session import spark_session
from .tables import (
    MAX_PROBLEMS,
    accounts_table,
    as_json,
    failovers_table,
    hot_table,
    loads_table,
    print_agreement,
    print_notes,
    print_problems,
    rerun_table,
    totals_table,
    verify_table,
)
from .totals import totals
from .verification import verify

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["command"]

WENT_WRONG = 1
COULD_NOT_RUN = 3
WIDTH_WITHOUT_TERMINAL = 200


def memory_size(_: click.Context, __: click.Parameter, value: str) -> str:
    """Check a size such as 512m or 2g."""
    if re.fullmatch(r"[1-9]\d{0,5}[mgMG]", value) is None:
        raise click.BadParameter(f"{value!r} is not a size; write it as 512m or 2g.")
    return value


traces_argument = click.argument("traces", metavar="TRACE...", nargs=-1, required=True)
server_option = click.option("--server", metavar="NAME", help="Only this server (name or id).")
json_option = click.option("--json", "json_wanted", is_flag=True, help="Print JSON, for programs.")
memory_option = click.option(
    "--memory",
    metavar="SIZE",
    default="1g",
    show_default=True,
    callback=memory_size,
    help="Memory of the Java side.",
)
EXITS = (
    "Exit status: 0 if all is well, 1 if not or without a trace, 2 for wrong usage, 3 if it could not run."
)


@click.group(name="replay")
def command() -> None:
    """Check, count and run again what the servers traced.

    TRACE is a data directory (all traces below it are taken), a trace file or a glob.
    """


@command.command("verify", epilog=EXITS)
@traces_argument
@server_option
@json_option
@click.option("--no-rerun", is_flag=True, help="Compare the replicas only; do not run the agents again.")
@click.option(
    "--live",
    metavar="STATE.json",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Compare the final states with these, as `quorate inspect --json` prints them.",
)
@memory_option
@click.pass_context
def verify_command(
    ctx: click.Context,
    traces: tuple[str, ...],
    server: str | None,
    json_wanted: bool,
    no_rerun: bool,
    live: Path | None,
    memory: str,
) -> None:
    """Check that every replica's trace is whole, that they agree, and that the agents do it again."""
    if live is not None and no_rerun:
        raise click.UsageError("--live needs the agents to be run again; leave out --no-rerun.")
    states = None if live is None else live_states(live)
    with session(memory) as (spark, report_step):
        report = verify(spark, traces, server=server, progress=report_step)
        again = None if no_rerun else rerun(spark, traces, server=server, report=report, progress=report_step)
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
    if json_wanted:
        result = {"ok": not status, "problems": problems, "notes": notes, "verify": report, "rerun": again}
        click.echo(as_json(result))
    else:
        output = console()
        output.print(verify_table(report))
        if again is not None:
            output.print(rerun_table(again))
        print_problems(output, problems)
        print_notes(output, notes)
        if not status:
            print_agreement(output, report, again)
    ctx.exit(status)


@command.command("exactly-once", epilog=EXITS)
@traces_argument
@server_option
@json_option
@memory_option
@click.pass_context
def exactly_once_command(
    ctx: click.Context, traces: tuple[str, ...], server: str | None, json_wanted: bool, memory: str
) -> None:
    """Check that what agents sent to agents arrived, and arrived once."""
    with session(memory) as (spark, report_step):
        report = verify(spark, traces, server=server, progress=report_step)
        audit = exactly_once(spark, traces, server=server, report=report, progress=report_step)
    if json_wanted:
        result = {"ok": audit.ok, "problems": audit.problems, "notes": audit.notes, "audit": audit}
        click.echo(as_json(result))
    else:
        output = console()
        output.print(accounts_table(audit))
        print_problems(output, audit.problems)
        print_notes(output, audit.notes)
    ctx.exit(0 if audit.ok else WENT_WRONG)


@command.command("failovers", epilog=EXITS)
@traces_argument
@server_option
@json_option
@memory_option
@click.pass_context
def failovers_command(
    ctx: click.Context, traces: tuple[str, ...], server: str | None, json_wanted: bool, memory: str
) -> None:
    """List the changes of the master, and how long each server was silent."""
    with session(memory) as (spark, report_step):
        report = verify(spark, traces, server=server, progress=report_step)
        found = failovers(spark, traces, server=server, report=report, progress=report_step)
    if json_wanted:
        click.echo(as_json({"ok": found.ok, **attrs.asdict(found)}))
    else:
        output = console()
        output.print(failovers_table(found))
        print_problems(output, found.problems)
        print_notes(output, found.notes)
    ctx.exit(0 if found.ok else WENT_WRONG)


@command.command("hot", epilog=EXITS)
@traces_argument
@click.option("--top", type=click.IntRange(1, 10_000), default=DEFAULT_TOP, show_default=True, metavar="N")
@server_option
@json_option
@memory_option
@click.pass_context
def hot_command(
    ctx: click.Context, traces: tuple[str, ...], top: int, server: str | None, json_wanted: bool, memory: str
) -> None:
    """List the agents that take most time, and how much room each server has."""
    with session(memory) as (spark, report_step):
        report = verify(spark, traces, server=server, progress=report_step)
        found = hot(spark, traces, top=top, server=server, report=report, progress=report_step)
    if json_wanted:
        click.echo(as_json({"problems": report.doubts, **attrs.asdict(found)}))
    else:
        output = console()
        output.print(hot_table(found))
        output.print(loads_table(found))
    ctx.exit(show_doubts(report))


@command.command("totals", epilog=EXITS)
@traces_argument
@server_option
@json_option
@memory_option
@click.pass_context
def totals_command(
    ctx: click.Context, traces: tuple[str, ...], server: str | None, json_wanted: bool, memory: str
) -> None:
    """Count reactions by class and type of notification."""
    with session(memory) as (spark, report_step):
        report = verify(spark, traces, server=server, progress=report_step)
        report_step("counting")
        counted = totals(spark, traces, server=server, report=report)
    if json_wanted:
        click.echo(as_json({"problems": report.doubts, **attrs.asdict(counted)}))
    else:
        console().print(totals_table(counted))
    ctx.exit(show_doubts(report))


@command.command("show", epilog=EXITS)
@traces_argument
@click.option("--agent", metavar="ID", required=True, help="The agent, as #0.0.1025 or 0.0.1025.")
@click.option("--at", "position", metavar="POSITION", type=click.IntRange(1), help="Default: the last.")
@server_option
@json_option
@memory_option
@click.pass_context
def show_command(
    ctx: click.Context,
    traces: tuple[str, ...],
    agent: str,
    position: int | None,
    server: str | None,
    json_wanted: bool,
    memory: str,
) -> None:
    """Print the state that an agent had after a position of its server."""
    identity = agent if agent.startswith("#") else f"#{agent}"
    with session(memory) as (spark, report_step):
        report = verify(spark, traces, server=server, progress=report_step)
        report_step("running the agent again")
        result = state_at(spark, traces, identity, position, server=server, report=report)
    status = show_doubts(report)
    if json_wanted:
        click.echo(as_json({"problems": report.doubts, **attrs.asdict(result)}))
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


@contextmanager
def session(memory: str) -> "Generator[tuple[SparkSession, Callable[[str], None]]]":
    """Run Spark for one command and show its steps; a ReplayError ends the command with its sentence."""
    try:
        with (
            Progress(Console(stderr=True), "starting Spark") as progress,
            spark_session(memory=memory) as spark,
            progress.watching(spark),
        ):
            yield spark, progress.step
    except ReplayError as error:
        fail(str(error), WENT_WRONG if isinstance(error, NoTrace) else COULD_NOT_RUN)


def fail(sentence: str, status: int = COULD_NOT_RUN) -> NoReturn:
    """End the command with a sentence."""
    click.echo(f"quorate: {sentence}", err=True)
    sys.exit(status)


def live_states(path: Path) -> dict[str, Any]:
    """Read the live states; a file without any ends the command."""
    try:
        return read_live(path)
    except ReplayError as error:
        fail(str(error))


def show_doubts(report: Report) -> int:
    """Print what may make a result incomplete or wrong, and return the exit status."""
    doubts = report.doubts
    for doubt in doubts[:MAX_PROBLEMS]:
        click.echo(f"quorate: {doubt}", err=True)
    if len(doubts) > MAX_PROBLEMS:
        click.echo(f"quorate: and {len(doubts) - MAX_PROBLEMS} more; --json lists them all.", err=True)
    return WENT_WRONG if doubts else 0


def console() -> Console:
    """Return the console for tables: as wide as the terminal; without one, wide enough for the tables."""
    made = Console(highlight=False)
    if not made.is_terminal:
        made.width = WIDTH_WITHOUT_TERMINAL
    return made
