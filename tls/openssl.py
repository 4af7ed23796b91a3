"""TLS over connections of Twisted: contexts of pyOpenSSL, and the layer between socket and protocol."""

# Twisted's layer has no types, and names its arguments after types.
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

from OpenSSL import SSL
from twisted.internet.interfaces import (
    IOpenSSLClientConnectionCreator,
    IOpenSSLServerConnectionCreator,
)
from twisted.internet.protocol import connectionDone
from twisted.protocols.policies import ProtocolWrapper
from twisted.protocols.tls import TLSMemoryBIOFactory, TLSMemoryBIOProtocol
from twisted.python.failure import Failure
from zope.interface import implementer  # type: ignore[import-untyped]

from .files import TlsError, TlsFiles
from .names import covers, is_address, listed_names
from .reasons import alert_reason, verification_reason

__all__ = ["Accepting", "Dialing", "TlsFactory", "new_context"]


TLS_HANDSHAKE: Final = 22
"""The first byte of a connection that speaks TLS."""

PLAIN: Final = cast("Any", ProtocolWrapper)
"""What the layer does on a connection without TLS: nothing."""

C = TypeVar("C", bound=type)


def _implements(interface: Any) -> Callable[[C], C]:
    """Return the decorator of zope for a class, in a form that type checkers understand."""
    return cast("Callable[[C], C]", implementer(interface))


def new_context(files: TlsFiles, verify: bool = True) -> SSL.Context:
    """Return a context with the certificate of this side and the authorities of the other. Raises TlsError.

    verify: check the certificate of the other side. An accepting side asks for one, and goes on without.
    """
    files.check()
    context = SSL.Context(SSL.TLS_METHOD)
    context.set_min_proto_version(SSL.TLS1_2_VERSION)
    context.set_options(SSL.OP_NO_COMPRESSION | SSL.OP_NO_RENEGOTIATION | SSL.OP_CIPHER_SERVER_PREFERENCE)
    context.set_mode(SSL.MODE_RELEASE_BUFFERS)
    context.set_session_cache_mode(SSL.SESS_CACHE_OFF)
    context.set_verify(SSL.VERIFY_PEER if verify else SSL.VERIFY_NONE, _verify)
    context.set_info_callback(_shaken)
    try:
        if files.certificate is not None and files.key is not None:
            context.use_certificate_chain_file(str(files.certificate))
            context.use_privatekey_file(str(files.key))
            context.check_privatekey()
        if not verify:
            pass
        elif files.authorities is not None:
            context.load_verify_locations(str(files.authorities))
        else:
            context.set_default_verify_paths()
    except SSL.Error as error:
        raise TlsError(f"the files of TLS cannot be used: {alert_reason(_texts(error))}") from None
    return context


def _texts(error: SSL.Error) -> str:
    """Return the texts in an error, whose argument is a list of (library, function, text)."""
    details: object = error.args[0] if error.args else ""
    if not isinstance(details, list):
        return str(details)
    return "; ".join(str(each[-1]) for each in cast("list[tuple[str, str, str]]", details))


def _verify(connection: Any, certificate: Any, code: int, depth: int, good: int) -> bool:
    """OpenSSL: a certificate of the other side has been checked."""
    if not good:
        ended = certificate.to_cryptography().not_valid_after_utc
        connection.get_app_data().problem = verification_reason(
            code, f"code {code} of OpenSSL", depth, f"{ended:%Y-%m-%d}"
        )
    return bool(good)


@_implements(IOpenSSLServerConnectionCreator)
class Accepting:
    """Makes the TLS of connections that are accepted."""

    def __init__(self, context: Callable[[], SSL.Context]) -> None:
        """context: returns the context for the next connection."""
        self._context = context

    def serverConnectionForTLS(self, protocol: Any) -> SSL.Connection:  # noqa: N802
        """Twisted: return the TLS of one connection."""
        connection = SSL.Connection(self._context(), None)
        connection.set_app_data(protocol)
        return connection


@_implements(IOpenSSLClientConnectionCreator)
class Dialing:
    """Makes the TLS of connections to one host, whose certificate must be for that host."""

    def __init__(self, context: SSL.Context, host: str) -> None:
        self._context = context
        self._host = host

    def clientConnectionForTLS(self, protocol: Any) -> SSL.Connection:  # noqa: N802
        """Twisted: return the TLS of one connection."""
        connection = SSL.Connection(self._context, None)
        connection.set_app_data(protocol)
        protocol.host = self._host
        if not is_address(self._host):
            # Without the point that may end a full name.
            connection.set_tlsext_host_name(self._host.rstrip(".").encode("idna"))
        return connection


