"""Without a secret, connections are accepted from the hosts that the configuration names."""

from pathlib import Path
from typing import Any

import pytest
from OpenSSL.crypto import X509
from twisted.internet.task import Clock

from quorate.hachannel import Seat
from quorate.server.config import load
from quorate.server.network.addresses import Addresses, ReplicaAddress, encode_address
from quorate.server.network.hello import ADMIN, CHANNEL, NETWORK, Hello, NotNow, ProtocolError
from quorate.server.network.host_addresses import LOOKUP_AGAIN_S, HostAddresses
from quorate.server.network.source_check import SourceCheck
from quorate.tls.files import read_certificates

HERE = "10.0.0.1"

XML = """<config><property name="insecure_network" value="true"/><domain name="D1"/>
<cluster id="0" name="s0">
<server id="0" hostname="here"><network domain="D1" port="100"/>
<nat sname="s0" replica="2" hostname="gate" port="9"/></server>
<server id="1" hostname="one"><network domain="D1" port="101"/></server>
<server id="2" hostname="two"><network domain="D1" port="102"/></server>
<server id="3" hostname="here"><network domain="D1" port="103"/></server>
</cluster>
<server id="1" name="s1" hostname="far"><network domain="D1" port="104"/></server>
</config>"""


class Names:
    """A name service: the addresses of each name. `asked` counts the lookups; with `held` none ends."""

    def __init__(self, **names: str) -> None:
        self.names = names
        self.asked: list[str] = []
        self.held: list[Any] | None = None

    def resolveHostName(self, receiver: Any, host: str) -> None:
        self.asked.append(host)
        if self.held is None:
            self._answer(receiver, host)
        else:
            self.held.append((receiver, host))

    def let_go(self) -> None:
        held, self.held = self.held or [], None
        for receiver, host in held:
            self._answer(receiver, host)

    def _answer(self, receiver: Any, host: str) -> None:
        for address in self.names.get(host, "").split():
            receiver.addressResolved(type("Address", (), {"host": address})())
        receiver.resolutionComplete()


class Rig:
    def __init__(self, place: Path) -> None:
        path = place / "a3servers.xml"
        path.write_text(XML)
        config = load(path)
        server = config.server("s0")
        self.names = Names(
            here=HERE,
            one="10.0.0.2 fd00::2",
            two="10.0.0.3",
            far="10.0.0.9",
            gate="192.0.2.1",
            new="10.0.0.7",
        )
        self.clock = Clock()
        self.clock.nameResolver = self.names  # type: ignore[attr-defined]
        self.addresses = Addresses(server, server.replicas[0])
        self.reported: set[str] = set()
        self.check = SourceCheck(
            config,
            server,
            server.replicas[0],
            self.addresses,
            lambda _: self.reported,
            HostAddresses(self.clock),
            lambda address: address == HERE,
        )

    def replica(self, id: int, source: str) -> None:
        self.check.check(Hello(CHANNEL, {"replica": id}, b""), source)

    def server(self, id: int, source: str) -> None:
        self.check.check(Hello(NETWORK, {"server": id}, b""), source)


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


@pytest.mark.parametrize(
    ("replica", "source"),
    [
        (1, "10.0.0.2"),
        (1, "fd00::2"),
        (1, "::ffff:10.0.0.2"),
        (2, "10.0.0.3"),
        (2, "192.0.2.1"),
        (3, HERE),
        (3, "127.0.0.1"),
    ],
)
def test_a_replica_is_accepted_from_its_hosts(rig: Rig, replica: int, source: str) -> None:
    rig.replica(replica, source)


@pytest.mark.parametrize(
    ("replica", "source"), [(1, "10.0.0.3"), (1, "10.0.0.66"), (1, "127.0.0.1"), (1, HERE), (3, "10.0.0.2")]
)
def test_a_replica_is_refused_from_another_host(rig: Rig, replica: int, source: str) -> None:
    with pytest.raises(ProtocolError, match=f"replica {replica} of s0 is accepted from its host") as caught:
        rig.replica(replica, source)
    assert source in str(caught.value)
    assert "secret" in str(caught.value)
    assert caught.value.answer is not None


def test_a_stranger_does_not_learn_the_addresses_of_the_replicas(rig: Rig) -> None:
    with pytest.raises(ProtocolError) as caught:
        rig.replica(1, "10.0.0.66")
    assert "10.0.0.2" in str(caught.value)
    assert b"10.0.0.2" not in (caught.value.answer or b"")


def test_another_server_is_accepted_from_its_host_and_from_those_it_has_reported(rig: Rig) -> None:
    rig.server(1, "10.0.0.9")
    with pytest.raises(ProtocolError, match="server 1 is accepted from its host"):
        rig.server(1, "10.0.0.7")
    rig.reported = {"new"}
    rig.server(1, "10.0.0.7")


