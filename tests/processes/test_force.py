"""Real processes: two of three are lost with their disks, and the third is made a cluster again."""

import shutil

import pytest

from quorate.client import connect

from .conftest import MakeSite
from .replicas import Entry, Part, Site, ask_ledger

pytestmark = pytest.mark.processes


def force(site: Site, replica: int, *words: str) -> tuple[int, str]:
    """`quorate replica force-new-cluster`: its status, and what it said."""
    place = (
        str(site.xml),
        "--server",
        site.name,
        "--replica",
        str(replica),
        "--data",
        str(site.place / "data"),
    )
    done = site.run("replica", "force-new-cluster", *place, *words)
    return done.returncode, done.stdout + done.stderr


def test_the_last_of_three_serves_again_and_the_others_come_back_with_nothing(make_site: MakeSite) -> None:
    site = make_site(Part("s0", 3))
    site.deploy("ledger:Ledger")
    with connect(site.url(), user="root", password="root") as client:
        for number in range(100):
            client.send("ledger", Entry(number))
    site.whole()
    status, said = force(site, 2)
    assert status == 1, said
    assert "nothing is lost" in said
    kept = site.place / "kept"
    site.kill(0, 1)
    shutil.copytree(site.directory(0), kept)
    for lost in (0, 1):
        shutil.rmtree(site.directory(lost))
    site.until(lambda all: [each["role"] for each in all] == ["blocked"])
    status, said = force(site, 2)
    assert status == 1
    assert "s0.2 runs (blocked): stop all replicas first" in said
    assert site.run("stop", str(site.xml)).returncode == 0
    status, said = force(site, 2)
    assert (status, "LOST" in said, "Nothing was changed" in said) == (1, True, True)
    status, said = force(site, 2, "--accept-loss")
    assert status == 0, said

    site.start(2)
    assert site.master() == 2
    assert site.ledger(2) == list(range(100))
    site.start(0, 1)
    site.whole()
    with connect(site.url(), user="root", password="root") as client:
        for number in range(100, 200):
            client.send("ledger", Entry(number))
        assert ask_ledger(client) == list(range(200))
    site.whole()

    site.kill(0)
    shutil.rmtree(site.directory(0))
    shutil.copytree(kept, site.directory(0))
    site.start(0)
    site.until(lambda all: any("an earlier life of itself" in each["diagnosis"] for each in all))
    site.kill(0, 1, 2)
    site.start(0, 1, 2)
    site.until_gone(0)
    assert "belongs to a cluster that was begun again without this replica" in site.log(0)
    with connect(site.url(), user="root", password="root") as client:
        client.send("ledger", Entry(200))
    shutil.rmtree(site.directory(0))
    site.start(0)
    site.whole()
    assert [site.ledger(replica) for replica in range(3)] == [list(range(201))] * 3


def test_the_others_of_before_with_their_directories_stop(make_site: MakeSite) -> None:
    """They were not lost, and are a majority: there would be two clusters, each with its clients."""
    site = make_site(Part("s0", 3))
    site.whole()
    site.kill(0, 1, 2)
    status, said = force(site, 0, "--accept-loss")
    assert status == 0, said
    site.start(0)
    assert site.master() == 0
    site.start(1, 2)
    for old in (1, 2):
        site.until_gone(old)
        assert "Replica 0 belongs to a cluster that was begun again without this replica" in site.log(old)
        assert "this replica is master now" not in site.log(old).split("begun again")[-1]
        where = f"The directory of this replica is {site.directory(old)}."
        assert any(line.startswith(f"s0.{old} ") and line.endswith(where) for line in site.said)
        shutil.rmtree(site.directory(old))
    site.start(1, 2)
    site.whole()
    assert site.master() == 0
