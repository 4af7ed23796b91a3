"""TLS of clients that use the standard library: what they believe, and what they say when they do not."""

import contextlib
import ssl
from datetime import timedelta
from typing import Any

import pytest

from quorate.tls import TlsFiles
from quorate.tls.sockets import client_context, tls_reason


def shake(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> tuple[str, str]:
    """Do a handshake in memory. Return what the client and the server say; "" for one that succeeds."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname=host),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    said: list[str] = ["", ""]
    for _ in range(4):
        for place, end in enumerate(ends):
            if said[place]:
                continue
            try:
                with contextlib.suppress(ssl.SSLWantReadError):
                    end.do_handshake()
                    end.read()
            except ssl.SSLError as error:
                said[place] = tls_reason(error)
    return said[0], said[1]


def serving(files: TlsFiles, **options: Any) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    for name, value in options.items():
        setattr(context, name, value)
    return context


def test_a_server_of_the_authority_is_believed(certificates) -> None:
    server = serving(certificates.server("oslo", "oslo", "127.0.0.1"))
    client = client_context(TlsFiles(authorities=certificates.path("ca")))
    assert shake(server, client, "oslo") == shake(server, client, "127.0.0.1") == ("", "")


def test_another_host_another_authority_and_an_old_certificate_are_told_apart(certificates) -> None:
    client = client_context(TlsFiles(authorities=certificates.path("ca")))
    here, there = shake(serving(certificates.server("oslo", "oslo")), client, "bergen")
    assert here.startswith("its certificate is for another host (")
    assert "bergen" in here
    assert there == "it refuses the certificate of this side"
    certificates.server("bergen", "bergen", by=certificates.authority("other"))
    files = TlsFiles(certificates.path("bergen"), certificates.path("bergen", "key"))
    assert shake(serving(files), client, "bergen") == (
        "its certificate comes from an authority that is not among those believed here",
        "it does not know the authority of this side's certificate, or expects another one",
    )
    certificates.late = timedelta(days=-5)
    assert shake(serving(certificates.server("oslo", "oslo", days=2)), client, "oslo") == (
        "its certificate has expired; renew it there",
        "it says that the certificate of this side has expired",
    )


def test_a_server_that_needs_a_certificate_or_an_old_version_is_understood(certificates) -> None:
    files = certificates.server("oslo", "oslo")
    client = client_context(TlsFiles(authorities=certificates.path("ca")))
    needs = serving(files, verify_mode=ssl.CERT_REQUIRED)
    assert shake(needs, client, "oslo")[0] == "it wants a certificate, and this side has none"
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    newer = serving(files, minimum_version=ssl.TLSVersion.TLSv1_3)
    assert shake(newer, client, "oslo")[0] == "it speaks another version of TLS; 1.2 and 1.3 are allowed"


def test_other_errors_of_the_network_are_no_matter_of_tls() -> None:
    assert tls_reason(ConnectionRefusedError(111, "Connection refused")) == ""
    assert tls_reason(ConnectionResetError(104, "reset")) == "it reset the connection"
    assert tls_reason(ssl.SSLEOFError(8, "EOF")) == "it closed the connection before TLS was ready"


@pytest.mark.parametrize("user", ["anna"])
def test_a_client_proves_its_user(certificates, user) -> None:
    server = serving(certificates.server("oslo", "oslo"), verify_mode=ssl.CERT_REQUIRED)
    server.load_verify_locations(certificates.path("ca"))
    assert shake(server, client_context(certificates.client(user)), "oslo") == ("", "")
