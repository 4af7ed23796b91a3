"""`quorate queue` and `quorate topic`: make, list, show, browse, move, pause and purge destinations."""

from pathlib import Path
from typing import Any, Final

import attrs
import click
from rich.table import Table
from rich.text import Text

from ...server.admin import wire
from ...server.cli.agents import agents_of
from ...server.cli.common import (
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
from ...server.cli.terminal import console
from ..agents.administered import (
    DeliveryPaused,
    Describe,
    Described,
    Move,
    PauseDelivery,
    Purge,
    Purged,
)
from ..agents.making import name_flaw, peers_of
from ..agents.protocol import Browse, Browsed
from ..agents.settings import DestinationSettings, FullPolicy, Kind
from ..agents.transactions import Moved
from ..client.shown import shown_message
from .asking import ask, asked
from .making import make_destination, make_manager

__all__ = ["queue", "topic"]

SHOWN_CHARS: Final = 200
"""Characters of a body that `browse` shows."""
_SUBSCRIPTION: Final = (
    "subscription",
    "client id",
    "selector",
    "durable",
    "waiting",
    "in hand",
    "consumers",
)
_FLAGS: Final = {
    Kind.QUEUE: click.option("--last-value", is_flag=True, help="A message replaces the one with its key."),
    Kind.TOPIC: click.option(
        "--tree", is_flag=True, help="It has all topics that begin with NAME and a dot."
    ),
}
_POLICIES: Final = [each.value for each in FullPolicy]
_STATUS: Final = "Exit status: 0, or 1 if there is no such destination or no master answers."


@click.group(no_args_is_help=True)
def queue() -> None:
    """Make, list, show, browse, pause and purge queues, and move their messages."""


@click.group(no_args_is_help=True)
def topic() -> None:
    """Make, list, show, pause and purge topics."""


def _list(kind: Kind) -> click.Command:
    @click.command("list", help=f"List the {kind.value}s of a server.", epilog=_STATUS)
    @config_argument
    @server_option
    @click.option(
        "--limit", type=click.IntRange(1), default=1000, show_default=True, help="How many at most."
    )
    @master_timeout_option
    @json_option
    def command(config: Path, server: str, limit: int, master_timeout_s: float, as_json: bool) -> None:
        with reported_errors():
            (admin,) = admins(read_config(config), server)
            wanted = wire.Agents(anywhere=False, name=f"{kind.value}:*")
            rows = agents_of(admin, None, wanted, limit, master_timeout_s)
            found = [asked(config, admin, row.name, Describe(), Described, master_timeout_s) for row in rows]
        if as_json:
            click.echo(json_text({f"{kind.value}s": [_object(each) for each in found]}))
            return
        table = Table(box=None, pad_edge=False)
        table.add_column(kind.value)
        counts = ("messages", "bytes", "consumers", "producers", "received", "accepted", "dead")
        for title in counts:
            table.add_column(title, justify="right")
        for each in found:
            values = (each.depth, each.size_bytes, each.consumers, each.producers, each.received)
            table.add_row(*map(Text, map(str, (each.title, *values, each.accepted, each.dead))))
        console().print(table)
        if len(rows) == limit:
            click.echo(f"quorate: the first {limit} {kind.value}s are listed; see --limit.", err=True)

    return command


def _object(found: Described) -> dict[str, Any]:
    fields: dict[str, Any] = attrs.asdict(found)
    return fields


def _show(kind: Kind) -> click.Command:
    @click.command("show", help=f"Show what a {kind.value} has, and its subscriptions.", epilog=_STATUS)
    @config_argument
    @server_option
    @click.argument("name")
    @master_timeout_option
    @json_option
    def command(config: Path, server: str, name: str, master_timeout_s: float, as_json: bool) -> None:
        found = ask(config, server, f"{kind.value}:{name}", Describe(), Described, master_timeout_s)
        if as_json:
            click.echo(json_text(_object(found)))
            return
        for field, value in _object(found).items():
            if field not in ("subscriptions", "links"):
                click.echo(f"{field:<13} {value}")
        for link in found.links:
            way = f"to {link.target}" if link.does == "forwards" else f"from {link.target}"
            problem = f"; {link.problem}" if link.problem else ""
            moved = f"{link.moved} messages so far, {link.under_way} under way"
            click.echo(f"{link.does:<13} {way}: {moved}{problem}")
        if kind is Kind.TOPIC:
            table = Table(box=None, pad_edge=False)
            for title in (
                "subscription",
                "client id",
                "topics",
                "selector",
                "durable",
                "waiting",
                "in hand",
                "consumers",
            ):
                table.add_column(title)
            for each in found.subscriptions:
                cells = (
                    each.name or "-",
                    each.client_id or "-",
                    each.pattern or "-",
                    each.selector or "-",
                    "yes" if each.durable else "no",
                )
                table.add_row(*map(Text, (*cells, str(each.waiting), str(each.in_hand), str(each.consumers))))
            console().print(table)

    return command


def _browse() -> click.Command:
    @click.command("browse", help="Show messages of a queue that no consumer has.", epilog=_STATUS)
    @config_argument
    @server_option
    @click.argument("name")
    @click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="How many at most.")
    @master_timeout_option
    @json_option
    def command(
        config: Path, server: str, name: str, limit: int, master_timeout_s: float, as_json: bool
    ) -> None:
        found: list[dict[str, Any]] = []
        with reported_errors():
            (admin,) = admins(read_config(config), server)
            after = 0
            while len(found) < limit:
                request = Browse(after)
                pack = asked(config, admin, f"queue:{name}", request, Browsed, master_timeout_s).pack
                for index, number in enumerate(pack.column("number")):
                    found.append({"number": number, **shown_message(pack, index)})
                if not len(pack):
                    break
                after = int(found[-1]["number"])
        found = found[:limit]
        if as_json:
            click.echo(json_text({"messages": found}))
            return
        for each in found:
            text = each["body"] if isinstance(each["body"], str) else json_text(each["body"])
            line = text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}..."
            click.echo(f"{each['number']}  {line.encode('unicode_escape').decode()}")

    return command


