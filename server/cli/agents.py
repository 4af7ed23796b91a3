"""`quorate agents`: list the agents of servers."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import click
from rich.table import Table
from rich.text import Text

from ...agents import FIRST_FREE_STAMP, AgentId
from ..admin import wire
from ..admin.client import CALL_TIMEOUT_S, LEAST_S, ServerAdmin
from ..admin.connection import AdminError
from .common import (
    CommandError,
    admins,
    config_argument,
    json_option,
    json_text,
    master_timeout_option,
    read_config,
    reported_errors,
)
from .terminal import console

DEFAULT_LIMIT = 10_000

Rows = list[wire.AgentRow]
Answered = tuple[str, Rows | AdminError]


@click.command(epilog="Exit status: 0, or 1 if a server does not answer; the others are listed.")
@config_argument
@click.option("--server", metavar="NAME", help="Only this server (name or id).")
@click.option("--replica", metavar="ID", type=click.IntRange(0), help="Ask this replica, not the master.")
@click.option("--all", "everything", is_flag=True, help="List the built-in agents, too.")
@click.option(
    "--limit", type=click.IntRange(1), default=DEFAULT_LIMIT, show_default=True, help="Agents per server."
)
@master_timeout_option
@json_option
def command(
    config: Path,
    server: str | None,
    replica: int | None,
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
        answers = _ask_all(
            asked, lambda admin: agents_of(admin, replica, everything, limit, master_timeout_s)
        )
        found = [(name, rows) for name, rows in answers if not isinstance(rows, AdminError)]
        silent = [(name, error) for name, error in answers if isinstance(error, AdminError)]
        if silent and len(asked) == 1:
            raise silent[0][1]
    if found:
        _show(found, limit, as_json)
    if silent:
        raise CommandError("\nquorate: ".join(f"{name} gave no list: {error}" for name, error in silent))


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
    for name, rows in found:
        for row in rows:
            table.add_row(
                Text(name), str(row.id), Text(row.name or "-"), Text(row.class_name), str(row.reactions)
            )
    console().print(table)
    for name, rows in found:
        if len(rows) == limit:
            click.echo(f"quorate: the first {limit} agents of {name} are listed; see --limit.", err=True)


def agents_of(
    admin: ServerAdmin, replica: int | None, everything: bool, limit: int, master_timeout_s: float
) -> list[wire.AgentRow]:
    """Ask for agents page by page, within `master_timeout_s` seconds in all. Raises AdminError."""
    rows: list[wire.AgentRow] = []
    after: AgentId | None = None
    ends = admin.seconds() + master_timeout_s
    while len(rows) < limit:
        left_s = ends - admin.seconds()
        if left_s < LEAST_S:
            raise AdminError(
                f"Server {admin.server.name} did not list all of its agents within {master_timeout_s:g} s; "
                "wait longer with --timeout."
            )
        body = wire.Agents(after, wire.MAX_PAGE, anywhere=replica is not None)
        if replica is None:
            page = admin.ask_master(
                body, list[wire.AgentRow], repeatable=True, master_timeout_s=left_s, total_timeout_s=left_s
            )
        else:
            page = admin.ask(replica, body, list[wire.AgentRow], min(CALL_TIMEOUT_S, left_s))
        rows += [row for row in page if everything or row.id.stamp >= FIRST_FREE_STAMP]
        if len(page) < wire.MAX_PAGE:
            break
        after = page[-1].id
    return rows[:limit]


def _row_object(row: wire.AgentRow) -> dict[str, object]:
    return {"id": str(row.id), "name": row.name, "class": row.class_name, "reactions": row.reactions}
