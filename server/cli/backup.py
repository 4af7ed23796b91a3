"""`quorate backup`: copy the states of running servers to another place."""

import time
from pathlib import Path
from typing import Any

import click

from ..admin.backup_places import place_of
from ..admin.backups import back_up, forget_old
from ..config import UnknownName
from .common import (
    CommandError,
    admins,
    any_server_option,
    config_argument,
    json_option,
    json_text,
    read_config,
    replica_id,
    reported_errors,
)

MESH = "mesh"


@click.command(epilog="Exit status: 0 if all were backed up, 1 otherwise.")
@config_argument
@click.argument("place", metavar="PLACE")
@any_server_option
@click.option(
    "--replica",
    metavar="ID",
    callback=replica_id,
    help="Copy this replica of the server.  [default: the slave that is least behind]",
)
@click.option("--whole", is_flag=True, help="Copy everything, and not only what has changed since.")
@click.option(
    "--keep",
    metavar="N",
    type=click.IntRange(1),
    help="Remove all but the last N whole backups, and what goes on from them.",
)
@json_option
def command(
    config: Path,
    place: str,
    server: str | None,
    replica: int | None,
    whole: bool,
    keep: int | None,
    as_json: bool,
) -> None:
    """Copy the states of servers to PLACE, a directory or a URL of fsspec, while they go on.

    The first backup of a server is whole, the next ones have what has changed since the one before. Each is
    as of one entry. `quorate restore` begins a new cluster with one.
    """
    made: list[dict[str, Any]] = []
    with reported_errors():
        loaded = read_config(config)
        if server is None and replica is not None:
            raise CommandError("Name the server of the replica with --server.")
        asked = [each for each in admins(loaded, server) if each.server.mode != MESH]
        if not asked:
            raise CommandError("A mesh has no state to copy: its daemons have all topics from each other.")
        if replica is not None and replica not in asked[0].server.replica_ids:
            raise UnknownName(f"Server {asked[0].server.name} has no replica {replica}.")
        for admin in asked:
            name = admin.server.name
            target = place_of(place, name)
            started = time.monotonic()
            done = back_up(admin, target, replica=replica, whole=whole)
            seconds = time.monotonic() - started
            removed = forget_old(target, keep) if keep is not None else []
            made.append(
                {
                    "server": name,
                    "backup": done.backup.number,
                    "file": done.backup.name,
                    "entry": done.backup.index,
                    "whole": done.backup.whole,
                    "replica": done.replica,
                    "size_bytes": done.size_bytes,
                    "seconds": round(seconds, 3),
                    "removed": [each.name for each in removed],
                }
            )
            if not as_json:
                kind = "whole" if done.backup.whole else "what has changed"
                click.echo(
                    f"{name}: backup {done.backup.number}, {kind} up to entry {done.backup.index}, from "
                    f"replica {done.replica}: {done.size_bytes} bytes in {seconds:.1f} s"
                )
                if removed:
                    click.echo(f"{name}: {len(removed)} old backups were removed")
    if as_json:
        click.echo(json_text({"backups": made}))
