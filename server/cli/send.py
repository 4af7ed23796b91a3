"""`quorate send`: send a notification from the command line to an agent."""

import math
from pathlib import Path

import click

from ...agents import FAILURES
from ..admin import wire
from ..admin.client import CALL_TIMEOUT_S, FAILOVER_TIMEOUT_S
from ..admin.failures import failure_sentence, missing_agent
from ..admin.protocol import MAX_TIMEOUT_S
from ..admin.values import payload_of
from .common import (
    CommandError,
    Seconds,
    WrongArgument,
    address_of,
    admins,
    config_argument,
    explained_address,
    import_notification,
    json_object,
    json_option,
    json_text,
    no_such_agent,
    read_config,
    reported_errors,
    server_option,
    shown,
)

DEFAULT_TIMEOUT_S = 10.0


@click.command(
    epilog="Exit status: 0, or 1 if the server does not answer, has no such agent, no reply comes in time or "
    "it is a failure."
)
@config_argument
@server_option
@click.argument("agent", metavar="NAME-OR-ID")
@click.argument("type_name", metavar="MODULE:TYPE")
@click.argument("fields", metavar="[JSON]", default="{}")
@click.option("--request", "wants_reply", is_flag=True, help="Wait for the reply and print it.")
@click.option(
    "--timeout",
    "timeout_s",
    metavar="SECONDS",
    type=Seconds(0.1, MAX_TIMEOUT_S),
    help=f"Longest wait, for a master and the reply together.  [default: {FAILOVER_TIMEOUT_S:g} for a "
    f"master, then {DEFAULT_TIMEOUT_S:g} for the reply]",
)
@json_option
def command(
    config: Path,
    server: str,
    agent: str,
    type_name: str,
    fields: str,
    wants_reply: bool,
    timeout_s: float | None,
    as_json: bool,
) -> None:
    """Send a notification to an agent, with its fields as a JSON object.

    It is sent once: when the answer of the server is lost, the command says so and does not try again.
    """
    with reported_errors():
        loaded = read_config(config)
        (admin,) = admins(loaded, server)
        to = address_of(agent)
        host = str(to).rpartition("@")[2] if "@" in str(to) else ""
        if host and host not in loaded.names:
            raise CommandError(no_such_agent(config, loaded, to, admin.server.name))
        name, payload = named_payload(type_name, fields)
        master_timeout_s = FAILOVER_TIMEOUT_S if timeout_s is None else timeout_s
        reply_s = DEFAULT_TIMEOUT_S if timeout_s is None else timeout_s
        total_timeout_s = math.inf if timeout_s is None else timeout_s
        if not wants_reply:
            # The server reports a failure on itself, not on other servers.
            with explained_address(config, loaded, to, admin.server.name):
                admin.ask_master(
                    wire.Post(to, name, payload),
                    type(None),
                    repeatable=False,
                    master_timeout_s=master_timeout_s,
                    total_timeout_s=total_timeout_s,
                )
            return
        reply = admin.ask_master(
            wire.Request(to, name, payload, reply_s),
            wire.Reply,
            repeatable=False,
            timeout_s=reply_s + CALL_TIMEOUT_S,
            master_timeout_s=master_timeout_s,
            total_timeout_s=total_timeout_s,
        )
    if reply.type in FAILURES:
        # An agent may hand on what it got: then it is another agent that is missing.
        try:
            missing = missing_agent(reply.type, reply.payload)
            sentence = failure_sentence(reply.type, reply.payload)
        except ValueError as error:
            raise CommandError(f"The answer of the server cannot be read: {error}.") from None
        if missing is not None:
            wanted = to if missing == str(to).partition("@")[0] else missing
            raise CommandError(no_such_agent(config, loaded, wanted, admin.server.name))
        raise CommandError(sentence or f"{reply.sender} answered {reply.type}")
    value = shown(reply.type, reply.payload)
    if as_json:
        click.echo(json_text({"sender": str(reply.sender), "type": reply.type, "value": value}))
    else:
        click.echo(f"{reply.type} {json_text(value)}")


def named_payload(type_name: str, fields: str) -> tuple[str, bytes]:
    """Return the type name and the encoded fields of the notification given on the command line.

    Raises CommandError.
    """
    json_object(fields, "The notification")
    kind = import_notification(type_name)
    try:
        payload = payload_of(kind, fields)
    except ValueError as error:
        raise WrongArgument(f"{type_name} cannot be made of {fields}: {error}.") from None
    return kind.type_name, payload
