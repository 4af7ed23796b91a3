"""`quorate inspect`: print the state of one agent."""

from pathlib import Path

import click

from ..admin import wire
from ..admin.client import CALL_TIMEOUT_S
from .common import (
    address_of,
    admins,
    config_argument,
    explained_address,
    json_option,
    json_text,
    master_timeout_option,
    plain,
    read_config,
    replica_option,
    reported_errors,
    server_option,
)


@click.command(
    epilog="Exit status: 0, or 1 if there is no such agent, its state is too large or no replica answers."
)
@config_argument
@server_option
@click.argument("agent", metavar="NAME-OR-ID")
@replica_option
@master_timeout_option
@json_option
def command(
    config: Path, server: str, agent: str, replica: int | None, master_timeout_s: float, as_json: bool
) -> None:
    """Print the state of an agent as JSON."""
    with reported_errors():
        loaded = read_config(config)
        (admin,) = admins(loaded, server)
        address = address_of(agent)
        body = wire.Inspect(address, anywhere=replica is not None)
        with explained_address(config, loaded, address, admin.server.name):
            if replica is None:
                found = admin.ask_master(
                    body,
                    wire.AgentState,
                    repeatable=True,
                    master_timeout_s=master_timeout_s,
                    total_timeout_s=master_timeout_s,
                )
            else:
                found = admin.ask(replica, body, wire.AgentState, min(CALL_TIMEOUT_S, master_timeout_s))
    shown = {
        "id": str(found.row.id),
        "name": found.row.name,
        "class": found.row.class_name,
        "reactions": found.row.reactions,
        "state": plain(found.state),
    }
    click.echo(json_text(shown, indent=0 if as_json else 2))
