"""`quorate xa`: list prepared transactions, and end them by hand."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from ...server.cli.common import (
    config_argument,
    json_option,
    json_text,
    master_timeout_option,
    server_option,
)
from ...server.cli.terminal import console
from ..agents.branches import (
    BranchEnded,
    Branches,
    BranchState,
    CommitBranch,
    ForgetBranch,
    ListBranches,
    RollbackBranch,
    XidParts,
)
from ..agents.manager import MANAGER
from .asking import ask

__all__ = ["xa"]

_STATUS = "Exit status: 0, or 1 if there is no such transaction or no master answers."


@click.group(no_args_is_help=True)
def xa() -> None:
    """List transactions that are prepared, and end them by hand."""


@xa.command("list", epilog="Exit status: 0, or 1 if no master answers.")
@config_argument
@server_option
@master_timeout_option
@json_option
def list_command(config: Path, server: str, master_timeout_s: float, as_json: bool) -> None:
    """List transactions that are in doubt, or that an administrator has ended and nobody has forgotten."""
    found: list[BranchState] = []
    while True:
        after = found[-1].xid if found else None
        page = ask(config, server, MANAGER, ListBranches(after), Branches, master_timeout_s)
        found += page.found
        if not page.found:
            break
    if as_json:
        click.echo(json_text({"transactions": [_object(each) for each in found]}))
        return
    table = Table(box=None, pad_edge=False)
    for title in ("format", "transaction", "branch", "prepared", "state", "destinations"):
        table.add_column(title)
    for each in found:
        shown = _object(each)
        cells = (*map(str, each.xid), shown["prepared"], shown["state"], ", ".join(each.destinations))
        table.add_row(*map(Text, cells))
    console().print(table)


def _object(found: BranchState) -> dict[str, Any]:
    format_id, transaction, branch = found.xid
    since = datetime.fromtimestamp(found.since_ns / 1e9, UTC).isoformat(timespec="seconds")
    return {
        "format": format_id,
        "transaction": transaction,
        "branch": branch,
        "prepared": since.replace("+00:00", "Z"),
        "state": f"{found.ended} by an administrator" if found.ended else "in doubt",
        "destinations": found.destinations,
    }


def _ending(
    name: str, request: type[CommitBranch | RollbackBranch | ForgetBranch], does: str
) -> click.Command:
    @click.command(name, help=f"{does}.", epilog=_STATUS)
    @config_argument
    @server_option
    @click.argument("transaction")
    @click.argument("branch", default="")
    @click.option(
        "--format", "format_id", type=click.IntRange(0), default=1, show_default=True, help="Its format."
    )
    @master_timeout_option
    def command(
        config: Path, server: str, transaction: str, branch: str, format_id: int, master_timeout_s: float
    ) -> None:
        xid: XidParts = (format_id, transaction, branch)
        ended = ask(config, server, MANAGER, request(xid), BranchEnded, master_timeout_s)
        how = "committed" if ended.committed else "rolled back"
        forgotten = " and is forgotten" if request is ForgetBranch else ""
        click.echo(f"The transaction was {how}{forgotten}.")

    return command


for _name, _request, _does in (
    ("commit", CommitBranch, "Commit a transaction that is in doubt"),
    ("rollback", RollbackBranch, "Roll a transaction back that is in doubt"),
    ("forget", ForgetBranch, "Forget a transaction that was ended by hand"),
):
    xa.add_command(_ending(_name, _request, _does))
