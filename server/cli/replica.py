"""`quorate replica`: replicas of a running cluster are added, removed and replaced."""

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import click

from ...hachannel import Seat
from ..admin.client import ServerAdmin
from ..admin.reconfiguration import WAIT_S, Reconfigurer
from ..admin.reconfiguration_plan import ReconfigurationStep, addition, describe
from ..admin.replica_status import gather
from ..config import Replica, Server
from ..network.addresses import decode_address
from .common import (
    CommandError,
    Seconds,
    config_argument,
    read_config,
    replica_id,
    reported_errors,
    server_option,
)

TIMEOUT_S = 60.0

which_option = click.option(
    "--replica", metavar="ID", callback=replica_id, required=True, help="Id of the replica."
)
timeout_option = click.option(
    "--timeout",
    "timeout_s",
    metavar="SECONDS",
    type=Seconds(0.1),
    default=TIMEOUT_S,
    show_default=True,
    help="Give up waiting after so long. What the cluster has agreed to stays.",
)
wait_option = click.option(
    "--wait",
    "wait_s",
    metavar="SECONDS",
    type=Seconds(0),
    default=WAIT_S,
    show_default=True,
    help="Wait so long for a master: after a start, while it changes.",
)


def reconfigurer(config: Path, server: str, timeout_s: float, wait_s: float) -> Reconfigurer:
    """For a cluster of the file. Raises ConfigError, UnknownName, CommandError."""
    loaded = read_config(config)
    declared = loaded.server(server)
    if not declared.clustered:
        raise CommandError(f"{declared.name} is no <cluster>: it has one replica for good.")
    return Reconfigurer(ServerAdmin(loaded, declared), timeout_s, click.echo, wait_s=wait_s)


CONFIRM = "Type {} to accept this loss"


@click.group()
def command() -> None:
    """Add, remove and replace replicas of a running cluster; begin it again where too few are left.

    The cluster keeps the list of its replicas; the file says where a new one is. Each command asks the
    master, prints what happens and waits. Asking for what is so already is no error.
    """


@command.command("list", epilog="Exit status: 0; 1 if no master answers.")
@config_argument
@server_option
@wait_option
def list_replicas(config: Path, server: str, wait_s: float) -> None:
    """List the replicas that the cluster has."""
    with reported_errors():
        asked = reconfigurer(config, server, TIMEOUT_S, wait_s)
        asked.report = partial(click.echo, err=True)
        for replica, seated in sorted(asked.replicas().items()):
            click.echo(f"{replica} {describe(seated)}")


@command.command("add", epilog="Exit status: 0 if the replica takes part, 1 otherwise.")
@config_argument
@server_option
@which_option
@timeout_option
@wait_option
@click.option("--no-wait", is_flag=True, help="Do not wait until the replica takes part.")
def add(config: Path, server: str, replica: int, timeout_s: float, wait_s: float, no_wait: bool) -> None:
    """Add a replica or witness that the file declares, or tell where one that is down is now.

    Start it before or afterwards with `quorate start`: it gets the state from the others, while they serve,
    and then counts.
    """
    with reported_errors():
        change = reconfigurer(config, server, timeout_s, wait_s)
        added = addition(change.admin.config.replica(server, replica))
        change.apply(added, wait=not no_wait)


@command.command("remove", epilog="Exit status: 0 if the cluster is without it, 1 otherwise.")
@config_argument
@server_option
@which_option
@timeout_option
@wait_option
def remove(config: Path, server: str, replica: int, timeout_s: float, wait_s: float) -> None:
    """Remove a replica, before or after it is deleted from the file.

    If it runs, it stops in order; if it is the master, it hands over first.
    """
    with reported_errors():
        reconfigurer(config, server, timeout_s, wait_s).apply(ReconfigurationStep(replica, None))


@command.command("replace", epilog="Exit status: 0 if the new replica takes part, 1 otherwise.")
@config_argument
@server_option
@which_option
@timeout_option
@wait_option
def replace(config: Path, server: str, replica: int, timeout_s: float, wait_s: float) -> None:
    """Remove a replica and add it again, where the file says.

    For one whose machine or disk is lost, or that moves. Start the new one, with an empty directory,
    afterwards.
    """
    with reported_errors():
        change = reconfigurer(config, server, timeout_s, wait_s)
        added = addition(change.admin.config.replica(server, replica))
        change.check(added)
        change.apply(ReconfigurationStep(replica, None))
        change.apply(added)


