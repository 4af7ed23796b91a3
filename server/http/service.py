"""The HTTP port of a replica, which every replica has from its start to its end, whatever its role."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, cast

from prometheus_client import ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector, CollectorRegistry
from twisted.internet.defer import Deferred, maybeDeferred, succeed
from twisted.internet.error import CannotListenError
from twisted.protocols.policies import WrappingFactory
from twisted.web.server import Request, Site

from ...hachannel.transport.direct_write import DirectWriteReactor
from ...tls.layer import secured
from ..config.servers import HTTP_SERVICE
from ..context import ReplicaContext
from ..errors import StartError
from .exposition import exposition
from .figures import DestinationFigures
from .probes import readiness, serves

__all__ = ["HttpService", "MorePages"]

LOOPBACK: Final = "127.0.0.1"
MAX_CONNECTIONS: Final = 64
IDLE_S: Final = 30.0
PLAIN: Final = "text/plain; charset=utf-8"
MAX_BODY_BYTES: Final = 1024 * 1024
INDEX: Final = b"""/console/       the console, for browsers
/api/v1/        the API, with its description
/metrics        for Prometheus
/health/live    the process answers
/health/ready   200 if the replica does what it is there for, otherwise 503 and why
/health/master  200 if it is the master that clients use, otherwise 503 and why
"""

Answer = tuple[int, str, bytes]
"""Code, type and body of an answer."""
Page = Callable[[], Answer]


class MorePages(Protocol):
    """Pages that come with another part of the product."""

    def answers(self, path: str) -> bool:
        """Return whether it has a page at this path."""
        ...

    def render(self, request: Any) -> Any:
        """Answer a request of twisted.web for such a page, as `IResource.render` does."""
        ...


class HttpService:
    """Service ``HttpService``; its arguments are a port, and the address to listen on if not loopback.

    It is no service of the master: `open` it when the replica starts, and `close` it when it stops.
    """

    def __init__(
        self,
        context: ReplicaContext,
        status: Callable[[], Mapping[str, Any]],
        destinations: Callable[[], Sequence[DestinationFigures]],
        more: MorePages | None = None,
    ) -> None:
        """status: returns the map of `AdminTarget.status`. destinations: returns the figures of queues.

        more: has further pages.
        """
        self._context = context
        self._more = more
        # Its own registry: a program with a replica in its process may have one, too.
        process: list[Collector] = [ProcessCollector(registry=CollectorRegistry())]

        def metrics() -> Answer:
            return 200, CONTENT_TYPE_LATEST, exposition(status(), destinations(), process)

        self._pages: dict[str, Page] = {
            "/": lambda: (200, PLAIN, INDEX),
            "/metrics": metrics,
            "/health/live": lambda: (200, PLAIN, b"ok\n"),
            "/health/ready": lambda: _judged(readiness(status())),
            "/health/master": lambda: _judged(serves(status())),
        }
        self._port: Any = None

    def open(self) -> None:
        """Listen. Raises StartError."""
        declared = self._context.replica.service(HTTP_SERVICE)
        assert declared is not None
        port, *address = declared.args.split()
        direct = DirectWriteReactor(self._context.reactor)
        reactor: Any = secured(direct, self._context.tls, clients=True)
        interface = address[0] if address else LOOPBACK
        try:
            self._port = reactor.listenTCP(int(port), _site(self._pages, self._more), interface=interface)
        except CannotListenError as error:
            cause: object = error.socketError
            raise StartError(
                f"port {port} of HttpService cannot be listened on at {interface} "
                f"({getattr(cause, 'strerror', None) or cause}); stop the program that uses it, or change "
                "the port or the address in the configuration."
            ) from None

    def close(self) -> "Deferred[Any]":
        """Listen no longer. Fires when the port is closed."""
        port, self._port = self._port, None
        return succeed(None) if port is None else maybeDeferred(port.stopListening)


def _judged(problem: str) -> Answer:
    return (503, PLAIN, f"{problem}\n".encode()) if problem else (200, PLAIN, b"ok\n")


class _Pages:
    """All pages, each made anew for each request; the methods are those of `IResource` of Twisted."""

    isLeaf = True  # noqa: N815

    def __init__(self, pages: Mapping[str, Page], more: MorePages | None) -> None:
        self._pages = pages
        self._more = more

    def render(self, request: Any) -> Any:
        """Answer a request; also one with HEAD, whose body Twisted leaves out."""
        path = request.path.decode(errors="replace")
        if self._more is not None and self._more.answers(path):
            return self._more.render(request)
        page = self._pages.get(path)
        if request.method not in (b"GET", b"HEAD"):
            request.setHeader(b"allow", b"GET, HEAD")
            code, kind, body = 405, PLAIN, b"this port answers GET and HEAD\n"
        elif page is None:
            code, kind, body = 404, PLAIN, b"there is no such page; / lists all\n"
        else:
            code, kind, body = page()
        request.setResponseCode(code)
        request.setHeader(b"content-type", kind.encode())
        request.setHeader(b"cache-control", b"no-store")
        request.setHeader(b"content-length", str(len(body)).encode())
        return body

    def putChild(self, path: bytes, child: Any) -> None:  # noqa: N802
        """Implement `IResource`: a leaf has no children."""
        raise TypeError(f"{self!r} has no child {path!r}: {child!r}")

    def getChildWithDefault(self, name: bytes, request: Any) -> Any:  # noqa: N802
        """Implement `IResource`: a leaf has no children."""
        del name, request
        return self


class _Limited(WrappingFactory):
    """A factory with so many connections at most: those that come then are closed."""

    def buildProtocol(self, addr: Any) -> Any:  # noqa: N802
        """Return the protocol of a connection, None if there are too many."""
        open_now = len(cast("Any", self).protocols)
        return None if open_now >= MAX_CONNECTIONS else super().buildProtocol(addr)


def _ignore(_: Any) -> None:
    return


class _LimitedRequest(cast("Any", Request)):  # type: ignore[misc]
    """A request with a body of so many bytes at most, whose length is told before."""

    def gotLength(self, length: int | None) -> None:  # noqa: N802
        """Refuse a body that is too large, or of which nobody says how large it is."""
        if length is None or length > MAX_BODY_BYTES:
            code = b"411 Length Required" if length is None else b"413 Content Too Large"
            self.channel.transport.write(b"HTTP/1.1 " + code + b"\r\nContent-Length: 0\r\n\r\n")
            self.channel.loseConnection()
            length = 0
        cast("Any", super().gotLength)(length)  # pyright: ignore[reportUnknownMemberType]


def _site(pages: Mapping[str, Page], more: MorePages | None) -> Any:
    """Return a site that writes no log of its own, and shows nobody where an error is."""
    site = cast("Any", Site)(_Pages(pages, more), requestFactory=_LimitedRequest, timeout=IDLE_S)
    site.displayTracebacks = False
    site.log = _ignore
    return cast("Any", _Limited)(site)
