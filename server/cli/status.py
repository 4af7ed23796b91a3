"""`quorate status`: how every replica of every server is."""

from pathlib import Path
from time import monotonic, sleep, strftime
from typing import Any

import click
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ..admin.client import ServerAdmin
from ..admin.replica_status import STATUS_TIMEOUT_S, ReplicaStatus, as_agreed, gather
from ..config import Server
from ..network.addresses import decode_address, describe_replica, differences, encode_address
from .common import (
    Seconds,
    admins,
    config_argument,
    console,
    json_option,
    json_text,
    read_config,
    reported_errors,
)

SMALLEST_PERIOD_S = 0.2
WAIT_S = 5.0
"""Longer than a start or a change of master takes on good machines."""
POLL_S = 0.2

_COLOURS = {"master": "bold green", "slave": "green", "down": "bold red"}
_COLUMNS = (
    ("view", "view"),
    ("commit", "commit"),
    ("lag", "lag"),
    ("connections", "connections"),
    ("notifications", "notifications"),
    ("garbage", "garbage"),
    ("pid", "pid"),
)

Statuses = list[tuple[Server, list[ReplicaStatus]]]


@click.command(epilog="Exit status: 0 if every server has one master, and that has a majority; 1 otherwise.")
@config_argument
@click.option("--server", metavar="NAME", help="Only this server (name or id).")
@json_option
@click.option(
    "--watch",
    metavar="SECONDS",
    type=Seconds(SMALLEST_PERIOD_S),
    is_flag=False,
    flag_value=1.0,
    help="Refresh the table until Ctrl-C.",
)
@click.option(
    "--timeout",
    "timeout_s",
    metavar="SECONDS",
    type=Seconds(0.1, 60),
    default=STATUS_TIMEOUT_S,
    show_default=True,
    help="A replica that does not answer for so long is down.",
)
@click.option(
    "--wait",
    "wait_s",
    metavar="SECONDS",
    type=Seconds(0),
    help=f"Wait so long for servers without a master: after a start, while it changes.  [default: {WAIT_S}, "
    "0 for one of which nobody answers]",
)
@click.pass_context
def command(
    ctx: click.Context,
    config: Path,
    server: str | None,
    as_json: bool,
    watch: float | None,
    timeout_s: float,
    wait_s: float | None,
) -> None:
    """Show role, view, commit index, lag and connections of every replica."""
    with reported_errors():
        asked = admins(read_config(config), server)
    statuses = gather(asked, timeout_s) if watch is not None else _settled(asked, timeout_s, wait_s)
    if as_json:
        click.echo(json_text(as_object(statuses)))
    elif watch is not None:
        statuses = _watch(asked, statuses, watch, timeout_s)
    else:
        console().print(_table(statuses))
        for server_asked, replicas in statuses:
            differences = compare(server_asked, replicas)
            if differences:
                click.echo(f"quorate: {server_asked.name}: {_advice(config, differences)}", err=True)
            for replica in replicas:
                for problem in problems(replica, same_file=differences == []):
                    name = f"{server_asked.name}.{replica.endpoint.replica}"
                    click.echo(f"quorate: {name}: {problem}", err=True)
            if wait_s is None and _may_get_a_master(replicas) and _is_down(replicas):
                click.echo(
                    f"quorate: {server_asked.name} is down, or still starting (its log says so): none of its "
                    "replicas can be connected to; start it, or wait for it with --wait SECONDS",
                    err=True,
                )
            if len(masters(replicas)) > 1:
                click.echo(f"quorate: {server_asked.name}: {several(masters(replicas))}", err=True)
            elif rivals(replicas):
                sentence = apart(rivals(replicas), masters(replicas))
                click.echo(f"quorate: {server_asked.name}: {sentence}", err=True)
    ctx.exit(0 if all(_is_led(replicas) for _, replicas in statuses) else 1)


def _settled(asked: list[ServerAdmin], timeout_s: float, wait_s: float | None) -> Statuses:
    """The statuses when every server has a master, or when that was waited for long enough.

    wait_s: None waits WAIT_S, and not at all for a server of which nobody is there.
    """
    limit_s = WAIT_S if wait_s is None else wait_s
    deadline, said = monotonic() + limit_s, False
    while True:
        statuses = gather(asked, timeout_s)
        without = [
            server.name
            for server, replicas in statuses
            if _may_get_a_master(replicas) and not (wait_s is None and _is_down(replicas))
        ]
        if not without or monotonic() >= deadline:
            return statuses
        if not said:
            verb = "have" if len(without) > 1 else "has"
            names = ", ".join(without)
            cut_off = any(masters(replicas) for server, replicas in statuses if server.name in without)
            what = "master with a majority" if cut_off else "master"
            click.echo(f"quorate: {names} {verb} no {what} yet; waits up to {limit_s:g} s for it", err=True)
            said = True
        sleep(POLL_S)


def _may_get_a_master(replicas: list[ReplicaStatus]) -> bool:
    """Whether there is none, and one that does not answer well, or not yet, may become it."""
    led = any(each.in_charge for each in replicas)
    return not led and any(each.endpoint.port and not each.refused for each in replicas)


def _is_led(replicas: list[ReplicaStatus]) -> bool:
    """Whether one of them is the master, and can go on as such."""
    led = len(masters(replicas)) == 1 and any(each.in_charge for each in replicas)
    return led and not rivals(replicas)


