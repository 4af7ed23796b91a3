"""Real processes: a killed master, and notifications between servers meanwhile."""

import threading

import pytest

from quorate.client import connect

from .conftest import MakeSite
from .replicas import Entry, Part, Site, ask_ledger, one_master
from .running import BOUND_S
from .sequences import check

pytestmark = pytest.mark.processes


@pytest.fixture
def site(make_site: MakeSite) -> Site:
    return make_site(Part("s0", 3), Part("s1"), digest_every=10)


def test_a_killed_master_loses_and_repeats_nothing_and_comes_back_in_the_same_state(site: Site) -> None:
    """Scenario 2, SequencerFailover of JGroups: the master is killed twice under load, and comes back."""
    site.deploy("ledger:Ledger")
    site.deploy("ledger:Forwarder")
    site.deploy("ledger:Ledger", "s1")
    with connect(site.url(), user="root", password="root") as client:
        for number in range(4000):
            client.send_nowait("ledger", Entry(number))
            client.send_nowait("forwarder", Entry(number))
            if number in (1000, 2500):
                killed = site.master()
                site.kill(killed)
            if number in (2000, 3500):
                site.until(lambda statuses: len(statuses) == 2 and one_master(statuses))
                site.start(killed)
                site.whole()
        client.flush(BOUND_S)
        assert ask_ledger(client) == list(range(4000))
    with connect(site.url("s1"), user="root", password="root") as client:
        pause = threading.Event()
        for _ in range(200):
            got = ask_ledger(client)
            if len(got) >= 4000:
                break
            pause.wait(0.1)
        assert got == list(range(4000))
    site.whole()
    sent = list(range(4000))
    check(site.ledgers(), sent={"client": sent}, acknowledged=sent)