def _purge(kind: Kind) -> click.Command:
    @click.command("purge", help=f"Drop the messages of a {kind.value} that no consumer has.", epilog=_STATUS)
    @config_argument
    @server_option
    @click.argument("name")
    @master_timeout_option
    def command(config: Path, server: str, name: str, master_timeout_s: float) -> None:
        dropped = 0
        with reported_errors():
            (admin,) = admins(read_config(config), server)
            while True:
                done = asked(config, admin, f"{kind.value}:{name}", Purge(), Purged, master_timeout_s)
                dropped += done.dropped
                if not done.left or not done.dropped:
                    break
        click.echo(f"{dropped} messages were dropped.")

    return command


def _create(kind: Kind) -> click.Command:
    @click.command("create", help=f"Make a {kind.value}.", epilog="Exit status: 0, or 1 if it was not made.")
    @config_argument
    @server_option
    @click.argument("name")
    @click.option("--max-messages", type=click.IntRange(0), help="The most messages; 0: no limit.")
    @click.option("--max-bytes", type=click.IntRange(0), help="The most bytes of bodies; 0: no limit.")
    @click.option("--max-message-bytes", type=click.IntRange(1), help="The largest body.")
    @click.option(
        "--full", type=click.Choice([each.value for each in FullPolicy]), help="What to do at the limit."
    )
    @click.option("--max-deliveries", type=click.IntRange(0), help="Deliveries before a message is dead.")
    @click.option("--dead-queue", metavar="NAME", help="The queue for dead messages.")
    @click.option("--forward", metavar="NAME@SERVER", help="Where all messages go on to.")
    @click.option(
        "--cluster", metavar="SERVER,...", help="All servers that have a member of it, this one among them."
    )
    @_FLAGS[kind]
    @master_timeout_option
    def command(
        config: Path,
        server: str,
        name: str,
        master_timeout_s: float,
        cluster: str | None,
        **options: Any,
    ) -> None:
        given = {key: value for key, value in options.items() if value is not None}
        if cluster is not None:
            given["peers"] = _peers(config, server, name, cluster)
        settings = DestinationSettings(**given)
        flaw = settings.flaw(kind)
        if flaw:
            raise WrongArgument(f"{flaw}.")
        if settings.forward:
            _check_server(_servers(config), settings.forward.rpartition("@")[2])
        if flaw := name_flaw(kind, name):
            raise WrongArgument(flaw)
        with reported_errors():
            (admin,) = admins(read_config(config), server)
            click.echo(make_destination(admin, kind, name, settings, master_timeout_s))
            make_manager(admin, master_timeout_s)

    return command


def _servers(config: Path) -> list[str]:
    with reported_errors():
        return [each.name for each in read_config(config).servers]


def _check_server(known: list[str], server: str) -> None:
    if server not in known:
        raise WrongArgument(f"the file has no server {server}; it has {', '.join(known)}.")


def _peers(config: Path, server: str, name: str, cluster: str) -> tuple[str, ...]:
    """Return the other members of a clustered destination. Raises WrongArgument."""
    servers, known = cluster.split(","), _servers(config)
    peers = peers_of(name, server, servers)
    if peers is None:
        raise WrongArgument(
            f"--cluster is {cluster!r}; give all servers that have a member, as in s1,s2, with {server}."
        )
    for each in servers:
        _check_server(known, each)
    return peers


def _pausing(kind: Kind, verb: str, paused: bool, does: str) -> click.Command:
    @click.command(verb, help=f"{does} of a {kind.value}.", epilog=_STATUS)
    @config_argument
    @server_option
    @click.argument("name")
    @master_timeout_option
    def command(config: Path, server: str, name: str, master_timeout_s: float) -> None:
        request = PauseDelivery(paused)
        done = ask(config, server, f"{kind.value}:{name}", request, DeliveryPaused, master_timeout_s)
        state = "is paused" if paused else "goes on"
        click.echo(f"{kind.value} {name} {state}; {done.waiting} messages wait.")

    return command


@queue.command("move", epilog=_STATUS)
@config_argument
@server_option
@click.argument("name")
@click.argument("to")
@click.option(
    "--limit", type=click.IntRange(1), default=1_000_000_000, help="How many at most; all unless given."
)
@master_timeout_option
def move(config: Path, server: str, name: str, to: str, limit: int, master_timeout_s: float) -> None:
    """Move messages that no consumer has to another queue, the oldest first: dead ones back to work, say."""
    moved = 0
    with reported_errors():
        (admin,) = admins(read_config(config), server)
        while moved < limit:
            request = Move(f"queue:{to}", min(limit - moved, 1000))
            done = asked(config, admin, f"queue:{name}", request, Moved, master_timeout_s, repeatable=False)
            moved += done.count
            if not done.count:
                break
    click.echo(f"{moved} messages were moved.")


for _group, _kind in ((queue, Kind.QUEUE), (topic, Kind.TOPIC)):
    for _make in (_list, _show, _purge, _create):
        _group.add_command(_make(_kind))
    _group.add_command(_pausing(_kind, "pause", True, "Stop the delivery to consumers"))
    _group.add_command(_pausing(_kind, "resume", False, "Go on with the delivery to consumers"))
queue.add_command(_browse())
