"""TLS for clients that use the standard library: asyncio, and the connections of administrators."""

import errno
import ssl

from .files import TlsError, TlsFiles
from .reasons import alert_reason, verification_reason

__all__ = ["client_context", "tls_reason"]


def client_context(files: TlsFiles) -> ssl.SSLContext:
    """Return the context of a client that checks servers. Raises TlsError."""
    files.check()
    context = ssl.create_default_context(cafile=files.authorities)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if files.certificate is not None:
        context.load_cert_chain(files.certificate, files.key)
    return context


def tls_reason(error: OSError) -> str:
    """Say why a connection failed, if it did in TLS; "" if it did not."""
    if isinstance(error, ssl.SSLCertVerificationError):
        # The text of a wrong host names the host that was expected.
        if "mismatch" in error.verify_message:
            return f"its certificate is for another host ({error.verify_message.rstrip('.')})"
        return verification_reason(error.verify_code, error.verify_message, 0)
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return "it closed the connection before TLS was ready"
    if isinstance(error, ssl.SSLError):
        return alert_reason((error.reason or str(error)).replace("_", " "))
    if isinstance(error, TlsError):
        return str(error)
    if error.errno == errno.ECONNRESET:
        return "it reset the connection"
    return ""
