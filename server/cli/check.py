"""``quorate check``: validate a configuration and show what it declares."""

from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from ..config import PORT_SERVICES, Config, ConfigError, Replica, Server, load


@click.command(
    short_help="Validate an a3servers.xml and summarize it; check stored agents.",
    epilog="Exit status: 0; 1 if the file is invalid, or a stored agent cannot be loaded.",
)
@click.argument("file", type=click.Path())
@click.option("--agents", is_flag=True, help="Load the stored agents with the classes importable here.")
@click.option("--server", metavar="NAME", help="With --agents: only this server (name or id).")
@click.option(
    "--data",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="With --agents: the data of servers that do not run. Default: data beside the file.",
)
def command(file: str, agents: bool, server: str | None, data: Path | None) -> None:
    """Validate FILE, an a3servers.xml, and print a summary of it.

    All problems are printed on the standard error, each as file:line: message, and the exit status is 1.
    Notes, on the standard output, do not make a file invalid.

    With --agents no summary is printed. The agents of each server, from its master if it runs and otherwise
    from the directories of its replicas, are loaded with the classes that are importable here, as a start
    would. Those that it would refuse are printed with class, attribute and reason, and the exit status is 1.
    Nothing is changed.
    """
    if not agents and (server is not None or data is not None):
        raise click.UsageError("--server and --data belong to --agents.")
    try:
        config = load(file)
    except ConfigError as error:
        for problem in error.problems:
            click.echo(str(problem), err=True)
        for note in error.notes:
            click.echo(f"note: {note}")
        raise SystemExit(1) from None
    if agents:
        # Imported here because validating a file needs nothing of agents and of running servers.
        from .agent_check import check_agents

        if not check_agents(config, server, data or config.path.parent / "data"):
            raise SystemExit(1)
        return
    Console(highlight=False).print(summary(config))
    for each in config.servers:
        if each.clustered:
            click.echo(_acknowledgement(each))
    for note in config.notes:
        click.echo(f"note: {note}")
    size = f"{_count(len(config.servers), 'server')}, {_processes(config)}"
    click.echo(f"{click.format_filename(file)} is valid: {size}.")


def summary(config: Config) -> Table:
    """Return a table with one row for each replica: its networks and its services."""
    table = Table(box=None, pad_edge=False)
    for heading in ("server", "replica", "host", "networks", "services"):
        table.add_column(heading, overflow="fold")
    for server in config.servers:
        for number, replica in enumerate(server.replicas):
            table.add_row(
                _title(server) if number == 0 else "",
                _number(server, replica),
                replica.host,
                " ".join(f"{network.domain}:{network.port}" for network in replica.networks) or "-",
                ", ".join(_services(replica)) or "-",
            )
    return table


def _title(server: Server) -> str:
    return f"{server.name} (id {server.id}{', transient' if server.transient else ''})"


def _number(server: Server, replica: Replica) -> str:
    if not server.clustered:
        return "-"
    return f"{replica.id} (witness)" if replica.witness else str(replica.id)


def _acknowledgement(server: Server) -> str:
    if server.mode == "mesh":
        return (
            f"{server.name}: mode mesh, {_count(len(server.replicas), 'daemon')} that go on alone if need be."
        )
    acknowledged_by = "all replicas" if server.ack == "ALL" else "a majority of the replicas"
    copies = f", nothing new with fewer than {server.min_copies} replicas" if server.min_copies > 1 else ""
    witnesses = len(server.witness_ids)
    beside = f" and {_count(witnesses, 'witness')}" if witnesses else ""
    return (
        f"{server.name}: mode {server.mode}, acknowledged by {acknowledged_by} of the view{copies}, "
        f"first start with {server.expected} of {server.copies}{beside}."
    )


def _services(replica: Replica) -> list[str]:
    """Return the names of the services, with their ports; other arguments may be secret."""
    return [
        f"{service.short_name} {service.args.split()[0]}"
        if service.class_name in PORT_SERVICES
        else service.short_name
        for service in replica.services
    ]


def _processes(config: Config) -> str:
    return _count(sum(len(server.replicas) for server in config.servers), "process") + " in all"


def _count(number: int, noun: str) -> str:
    plural = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{number} {noun if number == 1 else plural}"
