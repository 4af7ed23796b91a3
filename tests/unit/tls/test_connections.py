"""Connections of Twisted with TLS, in memory: who is believed, and what may go without TLS."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.task import Clock
from twisted.test.iosim import FakeTransport, IOPump

from quorate.tls import TlsError, TlsFiles
from quorate.tls.names import certificate_of, covers, user_of
from quorate.tls.openssl import Dialing, TlsFactory, new_context
from quorate.tls.reactor import ACCEPTED, PREFERRED, REQUIRED, ServerTls, TlsReactor


class End(Protocol):
    """One end of a connection: what it has got, and why it ended."""

    def __init__(self) -> None:
        self.got, self.reason = b"", ""

    def dataReceived(self, data: bytes) -> None:
        self.got += data

    def connectionLost(self, reason: Any = None) -> None:
        self.reason = reason.getErrorMessage()


class Listening:
    """A reactor in whose place connections are made by hand."""

    def __init__(self) -> None:
        self.factory: Any = None
        self.seconds = Clock().seconds

    def listenTCP(self, port: int, factory: Any, backlog: int, interface: str) -> None:
        self.factory = factory

    def connectTCP(self, host: str, port: int, factory: Any, timeout: float) -> None:
        self.factory = factory


class Wire:
    """Two ends that are connected."""

    def __init__(self, accepting: Any, dialing: Any):
        server, client = accepting.buildProtocol(None), dialing.buildProtocol(None)
        self.server = getattr(server, "wrappedProtocol", server)
        self.client = getattr(client, "wrappedProtocol", client)
        there, here = FakeTransport(server, True), FakeTransport(client, False)
        server.makeConnection(there)
        client.makeConnection(here)
        self.pump = IOPump(client, server, here, there, False)
        self.pump.flush()

    def send(self, end: End, data: bytes) -> None:
        end.transport.write(data)
        self.pump.flush()


def ends(**attributes: Any) -> Factory:
    factory = Factory.forProtocol(End)
    vars(factory).update(attributes)
    return factory


class World:
    """A server with certificates, and connections to it."""

    def __init__(
        self, files: TlsFiles, client_authorities: Path | None = None, mode: str = REQUIRED, **factory: Any
    ):
        self.log: list[str] = []
        self.clock = Clock()
        self.tls = ServerTls(files, client_authorities, self.clock.seconds, self.log.append, mode)
        self.ports = {}
        for clients in (False, True):
            listening = Listening()
            TlsReactor(listening, self.tls, clients=clients).listenTCP(1, ends(**factory))
            self.ports[clients] = listening.factory

    def connect(self, files: TlsFiles | None, host: str = "oslo", *, clients: bool = True) -> Wire:
        dialing = ends()
        if files is not None:
            dialing = TlsFactory(Dialing(new_context(files), host), dialing, self.clock)
        return Wire(self.ports[clients], dialing)


@pytest.fixture
def trusting(certificates) -> TlsFiles:
    """A client without a certificate that believes the authority."""
    return TlsFiles(authorities=certificates.path("ca"))


@pytest.fixture
def world(certificates) -> Callable[..., World]:
    return lambda *args, **kwargs: World(
        certificates.server("oslo", "oslo", "127.0.0.1", "::1"), *args, **kwargs
    )


def closing_reason(wire: Wire) -> str:
    assert wire.server.got == wire.client.got == b""
    return str(wire.client.reason)


@pytest.mark.parametrize("host", ["oslo", "127.0.0.1", "::1"])
def test_both_ends_exchange_bytes_at_once(world, trusting, host) -> None:
    wire = world().connect(trusting, host)
    wire.send(wire.client, b"hello")
    wire.send(wire.server, b"x" * 100_000)
    assert wire.server.got == b"hello"
    assert wire.client.got == b"x" * 100_000
    wire.client.transport.loseConnection()
    wire.pump.flush()
    assert all(end.reason.startswith("Connection was closed cleanly") for end in (wire.client, wire.server))


def test_a_server_of_another_name_is_refused_by_name(world, trusting) -> None:
    assert closing_reason(world().connect(trusting, "bergen")) == (
        "its certificate is for oslo, 127.0.0.1, ::1, and not for bergen"
    )


def test_a_server_of_another_authority_is_refused(world, certificates) -> None:
    certificates.authority("other")
    wire = world().connect(TlsFiles(authorities=certificates.path("other")))
    assert "authority that is not among those believed here" in closing_reason(wire)
    assert wire.server.reason == (
        "it does not know the authority of this side's certificate, or expects another one"
    )


def test_a_certificate_that_has_expired_meanwhile_is_refused(certificates, trusting, monkeypatch) -> None:
    monkeypatch.setattr(TlsFiles, "check", lambda files: None)
    certificates.late = -timedelta(days=5)
    certificates.server("oslo", "oslo", days=2)
    wire = World(certificates.server("oslo", "oslo", days=2)).connect(trusting)
    assert closing_reason(wire).startswith("its certificate has expired, on ")
    assert wire.server.reason == "it says that the certificate of this side has expired"


def test_the_certificate_of_a_client_names_its_user(world, certificates) -> None:
    wire = world(certificates.path("ca")).connect(certificates.client("anna"))
    wire.send(wire.client, b"hello")
    assert user_of(certificate_of(wire.server.transport)) == "anna"


def test_a_client_without_a_certificate_is_served_and_has_none(world, certificates, trusting) -> None:
    wire = world(certificates.path("ca")).connect(trusting)
    wire.send(wire.client, b"hello")
    assert wire.server.got == b"hello"
    assert certificate_of(wire.server.transport) is None


def test_the_certificate_of_a_client_of_another_authority_is_refused(world, certificates) -> None:
    other = certificates.authority("other")
    other.client(certificates.path("eve"), certificates.path("eve", "key"), "eve", 10)
    files = TlsFiles(certificates.path("eve"), certificates.path("eve", "key"), certificates.path("ca"))
    wire = world(certificates.path("ca")).connect(files)
    assert "authority that is not among those believed here" in wire.server.reason
    assert wire.client.reason


def test_another_server_proves_the_hosts_that_it_is_for(world, certificates) -> None:
    wire = world().connect(certificates.server("bergen", "bergen.example", "10.0.0.7"), clients=False)
    wire.send(wire.client, b"hello")
    certificate = certificate_of(wire.server.transport)
    assert covers(certificate, ["bergen.example"])
    assert covers(certificate, ["oslo", "10.0.0.7"])
    assert not covers(certificate, ["oslo", "10.0.0.8"])


def test_a_client_that_does_not_speak_tls_gets_the_answer_of_its_protocol(world) -> None:
    wire = world(without_tls=b"speak TLS").connect(None)
    wire.send(wire.client, b"hello")
    assert wire.client.got == b"speak TLS"
    assert wire.server.got == b""
    assert wire.server.reason == "it does not speak TLS, which is needed here"


@pytest.mark.parametrize("mode", [PREFERRED, ACCEPTED])
def test_with_and_without_tls_while_that_is_allowed(world, trusting, mode) -> None:
    served = world(mode=mode)
    for files in (None, trusting):
        wire = served.connect(files)
        wire.server.transport.write(b"before it is known")
        wire.send(wire.client, b"hello")
        wire.send(wire.server, b", and after")
        assert (wire.server.got, wire.client.got) == (b"hello", b"before it is known, and after")
        wire.client.transport.loseConnection()
        wire.pump.flush()
        assert wire.server.reason.startswith("Connection was closed cleanly")
    assert served.tls.plain_connections == 1


@pytest.mark.parametrize(("mode", "speaks"), [(REQUIRED, True), (PREFERRED, True), (ACCEPTED, False)])
def test_what_a_server_opens_speaks_tls_except_while_it_only_accepts_it(world, mode, speaks) -> None:
    listening, factory = Listening(), ends()
    TlsReactor(listening, world(mode=mode).tls).connectTCP("10.0.0.1", 7, factory)
    assert isinstance(listening.factory, TlsFactory) == speaks
    assert speaks or listening.factory is factory


def test_a_client_that_speaks_tls_to_a_port_without_it_learns_so(trusting, world) -> None:
    clock = world().clock
    wire = Wire(ends(), TlsFactory(Dialing(new_context(trusting), "oslo"), ends(), clock))
    wire.server.transport.write(b"220 welcome\r\n")
    wire.pump.flush()
    assert wire.client.reason == "it does not speak TLS"


def test_new_files_are_used_and_bad_ones_change_nothing(certificates, world, trusting) -> None:
    served = world()
    first = served.connect(trusting)
    certificates.path("oslo").write_text("half a fi")
    served.clock.advance(2)
    assert not served.connect(trusting).client.reason
    assert "former ones stay in use" in served.log[-1]
    certificates.server("oslo", "stavanger")
    served.clock.advance(2)
    wire = served.connect(trusting, "stavanger")
    wire.send(wire.client, b"hello")
    assert wire.server.got == b"hello"
    assert "were read again" in served.log[-1]
    first.send(first.client, b"still here")
    assert first.server.got == b"still here"


def test_the_log_warns_daily_before_the_certificate_ends_and_of_an_exposed_key(certificates) -> None:
    files = certificates.server("oslo", "oslo", days=7)
    files.key.chmod(0o644)
    served = World(files)
    assert "chmod 600" in served.log[0]
    assert served.log[1].endswith("oslo.pem ends in 6 days; renew it")
    served.tls.refresh()
    assert len(served.log) == 2
    served.clock.advance(86401)
    served.tls.refresh()
    assert len(served.log) == 3


def test_a_server_does_not_start_with_files_that_cannot_be_used(certificates, tmp_path) -> None:
    files = certificates.server("oslo", "oslo")
    with pytest.raises(TlsError, match="cannot be read"):
        World(TlsFiles(files.certificate, tmp_path / "gone", files.authorities))
