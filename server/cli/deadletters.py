"""`quorate deadletters`: list, resend and drop dead letters."""

from pathlib import Path

import click
from rich.table import Table
from rich.text import Text

from ...agents.lifecycle import DropDeadLetters, ResendDeadLetters, Settled
from ..admin import wire
from .common import (
    CommandError,
    WrongArgument,
    admins,
    config_argument,
    json_option,
    json_text,
    master_timeout_option,
    read_config,
    reported_errors,
    server_option,
)
from .factory_request import ask_factory, local_address
from .terminal import console
from .timers import utc_text

numbers_of = click.IntRange(1)


@click.command(epilog="Exit status: 0, or 1 if a letter is not kept or not whole, or no master answers.")
@config_argument
@server_option
@click.option("--resend", metavar="NUMBER", type=numbers_of, multiple=True, help="Send this letter again.")
@click.option("--drop", metavar="NUMBER", type=numbers_of, multiple=True, help="Drop this letter.")
@click.option("--to", metavar="NAME-OR-ID", help="Resend to this agent instead.")
@click.option(
    "--limit",
    type=click.IntRange(1, wire.MAX_PAGE),
    default=wire.MAX_PAGE,
    show_default=True,
    help="Letters to list.",
)
@master_timeout_option
@json_option
def command(
    config: Path,
    server: str,
    resend: tuple[int, ...],
    drop: tuple[int, ...],
    to: str | None,
    limit: int,
    master_timeout_s: float,
    as_json: bool,
) -> None:
    """List the kept dead letters, oldest first; or send some again, or drop some.

    Letters are sent or dropped once: when the answer of the server is lost, the command says so.
    """
    if resend and drop:
        raise WrongArgument("Give --resend or --drop, not both.")
    if to is not None and not resend:
        raise WrongArgument("--to goes with --resend.")
    if max(len(resend), len(drop)) > wire.MAX_PAGE:
        raise WrongArgument(f"Give at most {wire.MAX_PAGE} letters at once.")
    with reported_errors():
        loaded = read_config(config)
        (admin,) = admins(loaded, server)
        if resend or drop:
            address = "" if to is None else local_address(loaded, admin, to)
            request = ResendDeadLetters(list(resend), address) if resend else DropDeadLetters(list(drop))
            settled = ask_factory(config, loaded, admin, request, Settled, master_timeout_s)
            _report(settled, "resent" if resend else "dropped", as_json)
            return
        rows = admin.ask_master(
            wire.DeadLetters(limit=limit),
            list[wire.DeadLetterRow],
            repeatable=True,
            master_timeout_s=master_timeout_s,
            total_timeout_s=master_timeout_s,
        )
    _show(rows, as_json)


def _report(settled: Settled, done: str, as_json: bool) -> None:
    if as_json:
        found = {done: settled.settled, "unknown": settled.unknown, "incomplete": settled.incomplete}
        click.echo(json_text(found))
    elif settled.settled:
        click.echo(f"{done}: {_listed(settled.settled)}")
    problems: list[str] = []
    if settled.unknown:
        problems.append(f"No dead letter is kept with the number {_listed(settled.unknown)}.")
    if settled.incomplete:
        problems.append(
            f"Too large to be kept whole, so it can only be dropped: {_listed(settled.incomplete)}."
        )
    if problems:
        raise CommandError("\nquorate: ".join(problems))


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))


def _show(rows: list[wire.DeadLetterRow], as_json: bool) -> None:
    if as_json:
        listed = [
            {
                "number": row.number,
                "time": utc_text(row.now_ns),
                "reason": row.reason,
                "sender": str(row.sender),
                "to": str(row.to),
                "type": row.type,
                "size_bytes": row.size_bytes,
                "whole": row.whole,
            }
            for row in rows
        ]
        click.echo(json_text({"dead_letters": listed}))
        return
    table = Table(box=None, pad_edge=False)
    for title in ("number", "time", "sender", "to", "type", "reason"):
        table.add_column(title)
    table.add_column("bytes", justify="right")
    for row in rows:
        table.add_row(
            str(row.number),
            utc_text(row.now_ns),
            str(row.sender),
            Text(str(row.to)),
            Text(row.type),
            Text(row.reason),
            f"{row.size_bytes}{'' if row.whole else ' (not kept)'}",
        )
    console().print(table)