def _shaken(connection: Any, where: int, value: int) -> None:
    """OpenSSL: the handshake has come to some point; at its end, compare the host."""
    del value
    protocol = connection.get_app_data()
    if not where & SSL.SSL_CB_HANDSHAKE_DONE or not protocol.host:
        return
    try:
        found = connection.get_peer_certificate()
        certificate = None if found is None else found.to_cryptography()
        if certificate is None or not covers(certificate, [protocol.host]):
            names = "no host" if certificate is None else listed_names(certificate)
            raise TlsError(f"its certificate is for {names}, and not for {protocol.host}")
    except Exception as error:
        # Nothing above OpenSSL would see the exception.
        protocol.failVerification(cast("Any", Failure)(error))


class _TlsProtocol(TLSMemoryBIOProtocol):
    """TLS between a socket and a protocol. What is written leaves at once, without a turn of the reactor.

    An accepting side that allows plain connections decides at the first byte, with which TLS always begins.
    """

    problem = ""
    """What is wrong with the certificate of the other side; "" as long as nothing is."""
    host = ""
    """The host to which this side connects; "" on the accepting side."""
    factory: "TlsFactory"
    _plain = False
    _first = True
    _reason: Failure | None

    def dataReceived(self, data: bytes) -> None:  # noqa: N802
        """Twisted: bytes arrived."""
        if self._first and data:
            self._first = False
            if not self.host and data[0] != TLS_HANDSHAKE:
                self._without_tls()
        if self._plain:
            PLAIN.dataReceived(self, data)
        elif self._reason is None:
            super().dataReceived(data)  # type: ignore[no-untyped-call]

    def _without_tls(self) -> None:
        """The other side does not speak TLS."""
        if self.factory.plain is None:
            self._reason = cast("Any", Failure)(TlsError("it does not speak TLS, which is needed here"))
            if self.factory.answer:
                cast("Any", self.transport).write(self.factory.answer)
            cast("Any", self.transport).loseConnection()
            return
        self.factory.plain()
        self._plain = self._lostTLSConnection = True
        waiting, self._appSendBuffer = self._appSendBuffer, []
        for data in waiting:
            PLAIN.write(self, data)

    def write(self, data: bytes) -> None:
        """Send bytes."""
        if self._plain:
            PLAIN.write(self, data)
        else:
            super().write(data)  # type: ignore[no-untyped-call]

    def loseConnection(self) -> None:  # noqa: N802
        """Close the connection once everything is written."""
        if self._plain:
            PLAIN.loseConnection(self)
        else:
            super().loseConnection()  # type: ignore[no-untyped-call]

    def getPeerCertificate(self) -> Any:  # noqa: N802
        """Return the certificate that the other side has proven, None without one."""
        return None if self._plain else super().getPeerCertificate()  # type: ignore[no-untyped-call]

    def connectionLost(self, reason: Failure = connectionDone) -> None:  # noqa: N802
        """Twisted: the connection is gone. Report why in words that are no list of OpenSSL's."""
        error = cast("object", cast("Any", self._reason or reason).value)
        if isinstance(error, SSL.Error):
            text = self.problem or alert_reason(_texts(error))
            self._reason = cast("Any", Failure)(TlsError(text))
        super().connectionLost(reason)  # type: ignore[no-untyped-call]


class TlsFactory(TLSMemoryBIOFactory):
    """The factory of connections that speak TLS below the protocols of another factory."""

    protocol = _TlsProtocol

    def __init__(
        self,
        creator: Accepting | Dialing,
        factory: Any,
        clock: Any,
        plain: Callable[[], None] | None = None,
    ) -> None:
        """clock: the reactor. plain: called when a connection without TLS is accepted; None: none is."""
        super().__init__(cast("Any", creator), isinstance(creator, Dialing), factory, clock)
        self.plain = plain
        self.answer: bytes = getattr(factory, "without_tls", b"")
        """What is sent, before it is closed, on a connection that needs TLS and does not speak it."""
