"""The TLS of a replica, and of commands that connect to it, from the files that its configuration names."""

import ssl
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from ..tls import TlsError, TlsFiles
from .config import Config, Replica, Server
from .config.tls import tls_paths
from .errors import StartError

if TYPE_CHECKING:
    from ..tls.reactor import ServerTls

__all__ = ["administration_tls", "server_tls"]


def server_tls(
    config: Config, server: Server, replica: Replica, seconds: Callable[[], float], log: Callable[[str], None]
) -> "ServerTls | None":
    """Return the TLS of a replica, None if it has none. Raises StartError for files that cannot be used."""
    paths = tls_paths(config, server, replica)
    if paths is None:
        return None
    from ..tls.reactor import ServerTls

    try:
        files = TlsFiles(paths.certificate, paths.key, paths.authority)
        return ServerTls(files, paths.client_authority, seconds, log, paths.mode)
    except TlsError as error:
        raise StartError(f"TLS cannot start: {error}.") from None


def administration_tls(config: Config, server: Server, replica: int) -> "ssl.SSLContext | None":
    """Return the TLS with which a command connects to a replica; None if it has none. Raises TlsError."""
    declared = next((each for each in server.replicas if each.id == replica), server.replicas[0])
    paths = tls_paths(config, server, declared)
    if paths is None or paths.mode == "accepted":
        return None
    return _context(TlsFiles(authorities=paths.authority))


@cache
def _context(files: TlsFiles) -> ssl.SSLContext:
    from ..tls.sockets import client_context

    return client_context(files)
