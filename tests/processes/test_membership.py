"""Real processes: replicas added by the edited file and a command, removed, and replaced without a disk."""

import re
import shutil
from pathlib import Path

import pytest

from quorate.client import connect
from quorate.server.config import load
from quorate.server.processes.free_ports import free_ports

from .conftest import MakeSite, Start
from .replicas import Entry, Part, Site, ask_ledger
from .running import Running

pytestmark = pytest.mark.processes


class Growing:
    """A site whose file is edited, with processes beside its supervisor."""

    def __init__(self, site: Site, start: Start) -> None:
        self.site = site
        self.start = start

    def edited(self) -> list[str]:
        """The <server> elements of the cluster in the file."""
        (inside,) = re.findall(r"<cluster [^>]*>(.*?)</cluster>", self.site.xml.read_text(), re.DOTALL)
        return re.findall(r"<server .*?</server>", inside, re.DOTALL)

    def write(self, elements: list[str]) -> None:
        """Edit the file."""
        text = self.site.xml.read_text()
        joined = "".join(elements)
        text = re.sub(
            r"(<cluster [^>]*>).*?(</cluster>)", lambda m: m[1] + joined + m[2], text, flags=re.DOTALL
        )
        self.site.xml.write_text(text)
        self.site.config = load(self.site.xml)
        self.site.replicas = self.site.config.server(self.site.name).replica_ids  # type: ignore[assignment]

    def declare_witness(self, replica: int) -> None:
        """Add a witness to the file."""
        network = f'<network domain="D1" port="{free_ports(1)[0]}"/>'
        element = f'<server id="{replica}" hostname="localhost" witness="true">{network}</server>'
        self.write([*self.edited(), element])

    def declare(self, replica: int) -> None:
        """Add a replica to the file, or move it."""
        elements = [each for each in self.edited() if f'id="{replica}"' not in each]
        network, clients = free_ports(2)
        model = re.sub(r'id="\d+"', f'id="{replica}"', self.edited()[0], count=1)
        model = re.sub(r'(<network [^>]*port=)"\d+"', rf'\1"{network}"', model)
        self.write([*elements, re.sub(r'(TcpProxyService" args=)"\d+"', rf'\1"{clients}"', model)])

    def forget(self, replica: int) -> None:
        """Delete a replica from the file."""
        self.write([each for each in self.edited() if f'id="{replica}"' not in each])

    def launch(self, replica: int, *options: str, xml: Path | None = None) -> Running:
        """`quorate start`, beside the supervisor."""
        site = self.site
        arguments = ["-m", "quorate", "start", xml or site.xml, "--server", site.name, "--replica", replica]
        return self.start(*arguments, "--data", site.place / "data", *options, cwd=site.place)

    def replica(self, *words: object) -> str:
        """`quorate replica`; returns what it printed."""
        name, *rest = map(str, words)
        done = self.site.run("replica", name, str(self.site.xml), "--server", self.site.name, *rest)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def site(make_site: MakeSite) -> Site:
    return make_site(Part("s0", 3), digest_every=10)


@pytest.fixture
def growing(site: Site, start: Start) -> Growing:
    return Growing(site, start)


def test_a_fourth_replica_comes_the_master_dies_and_another_one_goes(growing: Growing) -> None:
    site = growing.site
    site.deploy("ledger:Ledger")
    with connect(site.url(), user="root", password="root") as client:
        for number in range(300):
            client.send_nowait("ledger", Entry(number))
        growing.declare(3)
        fourth = growing.launch(3)
        fourth.until("does not belong to")
        said = growing.replica("add", "--replica", 3)
        assert "replica 3 takes part" in said
        fourth.until("slave")
        for number in range(300, 600):
            client.send_nowait("ledger", Entry(number))
        site.whole()
        dead = site.master()
        site.kill(dead)
        for number in range(600, 900):
            client.send_nowait("ledger", Entry(number))
        client.flush()
        gone = next(id for id in range(3) if id not in (dead, site.master()))
        assert "done" in growing.replica("remove", "--replica", dead)
        assert "done" in growing.replica("remove", "--replica", gone)
        for number in range(900, 1200):
            client.send_nowait("ledger", Entry(number))
        client.flush()
        assert ask_ledger(client) == list(range(1200))
    left = {0, 1, 2, 3} - {gone, dead}
    status = site.until(lambda found: [each["role"] for each in found].count("master") == 1)[0]
    assert {int(id) for id in status["replicas"]} == left
    for replica in left:
        assert site.ledger(replica) == list(range(1200))
    assert [int(line.split()[0]) for line in growing.replica("list").splitlines()] == sorted(left)


