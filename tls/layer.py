"""TLS over a reactor, if there are certificates; without them its libraries are not even imported."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .reactor import ServerTls

__all__ = ["proven_user", "secured"]


def secured(reactor: Any, tls: "ServerTls | None", *, clients: bool = False) -> Any:
    """Return a reactor whose connections speak TLS; the same one without certificates.

    clients: what it accepts are clients, and not other servers.
    """
    if tls is None:
        return reactor
    from .reactor import TlsReactor

    return TlsReactor(reactor, tls, clients=clients)


def proven_user(transport: Any) -> str:
    """Return the user that the certificate of a client is for; "" without TLS or without a certificate."""
    if getattr(transport, "getPeerCertificate", None) is None:
        return ""
    from .names import certificate_of, user_of

    certificate = certificate_of(transport)
    return "" if certificate is None else user_of(certificate)
