"""A mesh whose daemons have networks of their own, which are cut. Skipped where that is not allowed."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from quorate.mesh import Mesh, Subscription, connect
from quorate.testing.servers.namespaces import Namespaces

from .conftest import MakeNet, Start
from .running import BOUND_S

pytestmark = pytest.mark.processes

DAEMONS = 4


def configuration(addresses: list[str]) -> str:
    servers = "".join(
        f'<server id="{id}" hostname="{host}"><network domain="D1" port="16701"/>'
        '<service class="ConnectionManager" args="root root"/>'
        '<service class="MeshService" args="2701"/></server>'
        for id, host in enumerate(addresses)
    )
    return (
        '<config><domain name="D1"/><property name="administrators" value="root"/>'
        '<property name="insecure_network" value="true"/>'
        f'<cluster id="0" name="m0" mode="mesh">{servers}</cluster></config>'
    )


class Sites:
    """Four daemons, each in a network of its own, and a client at each."""

    def __init__(self, net: Namespaces, start: Start, directory: Path) -> None:
        self.net = net
        path = directory / "a3servers.xml"
        path.write_text(configuration(net.addresses))
        self.processes = [
            start(
                *("-m", "quorate", "start", path, "--server", "m0", "--replica", id, "--data", directory),
                before=net.command(id),
            )
            for id in range(DAEMONS)
        ]
        for each in self.processes:
            each.until(lambda line: " daemon, " in line)
        self.clients = [
            connect(f"quorate://{host}:2701", user="root", password="root", timeout=BOUND_S)
            for host in net.addresses
        ]
        self.reaches(*[(0, 1, 2, 3)] * DAEMONS)
        self.clients[0].create("t")
        for client in self.clients:
            until(lambda client=client: bool(client.topics()))

    def reaches(self, *regions: tuple[int, ...]) -> None:
        """Wait until the daemons have these regions."""
        for client, region in zip(self.clients, regions, strict=True):
            until(lambda client=client, region=region: tuple(client.status()["region"]) == region)


def until(condition: Callable[[], bool]) -> None:
    """Ask until it holds; the answers come from other processes."""
    while not condition():
        pass


def publish(client: Mesh, *bodies: str) -> None:
    for body in bodies:
        client.publish("t", body.encode(), timeout=BOUND_S)


def received(reader: Subscription, count: int) -> list[str]:
    found = [reader.receive(BOUND_S).body.decode() for _ in range(count)]
    reader.acknowledge()
    return found


@pytest.fixture
def sites(make_net: MakeNet, start: Start, tmp_path: Path) -> Iterator[Sites]:
    made = Sites(make_net(DAEMONS), start, tmp_path)
    yield made
    for client in made.clients:
        client.close()


def test_both_sides_of_a_cut_go_on_and_have_everything_in_the_end(sites: Sites) -> None:
    readers = [client.subscribe("t", name=f"r{id}") for id, client in enumerate(sites.clients)]
    for client in sites.clients:
        until(lambda client=client: len(client.subscriptions()) == DAEMONS)
    sites.net.split([0, 1], [2, 3])
    sites.reaches((0, 1), (0, 1), (2, 3), (2, 3))
    for id, client in enumerate(sites.clients):
        publish(client, f"{id} a", f"{id} b")
    for side in ((0, 1), (2, 3)):
        for reader in side:
            assert sorted(received(readers[reader], 4)) == [f"{id} {x}" for id in side for x in "ab"]
    sites.net.mend()
    sites.reaches(*[(0, 1, 2, 3)] * DAEMONS)
    for side, other in (((0, 1), (2, 3)), ((2, 3), (0, 1))):
        for reader in side:
            found = received(readers[reader], 4)
            assert sorted(found) == [f"{id} {x}" for id in other for x in "ab"]
            for id in other:
                assert found.index(f"{id} a") < found.index(f"{id} b")
    for client in sites.clients:
        until(lambda client=client: client.status()["records"] == 0)


def test_messages_pass_a_daemon_between_two_that_do_not_hear_each_other(sites: Sites) -> None:
    sites.net.unplug(3)
    sites.net.cut((0, 2), (2, 0))
    until(lambda: not sites.clients[0].status()["daemons"]["2"]["connected"])
    until(lambda: sites.clients[0].status()["region"] == [0, 1, 2])
    reader = sites.clients[2].subscribe("t", name="end")
    until(lambda: len(sites.clients[0].subscriptions()) == 1)
    publish(sites.clients[0], "through 1")
    assert received(reader, 1) == ["through 1"]
