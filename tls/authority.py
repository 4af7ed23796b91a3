"""A private authority, and the certificates that it signs: for the replicas of servers, and for clients."""

import ipaddress
import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from .files import TlsError, read_certificates

__all__ = ["Authority"]

AUTHORITY_DAYS: Final = 3650
BACKDATED: Final = timedelta(minutes=5)
"""Certificates are valid from this long before they are made: clocks differ."""


def _now() -> datetime:
    return datetime.now(UTC)


class Authority:
    """An authority whose key is a file. It signs certificates of servers and of clients."""

    def __init__(
        self,
        certificate: x509.Certificate,
        key: ec.EllipticCurvePrivateKey,
        now: Callable[[], datetime] = _now,
    ) -> None:
        self._certificate = certificate
        self._key = key
        self._now = now

    @classmethod
    def create(
        cls, certificate: Path, key: Path, name: str, now: Callable[[], datetime] = _now
    ) -> "Authority":
        """Make a new authority and write its files. Raises OSError; FileExistsError if one exists."""
        private = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])
        begin = now()
        identifier = x509.SubjectKeyIdentifier.from_public_key(private.public_key())
        made = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(private.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(begin - BACKDATED)
            .not_valid_after(begin + timedelta(days=AUTHORITY_DAYS))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs=True), critical=True)
            .add_extension(identifier, critical=False)
            .sign(private, hashes.SHA256())
        )
        _write(key, _private_pem(private), 0o600, new=True)
        _write(certificate, made.public_bytes(Encoding.PEM), 0o644)
        return cls(made, private, now)

    @classmethod
    def load(cls, certificate: Path, key: Path) -> "Authority":
        """Read the files of an authority. Raises OSError, TlsError."""
        made = read_certificates(certificate)[0]
        try:
            private = load_pem_private_key(key.read_bytes(), None)
        except (ValueError, TypeError):
            raise TlsError(f"{key} has no private key in PEM without a password") from None
        if not isinstance(private, ec.EllipticCurvePrivateKey) or private.public_key() != made.public_key():
            raise TlsError(f"{key} is not the key of {certificate}")
        return cls(made, private)

    @property
    def ends(self) -> datetime:
        """When the authority, and with it all that it has signed, ends."""
        return self._certificate.not_valid_after_utc

    def server(self, certificate: Path, key: Path, name: str, hosts: Sequence[str], days: int) -> None:
        """Write the certificate of a server, for these hosts, and its new key. Raises OSError."""
        self._sign(certificate, key, name, days, hosts, (ExtendedKeyUsageOID.SERVER_AUTH,))

    def client(self, certificate: Path, key: Path, user: str, days: int) -> None:
        """Write the certificate of a client that is this user, and its new key. Raises OSError."""
        self._sign(certificate, key, user, days, (), ())

    def _sign(
        self,
        certificate: Path,
        key: Path,
        name: str,
        days: int,
        hosts: Sequence[str],
        purposes: tuple[x509.ObjectIdentifier, ...],
    ) -> None:
        private = ec.generate_private_key(ec.SECP256R1())
        now = self._now()
        authority = self._certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])]))
            .issuer_name(self._certificate.subject)
            .public_key(private.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - BACKDATED)
            .not_valid_after(min(now + timedelta(days=days), self.ends))
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs=False), critical=True)
            .add_extension(
                x509.ExtendedKeyUsage([*purposes, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False
            )
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(authority), critical=False
            )
        )
        if hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_name(host) for host in hosts]), critical=False
            )
        made = builder.sign(self._key, hashes.SHA256())
        # The key first: a server that reads new files in between keeps its former ones.
        _write(key, _private_pem(private), 0o600)
        _write(certificate, made.public_bytes(Encoding.PEM), 0o644)


def _name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host.rstrip(".").encode("idna").decode())


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _write(path: Path, data: bytes, mode: int, *, new: bool = False) -> None:
    """Write a file whole: under another name first. new: raise FileExistsError if there is one."""
    if new and path.exists():
        raise FileExistsError(None, "it exists already", str(path))
    written = path.with_name(f".{path.name}.new")
    descriptor = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(descriptor, mode)
        file.write(data)
        file.flush()
        os.fsync(descriptor)
    written.replace(path)
