"""The URL that names the replicas of a server: ``quorate://host:port,host:port``.

With ``quorates://`` the connections are encrypted, and the files of TLS may follow:
``quorates://host:port,host:port?ca=certs/ca.pem&certificate=anna.pem&key=anna.key``.
"""

import re
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl

from ..tls import TlsError, TlsFiles
from .errors import BadUrl

__all__ = ["SCHEME", "TLS_SCHEME", "Endpoint", "format_endpoint", "parse_url", "url_tls"]

SCHEME: Final = "quorate://"
TLS_SCHEME: Final = "quorates://"
_FILES: Final = {"ca": "authorities", "certificate": "certificate", "key": "key"}

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
    scheme = next((each for each in (SCHEME, TLS_SCHEME) if url.startswith(each)), None)
    if scheme is None:
        raise BadUrl(f"{url!r} is not the URL of a quorate server; {example}")
    rest, question, _ = url[len(scheme) :].partition("?")
    if question and scheme == SCHEME:
        raise BadUrl(f"only a URL with TLS names files after a question mark: write it as {TLS_SCHEME}...")
    rest = rest.rstrip("/")
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


def url_tls(url: str) -> TlsFiles | None:
    """Return the files of TLS that a URL names, all of them readable; None for one without TLS.

    Raises `BadUrl` for an unknown word after the question mark, and for a file that cannot be used.
    """
    if not url.startswith(TLS_SCHEME):
        return None
    found: dict[str, Path] = {}
    for name, value in parse_qsl(url.partition("?")[2], keep_blank_values=True):
        if name not in _FILES or not value:
            raise BadUrl(f"{name}={value} in the URL: give ca, certificate and key, each with a file")
        found[_FILES[name]] = Path(value)
    files = TlsFiles(**found)
    try:
        files.check()
    except TlsError as error:
        raise BadUrl(f"TLS of the URL: {error}") from None
    return files


def format_endpoint(endpoint: Endpoint) -> str:
    """Write an endpoint as in a URL."""
    host, port = endpoint
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
