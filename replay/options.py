"""What the commands of the jobs have in common: options, the session, and how a result is shown."""

import re
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import wraps
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

import attrs
import click
from rich.console import Console

from .errors import NoTrace, ReplayError
from .frames import Trace, open_trace
from .job import Job, start
from .local import local_session
from .page import MAX_PROBLEMS, Page, print_page, write_html
from .progress import Progress
from .queries import queries_of
from .session import spark_session, submitted
from .tables import as_json

__all__ = [
    "COULD_NOT_RUN",
    "EXITS",
    "WENT_WRONG",
    "Options",
    "fail",
    "finish",
    "job_options",
    "master_option",
    "memory_option",
    "opened",
    "opened_files",
    "present",
    "py_files_option",
    "show_doubts",
    "write_report",
]

WENT_WRONG = 1
COULD_NOT_RUN = 3
WIDTH_WITHOUT_TERMINAL = 200
MAX_LOCAL_ROWS = 10_000_000
"""Traces of at most so many rows are read without Spark, unless an option says otherwise."""
EXITS = (
    "Exit status: 0 if all is well, 1 if not or without a trace, 2 for wrong usage, 3 if it could not run."
)


@attrs.frozen
class Options:
    """The options that all jobs have."""

    traces: tuple[str, ...]
    server: str | None
    json: bool
    report: Path | None
    engine: str
    memory: str
    master: str | None
    py_files: tuple[str, ...]


def memory_size(_: click.Context, __: click.Parameter, value: str) -> str:
    """Check a size such as 512m or 2g."""
    if re.fullmatch(r"[1-9]\d{0,5}[mgMG]", value) is None:
        raise click.BadParameter(f"{value!r} is not a size; write it as 512m or 2g.")
    return value


memory_option = click.option(
    "--memory",
    metavar="SIZE",
    default="1g",
    show_default=True,
    callback=memory_size,
    help="Memory of DuckDB, or of the Java side of Spark.",
)


master_option = click.option(
    "--master", metavar="URL", help="Run on this cluster of Spark, as spark://HOST:7077."
)
py_files_option = click.option(
    "--py-files",
    metavar="FILE",
    multiple=True,
    help="Send this module, zip file or wheel to the workers of a cluster; may be given several times.",
)


def job_options(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of all jobs; it gets them as its first argument."""

    @wraps(function)
    def called(
        traces: tuple[str, ...],
        server: str | None,
        json_wanted: bool,
        report_file: Path | None,
        engine: str,
        memory: str,
        master: str | None,
        py_files: tuple[str, ...],
        **others: Any,
    ) -> None:
        if master is not None and engine == "local":
            raise click.UsageError("--master is a cluster of Spark; leave out --engine local.")
        chosen = Options(traces, server, json_wanted, report_file, engine, memory, master, py_files)
        function(chosen, **others)

    for option in reversed(
        (
            click.argument("traces", metavar="TRACE...", nargs=-1, required=True),
            click.option("--server", metavar="NAME", help="Only this server (name or id)."),
            click.option("--json", "json_wanted", is_flag=True, help="Print JSON, for programs."),
            click.option(
                "--report",
                "report_file",
                metavar="FILE.html",
                type=click.Path(dir_okay=False, path_type=Path),
                help="Write tables and plots to this file too.",
            ),
            click.option(
                "--engine",
                type=click.Choice(["auto", "local", "spark"]),
                default="auto",
                show_default=True,
                help="What reads the traces: DuckDB in this process, or Spark; auto goes by their size.",
            ),
            memory_option,
            master_option,
            py_files_option,
        )
    ):
        called = option(called)
    return called


@contextmanager
def opened(options: Options) -> Generator[Job]:
    """Verify the traces of one command and show its steps; a ReplayError ends the command."""
    with opened_files(options) as (running, trace, step):
        yield start(running, trace, progress=step)


@contextmanager
def opened_files(
    options: Options, *, mesh: bool = False
) -> Generator[tuple[Any, Trace, Callable[[str], None]]]:
    """Give a command a session, its traces, and a function for its steps; a ReplayError ends the command.

    mesh: the traces are those of daemons of a mesh.
    """
    try:
        with Progress(Console(stderr=True), "searching for trace files") as progress:
            trace = open_trace(options.traces, options.server, progress.step, mesh=mesh)
            local = is_local(options, trace)
            progress.step("starting DuckDB" if local else "starting Spark")
            session: Any = (
                local_session(memory=options.memory)
                if local
                else spark_session(memory=options.memory, master=options.master, py_files=options.py_files)
            )
            with session as running, progress.watching(None if local else running):
                yield running, trace, progress.step
    except ReplayError as error:
        fail(str(error), WENT_WRONG if isinstance(error, NoTrace) else COULD_NOT_RUN)


def is_local(options: Options, trace: Trace) -> bool:
    """Return whether a command runs without Spark."""
    if options.master is not None or submitted():
        return False
    if options.engine != "auto":
        return options.engine == "local"
    return trace.rows <= MAX_LOCAL_ROWS and find_spec("duckdb") is not None


def finish(
    ctx: click.Context,
    options: Options,
    job: Job,
    page: Page,
    value: dict[str, Any],
    *,
    status: int | None = None,
    doubts: bool = False,
) -> NoReturn:
    """Show a result and end the command; ``value`` is its JSON.

    The status is that of the problems on the page, unless one is given. ``doubts`` are what makes the result
    incomplete: they are shown on standard error, and make it a failure.
    """
    page = attrs.evolve(page, program=queries_of(job.session).name)
    problems = [*job.report.doubts, *page.problems] if doubts else page.problems
    present(options, page, value, problems)
    ended = (WENT_WRONG if page.problems else 0) if status is None else status
    if doubts:
        ended = ended or show_doubts(job.report.doubts)
    ctx.exit(ended)


def present(options: Options, page: Page, value: dict[str, Any], problems: Sequence[str]) -> None:
    """Show a result as the options say. problems: those of the report in a file."""
    write_report(options, attrs.evolve(page, problems=problems))
    if options.json:
        click.echo(as_json({"program": page.program, **value}))
    else:
        print_page(console(), page)


def write_report(options: Options, page: Page) -> None:
    """Write the page to the file of --report, if there is one; what prevents it ends the command."""
    if options.report is None:
        return
    try:
        write_html(options.report, page)
    except ReplayError as error:
        fail(str(error))


def fail(sentence: str, status: int = COULD_NOT_RUN) -> NoReturn:
    """End the command with a sentence."""
    click.echo(f"quorate: {sentence}", err=True)
    sys.exit(status)


def show_doubts(doubts: list[str]) -> int:
    """Print what may make a result incomplete or wrong, and return the exit status."""
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