def _is_down(replicas: list[ReplicaStatus]) -> bool:
    """Whether no connection could be made to any of them."""
    return all(each.nobody_there for each in replicas)


def compare(server: Server, replicas: list[ReplicaStatus]) -> list[str] | None:
    """Where the running cluster and the file differ, in words; None where there is nothing to compare."""
    cluster = as_agreed(replicas) if server.clustered else {}
    if not cluster:
        return None
    declared = {
        each.id: describe_replica(decode_address(encode_address(each)), each.witness)
        for each in server.replicas
    }
    return differences(
        declared,
        {
            id: describe_replica(seated.get("at"), bool(seated.get("witness")))
            for id, seated in cluster.items()
        },
    )


def _advice(config: Path, differences: list[str]) -> str:
    name = click.format_filename(config)
    return (
        f"the cluster is not as {name} says: {'; '.join(differences)}; "
        f"run `quorate apply {name}` if the file is right, else correct the file"
    )


def problems(replica: ReplicaStatus, *, same_file: bool = False) -> list[str]:
    """What the table does not show. same_file: the file of this command is as the cluster."""
    if replica.refused:
        return [replica.reason]
    values = replica.status or {}
    failed: dict[str, str] = values.get("services_failed") or {}
    found = [f"the service {service} cannot start: {reason}" for service, reason in failed.items()]
    for key in ("diagnosis", "strangers") if same_file else ("diagnosis", "strangers", "difference"):
        said = str(values.get(key) or "")
        if said and not any(said in line for line in found):
            found.append(said)
    if values.get("turned_away") and not values.get("diagnosis"):
        found.append(str(values["turned_away"]))
    if values.get("waits_for") and not values.get("diagnosis"):
        found.append(f"its services wait for {values['waits_for']}")
    if values.get("trace_problem"):
        found.append(f"trace: {values['trace_problem']}")
    return found


def masters(replicas: list[ReplicaStatus]) -> list[int]:
    """Which replicas say that they are the master: one, if all is well."""
    return [replica.endpoint.replica for replica in replicas if replica.role == "master"]


def rivals(replicas: list[ReplicaStatus]) -> list[int]:
    """Which replicas are slaves where the master that is shown is no member: in another cluster."""
    led = set(masters(replicas))
    return [
        each.endpoint.replica
        for each in replicas
        if led and each.role == "slave" and led.isdisjoint((each.status or {}).get("members") or led)
    ]


def apart(ids: list[int], led: list[int]) -> str:
    """What it means that there are such."""
    return (
        f"master {', '.join(map(str, led))} and replica {', '.join(map(str, ids))} are in different "
        "clusters. If new replicas have founded one of their own, stop them, remove their directories and "
        "start them with `quorate start --join`"
    )


def several(ids: list[int]) -> str:
    """What it means that more than one replica is master."""
    return (
        f"replicas {', '.join(map(str, ids))} are all master: there are several clusters, which do not hear "
        "each other. If one was begun again by `quorate replica force-new-cluster`, stop the others and "
        "remove their directories"
    )


def as_object(statuses: Statuses) -> dict[str, Any]:
    """The statuses as `--json` prints them."""
    return {
        "servers": [
            {
                "server": server.name,
                "id": server.id,
                "differences": compare(server, replicas) or [],
                "replicas": [_replica_object(replica) for replica in replicas],
            }
            for server, replicas in statuses
        ]
    }


def _replica_object(replica: ReplicaStatus) -> dict[str, Any]:
    fixed: dict[str, Any] = {
        "replica": replica.endpoint.replica,
        "role": replica.role,
        "host": replica.endpoint.host,
        "port": replica.endpoint.port,
    }
    if replica.status is None:
        return {**fixed, "reason": replica.reason}
    return {**replica.status, **fixed}


def _watch(
    asked: list[ServerAdmin], statuses: Statuses, period_s: float, timeout_s: float
) -> Statuses:  # pragma: no cover - a loop for a terminal
    screen = console()
    try:
        with Live(_watched(statuses), console=screen, auto_refresh=False) as live:
            while True:
                sleep(period_s)
                statuses = gather(asked, timeout_s)
                live.update(_watched(statuses), refresh=True)
    except KeyboardInterrupt:
        return statuses


def _watched(statuses: Statuses) -> Group:
    return Group(_table(statuses), Text(strftime("%H:%M:%S, Ctrl-C ends"), style="dim"))


def _table(statuses: Statuses) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("server")
    table.add_column("replica", justify="right")
    table.add_column("role")
    for title, _ in _COLUMNS:
        table.add_column(title, justify="right")
    table.add_column("address")
    for server, replicas in statuses:
        for replica in replicas:
            values = replica.status or {}
            table.add_row(
                Text(server.name),
                str(replica.endpoint.replica),
                Text(replica.role, style=_colour(replica)),
                *(_cell(values.get(key)) for _, key in _COLUMNS),
                Text(str(replica.endpoint)),
            )
    return table


def _colour(replica: ReplicaStatus) -> str:
    troubled = replica.role == "master" and not replica.in_charge
    return "yellow" if troubled else _COLOURS.get(replica.role, "yellow")


def _cell(value: object) -> Text:
    return Text("-", style="dim") if value is None else Text(str(value))
