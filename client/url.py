"""The URL that names the replicas of a server: ``quorate://host:port,host:port``."""

import re
from typing import Final

from .errors import BadUrl

__all__ = ["SCHEME", "Endpoint", "format_endpoint", "parse_url"]

SCHEME: Final = "quorate://"

Endpoint = tuple[str, int]
"""Host name or address (an IPv6 address without brackets), and port."""

_ENDPOINT = re.compile(
    r"(?:\[(?P<six>[0-9A-Fa-f:.%a-z]+)\]|(?P<host>[^\s\[\]:/@,?#]+)):(?P<port>\d{1,5})", re.ASCII
)


def parse_url(url: str) -> tuple[Endpoint, ...]:
    """Return the replicas that a URL names, in its order and each once.

    Raises `BadUrl` with a sentence that quotes the wrong part, and TypeError unless it is text.
    """
    example = f"write it as {SCHEME}host:port,host:port"
    if not isinstance(url, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"url is {url!r}, which is not text; {example}")
    if not url.startswith(SCHEME):
        raise BadUrl(f"{url!r} is not the URL of a quorate server; {example}")
    rest = url[len(SCHEME) :].rstrip("/")
    if "@" in rest:
        raise BadUrl("a URL carries no user or password; pass them as user= and password=")
    endpoints: dict[Endpoint, None] = {}
    for part in rest.split(","):
        match = _ENDPOINT.fullmatch(part.strip())
        if match is None:
            where = f"{part.strip()!r} in the URL" if part.strip() else "an empty part of the URL"
            raise BadUrl(f"{where} is not host:port; {example} (IPv6 addresses in brackets)")
        port = int(match["port"])
        if not 0 < port < 65536:
            raise BadUrl(f"port {port} in the URL is not between 1 and 65535")
        endpoints[(match["six"] or match["host"], port)] = None
    return tuple(endpoints)


def format_endpoint(endpoint: Endpoint) -> str:
    """Write an endpoint as in a URL."""
    host, port = endpoint
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
