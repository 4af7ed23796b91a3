"""The command ``quorate demo``."""

import shlex
import sys
from pathlib import Path

import click


@click.command("demo")
@click.option(
    "--rows", type=click.IntRange(min=1), help="Feed the first so many flights. Default: all 336,776."
)
@click.option(
    "--json", "as_json", is_flag=True, help="End with one line of JSON; progress goes to standard error."
)
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory for the servers' data, empty or new; it is kept. Default: a temporary one.",
)
@click.option(
    "--report",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("quorate-demo.html"),
    show_default=True,
    help="Where to write the HTML report.",
)
@click.option("--kill/--no-kill", default=True, help="Whether to kill the master. Default: yes.")
@click.option("--keep", is_flag=True, help="Keep the temporary directory, with logs and traces.")
@click.option("--seed", type=int, default=1, show_default=True, help="Chooses the moment of the kill.")
def command(
    rows: int | None, as_json: bool, data: Path | None, report: Path, kill: bool, keep: bool, seed: int
) -> None:
    """Feed real flights through a cluster, kill its master on the way, and check every total.

    336,776 flights that left New York in 2013 go to agents on the sample cluster. The totals of the agents,
    those of their traces replayed on Spark and those of the CSV must be equal, with 0 lost and 0 duplicated.
    Exit status: 0 if they are, 1 if not, 2 for wrong options, 130 after Ctrl-C.
    """
    from .story import Options, run

    options = Options(
        rows=rows,
        as_json=as_json,
        data=data,
        report=report,
        kill=kill,
        keep=keep,
        seed=seed,
        command_line=shlex.join(["quorate", *sys.argv[1:]]),
    )
    sys.exit(run(options))
