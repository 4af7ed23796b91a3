"""What has gone wrong in other systems, with whole servers in real processes, their clients and services.

The numbers are those of docs/scenarios.md. At the end, what an agent recorded on every replica
is compared: one order, nothing acknowledged lost, nothing twice (`sequences.py`).
"""

import signal
import threading
from pathlib import Path

import pytest

from quorate.client import connect
from quorate.testing.servers.namespaces import Namespaces

from ..long import LONG
from .conftest import MakeNet, MakeSite, Start
from .replicas import ACTS, Entry, Part, PinnedClient, Site, one_master, refuses
from .running import BOUND_S, until
from .sequences import check, one_at_a_time

pytestmark = pytest.mark.processes

BIRTHS = """
import os

from quorate.services.base import Service


class Births(Service):
    def init(self, ctx, args, first_time):
        with open(args, "a") as file:
            file.write(f"{ctx.replica} {first_time}\\n")
"""
"""A service that writes down on which replica it was started, and whether for the first time."""


PAUSE_S = 3.0
"""Longer than what suspicions and the views that follow them take."""


def apart(net: Namespaces, start: Start, place: Path, part: Part) -> Site:
    """A server whose replicas are each in a network namespace."""
    site = Site(place, part, hosts=net.addresses, secret="of the test", suspect_s=1)
    for replica in site.replicas:
        options = ["--server", part.name, "--replica", replica, "--data", place / "data"]
        start("-m", "quorate", "start", site.xml, *options, cwd=place, before=net.command(replica))
    return site


def both_and_witness(site: Site) -> int:
    """Wait until two replicas and a witness are together; return the master."""
    site.until(lambda all: sorted(each["role"] for each in all) == ["master", "slave", "witness"])
    return site.master()


def blocks(site: Site, replica: int) -> None:
    """This replica and a witness do not go on, and serve nobody."""
    let_time_pass()
    assert not any(status["serving"] for status in site.statuses())
    assert refuses(site.client_address(replica))


def check_both(site: Site, numbers: list[int]) -> None:
    """Two replicas recorded all of these."""
    until(lambda: all(site.ledger(replica) == numbers for replica in (0, 1)), "that both have everything")


def let_time_pass() -> None:
    """Nothing can be waited for when what is tested is that nothing happens."""
    threading.Event().wait(PAUSE_S)


