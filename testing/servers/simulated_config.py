"""The configuration of simulated servers: an ``a3servers.xml``, written and read as a real one."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import quoteattr

from ...agents.names import location
from ...server.config import Config, load
from ...server.config.properties import PROPERTIES
from ...server.config.report import suggestion
from ...services.base import Service

__all__ = ["CLIENT_PORT", "IDLE_TIMEOUT_S", "simulated_config"]

CLIENT_PORT = 2560
NETWORK_PORT = 16300
IDLE_TIMEOUT_S = 10_000_000
"""Clients are not forgotten, also if a test sets the clocks forward by weeks."""


def simulated_config(
    servers: Mapping[str, int],
    properties: Mapping[str, object],
    services: Sequence[type[Service]] = (),
    *,
    groups: bool | str = False,
) -> Config:
    """Return a configuration of these servers and their numbers of replicas, each on a machine of its own.

    services: of each replica of the first server, besides those for clients, and started before them.
    groups: clients connect to every replica, and may form groups; "local": with ``context="local"``.
    Raises ConfigError for a name or property that no configuration may have.
    """
    lines = ["<config>", '<domain name="D1"/>']
    settings = {"insecure_network": "true", "trace": "false", **properties}
    lines += [
        f"<property name={quoteattr(name)} value={quoteattr(_text(value))}/>"
        for name, value in settings.items()
    ]
    declared = [f"<service class={quoteattr(location(each))}/>" for each in services]
    mode = ' mode="group" durability="disk"' if groups else ""
    if groups == "local":
        mode += ' context="local"'
    for id, (name, replicas) in enumerate(servers.items()):
        inside = _inside(declared if id == 0 else [])
        named = f"id={quoteattr(str(id))} name={quoteattr(name)}"
        if replicas == 1:
            lines += [f"<server {named} hostname={quoteattr(f'{name}-0')}{mode}>", *inside, "</server>"]
            continue
        lines.append(f"<cluster {named}{mode}>")
        for replica in range(replicas):
            lines += [
                f'<server id="{replica}" hostname={quoteattr(f"{name}-{replica}")}>',
                *inside,
                "</server>",
            ]
        lines.append("</cluster>")
    lines.append("</config>")
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "a3servers.xml"
        path.write_text("\n".join(lines), encoding="utf-8")
        config = load(path, check_imports=not services)
    unknown = [name for name in properties if name not in PROPERTIES]
    if unknown:
        raise ValueError(f"there is no property {unknown[0]}{suggestion(unknown[0], sorted(PROPERTIES))}")
    return config


def _inside(services: list[str]) -> list[str]:
    """Return the elements of each replica."""
    return [
        f'<network domain="D1" port="{NETWORK_PORT}"/>',
        *services,
        '<service class="quorate.services.manager:ConnectionManager" args="root root"/>',
        f'<service class="quorate.services.tcp:TcpProxyService" args="{CLIENT_PORT} {IDLE_TIMEOUT_S}"/>',
    ]


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
