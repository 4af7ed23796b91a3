"""`quorate timers`: list and cancel timers of agents."""

from datetime import UTC, datetime
from pathlib import Path

import click
from rich.table import Table
from rich.text import Text

from ...agents import AgentId
from ...agents.lifecycle import CancelTimer, TimerCancelled
from ..admin import wire
from ..admin.client import ServerAdmin
from .common import (
    WrongArgument,
    address_of,
    admins,
    config_argument,
    explained_address,
    json_option,
    json_text,
    master_timeout_option,
    read_config,
    reported_errors,
    seconds_left,
    server_option,
)
from .factory_request import ask_factory, local_address
from .terminal import console

DEFAULT_LIMIT = 1000


@click.command(epilog="Exit status: 0, or 1 if there is no such agent or timer, or no master answers.")
@config_argument
@server_option
@click.argument("agent", metavar="[NAME-OR-ID]", required=False)
@click.option("--cancel", "number", metavar="NUMBER", type=click.IntRange(0), help="Cancel this timer of it.")
@click.option(
    "--limit", type=click.IntRange(1), default=DEFAULT_LIMIT, show_default=True, help="Timers to list."
)
@master_timeout_option
@json_option
def command(
    config: Path,
    server: str,
    agent: str | None,
    number: int | None,
    limit: int,
    master_timeout_s: float,
    as_json: bool,
) -> None:
    """List timers of an agent, or of all agents, as they are due; or cancel one."""
    with reported_errors():
        loaded = read_config(config)
        (admin,) = admins(loaded, server)
        address = None if agent is None else local_address(loaded, admin, agent)
        if number is not None:
            if address is None:
                raise WrongArgument("Give the name or id of the agent whose timer is to be cancelled.")
            request = CancelTimer(address, number)
            ask_factory(config, loaded, admin, request, TimerCancelled, master_timeout_s)
            click.echo(json_text({"cancelled": number}) if as_json else f"timer {number} cancelled")
            return
        whose = None if address is None else address_of(address)
        with explained_address(config, loaded, whose or "", admin.server.name):
            # One more than is shown tells whether there are more.
            rows = _timers(admin, whose, limit + 1, master_timeout_s)
    _show(rows[:limit], as_json)
    if len(rows) > limit:
        click.echo(f"quorate: the first {limit} timers are listed; see --limit.", err=True)


def _timers(
    admin: ServerAdmin, agent: AgentId | str | None, limit: int, timeout_s: float
) -> list[wire.TimerRow]:
    """Ask for timers page by page, in `timeout_s` seconds in all. Raises AdminError."""
    rows: list[wire.TimerRow] = []
    ends = admin.seconds() + timeout_s
    while len(rows) < limit:
        left_s = seconds_left(admin, ends, "its timers", timeout_s)
        size = min(limit - len(rows), wire.MAX_PAGE)
        after = (rows[-1].due_ns, rows[-1].number) if rows else None
        page = admin.ask_master(
            wire.Timers(agent, after, size),
            list[wire.TimerRow],
            repeatable=True,
            master_timeout_s=left_s,
            total_timeout_s=left_s,
        )
        rows += page
        if len(page) < size:
            break
    return rows


def _show(rows: list[wire.TimerRow], as_json: bool) -> None:
    if as_json:
        listed = [
            {
                "number": row.number,
                "agent": str(row.agent),
                "due": utc_text(row.due_ns),
                "type": row.type,
                "size_bytes": row.size_bytes,
            }
            for row in rows
        ]
        click.echo(json_text({"timers": listed}))
        return
    table = Table(box=None, pad_edge=False)
    for title in ("number", "agent", "due", "type"):
        table.add_column(title)
    table.add_column("bytes", justify="right")
    for row in rows:
        table.add_row(
            str(row.number), str(row.agent), utc_text(row.due_ns), Text(row.type), str(row.size_bytes)
        )
    console().print(table)


def utc_text(time_ns: int) -> str:
    """Return a time as text; as nanoseconds since 1970 if it is after the year 9999."""
    try:
        return datetime.fromtimestamp(time_ns // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        return str(time_ns)
