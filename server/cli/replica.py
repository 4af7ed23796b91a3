"""`quorate replica`: add, remove and replace replicas of a running cluster."""

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
    WrongArgument,
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
    help="Stop waiting after this time. Changes that the cluster has made already stay.",
)
wait_option = click.option(
    "--wait",
    "wait_s",
    metavar="SECONDS",
    type=Seconds(0),
    default=WAIT_S,
    show_default=True,
    help="Longest wait for a master, as after a start or during a failover.",
)


def reconfigurer(config: Path, server: str, timeout_s: float, wait_s: float) -> Reconfigurer:
    """Return the reconfigurer of a cluster in the file. Raises ConfigError, UnknownName, CommandError."""
    loaded = read_config(config)
    declared = loaded.server(server)
    if not declared.clustered:
        raise WrongArgument(f"{declared.name} is not a <cluster>: it always has one replica.")
    return Reconfigurer(ServerAdmin(loaded, declared), timeout_s, click.echo, wait_s=wait_s)


CONFIRM = "Type {} to accept this loss"


@click.group()
def command() -> None:
    """Add, remove and replace replicas of a running cluster; begin it again when too few are left.

    The cluster keeps the list of its replicas; the file has the address of a new one. Each command asks the
    master, prints what happens and waits. A change that is made already is no error.
    """


@command.command("list", epilog="Exit status: 0; 1 if no master answers.")
@config_argument
@server_option
@wait_option
def list_replicas(config: Path, server: str, wait_s: float) -> None:
    """List the replicas of the cluster."""
    with reported_errors():
        asked = reconfigurer(config, server, TIMEOUT_S, wait_s)
        asked.report = partial(click.echo, err=True)
        for replica, seated in sorted(asked.replicas().items()):
            click.echo(f"{replica} {describe(seated)}")


@command.command(
    "add",
    short_help="Add a replica, or change its address.",
    epilog="Exit status: 0 if the replica takes part, 1 otherwise.",
)
@config_argument
@server_option
@which_option
@timeout_option
@wait_option
@click.option("--no-wait", is_flag=True, help="Do not wait until the replica takes part.")
def add(config: Path, server: str, replica: int, timeout_s: float, wait_s: float, no_wait: bool) -> None:
    """Add a replica or witness that the file declares, or change the address of one that is down.

    Start it before or afterwards with `quorate start`. It receives the state from the others, while they
    serve, and then takes part in decisions.
    """
    with reported_errors():
        change = reconfigurer(config, server, timeout_s, wait_s)
        added = addition(change.admin.config.replica(server, replica))
        change.apply(added, wait=not no_wait)


@command.command(
    "remove",
    short_help="Remove a replica.",
    epilog="Exit status: 0 if the cluster does not have the replica any more, 1 otherwise.",
)
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


@command.command(
    "replace",
    short_help="Remove a replica and add it again.",
    epilog="Exit status: 0 if the new replica takes part, 1 otherwise.",
)
@config_argument
@server_option
@which_option
@timeout_option
@wait_option
def replace(config: Path, server: str, replica: int, timeout_s: float, wait_s: float) -> None:
    """Remove a replica and add it again, with the address in the file.

    Use it for a replica whose machine or disk is lost, or that moves to another machine. Start the new
    replica afterwards, with an empty directory.
    """
    with reported_errors():
        change = reconfigurer(config, server, timeout_s, wait_s)
        added = addition(change.admin.config.replica(server, replica))
        change.check(added)
        change.apply(ReconfigurationStep(replica, None))
        change.apply(added)


@command.command(
    "force-new-cluster",
    short_help="Begin a new cluster with one stopped replica.",
    epilog="Exit status: 0 if the new cluster was begun, 1 if nothing was changed.",
)
@config_argument
@server_option
@which_option
@click.option("--data", metavar="DIR", type=click.Path(path_type=Path), help="Default: data beside the file.")
@click.option("--accept-loss", is_flag=True, help="Accept the loss without a question.")
def force(config: Path, server: str, replica: int, data: Path | None, accept_loss: bool) -> None:
    """Begin a new cluster with what one stopped replica has on its disk.

    Use it when the disks of so many other replicas are lost that no majority can be started any more. Data
    that only the others had acknowledged is lost, and they do not belong to the new cluster. The command runs
    on the host of the replica, and prints what is lost before it does anything. All other replicas must be
    stopped, and their directories removed before they are started again. A replica that still has its
    directory stops when it connects to the new cluster; a majority of such replicas that does not connect to
    it serves beside it. A file that leaves out replicas of the cluster is refused without --accept-loss.
    """
    with reported_errors():
        loaded = read_config(config)
        declared = loaded.server(server)
        name = f"{declared.name}.{replica}"
        _check_forcible(declared, loaded.replica(server, replica))
        _check_others(ServerAdmin(loaded, declared))
        _force(data or loaded.path.parent / "data", declared, replica, accept_loss)
    click.echo(
        f"{name} is the first replica of a new cluster. Start it first: "
        f"quorate start {click.format_filename(config)} --server {declared.name} --replica {replica}"
    )


def _force(data: Path, server: Server, replica: int, accepted: bool) -> None:
    # Imported here because the other commands need nothing of a running server.
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
        raise WrongArgument(f"{server.name} is not a <cluster>: start it, it needs no other replica.")
    if replica.witness:
        raise CommandError(
            f"Replica {replica.id} of {server.name} is a witness: it holds no data to begin with."
        )
    if server.durability != "disk":
        raise CommandError(
            f"{server.name} keeps nothing on disks (durability memory), so its data is lost when too few of "
            "its replicas are left. Stop all replicas and start them again: they begin with nothing."
        )


def _check_left_out(name: str, seats: Sequence[Seat], accepted: bool) -> None:
    """Check that the loss of replicas that the file leaves out is accepted. Raises CommandError.

    The file may be the wrong one, and the command cannot ask these replicas whether they run.
    """
    addresses = {f"{name}.{seat.replica}": decode_address(seat.data) for seat in seats}
    listed = ", ".join(
        replica if address is None else f"{replica} at {address}" for replica, address in addresses.items()
    )
    finding = f"the file leaves out replicas that the last view lists: {listed}"
    if not accepted:
        raise CommandError(
            f"Nothing was changed: {finding}. Give the file of the whole cluster; or --accept-loss, if none "
            "of them runs: a running one would stop as soon as it connects to the new cluster."
        )
    click.echo(
        f"WARNING: {finding}. Whether they run was not checked; each stops when it connects to the new "
        "cluster."
    )


def _check_others(admin: ServerAdmin) -> None:
    """Check that no replica runs. Raises CommandError.

    A cluster with a majority needs no force, and a running replica of one without a majority could not join
    the new cluster.
    """
    ((_, replicas),) = gather([admin])
    for each in replicas:
        at = f"{admin.server.name}.{each.endpoint.replica}"
        if each.in_charge:
            raise CommandError(f"{at} is master and serves: nothing is lost, start the others as usual.")
        if not each.nobody_there:
            runs = f"may run ({each.reason})" if each.role == "down" else f"runs ({each.role})"
            raise CommandError(f"{at} {runs}: stop all replicas first, with `quorate stop`.")


def _confirm(name: str) -> None:
    if not sys.stdin.isatty():
        raise CommandError("Nothing was changed. Give --accept-loss to accept the loss.")
    if click.prompt(CONFIRM.format(name), default="", show_default=False) != name:
        raise CommandError("Nothing was changed.")
