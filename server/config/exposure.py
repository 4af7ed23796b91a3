"""Exposure: listeners that other machines reach although nobody has to prove that they belong here."""

from ...hachannel.transport.addresses import is_loopback_host
from .digest import INSECURE_NETWORK_PROPERTY, SECRET_PROPERTY
from .model import Config
from .properties import BOOLEANS
from .report import Report
from .servers import Replica, Server

MAX_NAMED = 5
"""Servers that the problem names; the others are counted."""


def check_exposure(config: Config, report: Report) -> None:
    """Report replicas that other machines can connect to without a secret, unless the file allows it."""
    exposed = [
        (server.name, replica.line)
        for server in config.servers
        for replica in server.replicas
        if _is_exposed(config, server, replica)
    ]
    if not exposed:
        return
    names = list(dict(exposed))
    others = len(names) - MAX_NAMED
    listed = ", ".join(names[:MAX_NAMED]) + (f" and {others} more" if others > 0 else "")
    report.problem(
        exposed[0][1],
        f"{listed} can be reached from other machines, and there is no property {SECRET_PROPERTY}: any "
        "program that connects could pose as a replica or as another server. Add "
        f'<property name="{SECRET_PROPERTY}" value="..."/> to <config>, the same text in every copy of the '
        "file. If nobody else can connect, you may add "
        f'<property name="{INSECURE_NETWORK_PROPERTY}" value="true"/> instead.',
    )


def _is_exposed(config: Config, server: Server, replica: Replica) -> bool:
    def setting(name: str) -> str | None:
        return config.setting(name, server=server.id, replica=replica.id)

    allowed = BOOLEANS.get((setting(INSECURE_NETWORK_PROPERTY) or "").lower(), False)
    if setting(SECRET_PROPERTY) is not None or allowed:
        return False
    return any(not is_loopback_host(network.host) for network in replica.networks)
