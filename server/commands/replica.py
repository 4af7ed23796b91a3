"""`quorate replica`: replicas of a running cluster are added, removed and replaced."""

from pathlib import Path

import click

from ..admin_cli import Sentence, config_argument, read_config, replica_id, sentences, server_option
from ..admin_client import ServerAdmin
from ..changing import Change, Changer, describe
from ..places import place_of

TIMEOUT_S = 60.0

which_option = click.option(
    "--replica", metavar="ID", callback=replica_id, required=True, help="Id of the replica."
)
timeout_option = click.option(
    "--timeout",
    "timeout_s",
    metavar="SECONDS",
    type=click.FloatRange(0.1, 86400),
    default=TIMEOUT_S,
    show_default=True,
    help="Give up waiting after so long. What the cluster has agreed to stays.",
)


def changer(config: Path, server: str, timeout_s: float) -> Changer:
    """For a cluster of the file. Raises ConfigError, UnknownName, Sentence."""
    loaded = read_config(config)
    declared = loaded.server(server)
    if not declared.clustered:
        raise Sentence(f"{declared.name} is no <cluster>: it has one replica for good.")
    return Changer(ServerAdmin(loaded, declared), timeout_s, click.echo)


@click.group()
def command() -> None:
    """Add, remove and replace replicas of a running cluster.

    The cluster keeps the list of its replicas; the file says where a new one is. Each command asks the
    master, prints what happens and waits. Asking for what is so already is no error.
    """


@command.command("list", epilog="Exit status: 0; 1 if no master answers.")
@config_argument
@server_option
def list_replicas(config: Path, server: str) -> None:
    """List the replicas that the cluster has."""
    with sentences():
        for replica, seated in sorted(changer(config, server, TIMEOUT_S).replicas().items()):
            click.echo(f"{replica} {describe(seated)}")


@command.command("add", epilog="Exit status: 0 if the replica takes part, 1 otherwise.")
@config_argument
@server_option
@which_option
@timeout_option
@click.option("--no-wait", is_flag=True, help="Do not wait until the replica takes part.")
def add(config: Path, server: str, replica: int, timeout_s: float, no_wait: bool) -> None:
    """Add a replica that the file declares, or tell where one that is down is now.

    Start it before or afterwards with `quorate start`: it gets the state from the others, while they serve,
    and then counts.
    """
    with sentences():
        change = changer(config, server, timeout_s)
        place = place_of(change.admin.config.replica(server, replica))
        change.make(Change(replica, place), wait=not no_wait)


@command.command("remove", epilog="Exit status: 0 if the cluster is without it, 1 otherwise.")
@config_argument
@server_option
@which_option
@timeout_option
def remove(config: Path, server: str, replica: int, timeout_s: float) -> None:
    """Remove a replica, before or after it is deleted from the file.

    If it runs, it stops in order; if it is the master, it hands over first.
    """
    with sentences():
        changer(config, server, timeout_s).make(Change(replica, None))


@command.command("replace", epilog="Exit status: 0 if the new replica takes part, 1 otherwise.")
@config_argument
@server_option
@which_option
@timeout_option
def replace(config: Path, server: str, replica: int, timeout_s: float) -> None:
    """Remove a replica and add it again, where the file says.

    For one whose machine or disk is lost, or that moves. Start the new one, with an empty directory,
    afterwards.
    """
    with sentences():
        change = changer(config, server, timeout_s)
        place = place_of(change.admin.config.replica(server, replica))
        change.make(Change(replica, None))
        change.make(Change(replica, place))