def test_the_master_is_removed_and_hands_over(growing: Growing) -> None:
    site = growing.site
    site.deploy("ledger:Ledger")
    master, url = site.master(), site.url()
    growing.forget(master)
    with connect(url, user="root", password="root") as client:
        for number in range(200):
            client.send_nowait("ledger", Entry(number))
        applied = site.run("apply", str(site.xml))
        assert applied.returncode == 0, applied.stderr
        assert f"remove replica {master}: done" in applied.stdout
        client.flush()
        assert ask_ledger(client) == list(range(200))
    site.whole()
    assert site.master() != master
    assert "removed from the cluster" in site.log(master)
    assert "has the replicas of the file" in site.run("apply", str(site.xml)).stdout


def test_a_dead_replica_is_replaced_by_one_without_a_disk_elsewhere(growing: Growing) -> None:
    site = growing.site
    site.deploy("ledger:Ledger")
    with connect(site.url(), user="root", password="root") as client:
        for number in range(100):
            client.send_nowait("ledger", Entry(number))
        client.flush()
        lost = site.slaves()[0]
        site.kill(lost)
        shutil.rmtree(site.directory(lost))
        growing.declare(lost)
        new = growing.launch(lost)
        assert f"replica {lost} takes part" in growing.replica("replace", "--replica", lost)
        new.until("slave")
        for number in range(100, 200):
            client.send_nowait("ledger", Entry(number))
        client.flush()
        assert ask_ledger(client) == list(range(200))
    site.whole()
    assert site.ledger(lost) == list(range(200))


def test_everything_is_killed_and_comes_back_with_the_replicas_it_had(growing: Growing) -> None:
    site = growing.site
    site.deploy("ledger:Ledger")
    old = site.place / "old.xml"
    shutil.copy(site.xml, old)
    growing.declare(3)
    fourth = growing.launch(3)
    growing.replica("add", "--replica", 3)
    with connect(site.url(), user="root", password="root") as client:
        for number in range(100):
            client.send_nowait("ledger", Entry(number))
        client.flush()
    fourth.end()
    site.kill(0, 1, 2)
    growing.launch(0, xml=old)
    growing.launch(1)
    growing.launch(2)
    growing.launch(3)
    site.whole()
    assert [site.ledger(replica) for replica in range(4)] == [list(range(100))] * 4
    (status,) = [each for each in site.statuses() if each["replica"] == 0]
    assert "replica 3" in status["difference"]
    assert "not in the file" in status["difference"]


def test_two_replicas_get_a_witness_survive_a_loss_and_give_it_back(
    make_site: MakeSite, start: Start
) -> None:
    site = make_site(Part("s0", 2))
    growing = Growing(site, start)
    site.deploy("ledger:Ledger")
    url = site.url()
    growing.declare_witness(2)
    witness = growing.launch(2)
    witness.until("does not belong to")
    applied = site.run("apply", str(site.xml))
    assert "s0: add witness 2 at localhost" in applied.stdout, applied.stderr
    assert "replica 2 takes part" in applied.stdout
    witness.until("witness, network")
    assert "a witness" in growing.replica("list")
    assert site.run("status", str(site.xml)).stderr == ""
    with connect(url, user="root", password="root") as client:
        client.send("ledger", Entry(1))
        lost = site.master()
        site.kill(lost)
        client.send("ledger", Entry(2))
        site.start(lost)
        site.until(lambda all: sorted(each["role"] for each in all) == ["master", "slave", "witness"])
        growing.forget(2)
        assert "remove replica 2: done" in site.run("apply", str(site.xml)).stdout
        assert witness.ended() == 0
        assert "remove replica 2: done already" in growing.replica("remove", "--replica", 2)
        never = site.run("replica", "remove", str(site.xml), "--server", "s0", "--replica", "9")
        assert (never.returncode, "s0 has no replica 9" in never.stderr) == (1, True)
        assert ask_ledger(client) == [1, 2]
    site.whole()


def test_replicas_that_are_to_join_found_no_cluster_of_their_own(growing: Growing) -> None:
    site = growing.site
    site.deploy("ledger:Ledger")
    old = growing.edited()
    for id in (3, 4):
        growing.declare(id)
    new = growing.edited()[3:]
    growing.write(new)
    early = [growing.launch(id, "--join") for id in (3, 4)]
    for each in early:
        each.until("None of them has anything of the cluster: if it runs, start them with a file that has")
    for each in early:
        each.end()
    # With a file that has the others they are let in. That they found nothing is in their journals now.
    growing.write(old + new)
    late = [growing.launch(id) for id in (3, 4)]
    late[0].until("does not belong to")
    done = site.run("apply", str(site.xml))
    assert done.returncode == 0, done.stderr
    growing.write(new)
    done = site.run("apply", str(site.xml))
    assert done.returncode == 0, done.stderr
    assert {int(each) for each in re.findall(r"remove replica (\d): done", done.stdout)} == {0, 1, 2}
    with connect(site.url(), user="root", password="root") as client:
        client.send_nowait("ledger", Entry(1))
        client.flush()
        assert ask_ledger(client) == [1]
