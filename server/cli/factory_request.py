"""Requests of the commands to the factory agent of a server."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from ...agents import ExceptionNotification, Notification, UnknownAgent, decode, encode, factory
from ..admin import wire
from ..admin.client import CALL_TIMEOUT_S, ServerAdmin
from ..admin.failures import failure_sentence
from ..admin.protocol import MAX_TIMEOUT_S
from ..config import Config
from .common import CommandError, address_of, admins, no_such_agent, read_config, reported_errors

__all__ = ["ask_about_agent", "ask_factory", "local_address"]

REPLY_TIMEOUT_S = 10.0

N = TypeVar("N", bound=Notification)


def local_address(config: Config, admin: ServerAdmin, text: str) -> str:
    """Return the id or name of an agent of the server, without the server's own name.

    Raises CommandError for an agent that another server of the file has.
    """
    address = str(address_of(text))
    name, at, host = address.rpartition("@")
    if not at or host not in config.names:
        return address
    if host == admin.server.name:
        return name
    raise CommandError(
        f"Server {admin.server.name} has no agents of server {host}; give {name} and --server {host}."
    )


def ask_about_agent(
    path: Path,
    server: str,
    agent: str,
    request: Callable[[str], Notification],
    expected: type[N],
    timeout_s: float,
    *,
    repeatable: bool = False,
) -> N:
    """Send the factory agent of a server the request about one agent, and return its answer.

    `request` makes it from the address of the agent. What goes wrong ends the command with a sentence.
    """
    with reported_errors():
        config = read_config(path)
        (admin,) = admins(config, server)
        ask = request(local_address(config, admin, agent))
        return ask_factory(path, config, admin, ask, expected, timeout_s, repeatable=repeatable)


def ask_factory(
    path: Path,
    config: Config,
    admin: ServerAdmin,
    request: Notification,
    expected: type[N],
    timeout_s: float,
    *,
    repeatable: bool = False,
) -> N:
    """Send a request to the factory agent of the server, and return its answer.

    `timeout_s` bounds the wait for a master and the answer together. Raises AdminError, and CommandError when
    the factory refuses.
    """
    reply_s = min(REPLY_TIMEOUT_S, timeout_s, MAX_TIMEOUT_S)
    reply = admin.ask_master(
        wire.Request(factory(admin.server.id), type(request).type_name, encode(request), reply_s),
        wire.Reply,
        repeatable=repeatable,
        timeout_s=reply_s + CALL_TIMEOUT_S,
        master_timeout_s=timeout_s,
        total_timeout_s=timeout_s,
    )
    try:
        if reply.type == expected.type_name:
            return decode(expected, reply.payload)
        if reply.type == UnknownAgent.type_name:
            missing = decode(UnknownAgent, reply.payload).agent
            raise CommandError(no_such_agent(path, config, missing, admin.server.name))
        if reply.type == ExceptionNotification.type_name:
            raise CommandError(f"{decode(ExceptionNotification, reply.payload).message}.")
        sentence = failure_sentence(reply.type, reply.payload)
    except ValueError as error:
        raise CommandError(f"The answer of the server cannot be read: {error}.") from None
    raise CommandError(sentence or f"The factory answered {reply.type}; use the same version of the command.")
