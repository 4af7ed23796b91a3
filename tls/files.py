"""The files of TLS: a certificate, its private key, and the authorities whose certificates are believed."""

import stat
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from ..text_files import read_text, reason

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

__all__ = ["TlsError", "TlsFiles", "not_after", "read_certificates", "stamp"]

MAX_BYTES: Final = 1024 * 1024
"""The largest file of certificates."""


class TlsError(Exception):
    """TLS cannot be used, or a connection failed in it; the text is a sentence without a full stop."""


@attrs.frozen
class TlsFiles:
    """Where the certificates of one side of a connection are; files in PEM."""

    certificate: Path | None = None
    """The own certificate, and the certificates between it and its authority. None: this side has none."""
    key: Path | None = None
    """The private key of the certificate, not encrypted."""
    authorities: Path | None = None
    """Certificates of the authorities of the other sides. None: those of the operating system."""

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files that there are."""
        return tuple(path for path in (self.certificate, self.key, self.authorities) if path is not None)

    def check(self, now: datetime | None = None) -> None:
        """Raise TlsError unless all files can be used, and the certificate is valid at `now`, the present."""
        from cryptography.hazmat.primitives.serialization import (
            Encoding,
            PublicFormat,
            load_pem_private_key,
        )

        if (self.certificate is None) != (self.key is None):
            raise TlsError("a certificate and its key are given together; give both")
        if self.authorities is not None:
            read_certificates(self.authorities)
        if self.certificate is None or self.key is None:
            return
        chain = read_certificates(self.certificate)
        pem = _read(self.key)
        try:
            key = load_pem_private_key(pem.encode(), None)
        except TypeError:
            raise TlsError(
                f"the key {self.key} is encrypted; give one that is not, readable by the server's user only"
            ) from None
        except ValueError:
            raise TlsError(f"{self.key} has no private key in PEM") from None
        of_key = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        own = chain[0].public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        if of_key != own:
            raise TlsError(f"the key {self.key} is not that of the certificate {self.certificate}")
        now = now or datetime.now(UTC)
        if now > chain[0].not_valid_after_utc:
            ended = chain[0].not_valid_after_utc
            raise TlsError(f"the certificate {self.certificate} has expired, on {ended:%Y-%m-%d}; renew it")
        if now < chain[0].not_valid_before_utc:
            begins = chain[0].not_valid_before_utc
            raise TlsError(
                f"the certificate {self.certificate} is not valid before {begins:%Y-%m-%d %H:%M} UTC"
            )

    @property
    def user(self) -> str:
        """The user that the own certificate is for; "" without one. Raises TlsError."""
        if self.certificate is None:
            return ""
        from .names import user_of

        return user_of(read_certificates(self.certificate)[0])

    @property
    def exposed(self) -> bool:
        """Whether other users of this machine may read the private key."""
        return self.key is not None and bool(self.key.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH))


def read_certificates(path: Path) -> "Sequence[Certificate]":
    """Return the certificates of a file, one at least. Raises TlsError."""
    from cryptography.x509 import load_pem_x509_certificates

    try:
        return load_pem_x509_certificates(_read(path).encode())
    except ValueError:
        raise TlsError(f"{path} has no certificate in PEM") from None


def not_after(path: Path) -> datetime:
    """Return when the first certificate of a file ends. Raises TlsError."""
    return read_certificates(path)[0].not_valid_after_utc


def stamp(path: Path) -> tuple[int, int, int]:
    """Return what changes when a file is written. Raises OSError."""
    found = path.stat()
    return found.st_mtime_ns, found.st_size, found.st_ino


def _read(path: Path) -> str:
    try:
        return read_text(path, MAX_BYTES)
    except (OSError, ValueError) as error:
        raise TlsError(f"{path} cannot be read: {reason(error)}") from None
