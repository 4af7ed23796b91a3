"""The TLS of a server: certificates that are read again when they change, and a reactor that uses them."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from OpenSSL import SSL

from ..text_files import reason
from .files import TlsError, TlsFiles, not_after, stamp
from .openssl import Accepting, Dialing, TlsFactory, new_context

__all__ = ["ACCEPTED", "PREFERRED", "REQUIRED", "ServerTls", "TlsReactor"]

LOOK_S: Final = 1.0
"""Seconds after which the files are looked at again when a connection is made."""
WARNING_DAYS: Final = 30
"""Days before the end of the certificate from which on the log says so, once a day."""
DAY_S: Final = 86400.0


REQUIRED: Final = "required"
"""Connections without TLS are refused, and none is opened."""
PREFERRED: Final = "preferred"
"""Connections without TLS are accepted; those opened speak TLS."""
ACCEPTED: Final = "accepted"
"""Connections with and without TLS are accepted; those opened do not speak it yet."""


class _Certificates:
    """A context of OpenSSL, made again when its files have changed."""

    def __init__(self, files: TlsFiles, verify: bool) -> None:
        """Raises TlsError."""
        self._files = files
        self._verify = verify
        self._problem = ""
        try:
            self._stamps = self._stamp()
        except OSError as error:
            raise TlsError(f"{error.filename} cannot be read: {reason(error)}") from None
        self._load()

    def refresh(self, log: Callable[[str], None]) -> None:
        """Read the files again if they have changed. What cannot be used changes nothing."""
        try:
            stamps = self._stamp()
            if stamps == self._stamps:
                return
            self._stamps = stamps
            self._load()
        except (OSError, TlsError) as error:
            problem = f"new files of TLS cannot be used, and the former ones stay in use: {error}"
            if problem != self._problem:
                self._problem = problem
                log(problem)
            return
        self._problem = ""
        log(f"the files of TLS were read again: {', '.join(map(str, self._files.paths))}")

    def _load(self) -> None:
        assert self._files.certificate is not None
        self.context = new_context(self._files, self._verify)
        self.ends = not_after(self._files.certificate)

    def _stamp(self) -> tuple[tuple[int, int, int], ...]:
        return tuple(stamp(path) for path in self._files.paths)


class ServerTls:
    """The certificates of one server process."""

    def __init__(
        self,
        files: TlsFiles,
        client_authorities: Path | None,
        seconds: Callable[[], float],
        log: Callable[[str], None],
        mode: str = REQUIRED,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Read the files. Raises TlsError.

        files: the own certificate, and the authorities of other servers. client_authorities: those of the
        certificates of clients; None: clients are not asked for a certificate.
        """
        assert files.certificate is not None
        self.mode = mode
        self.plain_connections = 0
        """Accepted connections that did not speak TLS, where that is allowed."""
        self._certificate = files.certificate
        self._servers = _Certificates(files, verify=True)
        for_clients = TlsFiles(files.certificate, files.key, client_authorities)
        self._clients = _Certificates(for_clients, verify=client_authorities is not None)
        self._seconds = seconds
        self._log = log
        self._now = now
        self._looked = seconds()
        self._warned = float("-inf")
        if files.exposed:
            log(f"other users of this machine may read the key {files.key}; run: chmod 600 {files.key}")
        self._warn()

    @property
    def days_left(self) -> float:
        """Days until the own certificate ends."""
        return (self._servers.ends - self._now()).total_seconds() / DAY_S

    def count_plain(self) -> None:
        """Count an accepted connection without TLS."""
        self.plain_connections += 1

    def refresh(self) -> None:
        """Read the files again if they have changed, at most once a second."""
        now = self._seconds()
        if now - self._looked < LOOK_S:
            return
        self._looked = now
        for each in (self._servers, self._clients):
            each.refresh(self._log)
        self._warn()

    def from_servers(self) -> SSL.Context:
        """Return the context of an accepted connection of a server or an administrator."""
        self.refresh()
        return self._servers.context

    def from_clients(self) -> SSL.Context:
        """Return the context of an accepted connection of a client."""
        self.refresh()
        return self._clients.context

    def to_servers(self) -> SSL.Context:
        """Return the context of a connection to another server."""
        return self.from_servers()

    def _warn(self) -> None:
        now = self._seconds()
        if now - self._warned < DAY_S:
            return
        days = self.days_left
        if days < WARNING_DAYS:
            self._warned = now
            self._log(f"the certificate {self._certificate} ends in {max(0, int(days))} days; renew it")


class TlsReactor:
    """A reactor whose TCP connections speak TLS; else like the one that it is made from."""

    def __init__(self, reactor: Any, tls: ServerTls, *, clients: bool = False) -> None:
        """clients: what it accepts are clients, and not other servers."""
        self._reactor = reactor
        self._tls = tls
        self._accept = tls.from_clients if clients else tls.from_servers

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reactor, name)

    def connectTCP(self, host: str, port: int, factory: Any, timeout: float = 30) -> Any:  # noqa: N802
        """Open a connection. The certificate must be for the `host_name` of the factory, or the host."""
        if self._tls.mode == ACCEPTED:
            return self._reactor.connectTCP(host, port, factory, timeout)
        creator = Dialing(self._tls.to_servers(), getattr(factory, "host_name", host))
        return self._reactor.connectTCP(host, port, TlsFactory(creator, factory, self._reactor), timeout)

    def listenTCP(self, port: int, factory: Any, backlog: int = 50, interface: str = "") -> Any:  # noqa: N802
        """Listen on a port."""
        plain = None if self._tls.mode == REQUIRED else self._tls.count_plain
        secured = TlsFactory(Accepting(self._accept), factory, self._reactor, plain)
        return self._reactor.listenTCP(port, secured, backlog, interface)
