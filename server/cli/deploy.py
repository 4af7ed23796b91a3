"""`quorate deploy`: create an agent on a server."""

import secrets
from pathlib import Path

import click
import msgspec

from ...agents import (
    AgentError,
    Create,
    Created,
    CreateFailed,
    ExceptionNotification,
    decode,
    encode,
    factory,
)
from ..admin import wire
from ..admin.client import FAILOVER_TIMEOUT_S, ServerAdmin
from ..config import json_state
from .common import (
    CommandError,
    NotImportable,
    WrongArgument,
    admins,
    config_argument,
    import_class,
    json_object,
    json_text,
    master_timeout_option,
    plain,
    read_config,
    reported_errors,
    server_option,
)

ATTEMPT_TIMEOUT_S = 5.0
"""The wait for the reply of the factory agent, before the request is sent again with the same key."""


@click.command(epilog="Exit status: 0, or 1 if the agent was not created.")
@config_argument
@server_option
@click.argument("class_name", metavar="MODULE:CLASS")
@click.option("--name", metavar="NAME", help="A name for the agent, unique on its server.")
@click.option("--state", metavar="JSON", default="{}", help="Initial attributes, as a JSON object.")
@click.option("--key", metavar="TEXT", help="Two deployments with the same key create one agent.")
@master_timeout_option
def command(
    config: Path,
    server: str,
    class_name: str,
    name: str | None,
    state: str,
    key: str | None,
    master_timeout_s: float,
) -> None:
    """Create an agent and print its id.

    The class must be importable on the replicas of the server: set PYTHONPATH where they are started. If the
    class is importable here, too, the state is checked before it is sent.
    """
    with reported_errors():
        (admin,) = admins(read_config(config), server)
        encoded = state_of(class_name, state)
        create = Create(class_name, name, encoded, None, key or secrets.token_hex(16))
        click.echo(deploy(admin, create, master_timeout_s))


def deploy(admin: ServerAdmin, create: Create, master_timeout_s: float = FAILOVER_TIMEOUT_S) -> str:
    """Ask the factory of the server for an agent; return its id as text. Raises CommandError, AdminError.

    `master_timeout_s` is the longest wait, for a master and its answer together.
    """
    request = wire.Request(factory(admin.server.id), Create.type_name, encode(create), ATTEMPT_TIMEOUT_S)
    reply = admin.ask_master(
        request,
        wire.Reply,
        repeatable=True,
        timeout_s=2 * ATTEMPT_TIMEOUT_S,
        master_timeout_s=master_timeout_s,
        total_timeout_s=master_timeout_s,
    )
    try:
        if reply.type == Created.type_name:
            return str(decode(Created, reply.payload).id)
        if reply.type == CreateFailed.type_name:
            raise CommandError(decode(CreateFailed, reply.payload).reason)
        if reply.type == ExceptionNotification.type_name:
            failed = decode(ExceptionNotification, reply.payload)
            raise CommandError(f"The agent was not created: {failed.error}: {failed.message}")
    except ValueError as error:
        raise CommandError(f"The answer of the server cannot be read: {error}.") from None
    raise CommandError(f"The agent was not created: {reply.type} {json_text(plain(reply.payload))}")


def state_of(class_name: str, state: str) -> bytes:
    """Encode the initial attributes, checked against the class if it can be imported. Raises CommandError."""
    given = json_object(state, "The state")
    try:
        cls = import_class(class_name)
    except NotImportable:
        click.echo(f"quorate: {class_name} is not importable here; only the server checks it.", err=True)
        return msgspec.msgpack.encode(given)
    try:
        return json_state(cls, state)
    except AgentError as error:
        raise WrongArgument(f"{error}.") from None
    except (msgspec.MsgspecError, ValueError, TypeError, OverflowError) as error:
        raise WrongArgument(f"{class_name} cannot have the state {state}: {error}.") from None
