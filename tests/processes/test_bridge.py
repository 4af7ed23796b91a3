"""A bridge with real processes: masters and daemons are killed while messages pass both ways."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from quorate import Servers
from quorate.mesh import connect as connect_mesh
from quorate.messaging import Session, Topic

from .running import BOUND_S, ROOT, until

pytestmark = pytest.mark.processes
COUNT = 300


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    config = ROOT / "examples" / "bridge.xml"
    with Servers(config, free_ports=True, data=tmp_path / "data") as running:
        yield running


def test_messages_pass_once_and_in_order_while_masters_and_daemons_are_killed(servers: Servers) -> None:
    expected = [b"%d" % number for number in range(COUNT)]
    with (
        servers.connect("s1") as connection,
        Session(connection) as session,
        connect_mesh(servers.url("m0"), user="root", password="root", timeout=BOUND_S) as mesh,
    ):
        mesh.create("readings")
        mesh.create("orders")
        until(lambda: any(each["name"] == "bridge-s1" for each in mesh.subscriptions("readings")))
        with mesh.subscribe("orders", name="ship") as reader:
            producer = session.producer(Topic("orders"))
            for number in range(COUNT):
                mesh.publish_nowait("readings", expected[number])
                producer.send(expected[number])
                if number in (100, 200):
                    killed = servers.kill_master("s1")
                    servers.master("s1")
                    servers.start_replica("s1", killed)
                if number == 150:
                    servers.kill("m0", 1)
                    servers.start_replica("m0", 1)
            mesh.flush(BOUND_S)
            read: list[bytes] = []
            with session.consumer("readings") as consumer:
                while len(read) < COUNT:
                    read.append(bytes(consumer.receive(timeout=BOUND_S).data))
            carried: list[bytes] = []
            while len(carried) < COUNT:
                carried.append(reader.receive(BOUND_S).body)
                reader.acknowledge()
    assert read == expected
    assert carried == expected
