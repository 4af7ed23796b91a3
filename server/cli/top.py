"""`quorate top`: all servers, live, on a terminal."""

import contextlib
import os
import selectors
import sys
import termios
import time
import tty
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import click
from rich.live import Live

from ..admin import wire
from ..admin.client import ServerAdmin
from ..admin.connection import AdminError
from ..admin.health import cluster_conflict, is_down, is_led, is_whole_mesh, problems
from ..admin.replica_status import ReplicaStatus, gather
from ..config import Server
from .common import (
    CommandError,
    Seconds,
    admins,
    any_server_option,
    config_argument,
    json_option,
    json_text,
    read_config,
    reported_errors,
)
from .terminal import console
from .top_screen import DestinationSample, Order, ReplicaSample, Sample, screen

FIGURES_TIMEOUT_S = 2.0


@click.command(epilog="Exit status: 0; 1 if this is no terminal and neither --once nor --json is given.")
@config_argument
@any_server_option
@click.option(
    "--every", "every_s", metavar="SECONDS", type=Seconds(0.5, 3600), default=2.0, show_default=True
)
@click.option("--once", is_flag=True, help="Measure for this time, print it once, and end.")
@json_option
def command(config: Path, server: str | None, every_s: float, once: bool, as_json: bool) -> None:
    """Show replicas, queues and topics of all servers, and how fast they work, until q is pressed.

    Keys: q quits, o orders queues and topics by another column, p stops the figures and lets them go on.
    """
    with reported_errors():
        asked = admins(read_config(config), server)
    if once or as_json:
        before = measure(asked)
        time.sleep(every_s)
        now = measure(asked)
        if as_json:
            click.echo(json_text(_object(now)))
        else:
            console().print(screen(now, before, Order.MESSAGES, 1000, _title(config, every_s), paused=False))
        return
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise CommandError("This is no terminal: give --once or --json.")
    _follow(asked, every_s, _title(config, every_s))


def _title(config: Path, every_s: float) -> str:
    return f"quorate top {click.format_filename(config)}, every {every_s:g} s"


def measure(asked: list[ServerAdmin]) -> Sample:
    """Ask all replicas for their statuses, and one of each server for its queues and topics."""
    statuses = gather(asked)
    at_s = time.monotonic()
    replicas: list[ReplicaSample] = []
    found: list[str] = []
    for each, of_server in statuses:
        for status in of_server:
            id = status.endpoint.replica
            replicas.append(ReplicaSample(each.name, id, status.role, status.status or {}))
            found += [f"{each.name}.{id}: {problem}" for problem in problems(status, same_file=True)]
        found += _of_server(each, of_server)
    with ThreadPoolExecutor(max_workers=max(1, len(asked))) as pool:
        answers = list(pool.map(_figures, asked, [of_server for _, of_server in statuses]))
    return Sample(at_s, replicas, [row for rows in answers for row in rows], found)


def _of_server(server: Server, replicas: list[ReplicaStatus]) -> list[str]:
    if is_down(replicas):
        return [f"{server.name} is down"]
    found = [f"{server.name}: {conflict}" for conflict in [cluster_conflict(replicas)] if conflict]
    if not found and not (is_led(replicas) or is_whole_mesh(replicas)):
        found.append(f"{server.name} has no master")
    return found


def _figures(admin: ServerAdmin, replicas: list[ReplicaStatus]) -> list[DestinationSample]:
    """Return the queues and topics of a server, as its master has them, or a slave if there is none."""
    holders = [each for each in replicas if each.role in ("master", "slave")]
    for each in sorted(holders, key=lambda replica: replica.role != "master"):
        with contextlib.suppress(AdminError):
            rows = admin.ask_at(each.endpoint, wire.Figures(), list[wire.FigureRow], FIGURES_TIMEOUT_S)
            return [DestinationSample(admin.server.name, row.kind, row.name, row.figures) for row in rows]
    return []


def _object(sample: Sample) -> dict[str, Any]:
    return {
        "replicas": [
            {"server": each.server, "replica": each.replica, "role": each.role, **each.values}
            for each in sample.replicas
        ],
        "destinations": [
            {"server": each.server, "kind": each.kind, "name": each.name, **each.figures}
            for each in sample.destinations
        ],
        "problems": list(sample.problems),
    }


@contextlib.contextmanager
def _keys() -> Generator[int]:
    """Have keys come one by one and unseen, from this descriptor."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        yield descriptor
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _follow(asked: list[ServerAdmin], every_s: float, title: str) -> None:
    orders = list(Order)
    order, paused = Order.MESSAGES, False
    terminal = console()
    before, now = None, measure(asked)
    with (
        _keys() as keys,
        selectors.DefaultSelector() as pressing,
        Live(console=terminal, screen=True, auto_refresh=False) as live,
    ):
        pressing.register(keys, selectors.EVENT_READ)
        due = time.monotonic() + every_s
        while True:
            live.update(screen(now, before, order, terminal.height, title, paused=paused), refresh=True)
            try:
                ready = pressing.select(max(0.0, due - time.monotonic()))
                pressed = os.read(keys, 1).decode("ascii", "replace") if ready else ""
            except KeyboardInterrupt:
                return
            if pressed in ("q", "Q", "\x04") or (ready and not pressed):
                return
            if pressed == "o":
                order = orders[(orders.index(order) + 1) % len(orders)]
            elif pressed == "p":
                paused = not paused
            if time.monotonic() >= due:
                if not paused:
                    before, now = now, measure(asked)
                due = time.monotonic() + every_s
