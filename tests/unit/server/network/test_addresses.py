"""Where the replicas are: by the file, by the cluster, and what differs; the steps from one to the other."""

from pathlib import Path

import msgspec
import pytest

from quorate.hachannel import Seat
from quorate.server.admin.reconfiguration_plan import ReconfigurationStep, SeatStatus, declared_steps, plan
from quorate.server.config import Config, load
from quorate.server.network.addresses import Addresses, ReplicaAddress, decode_address

XML = """<config><property name="secret" value="x"/><domain name="D1"/><domain name="D2"/>
<cluster id="0" name="s0">{}</cluster></config>"""
REPLICA = (
    '<server id="{0}" hostname="h{0}"><network domain="D1" port="{1}"/><network domain="D2" port="{2}"/>'
    '<service class="org.objectweb.joram.mom.proxies.ConnectionManager" args="root root"/>'
    '<service class="org.objectweb.joram.mom.proxies.tcp.TcpProxyService" args="25{0}0"/>{3}</server>'
)


def config(tmp_path: Path, *ids: int, extra: str = "") -> Config:
    path = tmp_path / "a3servers.xml"
    path.write_text(XML.format("".join(REPLICA.format(id, 1000 + id, 2000 + id, extra) for id in ids)))
    return load(path)


def places(tmp_path: Path, *ids: int, extra: str = "") -> Addresses:
    server = config(tmp_path, *ids, extra=extra).server("s0")
    return Addresses(server, server.replicas[0])


def seat(replica: int, host: str = "", client: int = 2500) -> Seat:
    host = host or f"h{replica}"
    networks = (("D1", host, 1000 + replica), ("D2", host, 2000 + replica))
    return Seat(replica, msgspec.msgpack.encode(ReplicaAddress(host, networks, client + 10 * replica)))


def test_at_first_it_is_as_in_the_file(tmp_path: Path) -> None:
    found = places(tmp_path, 0, 1)
    assert found.ids == [0, 1]
    assert found.in_domain() == {0: ("h0", 1000), 1: ("h1", 1001)}
    assert found.in_domain("D2")[1] == ("h1", 2001)
    assert not found.difference()
    assert found.service_peers(config(tmp_path, 0).server(0).replicas[0].services[1].class_name) == [
        (0, "h0", "2500"),
        (1, "h1", "2510"),
    ]


def test_an_ipv6_address_has_brackets() -> None:
    assert str(ReplicaAddress("::1", (("D1", "::1", 7),))) == "::1 (D1 [::1]:7)"


def test_agreed_addresses_replace_those_of_the_file_and_the_difference_is_reported(tmp_path: Path) -> None:
    found = places(tmp_path, 0, 1)
    found.update([seat(0), seat(1)])
    assert not found.difference()
    found.update([seat(0, "far"), seat(3)])
    assert found.in_domain() == {0: ("far", 1000), 3: ("h3", 1003)}
    said = found.difference()
    assert "replica 0 is at far" in said
    assert "replica 1 is in the file only" in said
    assert "replica 3 at h3" in said
    assert "nothing to do" in said
    assert found.removed == {1}
    assert "quorate apply" not in said  # It would undo what was changed since this replica started.
    assert found.service_peers("quorate.services.tcp:TcpProxyService") == [
        (0, "far", "2500"),
        (3, "h3", "2530"),
    ]


def test_nat_of_the_file_takes_precedence_for_this_replica_only(tmp_path: Path) -> None:
    found = places(tmp_path, 0, 1, extra='<nat sname="s0" replica="1" hostname="gate" port="9"/>')
    assert found.in_domain()[1] == ("gate", 9)
    assert found.in_domain(nat=False)[1] == ("h1", 1001)


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x93\x01\x02\x03"])
def test_a_seat_that_cannot_be_read_is_left_out_or_taken_from_the_file(tmp_path: Path, data: bytes) -> None:
    found = places(tmp_path, 0, 1)
    found.update([Seat(1, data), Seat(5, data)])
    assert found.ids == [1]
    assert decode_address(data) is None


def test_the_plan_adds_first_and_does_only_what_is_needed(tmp_path: Path) -> None:
    wanted = declared_steps(config(tmp_path, 0, 2, 3).server("s0"))

    def seated(replica: int, host: str = "") -> SeatStatus:
        return SeatStatus(str(decode_address(seat(replica, host).data)), True, True)

    running = {0: seated(0), 1: seated(1), 2: seated(2, "elsewhere")}
    steps = plan(wanted, running)
    assert [str(step) for step in steps] == [
        "add replica 2 at h2 (D1 h2:1002, D2 h2:2002)",
        "add replica 3 at h3 (D1 h3:1003, D2 h3:2003)",
        "remove replica 1",
    ]
    same = {id: seated(id) for id in (0, 2, 3)}
    assert plan(wanted, same) == []
    same[2] = msgspec.structs.replace(same[2], witness=True)
    assert [str(step) for step in plan(wanted, same)] == [
        "remove replica 2",
        "add replica 2 at h2 (D1 h2:1002, D2 h2:2002)",
    ]
    assert ReconfigurationStep(7, None).done(running)
