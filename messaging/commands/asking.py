"""Requests of commands to destinations and to the manager of messaging."""

from pathlib import Path
from typing import Final, TypeVar

from ...agents import Notification, decode, encode
from ...server.admin import wire
from ...server.admin.client import CALL_TIMEOUT_S, ServerAdmin
from ...server.admin.failures import failure_sentence, missing_agent
from ...server.cli.common import CommandError, admins, read_config, reported_errors
from ..agents.manager import MANAGER
from ..agents.protocol import Refused

__all__ = ["ask", "asked"]

N = TypeVar("N", bound=Notification)
REPLY_S: Final = 10.0


def ask(
    path: Path, server: str, address: str, request: Notification, expected: type[N], timeout_s: float
) -> N:
    """Ask an agent of messaging, and return its answer. What goes wrong ends the command with a sentence."""
    with reported_errors():
        (admin,) = admins(read_config(path), server)
        return asked(path, admin, address, request, expected, timeout_s)


def asked(
    path: Path,
    admin: ServerAdmin,
    address: str,
    request: Notification,
    expected: type[N],
    timeout_s: float,
    *,
    repeatable: bool = True,
) -> N:
    """Ask an agent of messaging, and return its answer. Raises CommandError.

    repeatable: asking twice does no harm, so that a request without an answer is sent again.
    """
    reply = admin.ask_master(
        wire.Request(address, request.type_name, encode(request), min(REPLY_S, timeout_s)),
        wire.Reply,
        repeatable=repeatable,
        timeout_s=min(REPLY_S, timeout_s) + CALL_TIMEOUT_S,
        master_timeout_s=timeout_s,
        total_timeout_s=timeout_s,
    )
    if reply.type == expected.type_name:
        return decode(expected, reply.payload)
    if reply.type == Refused.type_name:
        text = decode(Refused, reply.payload).text
        raise CommandError(f"{text[:1].upper()}{text[1:]}.")
    name = admin.server.name
    kind, _, title = address.partition(":")
    if missing_agent(reply.type, reply.payload) is None:
        raise CommandError(
            failure_sentence(reply.type, reply.payload) or f"{kind} {title} answered {reply.type}."
        )
    if address == MANAGER:
        raise CommandError(f"Server {name} keeps no queues and topics.")
    raise CommandError(
        f"Server {name} has no {kind} {title}; list what it has with: quorate {kind} list {path} "
        f"--server {name}"
    )