def test_a_replica_that_the_cluster_has_moved_is_accepted_from_its_new_host(rig: Rig) -> None:
    data = encode_address(rig.addresses._server.replicas[1]).replace(b"one", b"new")
    rig.addresses.update([Seat(1, data, False)])
    assert isinstance(dict(rig.addresses.items())[1], ReplicaAddress)
    rig.replica(1, "10.0.0.7")
    rig.replica(1, "10.0.0.2")  # Where the file has it.


def test_the_addresses_of_the_configuration_are_known(rig: Rig) -> None:
    rig.check.prepare()
    for source in ("10.0.0.2", "10.0.0.9", "192.0.2.1", "127.0.0.1", HERE, "::ffff:10.0.0.3"):
        assert rig.check.is_known(source)
    assert not rig.check.is_known("10.0.0.66")
    rig.names.names["one"] = "10.0.0.66"
    rig.clock.advance(LOOKUP_AGAIN_S)
    rig.check.is_known("10.0.0.66")
    rig.clock.advance(LOOKUP_AGAIN_S)
    assert rig.check.is_known("10.0.0.66")


def test_unknown_replicas_and_administrators_are_left_to_their_handlers(rig: Rig) -> None:
    rig.replica(9, "10.0.0.66")
    rig.server(9, "10.0.0.66")
    rig.check.check(Hello(ADMIN, {}, b""), "10.0.0.66")


def test_a_hello_that_comes_before_the_name_is_looked_up_is_to_come_again(rig: Rig) -> None:
    rig.names.held = []
    with pytest.raises(NotNow):
        rig.replica(1, "10.0.0.2")
    rig.names.let_go()
    rig.replica(1, "10.0.0.2")


def test_all_names_are_looked_up_before_the_first_connection(rig: Rig) -> None:
    rig.check.prepare()
    assert sorted(rig.names.asked) == ["far", "gate", "here", "one", "two"]
    rig.replica(1, "10.0.0.2")
    assert rig.names.asked.count("one") == 1


def test_a_name_that_gets_another_address_is_followed(rig: Rig) -> None:
    rig.replica(1, "10.0.0.2")
    rig.names.names["one"] = "10.0.0.5"
    rig.clock.advance(LOOKUP_AGAIN_S)
    rig.replica(1, "10.0.0.5")


def test_a_name_service_that_fails_does_not_shut_out_a_known_host(rig: Rig) -> None:
    rig.replica(1, "10.0.0.2")
    del rig.names.names["one"]
    rig.clock.advance(LOOKUP_AGAIN_S)
    rig.replica(1, "10.0.0.2")


def test_a_host_that_does_not_resolve_is_named(rig: Rig) -> None:
    del rig.names.names["one"]
    with pytest.raises(ProtocolError, match=r"one \(not found here\)"):
        rig.replica(1, "10.0.0.2")


class Proven:
    """A connection over which TLS has proven the certificate in a file; None: it has proven none."""

    def __init__(self, file: Path | None) -> None:
        self._file = file

    def getPeerCertificate(self) -> X509 | None:
        return None if self._file is None else X509.from_cryptography(read_certificates(self._file)[0])


@pytest.mark.parametrize(
    ("hello", "hosts"),
    [
        (Hello(CHANNEL, {"replica": 1}, b""), ["one"]),
        (Hello(CHANNEL, {"replica": 2}, b""), ["other", "gate"]),
        (Hello(NETWORK, {"server": 1}, b""), ["far"]),
        (Hello(CHANNEL, {"replica": 9}, b""), ["any"]),
    ],
)
def test_with_tls_a_certificate_is_for_a_host_of_the_replica_or_server(
    rig, certificates, hello, hosts
) -> None:
    rig.check.check_certificate(hello, Proven(certificates.server("its", *hosts).certificate))


def test_a_certificate_for_another_host_is_refused_with_both_names(rig, certificates) -> None:
    its = Proven(certificates.server("its", "two").certificate)
    with pytest.raises(ProtocolError, match="replica 1 of s0 is for two, and not for one; make one for"):
        rig.check.check_certificate(Hello(CHANNEL, {"replica": 1}, b""), its)
    with pytest.raises(ProtocolError, match="server 1 is for two, and not for far"):
        rig.check.check_certificate(Hello(NETWORK, {"server": 1}, b""), its)
    # That of a client is for no host.
    with pytest.raises(ProtocolError, match="is for no host"):
        rig.check.check_certificate(
            Hello(NETWORK, {"server": 1}, b""), Proven(certificates.client("far").certificate)
        )


def test_servers_without_a_certificate_pass_only_while_tls_is_not_required(rig) -> None:
    hello = Hello(CHANNEL, {"replica": 1}, b"")
    with pytest.raises(ProtocolError, match="TLS wants a certificate of replica 1 of s0, and none came"):
        rig.check.check_certificate(hello, Proven(None))
    rig.check.check_certificate(hello, Proven(None), plain_allowed=True)
    rig.check.check_certificate(hello, object(), plain_allowed=True)


def test_administrators_need_no_certificate(rig) -> None:
    rig.check.check_certificate(Hello(ADMIN, {}, b""), Proven(None))
