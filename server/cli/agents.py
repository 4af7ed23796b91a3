"""`quorate agents`: list the agents of servers."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import click
import msgspec
from rich.table import Table
from rich.text import Text

from ...agents import AgentRow
from ..admin import wire
from ..admin.client import CALL_TIMEOUT_S, ServerAdmin
from ..admin.connection import AdminError
from .common import (
    CommandError,
    address_of,
    admins,
    any_server_option,
    config_argument,
    json_option,
    json_text,
    master_timeout_option,
    read_config,
    reported_errors,
    seconds_left,
)
from .terminal import console

DEFAULT_LIMIT = 10_000

Rows = list[AgentRow]
Answered = tuple[str, Rows | AdminError]


@click.command(epilog="Exit status: 0, or 1 if a server does not answer; the others are listed.")
@config_argument
@any_server_option
@click.option("--replica", metavar="ID", type=click.IntRange(0), help="Ask this replica, not the master.")
@click.option("--class", "class_name", metavar="NAME", default="", help="Only agents of this class.")
@click.option(
    "--name", metavar="NAME-OR-ID", default="", help="Only this agent; NAME* for all that begin so."
)
@click.option("--all", "everything", is_flag=True, help="List the agents of the platform, too.")
@click.option(
    "--limit", type=click.IntRange(1), default=DEFAULT_LIMIT, show_default=True, help="Agents per server."
)
@master_timeout_option
@json_option
def command(
    config: Path,
    server: str | None,
    replica: int | None,
    class_name: str,
    name: str,
    everything: bool,
    limit: int,
    master_timeout_s: float,
    as_json: bool,
) -> None:
    """List agents: id, name, class, number of reactions.

    If some servers do not answer, the agents of the others are listed.
    """
    with reported_errors():
        asked = admins(read_config(config), server)
        body = wire.Agents(
            anywhere=replica is not None,
            class_name=class_name,
            name=str(address_of(name)),
            platform=everything,
        )
        answers = _ask_all(asked, lambda admin: agents_of(admin, replica, body, limit, master_timeout_s))
        found = [(each, rows) for each, rows in answers if not isinstance(rows, AdminError)]
        silent = [(each, error) for each, error in answers if isinstance(error, AdminError)]
        if silent and len(asked) == 1:
            raise silent[0][1]
    if found:
        _show(found, limit, as_json)
    if silent:
        raise CommandError("\nquorate: ".join(f"{each} gave no list: {error}" for each, error in silent))


def _ask_all(asked: Sequence[ServerAdmin], ask: Callable[[ServerAdmin], Rows]) -> list[Answered]:
    """Ask all servers at the same time; return the answer or error of each, in the order of the file."""
    answers: dict[str, Rows | AdminError] = {}
    defects: list[Exception] = []

    def one(admin: ServerAdmin) -> None:
        try:
            answers[admin.server.name] = ask(admin)
        except AdminError as error:
            answers[admin.server.name] = error
        except Exception as error:
            defects.append(error)

    # Daemon threads: Ctrl-C would wait for the threads of a pool.
    threads = [threading.Thread(target=one, args=(admin,), daemon=True) for admin in asked]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if defects:
        raise defects[0]
    return [(admin.server.name, answers[admin.server.name]) for admin in asked]


def _show(found: list[tuple[str, Rows]], limit: int, as_json: bool) -> None:
    if as_json:
        listed = [{"server": name, **_row_object(row)} for name, rows in found for row in rows]
        click.echo(json_text({"agents": listed}))
        return
    table = Table(box=None, pad_edge=False)
    for title in ("server", "id", "name", "class"):
        table.add_column(title)
    table.add_column("reactions", justify="right")
    any_paused = any(row.paused for _, rows in found for row in rows)
    if any_paused:
        table.add_column("paused")
    for name, rows in found:
        for row in rows:
            cells = [name, str(row.id), row.name or "-", row.class_name, str(row.reactions)]
            if any_paused:
                cells.append(f"{row.held} waiting" if row.paused else "-")
            table.add_row(*map(Text, cells))
    console().print(table)
    for name, rows in found:
        if len(rows) == limit:
            click.echo(f"quorate: the first {limit} agents of {name} are listed; see --limit.", err=True)


def agents_of(
    admin: ServerAdmin, replica: int | None, body: wire.Agents, limit: int, master_timeout_s: float
) -> Rows:
    """Ask for up to `limit` agents page by page, in `master_timeout_s` seconds in all. Raises AdminError."""
    rows: Rows = []
    ends = admin.seconds() + master_timeout_s
    while len(rows) < limit:
        left_s = seconds_left(admin, ends, "all of its agents", master_timeout_s)
        body = msgspec.structs.replace(body, limit=min(limit - len(rows), wire.MAX_PAGE))
        if replica is None:
            page = admin.ask_master(
                body, wire.AgentPage, repeatable=True, master_timeout_s=left_s, total_timeout_s=left_s
            )
        else:
            page = admin.ask(replica, body, wire.AgentPage, min(CALL_TIMEOUT_S, left_s))
        rows += page.agents
        if not page.next:
            break
        body = msgspec.structs.replace(body, after=page.next)
    return rows[:limit]


def _row_object(row: AgentRow) -> dict[str, object]:
    return {
        "id": str(row.id),
        "name": row.name,
        "class": row.class_name,
        "reactions": row.reactions,
        "paused": row.paused,
        "held": row.held,
    }
