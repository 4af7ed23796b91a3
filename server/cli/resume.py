"""`quorate resume`: resume a paused agent."""

from pathlib import Path

import click

from ...agents import Resume, Resumed
from .common import config_argument, json_option, json_text, master_timeout_option, server_option
from .factory_request import ask_about_agent


@click.command(
    epilog="Exit status: 0, or 1 if there is no such agent, it belongs to the platform or no master answers."
)
@config_argument
@server_option
@click.argument("agent", metavar="NAME-OR-ID")
@master_timeout_option
@json_option
def command(config: Path, server: str, agent: str, master_timeout_s: float, as_json: bool) -> None:
    """Resume a paused agent: it reacts to all that has waited.

    It is asked for once: when the answer of the server is lost, the command says so and does not try again.
    """
    done = ask_about_agent(config, server, agent, Resume, Resumed, master_timeout_s)
    if as_json:
        click.echo(json_text({"id": str(done.id), "delivered": done.delivered}))
    else:
        click.echo(f"{done.id} resumed, {done.delivered} delivered")
