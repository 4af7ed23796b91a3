"""What has gone wrong in other systems, with whole servers in real processes, their clients and services.

The numbers are those of docs/scenarios.md. At the end, what an agent recorded on every replica
is compared: one order, nothing acknowledged lost, nothing twice (`sequences.py`).
"""

import signal
from pathlib import Path

import pytest

from quorate.client import connect

from .conftest import MakeNet, MakeSite, Start
from .replicas import Entry, Part, PinnedClient, Site, refuses
from .running import BOUND_S, until
from .sequences import check

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


def test_three_to_one_the_minority_serves_nobody(make_net: MakeNet, start: Start, tmp_path: Path) -> None:
    """Scenario 15: the master is cut off from three; it acknowledges nothing more, and one of them serves."""
    net = make_net(4)
    site = Site(tmp_path, Part("s0", 4), hosts=net.addresses, secret="of the test", suspect_s=1)
    for replica in site.replicas:
        options = ["--server", "s0", "--replica", replica, "--data", tmp_path / "data"]
        start("-m", "quorate", "start", site.xml, *options, cwd=tmp_path, before=net.command(replica))
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
