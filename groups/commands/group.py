"""`quorate group`: list groups, show and expel members, show the clients of each replica and move them."""

from pathlib import Path
from typing import Final, TypeVar

import attrs
import click
from rich.table import Table
from rich.text import Text

from ...agents import Notification, connection_manager, decode, encode
from ...agents.presence import DescribeHomes, DrainHome, Homes
from ...server.admin import wire
from ...server.admin.client import CALL_TIMEOUT_S, ServerAdmin
from ...server.admin.failures import failure_sentence, missing_agent
from ...server.cli.common import (
    CommandError,
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
from ..agents.protocol import (
    GROUPS,
    DescribeGroup,
    ExpelMember,
    GroupDescription,
    GroupList,
    GroupRefused,
    HomeForgotten,
    HomeLost,
    ListGroups,
    MemberExpelled,
    group_address,
)

__all__ = ["group"]

N = TypeVar("N", bound=Notification)
REPLY_S: Final = 10.0
_STATUS: Final = "Exit status: 0, or 1 if there is no such group or member, or no master answers."


@click.group(no_args_is_help=True)
def group() -> None:
    """List groups of clients, show and expel their members, and move clients between replicas."""


def _ask(
    config: Path, admin: ServerAdmin, address: str, request: Notification, reply: type[N], timeout_s: float
) -> N:
    """Ask an agent of groups, and return its answer. Raises CommandError."""
    limit_s = min(REPLY_S, timeout_s)
    answer = admin.ask_master(
        wire.Request(address, request.type_name, encode(request), limit_s),
        wire.Reply,
        repeatable=True,
        timeout_s=limit_s + CALL_TIMEOUT_S,
        master_timeout_s=timeout_s,
        total_timeout_s=timeout_s,
    )
    if answer.type == reply.type_name:
        return decode(reply, answer.payload)
    name = admin.server.name
    if answer.type == GroupRefused.type_name:
        text = decode(GroupRefused, answer.payload).text
        raise CommandError(f"{text[:1].upper()}{text[1:]}.")
    if missing_agent(answer.type, answer.payload) is None:
        raise CommandError(
            failure_sentence(answer.type, answer.payload) or f"{address} answered {answer.type}."
        )
    if admin.server.mode != "group":
        raise CommandError(
            f'Server {name} has no groups: it has mode="{admin.server.mode}", not mode="group".'
        )
    title = address.partition(":")[2]
    raise CommandError(
        f"Server {name} has no group {title}; list those it has with: quorate group list {config} "
        f"--server {name}"
    )


def _admin(config: Path, server: str) -> ServerAdmin:
    (admin,) = admins(read_config(config), server)
    return admin


def _described(config: Path, admin: ServerAdmin, timeout_s: float) -> list[GroupDescription]:
    titles = _ask(config, admin, GROUPS, ListGroups(), GroupList, timeout_s).groups
    return [
        _ask(config, admin, group_address(title), DescribeGroup(), GroupDescription, timeout_s)
        for title, _ in titles
    ]


@group.command("list", epilog=_STATUS)
@config_argument
@server_option
@master_timeout_option
@json_option
def _list(config: Path, server: str, master_timeout_s: float, as_json: bool) -> None:
    """List the groups of a server."""
    with reported_errors():
        admin = _admin(config, server)
        found = _described(config, admin, master_timeout_s)
    if as_json:
        click.echo(json_text({"groups": [_object(each) for each in found]}))
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("group")
    for title in ("members", "suspected", "view", "casts", "items stored", "bytes stored"):
        table.add_column(title, justify="right")
    for each in found:
        suspected = sum(member.suspected for member in each.members)
        values = (len(each.members), suspected, each.view, each.casts, each.stored_items, each.stored_bytes)
        table.add_row(*map(Text, map(str, (each.title, *values))))
    console().print(table)


@group.command("show", epilog=_STATUS)
@config_argument
@click.argument("name")
@server_option
@master_timeout_option
@json_option
def _show(config: Path, name: str, server: str, master_timeout_s: float, as_json: bool) -> None:
    """Show the members of the group NAME, the oldest first, and its figures."""
    with reported_errors():
        admin = _admin(config, server)
        found = _ask(config, admin, group_address(name), DescribeGroup(), GroupDescription, master_timeout_s)
    if as_json:
        click.echo(json_text(_object(found)))
        return
    click.echo(
        f"{found.title}: view {found.view}, last item {found.last}, {found.casts} casts, "
        f"{found.stored_items} items ({found.stored_bytes} bytes) that some member has not got, "
        f"{found.requests} requests without an answer, {found.suspicions} suspicions "
        f"({found.false_suspicions} false)" + (", casts wait for slow members" if found.holding else "")
    )
    table = Table(box=None, pad_edge=False)
    for title in ("member", "user", "label", "home", "state"):
        table.add_column(title)
    for title in ("joined", "has up to", "lacks"):
        table.add_column(title, justify="right")
    for each in found.members:
        state = "suspected" if each.suspected else "ready" if each.ready else "member"
        home = f"{admin.server.name}.{each.home}"
        values = (each.id, each.user, each.label, home, state, each.joined, each.acked)
        table.add_row(*map(Text, map(str, (*values, found.last - each.acked))))
    console().print(table)


@group.command("expel", epilog=_STATUS)
@config_argument
@click.argument("name")
@click.argument("member")
@server_option
@master_timeout_option
def _expel(config: Path, name: str, member: str, server: str, master_timeout_s: float) -> None:
    """End the membership of MEMBER, given by its id, label or user, in the group NAME."""
    with reported_errors():
        admin = _admin(config, server)
        order = ExpelMember(member)
        done = _ask(config, admin, group_address(name), order, MemberExpelled, master_timeout_s)
    click.echo(f"quorate: {done.member} is no member of {name} from view {done.view} on.")


@group.command("homes", epilog="Exit status: 0, or 1 if no master answers.")
@config_argument
@server_option
@master_timeout_option
@json_option
def _homes(config: Path, server: str, master_timeout_s: float, as_json: bool) -> None:
    """Show how many clients each replica has."""
    with reported_errors():
        admin = _admin(config, server)
        found = _ask_homes(config, admin, DescribeHomes(), master_timeout_s)
        held: dict[int, int] = {}
        if admin.server.context == "local":
            for each in _described(config, admin, master_timeout_s):
                for home in each.homes:
                    held[home.home] = held.get(home.home, 0) + home.held
    name = admin.server.name
    known = sorted({*admin.server.replica_ids, *found.loads} - {*admin.server.witness_ids})
    rows = [
        (f"{name}.{each}", found.loads.get(each, 0), held.get(each, 0), _standing(found, each))
        for each in known
    ]
    if as_json:
        homes = [dict(zip(("home", "clients", "held", "standing"), row, strict=True)) for row in rows]
        click.echo(json_text({"homes": homes}))
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("home")
    table.add_column("clients", justify="right")
    table.add_column("items held", justify="right")
    table.add_column("standing")
    for row in rows:
        table.add_row(*map(Text, map(str, row)))
    console().print(table)


@group.command("drain", epilog="Exit status: 0, or 1 if the replica cannot be drained or no master answers.")
@config_argument
@click.argument("replica")
@click.option("--undo", is_flag=True, help="Let clients use the replica again.")
@master_timeout_option
def _drain(config: Path, replica: str, undo: bool, master_timeout_s: float) -> None:
    """Have the clients of REPLICA, for example s0.2, connect to other replicas, and take no new ones."""
    with reported_errors():
        admin, number = _replica(config, replica)
        if admin.server.context == "local":
            raise CommandError(
                f'{admin.server.name} has context="local": members of groups stay at their replica; give it '
                f"up with: quorate group forget {config} {replica}"
            )
        order = DrainHome(number, drained=not undo)
        found = _ask_homes(config, admin, order, master_timeout_s)
        if found.problem:
            raise CommandError(f"{replica} was not drained: {found.problem}.")
    ending = "takes clients again" if undo else "has no clients from now on; they connect to other replicas"
    click.echo(f"quorate: {replica} {ending}.")


@group.command("forget", epilog="Exit status: 0, or 1 if the replica keeps no contexts or no master answers.")
@config_argument
@click.argument("replica")
@master_timeout_option
def _forget(config: Path, replica: str, master_timeout_s: float) -> None:
    """Give up REPLICA, for example s0.2, with context="local": its members leave their groups in one view.

    Nothing is held for it any more. Its clients learn it, and connect to other replicas.
    """
    with reported_errors():
        admin, number = _replica(config, replica)
        if admin.server.context != "local":
            raise CommandError(
                f'{admin.server.name} has context="replicated": what the clients of {replica} lack is on all '
                "replicas, and there is nothing to forget."
            )
        order = HomeLost(number, "an administrator has given up its replica")
        _ask(config, admin, GROUPS, order, HomeForgotten, master_timeout_s)
    click.echo(f"quorate: {replica} is given up; its clients are members of no group any more.")


def _replica(config: Path, replica: str) -> tuple[ServerAdmin, int]:
    """Return the server of a replica that is given as s0.2, and its number. Raises CommandError."""
    server, _, number = replica.rpartition(".")
    parsed = read_config(config)
    if not server or not number.isdigit():
        raise CommandError(f"{replica!r} is not a replica; write it as s0.2.")
    parsed.replica(server, int(number))
    (admin,) = admins(parsed, server)
    return admin, int(number)


def _ask_homes(config: Path, admin: ServerAdmin, request: Notification, timeout_s: float) -> Homes:
    if admin.server.mode != "group":
        raise CommandError(
            f'The clients of {admin.server.name} are all at the master: it has mode="{admin.server.mode}", '
            'not mode="group".'
        )
    return _ask(config, admin, str(connection_manager(admin.server.id)), request, Homes, timeout_s)


def _standing(found: Homes, home: int) -> str:
    if home in found.drained:
        return "drained"
    return "serves" if home in found.homes else "is not in the view"


def _object(found: GroupDescription) -> dict[str, object]:
    described = attrs.asdict(found)
    for member in described["members"]:
        member["id"] = str(member["id"])
    return described
