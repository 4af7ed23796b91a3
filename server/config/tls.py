"""The properties of TLS, and the files that they name for a replica."""

from pathlib import Path
from typing import Final

import attrs

from .digest import TLS_MODE_PROPERTY as MODE_PROPERTY
from .digest import TLS_PROPERTIES
from .model import Config
from .properties import TLS_MODES
from .report import Report
from .servers import Replica, Server

__all__ = ["TlsPaths", "check_tls", "tls_paths"]

CERTIFICATE, KEY, AUTHORITY, CLIENT_AUTHORITY = TLS_PROPERTIES
TOGETHER: Final = (CERTIFICATE, KEY, AUTHORITY)
"""Properties that a replica has all of, or none."""


@attrs.frozen
class TlsPaths:
    """The files of one replica."""

    certificate: Path
    key: Path
    authority: Path
    """Of the certificates of other servers and replicas."""
    client_authority: Path | None
    """Of the certificates of clients; None: they are not asked for any."""
    mode: str
    """Whether connections without TLS are allowed: see `TLS_MODES`."""


def tls_paths(config: Config, server: Server, replica: Replica) -> TlsPaths | None:
    """Return the files of a replica; None if it has no TLS."""
    found = {name: _path(config, server, replica, name) for name in TLS_PROPERTIES}
    certificate, key, authority = (found[name] for name in TOGETHER)
    if certificate is None or key is None or authority is None:
        return None
    return TlsPaths(certificate, key, authority, found[CLIENT_AUTHORITY], tls_mode(config, server, replica))


def tls_mode(config: Config, server: Server, replica: Replica) -> str:
    """Return whether connections without TLS are allowed, one of `TLS_MODES`."""
    return config.setting(MODE_PROPERTY, TLS_MODES[0], server=server.id, replica=replica.id) or TLS_MODES[0]


def check_tls(config: Config, report: Report) -> None:
    """Report replicas that have some of the properties only, and links that only one side would encrypt."""
    without: list[str] = []
    secured = False
    for server in config.servers:
        for replica in server.replicas:
            missing = [name for name in TOGETHER if _path(config, server, replica, name) is None]
            if len(missing) == len(TOGETHER):
                without.append(server.name)
                if _path(config, server, replica, CLIENT_AUTHORITY) is None:
                    continue
            secured = True
            if missing:
                report.problem(
                    replica.line or server.line,
                    f"TLS of {server.name} lacks the property {missing[0]}; give {CERTIFICATE}, {KEY} and "
                    f"{AUTHORITY} together.",
                )
    if secured and without:
        report.problem(
            config.server(without[0]).line,
            f"{without[0]} has no TLS and other servers have: they could not connect; set {CERTIFICATE}, "
            f"{KEY} and {AUTHORITY} for all servers.",
        )


def _path(config: Config, server: Server, replica: Replica, name: str) -> Path | None:
    text = config.setting(name, server=server.id, replica=replica.id)
    if not text:
        return None
    return Path(text.replace("{server}", server.name).replace("{replica}", str(replica.id)))
