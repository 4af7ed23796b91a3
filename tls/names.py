"""The names in a certificate: the hosts that it is for, and the user of a client."""

import ipaddress
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

from service_identity import VerificationError
from service_identity.cryptography import (
    extract_patterns,
    verify_certificate_hostname,
    verify_certificate_ip_address,
)
from service_identity.exceptions import CertificateError

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

__all__ = ["certificate_of", "covers", "is_address", "listed_names", "user_of"]


def certificate_of(transport: Any) -> "Certificate | None":
    """Return the certificate that the other side has proven; None without TLS, or without one."""
    get = getattr(transport, "getPeerCertificate", None)
    found = None if get is None else get()
    return None if found is None else found.to_cryptography()


def is_address(host: str) -> bool:
    """Return whether a host is a numeric address."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def covers(certificate: "Certificate", hosts: Iterable[str]) -> bool:
    """Return whether a certificate is for one of the hosts, names or addresses."""
    return any(_covers(certificate, host) for host in hosts)


def _covers(certificate: "Certificate", host: str) -> bool:
    try:
        if is_address(host):
            verify_certificate_ip_address(certificate, host)
        else:
            verify_certificate_hostname(certificate, host)
    except (VerificationError, CertificateError, ValueError):
        return False
    return True


def listed_names(certificate: "Certificate") -> str:
    """Return the hosts that a certificate is for, as text."""
    try:
        patterns = extract_patterns(certificate)
    except CertificateError:
        patterns = []
    names = [
        pattern.decode() if isinstance(pattern, bytes) else str(pattern)
        for pattern in (getattr(each, "pattern", None) for each in cast("list[Any]", patterns))
        if pattern is not None
    ]
    return ", ".join(names) or "no host"


def user_of(certificate: "Certificate") -> str:
    """Return the user that the certificate of a client is for: its common name; "" if it has none."""
    from cryptography.x509.oid import NameOID

    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(names[0].value) if names else ""
