"""Real processes: servers of several domains, one of which loses its state, and servers that IPv6 reaches."""

import socket
import threading
from collections.abc import Callable

import pytest

from quorate.client import connect
from quorate.hachannel.transport.addresses import is_own_address

from .conftest import MakeSite
from .replicas import Entry, Part, Site, ask_ledger, one_master
from .running import BOUND_S
from .running import until as wait_until

pytestmark = pytest.mark.processes

MEMORY = 'durability="memory"'


def until(ask: Callable[[], list[int]], done: Callable[[list[int]], bool]) -> list[int]:
    pause = threading.Event()
    for _ in range(200):
        numbers = ask()
        if done(numbers):
            return numbers
        pause.wait(0.1)
    raise AssertionError(f"it did not happen; the last of {len(numbers)} is {numbers[-1:]}")


def test_servers_of_two_domains_talk_and_one_that_lost_its_state_is_talked_to_again(
    make_site: MakeSite,
) -> None:
    # s0 and s2 have only s1 in common; clients connect to s0.
    site = make_site(
        Part("s0", attributes=MEMORY),
        Part("s1", networks=("D1", "D2"), clients=False, attributes=MEMORY),
        Part("s2", networks=("D2",), clients=False, attributes=MEMORY),
    )
    site.deploy("ledger:Ledger", "s2")
    with connect(site.url(), user="root", password="root") as client:

        def ask() -> list[int]:
            return ask_ledger(client, "ledger@s2")

        for number in range(1000):
            client.send_nowait("ledger@s2", Entry(number))
        assert until(ask, lambda numbers: len(numbers) >= 1000) == list(range(1000))
        # An acknowledgement that a killed server has sent may be lost with its connection.
        wait_until(lambda: site.statuses("s1")[0]["servers"]["2"]["waiting"] == 0)
        for number in range(1000, 2000):
            client.send_nowait("ledger@s2", Entry(number))
            if number == 1300:
                site.kill(0, server="s2")
        client.flush(BOUND_S)
        site.supervisor.start_replica("s2", 0)
        site.supervisor.wait_ready(BOUND_S)
        site.deploy("ledger:Ledger", "s2")
        for number in range(2000, 3000):
            client.send_nowait("ledger@s2", Entry(number))
        numbers = until(ask, lambda numbers: numbers[-1:] == [2999])
        assert numbers == list(range(numbers[0], 3000))
        assert 1000 <= numbers[0] <= 2000
    assert site.log(server="s1").count("server 2 has begun a new life without its state") == 1


def master_of(site: Site, server: str) -> int:
    """The master of a cluster, as soon as there is one."""
    wait_until(lambda: one_master(site.statuses(server)))
    return next(each["replica"] for each in site.statuses(server) if each["role"] == "master")


def test_clusters_whose_masters_are_killed_lose_and_repeat_nothing_of_what_passes_through_them(
    make_site: MakeSite,
) -> None:
    # s0 sends to s1, and through s1 to s2.
    site = make_site(
        Part("s0", replicas=3),
        Part("s1", replicas=3, networks=("D1", "D2"), clients=False),
        Part("s2", networks=("D2",), clients=False),
    )
    for server in ("s1", "s2"):
        site.deploy("ledger:Ledger", server)
    with connect(site.url(), user="root", password="root") as client:
        for number in range(3000):
            for server in ("s1", "s2"):
                client.send_nowait(f"ledger@{server}", Entry(number))
            if number == 1000:
                site.kill(master_of(site, "s1"), server="s1")
            if number == 2000:
                site.kill(master_of(site, "s0"), server="s0")
        client.flush(BOUND_S)
        for server in ("s1", "s2"):

            def ask(server: str = server) -> list[int]:
                return ask_ledger(client, f"ledger@{server}")

            assert until(ask, lambda numbers: len(numbers) >= 3000) == list(range(3000))


needs_ipv6 = pytest.mark.skipif(not is_own_address("::1"), reason="this machine has no IPv6")


@needs_ipv6
def test_a_cluster_and_its_clients_use_the_ipv6_loopback_when_it_is_the_host(make_site: MakeSite) -> None:
    site = make_site(Part("s0", replicas=3), Part("s1", clients=False, attributes=MEMORY), hosts=["::1"] * 3)
    site.deploy("ledger:Ledger", "s1")
    with connect(site.url(), user="root", password="root") as client:
        client.send_nowait("ledger@s1", Entry(1))
        assert ask_ledger(client, "ledger@s1") == [1]
        _, port = site.client_address(site.master())
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), BOUND_S)


@needs_ipv6
def test_a_server_listens_at_both_ip_versions_when_its_host_is_a_name(make_site: MakeSite) -> None:
    site = make_site(Part("s0"), hosts=[socket.gethostname()], insecure_network="true")
    _, port = site.client_address(0)
    for host in ("127.0.0.1", "[::1]"):
        with connect(f"quorate://{host}:{port}", user="root", password="root") as client:
            client.flush(BOUND_S)