def test_replicas_that_start_together_are_one_cluster_with_one_first_time(
    make_site: MakeSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scenario 5, ConcurrentStartup: all at once, twice; services are told once that it is the first time."""
    # The configuration is checked in this process, too.
    monkeypatch.syspath_prepend(tmp_path)
    births = tmp_path / "births.txt"
    service = f'<service class="births:Births" args="{births}"/>'
    site = make_site(Part("s0", 5, services=service), modules={"births": BIRTHS})
    site.deploy("ledger:Ledger")
    with connect(site.url(), user="root", password="root") as client:
        client.send("ledger", Entry(1), timeout=BOUND_S)
        site.whole()
        site.kill(*site.replicas)
        site.start(*site.replicas)
        client.send("ledger", Entry(2), timeout=BOUND_S)
    site.whole()
    check(site.ledgers(), sent={"client": [1, 2]}, acknowledged=[1, 2])
    lines = births.read_text().split("\n")[:-1]
    assert [line.split()[1] for line in lines] == ["True"] + ["False"] * (len(lines) - 1)
    assert len(lines) >= 2


def test_a_frozen_master_acknowledges_nothing_and_ends_its_services_when_it_wakes(
    make_site: MakeSite,
) -> None:
    """Scenario 7, FrozenCoordinator: a client that is connected to it gets nothing more but a good-bye."""
    site = make_site(Part("s0", 3), suspect_s=1)
    site.deploy("ledger:Ledger")
    frozen = site.master()
    pinned = PinnedClient(site.client_address(frozen))
    pinned.send(1, 2, 3)
    pinned.until_acknowledged(3)
    with connect(site.url(), user="root", password="root") as client:
        client.send("ledger", Entry(10), timeout=BOUND_S)
        site.freeze(frozen)
        pinned.send(4, 5)
        # It is connected to the frozen one, and finds the other.
        for number in range(11, 20):
            client.send("ledger", Entry(number), timeout=BOUND_S)
        heir = site.master()
        assert heir != frozen
        site.thaw(frozen)
        pinned.until_closed()
        assert pinned.acknowledged == 3
        until(lambda: refuses(site.client_address(frozen)), "the stale master stops listening")
        client.send("ledger", Entry(20), timeout=BOUND_S)
    site.whole()
    assert site.master() == heir
    sent = {"pinned": [1, 2, 3, 4, 5], "client": list(range(10, 21))}
    order = check(site.ledgers(), sent=sent, acknowledged=[1, 2, 3, *sent["client"]])
    assert not {4, 5}.intersection(order)


def test_the_services_of_a_frozen_master_do_nothing_more_when_it_wakes(
    make_site: MakeSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scenario 7: its timers are due when it wakes, before it has heard that another one serves."""
    monkeypatch.syspath_prepend(tmp_path)
    acts = tmp_path / "acts.txt"
    service = f'<service class="acts:Acts" args="{acts}"/>'
    site = make_site(Part("s0", 3, services=service), modules={"acts": ACTS}, suspect_s=1)
    rounds = 3 if LONG else 1
    # A replica is called master some time before its services have begun.
    until(lambda: acts.exists() and acts.stat().st_size > 0, "the service of the first master does something")
    for _ in range(rounds):
        frozen = site.master()
        site.freeze(frozen)
        site.until(one_master)
        assert site.master() != frozen
        served = acts.stat().st_size
        until(lambda served=served: acts.stat().st_size > served + 2000, "the heir's service does something")
        site.thaw(frozen)
        site.whole()
    tenures: dict[str, tuple[float, float]] = {}
    for line in acts.read_text().splitlines():
        name, moment = line.split()
        tenures[name] = (tenures.get(name, (float(moment), 0.0))[0], float(moment))
    assert len(tenures) > rounds
    one_at_a_time(tenures)


def test_three_to_one_the_minority_serves_nobody(make_net: MakeNet, start: Start, tmp_path: Path) -> None:
    """Scenario 15: the master is cut off from three; it acknowledges nothing more, and one of them serves."""
    net = make_net(4)
    site = apart(net, start, tmp_path, Part("s0", 4))
    site.whole()
    site.deploy("ledger:Ledger")
    alone = site.master()
    with connect(site.url(), user="root", password="root", timeout=BOUND_S) as client:
        client.send("ledger", Entry(0), timeout=BOUND_S)
        pinned = PinnedClient(site.client_address(alone))
        pinned.send(100)
        pinned.until_acknowledged(1)
        net.split([alone], [replica for replica in site.replicas if replica != alone])
        pinned.send(101, 102)
        for number in range(1, 20):
            client.send("ledger", Entry(number), timeout=BOUND_S)
        pinned.until_closed()
        assert pinned.acknowledged == 1
        until(lambda: refuses(site.client_address(alone)), "the master that is alone stops listening")
        net.mend()
        site.whole()
        client.send("ledger", Entry(20), timeout=BOUND_S)
    site.whole()
    sent = {"pinned": [100, 101, 102], "client": list(range(21))}
    order = check(site.ledgers(), sent=sent, acknowledged=[100, *sent["client"]])
    assert not {101, 102}.intersection(order)


def test_a_frozen_slave_under_full_load_leaves_the_view_and_comes_back(make_site: MakeSite) -> None:
    """Scenario 14: the window fills while a slave is dead and connected; the next view goes on without it."""
    site = make_site(Part("s0", 3), suspect_s=1)
    site.deploy("ledger:Ledger")
    frozen = site.slaves()[0]
    with connect(site.url(), user="root", password="root") as client:
        for number in range(500):
            client.send_nowait("ledger", Entry(number), timeout=BOUND_S)
            if number == 100:
                site.supervisor.kill("s0", frozen, signal.SIGSTOP)
        client.flush(BOUND_S)
        site.thaw(frozen)
        site.whole()
        client.send("ledger", Entry(500), timeout=BOUND_S)
    site.whole()
    check(site.ledgers(), sent={"client": list(range(501))}, acknowledged=list(range(501)))


def test_the_master_and_the_next_one_are_stopped_together_and_one_of_the_others_serves(
    make_site: MakeSite,
) -> None:
    """Scenario 4, BaseLeave: both leave in order under load; a client does not notice but by waiting."""
    # Of five: a lease needs most of the voters, and who stops in order is one until it is replaced.
    site = make_site(Part("s0", 5), suspect_s=1)
    site.deploy("ledger:Ledger")
    leaving = site.statuses()[0]["members"][:2]
    assert leaving[0] == site.master()
    with connect(site.url(), user="root", password="root", timeout=BOUND_S) as client:
        for number in range(2000):
            client.send_nowait("ledger", Entry(number), timeout=BOUND_S)
            if number == 700:
                for replica in leaving:
                    site.supervisor.kill("s0", replica, signal.SIGTERM)
        client.flush(BOUND_S)
        site.until(lambda statuses: sorted(each["role"] for each in statuses) == ["master", "slave", "slave"])
        assert site.master() not in leaving
        until(lambda: not any(site.supervisor.pid("s0", id) for id in leaving), "both processes end")
        site.start(*leaving)
    site.whole()
    numbers = list(range(2000))
    check(site.ledgers(), sent={"client": numbers}, acknowledged=numbers)


def test_a_replica_that_served_with_the_witness_is_waited_for_when_killed(make_site: MakeSite) -> None:
    """Scenario 30: {A} and the witness took what B has not, so B and the witness do not go on without A."""
    site = make_site(Part("s0", 3, witnesses=1), suspect_s=1)
    alone = both_and_witness(site)
    other = 1 - alone
    site.deploy("ledger:Ledger")
    with connect(site.url(), user="root", password="root", timeout=BOUND_S) as client:
        client.send("ledger", Entry(1))
        site.kill(other)
        client.send("ledger", Entry(2))
        site.kill(alone)
        site.start(other)
        site.until(lambda statuses: {each["replica"] for each in statuses} == {other, 2})
        blocks(site, other)
        site.start(alone)
        both_and_witness(site)
        client.send("ledger", Entry(3))
        check_both(site, [1, 2, 3])


def test_a_replica_that_served_with_the_witness_is_waited_for_when_cut_off(
    make_net: MakeNet, start: Start, tmp_path: Path
) -> None:
    """Scenario 30, by the network: first B is cut off, then A, which lives, and must stop serving."""
    net = make_net(3)
    site = apart(net, start, tmp_path, Part("s0", 3, witnesses=1))
    alone = both_and_witness(site)
    other = 1 - alone
    site.deploy("ledger:Ledger")
    with connect(site.url(), user="root", password="root", timeout=BOUND_S) as client:
        client.send("ledger", Entry(1))
        net.split([other], [alone, 2])
        client.send("ledger", Entry(2))
        net.split([alone], [other, 2])
        net.mend((other, 2), (2, other))
        until(lambda: refuses(site.client_address(alone)), "the master that is alone stops listening")
        blocks(site, other)
        net.mend()
        both_and_witness(site)
        client.send("ledger", Entry(3))
        check_both(site, [1, 2, 3])
