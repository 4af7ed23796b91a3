"""`quorate mesh`: who reaches whom, topics, subscriptions, what holds up collection, and the daemons."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from time import sleep, strftime
from typing import Any, Final, cast

import click
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ...server.admin import wire
from ...server.admin.client import ServerAdmin
from ...server.admin.connection import AdminError, CallFailed, Endpoint
from ...server.admin.replica_status import gather
from ...server.cli.common import (
    CommandError,
    Seconds,
    WrongArgument,
    config_argument,
    json_option,
    json_text,
    read_config,
    replica_id,
    reported_errors,
)
from ...server.cli.terminal import console
from ...server.config import Config, Server

__all__ = ["mesh"]

CALL_S: Final = 10.0
STATUS_S: Final = 2.0
_STATUS: Final = "Exit status: 0, or 1 if no daemon answers or it refuses."

server_option = click.option(
    "--server", metavar="NAME", help="Name or id of the mesh; needed if the file has several."
)
daemon_option = click.option(
    "--replica", metavar="ID", callback=replica_id, help="Ask this daemon, instead of any that answers."
)


@click.group(no_args_is_help=True)
def mesh() -> None:
    """Show a mesh and its topics, change them, and add or forget daemons.

    Each command asks one daemon, which answers with what it knows: in a partition, with what its side knows.
    """


def _admin(config: Config, name: str | None) -> ServerAdmin:
    """Return the mesh of a file. Raises WrongArgument."""
    if name is not None:
        server = config.server(name)
        if server.mode != "mesh":
            raise WrongArgument(f'{server.name} has mode="{server.mode}", not mode="mesh".')
        return ServerAdmin(config, server)
    found = [server for server in config.servers if server.mode == "mesh"]
    if len(found) != 1:
        what = "no" if not found else "several"
        raise WrongArgument(f'The file has {what} servers with mode="mesh"; choose one with --server.')
    return ServerAdmin(config, found[0])


def _endpoints(admin: ServerAdmin, replica: int | None) -> list[Endpoint]:
    if replica is not None:
        admin.config.replica(admin.server.name, replica)
    return [each for each in admin.endpoints if replica in (None, each.replica)]


def _ask(
    config: Path, server: str | None, replica: int | None, name: str, arguments: Mapping[str, Any]
) -> Any:
    """Have a daemon carry out a command. Raises CommandError."""
    admin = _admin(read_config(config), server)
    reasons: list[str] = []
    for endpoint in _endpoints(admin, replica):
        try:
            return admin.ask_at(
                endpoint, wire.Command(name, dict(arguments)), cast("type[Any]", object), CALL_S
            )
        except CallFailed as error:
            raise CommandError(f"{admin.server.name}.{endpoint.replica}: {error}") from None
        except AdminError as error:
            reasons.append(str(error).rstrip("."))
    raise CommandError(f"No daemon of {admin.server.name} answers: {'; '.join(reasons)}.")


# Status


@mesh.command(epilog="Exit status: 0 if all daemons answer and reach each other, 1 otherwise.")
@config_argument
@server_option
@json_option
@click.option(
    "--watch",
    metavar="SECONDS",
    type=Seconds(0.2),
    is_flag=False,
    flag_value=1.0,
    help="Refresh the picture until Ctrl-C.",
)
@click.pass_context
def status(ctx: click.Context, config: Path, server: str | None, as_json: bool, watch: float | None) -> None:
    """Show who hears whom, the regions, and what each daemon holds.

    A region is a set of daemons that reach each other, directly or through others. In the picture, a line is
    the daemon that was asked: = a connection, - reached through others, . not reached.
    """
    with reported_errors():
        admin = _admin(read_config(config), server)
    found = _statuses(admin)
    if as_json:
        click.echo(json_text({str(id): each for id, each in found.items()}))
    elif watch is None:
        console().print(_picture(admin.server, found))
    else:
        found = _watch(admin, found, watch)
    ctx.exit(0 if _is_whole(found) else 1)


def _statuses(admin: ServerAdmin) -> dict[int, dict[str, Any] | None]:
    """Ask all daemons of the file, at the same time. None: it does not answer."""
    ((_, replicas),) = gather([admin], STATUS_S)
    return {each.endpoint.replica: (each.status or {}).get("mesh") for each in replicas}


def _is_whole(found: Mapping[int, dict[str, Any] | None]) -> bool:
    regions = {tuple(each["region"]) for each in found.values() if each is not None}
    return len(regions) == 1 and all(each is not None and not each["forgotten"] for each in found.values())


def _watch(
    admin: ServerAdmin, found: dict[int, dict[str, Any] | None], period_s: float
) -> dict[int, dict[str, Any] | None]:  # pragma: no cover - a loop for a terminal
    try:
        with Live(_watched(admin.server, found), console=console(), auto_refresh=False) as live:
            while True:
                sleep(period_s)
                found = _statuses(admin)
                live.update(_watched(admin.server, found), refresh=True)
    except KeyboardInterrupt:
        return found


def _watched(server: Server, found: Mapping[int, dict[str, Any] | None]) -> Group:
    return Group(_picture(server, found), Text(strftime("%H:%M:%S, Ctrl-C ends"), style="dim"))


def _picture(server: Server, found: Mapping[int, dict[str, Any] | None]) -> Table:
    everyone = sorted(
        {*found, *(int(each) for status in found.values() if status for each in status["daemons"])}
    )
    table = Table(box=None, pad_edge=False)
    table.add_column(server.name)
    for id in everyone:
        table.add_column(str(id), justify="center")
    for title in ("region", "topics", "records", "bytes", "lacks", "held", "clients"):
        table.add_column(title, justify="right")
    for id in everyone:
        known = found.get(id)
        if known is None:
            table.add_row(Text(f"{id} does not answer", style="bold red"))
            continue
        cells = [_link(id, other, known["daemons"].get(str(other))) for other in everyone]
        region = ",".join(map(str, known["region"]))
        table.add_row(
            Text(f"{id} forgotten" if known["forgotten"] else str(id)),
            *cells,
            Text(region, style="green" if len(known["region"]) == len(everyone) else "yellow"),
            *(
                Text(str(known[key]))
                for key in ("topics", "records", "bytes", "lacking", "held_publishers", "clients")
            ),
        )
    return table


def _link(id: int, other: int, known: Mapping[str, Any] | None) -> Text:
    if id == other:
        return Text("o", style="dim")
    if known is None:
        return Text("")
    if known["connected"]:
        return Text("=", style="green")
    return Text("-", style="yellow") if known["reached"] else Text(".", style="red")


# Topics


@mesh.command(epilog=_STATUS)
@config_argument
@server_option
@daemon_option
@json_option
def topics(config: Path, server: str | None, replica: int | None, as_json: bool) -> None:
    """List the topics, with their subscriptions and what the daemon keeps of them."""
    with reported_errors():
        found = _ask(config, server, replica, "topics", {})
    columns = ("name", "subscriptions", "records", "bytes", "topic_bytes", "on_full", "creations")
    _show(found, columns, as_json)


@mesh.command(epilog=_STATUS)
@config_argument
@click.argument("topic")
@server_option
@daemon_option
@click.option(
    "--topic-bytes",
    metavar="BYTES",
    type=click.IntRange(1),
    help="Messages that a daemon keeps for slow subscribers. Default: the property topic_bytes.",
)
@click.option(
    "--on-full",
    type=click.Choice(["refuse", "end"]),
    default="refuse",
    show_default=True,
    help="What happens then: publishers are refused, or the slowest subscription ends.",
)
def create(
    config: Path, topic: str, server: str | None, replica: int | None, topic_bytes: int | None, on_full: str
) -> None:
    """Create a topic. It reaches the other daemons as soon as there is a path to them."""
    options = {"topic_bytes": topic_bytes or 0, "on_full": on_full}
    with reported_errors():
        _ask(config, server, replica, "create", {"topic": topic, "options": options})
    click.echo(f"topic {topic} is created")


@mesh.command(epilog=_STATUS)
@config_argument
@click.argument("topic")
@server_option
@daemon_option
def delete(config: Path, topic: str, server: str | None, replica: int | None) -> None:
    """Delete a topic, with the messages and subscriptions that the daemon knows."""
    with reported_errors():
        _ask(config, server, replica, "delete", {"topic": topic})
    click.echo(f"topic {topic} is deleted")


@mesh.command(epilog=_STATUS)
@config_argument
@click.argument("topic")
@server_option
@daemon_option
@json_option
def explain(config: Path, topic: str, server: str | None, replica: int | None, as_json: bool) -> None:
    """Say what holds up the collection of a topic: subscriptions that are behind, daemons that are away."""
    with reported_errors():
        found = _ask(config, server, replica, "explain", {"topic": topic})
    if as_json:
        click.echo(json_text(found))
        return
    if not found:
        click.echo(f"nothing of {topic} is kept")
    for stream in found:
        reasons = ", ".join(f"{each['what']} is {each['records']} behind" for each in stream["behind"])
        click.echo(
            f"{stream['records']} records of daemon {stream['daemon']}, life {stream['life']}: "
            f"{reasons or 'about to be collected'}"
        )


# Subscriptions


@mesh.command(epilog=_STATUS)
@config_argument
@click.argument("topic", required=False)
@server_option
@daemon_option
@json_option
@click.option("--slow", is_flag=True, help="The one that is furthest behind first.")
def subscriptions(
    config: Path, topic: str | None, server: str | None, replica: int | None, as_json: bool, slow: bool
) -> None:
    """List the persistent subscriptions, of a topic or all, and how many records each is behind."""
    with reported_errors():
        found = _ask(config, server, replica, "subscriptions", {"topic": topic or "", "slow": slow})
    _show(found, ("topic", "name", "user", "behind", "attached", "id"), as_json)


@mesh.command(epilog=_STATUS)
@config_argument
@click.argument("topic")
@click.argument("name")
@server_option
@daemon_option
def unsubscribe(config: Path, topic: str, name: str, server: str | None, replica: int | None) -> None:
    """End the persistent subscriptions with a name: what is kept for them is dropped."""
    with reported_errors():
        count = _ask(config, server, replica, "unsubscribe", {"topic": topic, "name": name})
    click.echo(f"{count} subscription{'s' if count != 1 else ''} {name} to {topic} ended")


# Daemons


@mesh.command(epilog=_STATUS)
@config_argument
@click.argument("daemon", type=click.IntRange(0))
@server_option
@daemon_option
def add(config: Path, daemon: int, server: str | None, replica: int | None) -> None:
    """Add a daemon that the file declares: a new one, or one that was forgotten.

    The daemons that run learn its address, and everything is kept until it has it. Start it before or after.
    """
    with reported_errors():
        admin = _admin(read_config(config), server)
        admin.config.replica(admin.server.name, daemon)
        place = next((each for each in admin.endpoints if each.replica == daemon), None)
        if place is None:
            raise CommandError(f"{admin.server.name}.{daemon} declares no network.")
        host = f"[{place.host}]" if ":" in place.host else place.host
        arguments = {"daemon": daemon, "address": f"{host}:{place.port}"}
        changed = _ask_other(config, server, replica, daemon, "add", arguments)
    click.echo(f"daemon {daemon} {'is added' if changed else 'belongs to the mesh already'}")


@mesh.command(epilog=_STATUS)
@config_argument
@click.argument("daemon", type=click.IntRange(0))
@server_option
@daemon_option
@click.option("--accept-loss", is_flag=True, help="Accept the loss without a question.")
def forget(config: Path, daemon: int, server: str | None, replica: int | None, accept_loss: bool) -> None:
    """Forget a daemon that is gone for good: nothing is kept for it any more.

    What only its disk has is lost, unless it is added again. It must be stopped.
    """
    with reported_errors():
        if not accept_loss:
            raise CommandError(
                f"Nothing was changed. What only daemon {daemon} has does not reach the others: give "
                "--accept-loss to accept that."
            )
        changed = _ask_other(config, server, replica, daemon, "forget", {"daemon": daemon})
    click.echo(f"daemon {daemon} {'is forgotten' if changed else 'does not belong to the mesh'}")


def _ask_other(
    config: Path,
    server: str | None,
    replica: int | None,
    daemon: int,
    name: str,
    arguments: Mapping[str, Any],
) -> Any:
    """Ask a daemon about another one: any that answers, or `replica`."""
    if replica is not None:
        return _ask(config, server, replica, name, arguments)
    admin = _admin(read_config(config), server)
    reasons: list[str] = []
    for endpoint in admin.endpoints:
        if endpoint.replica == daemon:
            continue
        try:
            return _ask(config, server, endpoint.replica, name, arguments)
        except CommandError as error:
            if "No daemon" not in error.message:
                raise
            reasons.append(error.message)
    raise CommandError(" ".join(reasons) or f"{admin.server.name} has no other daemon to ask.")


def _show(found: Sequence[Mapping[str, Any]], columns: Sequence[str], as_json: bool) -> None:
    if as_json:
        click.echo(json_text(found))
        return
    table = Table(box=None, pad_edge=False)
    for column in columns:
        number = bool(found) and isinstance(found[0][column], int) and not isinstance(found[0][column], bool)
        table.add_column(column.replace("_", " "), justify="right" if number else "left")
    for row in found:
        table.add_row(*(_cell(row[column]) for column in columns))
    console().print(table)


def _cell(value: object) -> Text:
    return Text(("yes" if value else "no") if isinstance(value, bool) else str(value))
