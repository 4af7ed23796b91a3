"""``quorate replay``: the jobs on the command line."""

import re
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from .errors import ReplayError
from .live import compare, read_live
from .rerun_job import rerun, state_at
from .session import spark_session
from .tables import as_json, print_problems, rerun_table, totals_table, verify_table
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
EXITS = "Exit status: 0 if all is well, 1 if not, 2 for wrong usage, 3 if it could not run."


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
    with session(memory) as (spark, report_step):
        states = None if live is None else read_live(live)
        report = verify(spark, traces, server=server, progress=report_step)
        again = None if no_rerun else rerun(spark, traces, server=server, report=report, progress=report_step)
    differences = [] if again is None or states is None else compare(again, states)
    diverged = [] if again is None else [agent for agent in again.agents if agent.diverged is not None]
    if report.problems or diverged or differences:
        status = WENT_WRONG
    elif again is not None and not again.ok:
        status = COULD_NOT_RUN
    else:
        status = 0
    problems = [*report.problems, *(again.problems if again else ()), *differences]
    if json_wanted:
        click.echo(as_json({"ok": not status, "problems": problems, "verify": report, "rerun": again}))
    else:
        output = console()
        output.print(verify_table(report))
        if again is not None:
            output.print(rerun_table(again))
        print_problems(output, problems)
        if not status:
            output.print("All replicas agree at every position and no position is missing.", style="green")
    ctx.exit(status)


@command.command("totals", epilog=EXITS)
@traces_argument
@server_option
@json_option
@memory_option
def totals_command(traces: tuple[str, ...], server: str | None, json_wanted: bool, memory: str) -> None:
    """Count reactions by class and type of notification."""
    with session(memory) as (spark, report_step):
        report_step("counting")
        counted = totals(spark, traces, server=server)
    if json_wanted:
        click.echo(as_json(counted))
    else:
        console().print(totals_table(counted))


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
        report_step("running the agent again")
        result = state_at(spark, traces, identity, position, server=server)
    if json_wanted:
        click.echo(as_json(result))
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
    ctx.exit(COULD_NOT_RUN if result.skipped else WENT_WRONG if result.diverged is not None else 0)


@contextmanager
def session(memory: str) -> "Generator[tuple[SparkSession, Callable[[str], None]]]":
    """Run Spark for one command and show its steps; a ReplayError ends the command with its sentence."""
    status = Console(stderr=True).status("starting Spark")

    def report_step(text: str) -> None:
        status.update(text)

    try:
        with status, spark_session(memory=memory) as spark:
            yield spark, report_step
    except ReplayError as error:
        fail(str(error))


def fail(sentence: str) -> Any:
    """End the command with a sentence."""
    click.echo(f"quorate: {sentence}", err=True)
    sys.exit(COULD_NOT_RUN)


def console() -> Console:
    """Return the console for tables: as wide as the terminal; without one, wide enough for the tables."""
    made = Console(highlight=False)
    if not made.is_terminal:
        made.width = WIDTH_WITHOUT_TERMINAL
    return made
