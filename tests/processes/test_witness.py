"""Two replicas and a witness, as processes; and a master whose lease runs out."""

import pytest

from quorate.client import connect

from ..long import LONG
from .conftest import MakeSite
from .replicas import Entry, Part, Site, ask_ledger

pytestmark = pytest.mark.processes


def whole(site: Site) -> None:
    site.until(lambda all: sorted(each["role"] for each in all) == ["master", "slave", "witness"])


@pytest.mark.parametrize("durability", ["memory", "disk"])
def test_two_replicas_and_a_witness_survive_the_loss_of_either(make_site: MakeSite, durability: str) -> None:
    site = make_site(Part("s0", 3, witnesses=1, attributes=f'durability="{durability}"'))
    whole(site)
    site.deploy("ledger:Ledger")
    with connect(site.url(), user="root", password="root") as client:
        client.send("ledger", Entry(1))
        first = site.master()
        site.kill(first)
        client.send("ledger", Entry(2))
        second = site.master()
        assert second == 1 - first
        site.start(first)
        whole(site)
        site.kill(second)
        client.send("ledger", Entry(3))
        assert ask_ledger(client) == [1, 2, 3]
    (witness,) = [status for status in site.statuses() if status["role"] == "witness"]
    assert witness["replica"] == 2
    assert (witness["agents"], witness["applied"], witness["last"]) == (0, 0, 0)
    refused = site.run("inspect", str(site.xml), "--server", "s0", "--replica", "2", "ledger").stderr
    assert refused == "quorate: s0.2 is a witness, which holds no agents: ask replica 0 or 1.\n"
    if durability == "disk":
        site.kill(2)
        site.start(2)
        site.until(lambda all: "witness" in [each["role"] for each in all])
        assert len(site.incarnations(2)) == 1, "it comes back as the voter that it was"


def test_a_master_that_hears_nobody_stops_its_services_and_starts_them_again(make_site: MakeSite) -> None:
    site = make_site(Part("s0", 3), suspect_s=20, lease_s=0.5)
    site.deploy("ledger:Ledger")
    master = site.master()
    slaves = site.slaves()
    for slave in slaves:
        site.freeze(slave)
    site.until(
        lambda all: [each["waits_for"][:9] for each in all if each["role"] == "master"] == ["the lease"]
    )
    assert "the lease" in site.run("status", str(site.xml)).stderr
    for slave in slaves:
        site.thaw(slave)
    with connect(site.url(), user="root", password="root") as client:
        client.send("ledger", Entry(1))
        assert ask_ledger(client) == [1]
    assert site.master() == master


def test_two_of_a_stopped_cluster_with_a_witness_bring_it_back(make_site: MakeSite) -> None:
    site = make_site(Part("s0", 3, witnesses=1))
    site.deploy("ledger:Ledger")
    # The two replicas are alike: one of them, and the witness.
    rounds = list(site.replicas if LONG else (0, 2))
    for number, lost in enumerate(rounds):
        whole(site)
        with connect(site.url(), user="root", password="root") as client:
            client.send("ledger", Entry(number))
        site.stop()
        kept = site.place / f"kept{lost}"
        site.directory(lost).rename(kept)
        site.start(*(replica for replica in site.replicas if replica != lost))
        site.master()
        kept.rename(site.directory(lost))
        site.start(lost)
        whole(site)
        with connect(site.url(), user="root", password="root") as client:
            assert ask_ledger(client) == list(range(number + 1))
