"""`quorate apply`: give a running cluster the replicas that the edited file declares."""

import time
from pathlib import Path

import click

from ..admin.client import ServerAdmin
from ..admin.connection import AdminError
from ..admin.health import cluster_conflict
from ..admin.reconfiguration import ReconfigurationFailed, Reconfigurer
from ..admin.reconfiguration_plan import declared_steps
from ..admin.replica_status import STATUS_TIMEOUT_S, gather
from ..config import Server
from .common import CommandError, WrongArgument, config_argument, read_config, reported_errors
from .replica import timeout_option, wait_option

CONFLICT_POLLS = 4
"""How often replicas that seem to be in different clusters are asked, before that is an error."""
CONFLICT_PAUSE_S = 1.0
"""The pause between two such polls."""


@click.command(epilog="Exit status: 0 if every cluster has the replicas of the file, 1 otherwise.")
@config_argument
@click.option("--server", metavar="NAME", help="Only this cluster (name or id).")
@click.option("--dry-run", is_flag=True, help="Print the steps, and change nothing.")
@timeout_option
@wait_option
def command(config: Path, server: str | None, dry_run: bool, timeout_s: float, wait_s: float) -> None:
    """Compare the running clusters with the edited file; add, move and remove replicas one at a time.

    Start each added replica on its machine with `quorate start --join`, before this command or while it
    waits.
    """
    with reported_errors():
        loaded = read_config(config)
        chosen = loaded.servers if server is None else (loaded.server(server),)
        if server is not None and not chosen[0].clustered:
            raise WrongArgument(f"{chosen[0].name} is not a <cluster>: it always has one replica.")
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
    """Check that all replicas are in one cluster. Raises AdminError."""
    conflict = ""
    for attempt in range(CONFLICT_POLLS):
        if attempt:
            # During a failover, the former master may not know yet that it is none.
            time.sleep(CONFLICT_PAUSE_S)
        ((_, replicas),) = gather([admin], STATUS_TIMEOUT_S)
        conflict = cluster_conflict(replicas)
        if not conflict:
            return
    raise ReconfigurationFailed(f"{admin.server.name}: {conflict}")


def _check_again(reconfigurer: Reconfigurer, declared: Server) -> None:
    """Check that no other command has changed the cluster meanwhile. Raises AdminError."""
    left = reconfigurer.steps(declared_steps(declared))
    if left:
        raise ReconfigurationFailed(
            f"{declared.name}: another command has changed the cluster meanwhile; to make it as the file "
            f"says again ({', '.join(map(str, left))}), run `quorate apply` once more"
        )
