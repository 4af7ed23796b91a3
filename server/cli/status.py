"""`quorate status`: the state of every replica of every server."""

from pathlib import Path
from time import monotonic, sleep, strftime

import attrs
import click
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ..admin.client import ServerAdmin
from ..admin.health import (
    cluster_conflict,
    differences_from_file,
    is_down,
    is_led,
    is_whole_mesh,
    masters,
    may_get_a_master,
    outdated,
    problems,
    releases,
    statuses_object,
)
from ..admin.replica_status import NO_ANSWER, STATUS_TIMEOUT_S, ReplicaStatus, gather
from ..config import Server
from ..storage.data_directory import running_process
from ..storage.running_file import read_running
from .common import (
    Seconds,
    admins,
    any_server_option,
    config_argument,
    json_option,
    json_text,
    read_config,
    reported_errors,
)
from .terminal import console, short_bytes

SMALLEST_PERIOD_S = 0.2
WAIT_S = 5.0
"""The default wait for a master: longer than a start or a failover takes on usual machines."""
POLL_S = 0.2

_COLOURS = {
    "master": "bold green",
    "slave": "green",
    "daemon": "green",
    "down": "bold red",
    NO_ANSWER: "bold red",
}
_COLUMNS = (
    ("view", "view"),
    ("commit", "commit"),
    ("lag", "lag"),
    ("connections", "connections"),
    ("notifications", "notifications"),
    ("agents", "agents"),
    ("backlog", "backlog"),
    ("dead", "dead_letters"),
    ("failed", "failed_reactions"),
    ("disk free", "disk_free_bytes"),
    ("garbage", "garbage"),
    ("pid", "pid"),
)

Statuses = list[tuple[Server, list[ReplicaStatus]]]


@click.command(
    epilog="Exit status: 0 if every server has one master, and that has a majority (of a mesh: if all of its "
    "daemons answer); 1 otherwise."
)
@config_argument
@any_server_option
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
    help="A replica that does not answer within this time is down, or runs and does not answer.",
)
@click.option(
    "--wait",
    "wait_s",
    metavar="SECONDS",
    type=Seconds(0),
    help="Longest wait for servers without a master, as after a start or during a failover.  "
    f"[default: {WAIT_S}, 0 for a server of which no replica answers]",
)
@click.option(
    "--data",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Where to find replicas of this host that do not answer. Default: data beside the file.",
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
    data: Path | None,
) -> None:
    """Show role, view, commit index, lag and connections of every replica."""
    with reported_errors():
        loaded = read_config(config)
        asked = admins(loaded, server)
    statuses = gather(asked, timeout_s) if watch is not None else _settled(asked, timeout_s, wait_s)
    statuses = _with_processes(statuses, data or loaded.path.parent / "data")
    if as_json:
        click.echo(json_text(statuses_object(statuses)))
    elif watch is not None:
        statuses = _watch(asked, statuses, watch, timeout_s, data or loaded.path.parent / "data")
    else:
        console().print(_table(statuses))
        for server_asked, replicas in statuses:
            differences = differences_from_file(server_asked, replicas)
            if differences:
                click.echo(f"quorate: {server_asked.name}: {_advice(config, differences)}", err=True)
            for replica in replicas:
                if replica.pid is not None:
                    advice = _advice_for_silent(config, server_asked, replica)
                    click.echo(f"quorate: {server_asked.name}.{replica.endpoint.replica} {advice}", err=True)
                services: dict[str, str] = (replica.status or {}).get("services") or {}
                for service, line in services.items():
                    click.echo(f"{server_asked.name}.{replica.endpoint.replica} {service}: {line}")
                for problem in problems(replica, same_file=differences == []):
                    name = f"{server_asked.name}.{replica.endpoint.replica}"
                    click.echo(f"quorate: {name}: {problem}", err=True)
            silent = any(replica.pid is not None for replica in replicas)
            if wait_s is None and may_get_a_master(replicas) and is_down(replicas) and not silent:
                click.echo(
                    f"quorate: {server_asked.name} is down, or still starting (its log says so): none of its "
                    "replicas can be connected to; start it, or wait for it with --wait SECONDS",
                    err=True,
                )
            if mixed := releases(replicas):
                click.echo(f"quorate: {server_asked.name}: {mixed}", err=True)
            if old := outdated(loaded, server_asked, replicas):
                click.echo(f"quorate: {server_asked.name}: {old}", err=True)
            if conflict := cluster_conflict(replicas):
                click.echo(f"quorate: {server_asked.name}: {conflict}", err=True)
    serves = all(is_led(replicas) or is_whole_mesh(replicas) for _, replicas in statuses)
    ctx.exit(0 if serves else 1)


