"""The replicas of this process, by name."""

import os
import re
import threading
from typing import Final

from ..errors import BadUrl, Unavailable
from .server import LocalServer

__all__ = ["LOCAL_SCHEME", "is_local", "local_server", "register", "unregister", "url_server"]

LOCAL_SCHEME: Final = "local:"
_EXAMPLE: Final = "write local: for the only replica of this process, local:s0 or local:s0/1"
_NAME: Final = re.compile(r"[^\s/@,:]+(/\d{1,5})?")

_changed = threading.Condition()
_servers: list[LocalServer] = []


def register(server: LocalServer) -> None:
    """Add a replica of this process."""
    with _changed:
        _servers.append(server)
        _changed.notify_all()


def unregister(server: LocalServer) -> None:
    """Remove a replica that stops."""
    with _changed:
        if server in _servers:
            _servers.remove(server)


def local_server(name: str = "", *, timeout: float = 0.0) -> LocalServer:
    """Return a replica that runs in this process.

    `name` is that of a server (``s0``), or of a replica (``s0/1``) where several of one server run in the
    process. It may be left out if there is one replica. A replica that is about to start is waited for, for
    at most `timeout` seconds. Raises `Unavailable` if there is none, or if the name stands for several.
    """
    with _changed:
        _changed.wait_for(lambda: bool(_named(name)), timeout)
        servers, found = list(_servers), _named(name)
    if len(found) == 1:
        return found[0]
    running = ", ".join(sorted(each.name for each in servers))
    if not servers:
        raise Unavailable(
            "no server runs in this process; call this in a service, or start a server here before"
        )
    if found:
        raise Unavailable(f"several replicas run in this process; name one of them: {running}")
    raise Unavailable(f"no server {name} runs in this process; there are: {running}")


def _named(name: str) -> list[LocalServer]:
    return [each for each in _servers if not name or name in (each.name, each.server_name)]


def is_local(url: str) -> bool:
    """Return whether a URL names a replica of this process."""
    return url.startswith(LOCAL_SCHEME)


def url_server(url: str) -> LocalServer:
    """Return the replica that a URL ``local:NAME`` names. Raises BadUrl and Unavailable."""
    name = url[len(LOCAL_SCHEME) :]
    if name and not _NAME.fullmatch(name):
        raise BadUrl(f"{url!r} names no replica of this process; {_EXAMPLE}")
    return local_server(name)


def _forget() -> None:
    """Forget the servers of the parent process: their threads do not exist in a fork."""
    global _changed
    _changed = threading.Condition()
    _servers.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