@command.command(
    "force-new-cluster", epilog="Exit status: 0 if it is done, 1 if not: then nothing was changed."
)
@config_argument
@server_option
@which_option
@click.option("--data", metavar="DIR", type=click.Path(path_type=Path), help="Default: data beside the file.")
@click.option("--accept-loss", is_flag=True, help="Do not ask: what is lost is accepted.")
def force(config: Path, server: str, replica: int, data: Path | None, accept_loss: bool) -> None:
    """Begin a new cluster with what one stopped replica has on its disk.

    For when too few of the others are left to go on, for good: their disks are lost. Whatever only they had
    acknowledged is lost, and so is their membership. It runs on the host of the replica and says what is
    lost before it does anything. All other replicas must be stopped, and their directories removed before
    they are started again: one that still has its own stops when it hears of the new cluster, and a majority
    of them that does not hear of it serves beside it. A file that leaves out replicas of the cluster is
    refused without --accept-loss.
    """
    with reported_errors():
        loaded = read_config(config)
        declared = loaded.server(server)
        name = f"{declared.name}.{replica}"
        _check_forcible(declared, loaded.replica(server, replica))
        _check_others(ServerAdmin(loaded, declared))
        _force(data or loaded.path.parent / "data", declared, replica, accept_loss)
    click.echo(
        f"{name} is the beginning of a new cluster. Start it first: "
        f"quorate start {click.format_filename(config)} --server {declared.name} --replica {replica}"
    )


def _force(data: Path, server: Server, replica: int, accepted: bool) -> None:
    # Other commands need no part of a running server.
    from ...hachannel.journal.journal import JournalError
    from ..admin.new_cluster import NewCluster, NewClusterError

    try:
        forcing = NewCluster.open(data, server, replica)
        try:
            for line in forcing.report():
                click.echo(line)
            if forcing.left_out():
                _check_left_out(server.name, forcing.left_out(), accepted)
            if not accepted:
                _confirm(f"{server.name}.{replica}")
            forcing.begin_again()
        finally:
            forcing.close()
    except (NewClusterError, JournalError) as error:
        raise CommandError(str(error)) from None


def _check_forcible(server: Server, replica: Replica) -> None:
    if not server.clustered:
        raise CommandError(f"{server.name} is no <cluster>: start it, it needs nobody else.")
    if replica.witness:
        raise CommandError(
            f"Replica {replica.id} of {server.name} is a witness: it holds nothing to begin with."
        )
    if server.durability != "disk":
        raise CommandError(
            f"{server.name} keeps nothing on disks (durability memory): what it held is lost when too few of "
            "its replicas are left; stop all and start them again, they begin with nothing."
        )


def _check_left_out(name: str, seats: Sequence[Seat], accepted: bool) -> None:
    """It may be the wrong file, and nobody has asked whether these run."""
    places = {f"{name}.{seat.replica}": decode_address(seat.data) for seat in seats}
    which = ", ".join(at if place is None else f"{at} at {place}" for at, place in places.items())
    said = f"the file leaves out replicas that the last view lists: {which}"
    if not accepted:
        raise CommandError(
            f"Nothing was changed: {said}. Give the file of the whole cluster; or --accept-loss, if none of "
            "them runs: one that does would stop as soon as it hears of the new cluster."
        )
    click.echo(f"WARNING: {said}. Nobody has looked whether they run; each stops when it hears of this one.")


def _check_others(admin: ServerAdmin) -> None:
    """No replica may run: one with a majority needs no force, and any other one could not take part."""
    ((_, replicas),) = gather([admin])
    for each in replicas:
        at = f"{admin.server.name}.{each.endpoint.replica}"
        if each.in_charge:
            raise CommandError(f"{at} is master and serves: nothing is lost, start the others as ever.")
        if not each.nobody_there:
            runs = f"may run ({each.reason})" if each.role == "down" else f"runs ({each.role})"
            raise CommandError(f"{at} {runs}: stop all replicas first, with `quorate stop`.")


def _confirm(name: str) -> None:
    if not sys.stdin.isatty():
        raise CommandError("Nothing was changed. Give --accept-loss to go on.")
    if click.prompt(CONFIRM.format(name), default="", show_default=False) != name:
        raise CommandError("Nothing was changed.")