def _settled(asked: list[ServerAdmin], timeout_s: float, wait_s: float | None) -> Statuses:
    """Ask for statuses until every server has a master, or the longest wait is over.

    `wait_s` None: wait WAIT_S, but not for a server of which no replica can be connected to.
    """
    limit_s = WAIT_S if wait_s is None else wait_s
    deadline, announced = monotonic() + limit_s, False
    while True:
        statuses = gather(asked, timeout_s)
        without = [
            server.name
            for server, replicas in statuses
            if may_get_a_master(replicas) and not (wait_s is None and is_down(replicas))
        ]
        if not without or monotonic() >= deadline:
            return statuses
        if not announced:
            verb = "have" if len(without) > 1 else "has"
            names = ", ".join(without)
            cut_off = any(masters(replicas) for server, replicas in statuses if server.name in without)
            what = "master with a majority" if cut_off else "master"
            click.echo(f"quorate: {names} {verb} no {what} yet; waits up to {limit_s:g} s for it", err=True)
            announced = True
        sleep(POLL_S)


def _with_processes(statuses: Statuses, data: Path) -> Statuses:
    """Add the process of each replica that does not answer and runs on this machine, and what it runs."""
    return [
        (server, [_with_process(server, each, data) for each in replicas]) for server, replicas in statuses
    ]


def _with_process(server: Server, replica: ReplicaStatus, data: Path) -> ReplicaStatus:
    id = replica.endpoint.replica
    if replica.status is not None or replica.refused:
        return replica
    pid = running_process(data, server.name, id)
    if pid is None:
        return replica
    report = read_running(data / server.name / str(id))
    return attrs.evolve(replica, pid=pid, running=report if report and report.pid == pid else None)


def _advice_for_silent(config: Path, server: Server, replica: ReplicaStatus) -> str:
    """Return what is known of a process that does not answer, and what to do."""
    text = f"runs as process {replica.pid} and does not answer"
    report = replica.running
    if report is None:
        return (
            f"{text}: it starts (its log says so), is suspended, or a reaction is in code that keeps the "
            f"interpreter's lock: `kill -USR2 {replica.pid}` makes it tell which, then ask again"
        )
    text += f": {report.sentence}"
    if report.reaction is not None:
        name = click.format_filename(config)
        text += f"; if that does not end: quorate skip {name} --server {server.name} {report.entry}"
    return text


def _advice(config: Path, differences: list[str]) -> str:
    name = click.format_filename(config)
    return (
        f"the cluster is not as {name} says: {'; '.join(differences)}; "
        f"run `quorate apply {name}` if the file is right, else correct the file"
    )


def _watch(
    asked: list[ServerAdmin], statuses: Statuses, period_s: float, timeout_s: float, data: Path
) -> Statuses:  # pragma: no cover - a loop for a terminal
    screen = console()
    try:
        with Live(_watched(statuses), console=screen, auto_refresh=False) as live:
            while True:
                sleep(period_s)
                statuses = _with_processes(gather(asked, timeout_s), data)
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
            values = replica.status or {"pid": replica.pid}
            table.add_row(
                Text(server.name),
                str(replica.endpoint.replica),
                Text(replica.role, style=_colour(replica)),
                *(_cell(values.get(key), key) for _, key in _COLUMNS),
                Text(str(replica.endpoint)),
            )
    return table


def _colour(replica: ReplicaStatus) -> str:
    troubled = replica.role == "master" and not replica.in_charge
    return "yellow" if troubled else _COLOURS.get(replica.role, "yellow")


def _cell(value: object, key: str) -> Text:
    if value is None:
        return Text("-", style="dim")
    return Text(short_bytes(int(str(value))) if key.endswith("_bytes") else str(value))
