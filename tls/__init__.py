"""TLS: the certificates of servers and clients, encrypted connections, and a private authority.

docs/security.md is the guide. What a file or a connection has wrong is a `TlsError`, a sentence.
"""

from .files import TlsError, TlsFiles

__all__ = ["TlsError", "TlsFiles"]
