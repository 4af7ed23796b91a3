"""`quorate apply`: a running cluster gets the replicas that the edited file declares."""

import time
from pathlib import Path

import click

from ..admin.client import ServerAdmin
from ..admin.connection import AdminError
from ..admin.reconfiguration import ReconfigurationFailed, Reconfigurer, declared_steps
from ..admin.replica_status import STATUS_TIMEOUT_S, gather
from ..config import Server
from .common import CommandError, config_argument, read_config, reported_errors
from .replica import timeout_option, wait_option
from .status import apart, masters, rivals, several

PATIENCE = 4
PAUSE_S = 1.0
"""Replicas that seem to be in different clusters are asked so often, with such pauses."""


@click.command(epilog="Exit status: 0 if every cluster has the replicas of the file, 1 otherwise.")
@config_argument
@click.option("--server", metavar="NAME", help="Only this cluster (name or id).")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@timeout_option
@wait_option
def command(config: Path, server: str | None, dry_run: bool, timeout_s: float, wait_s: float) -> None:
    """Compare the running clusters with the edited file; add, move and remove replicas one at a time.

    What is added is to be started on its machine with `quorate start --join`, before this command or while it
    waits.
    """
    with reported_errors():
        loaded = read_config(config)
        chosen = loaded.servers if server is None else (loaded.server(server),)
        if server is not None and not chosen[0].clustered:
            raise CommandError(f"{chosen[0].name} is no <cluster>: it has one replica for good.")
        if not any(each.clustered for each in chosen):
            click.echo(f"{click.format_filename(config)} declares no <cluster>: there is nothing to apply")
        failed: list[str] = []
        differs = False
        for declared in chosen:
            if not declared.clustered:
                continue
            admin = ServerAdmin(loaded, declared)
            reconfigurer = Reconfigurer(admin, timeout_s, click.echo, wait_s=wait_s)
            try:
                steps = reconfigurer.steps(declared_steps(declared))
                for step in steps:
                    if dry_run:
                        differs = True
                        click.echo(f"{declared.name}: would {step}")
                    else:
                        reconfigurer.apply(step)
                if steps and not dry_run:
                    _check_again(reconfigurer, declared)
                _check_one_cluster(admin)
            except AdminError as error:
                failed.append(str(error))
                continue
            if not steps:
                click.echo(f"{declared.name} has the replicas of the file")
        if failed:
            raise CommandError("; ".join(failed))
    if differs:
        raise SystemExit(1)


def _check_one_cluster(admin: ServerAdmin) -> None:
    """The replicas of the file are in one cluster. Raises AdminError."""
    for attempt in range(PATIENCE):
        ((server, replicas),) = gather([admin], STATUS_TIMEOUT_S)
        if len(masters(replicas)) < 2 and not rivals(replicas):
            return
        if attempt < PATIENCE - 1:
            # While the master changes an old one may not know yet.
            time.sleep(PAUSE_S)
    led = masters(replicas)
    raise ReconfigurationFailed(
        f"{server.name}: {several(led) if len(led) > 1 else apart(rivals(replicas), led)}"
    )


def _check_again(reconfigurer: Reconfigurer, declared: Server) -> None:
    """Nobody else has changed the cluster meanwhile. Raises AdminError."""
    left = reconfigurer.steps(declared_steps(declared))
    if left:
        raise ReconfigurationFailed(
            f"{declared.name}: another command has changed the cluster meanwhile; to make it as the file "
            f"says again ({', '.join(map(str, left))}), run `quorate apply` once more"
        )
