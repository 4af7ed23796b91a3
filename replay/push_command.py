"""``quorate trace``: where traces are kept."""

import time
from pathlib import Path

import click
from rich.console import Console

from .errors import NoTrace, ReplayError
from .options import COULD_NOT_RUN, WENT_WRONG, fail
from .progress import Progress
from .push import as_lines, push
from .tables import as_json

__all__ = ["command"]


@click.group(name="trace")
def command() -> None:
    """Keep traces."""


@command.command("push")
@click.argument("data", metavar="DATA", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("target", metavar="TARGET")
@click.option(
    "--keep",
    "keep_s",
    metavar="SECONDS",
    type=click.FloatRange(0, min_open=True),
    help="Remove files from TARGET that were put there more than so many seconds ago.",
)
@click.option("--json", "json_wanted", is_flag=True, help="Print JSON, for programs.")
def push_command(data: Path, target: str, keep_s: float | None, json_wanted: bool) -> None:
    """Copy closed trace files to a directory, or to a URI such as s3://BUCKET/traces.

    It may be repeated at any time, also after an interruption: what is there is not copied again.

    Exit status: 0 if all is there, 1 without a trace, 2 for wrong usage, 3 if it could not copy.
    """
    try:
        with Progress(Console(stderr=True), "searching for trace files") as progress:
            report = push(data, target, keep_s=keep_s or 0.0, now=time.time(), progress=progress.step)
    except ReplayError as error:
        fail(str(error), WENT_WRONG if isinstance(error, NoTrace) else COULD_NOT_RUN)
    if json_wanted:
        click.echo(as_json(report))
    else:
        for line in as_lines(report):
            click.echo(line)
