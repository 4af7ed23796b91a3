"""Real processes and disks: SIGKILL for all that hold the state, under load: nothing acknowledged is lost."""

import contextlib
import json
import re
import resource
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from quorate.client import connect
from quorate.client.errors import RequestTimeout

from ..long import LONG
from .conftest import MakeSite
from .replicas import Entry, Part, Site, ask_ledger
from .running import BOUND_S

pytestmark = pytest.mark.processes

ROUNDS = 3
PART = 800


def kill(site: Site) -> None:
    site.kill(*site.replicas)


def feed_through_ends(site: Site, rounds: int, end: Callable[[Site], None] = kill) -> None:
    """Send numbers; end all replicas again and again; all numbers must be there, once and in order."""
    sent = threading.Semaphore(0)
    total = PART * rounds

    def feed() -> None:
        with connect(site.url(), user="root", password="root") as client:
            for number in range(total):
                client.send_nowait("ledger", Entry(number))
                if number % PART == PART // 2:
                    sent.release()
                elif number % PART == PART - 50:
                    # Nobody runs ahead of the servers: each round has its kill under load.
                    client.flush(BOUND_S)
            client.flush(BOUND_S)
            numbers.extend(ask_ledger(client))

    numbers: list[int] = []
    feeding = threading.Thread(target=feed)
    feeding.start()
    for _ in range(rounds):
        assert sent.acquire(timeout=BOUND_S)
        end(site)
        site.start(*site.replicas)
    feeding.join(BOUND_S)
    assert numbers == list(range(total))


def test_a_plain_server_killed_again_and_again_under_load_loses_and_repeats_nothing(
    make_site: MakeSite,
) -> None:
    # A state is saved often, so that kills meet that, too.
    site = make_site(Part("s0"), snapshot_entries=10, trace="true")
    site.deploy("ledger:Ledger")
    feed_through_ends(site, ROUNDS)
    log = site.log()
    assert log.count("recovered: the state after entry") == ROUNDS
    assert len(site.incarnations(0)) == 1
    site.supervisor.stop()
    rows = [
        (row["incarnation"], row["position"])
        for path in (site.directory() / "trace").glob("*.parquet")
        for row in parquet.read_table(path, columns=["incarnation", "position"]).to_pylist()
    ]
    assert len(rows) == len(set(rows)), "one life recorded a position twice"
    positions = sorted({position for _, position in rows})
    assert positions == list(range(1, len(positions) + 1)), "the trace has a hole"
    assert len(positions) > PART * ROUNDS


def test_a_cluster_killed_as_a_whole_under_load_loses_and_repeats_nothing(make_site: MakeSite) -> None:
    site = make_site(Part("s0", 3))
    site.deploy("ledger:Ledger")
    feed_through_ends(site, 2)
    for replica in site.replicas:
        assert len(site.incarnations(replica)) == 1


def test_a_damaged_journal_is_repaired_from_the_other_replicas(
    make_site: MakeSite,
) -> None:
    """Scenario 22: corruption in the middle is refused, and repaired from a peer."""
    site = make_site(Part("s0", 3))
    site.deploy("ledger:Ledger")
    with connect(site.url(), user="root", password="root") as client:
        for number in range(100):
            client.send_nowait("ledger", Entry(number))
        client.flush(BOUND_S)
    victim = site.slaves()[0]
    site.kill(victim)
    damage(site.directory(victim))
    site.supervisor.start_replica("s0", victim)
    site.supervisor.wait_ready(BOUND_S)
    log = site.log(victim)
    # Later ones are named as long as the database has not heard of this one.
    assert re.search(r"is not what was written(, later ones are)?\. It is kept as aside-", log)
    assert len(site.incarnations(victim)) == 2
    shown = site.run("inspect", str(site.xml), "--server", "s0", "--replica", str(victim), "ledger")
    assert json.loads(shown.stdout)["state"] == {"numbers": list(range(100))}, shown.stderr


def test_a_plain_server_with_a_damaged_journal_ends_with_status_1(make_site: MakeSite) -> None:
    site = make_site(Part("s0"))
    site.deploy("ledger:Ledger")
    site.supervisor.stop()
    damage(site.directory())
    done = site.run("start", str(site.xml), "--server", "s0", "--data", str(site.place / "data"))
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "is not what was written. Restore" in done.stderr


def test_a_disk_that_refuses_ends_the_replica_and_loses_nothing_acknowledged(make_site: MakeSite) -> None:
    site = make_site(Part("s0"))
    site.deploy("ledger:Ledger")
    site.kill(0)
    # Files may not grow beyond a megabyte: what the disk says then is as good as no space.
    start = [sys.executable, "-m", "quorate", "start", str(site.xml), "--server", "s0"]
    limited = subprocess.Popen(
        ["sh", "-c", 'ulimit -f 2048; exec "$@"', "sh", *start, "--data", str(site.place / "data")],
        cwd=site.place,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert limited.stderr is not None
    number = 0
    with connect(site.url(), user="root", password="root") as client:
        while limited.poll() is None:
            client.send_nowait("ledger", Entry(number))
            with contextlib.suppress(RequestTimeout):
                client.flush(0.5)
            number += 1
        said = limited.stderr.read()
        assert limited.returncode == 1
        assert said.count("\n") == 1
        assert re.search(r"journal\.db(-frames)? cannot be written: ", said)
        site.supervisor.start_replica("s0", 0)
        client.flush(BOUND_S)
        numbers = ask_ledger(client)
    assert numbers == list(range(number))


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="the system cannot limit another process")
@pytest.mark.parametrize("role", ["slave", "master"])
def test_a_replica_whose_disk_is_full_ends_and_the_others_go_on_until_it_is_back(
    make_site: MakeSite, role: str
) -> None:
    site = make_site(Part("s0", 3))
    site.deploy("ledger:Ledger")
    victim = site.master() if role == "master" else site.slaves()[0]
    pid = site.supervisor.pid("s0", victim)
    assert pid is not None
    number = 0
    with connect(site.url(), user="root", password="root") as client:

        def send(count: int) -> None:
            nonlocal number
            for _ in range(count):
                client.send_nowait("ledger", Entry(number))
                number += 1
            client.flush(BOUND_S)

        send(100)
        # Files do not grow any more: what the disk says then is as good as no space.
        size = len(site.directory(victim).joinpath("journal.db-frames").read_bytes().rstrip(b"\0"))
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (size + 50_000, size + 50_000))
        for _ in range(200):
            if site.supervisor.pid("s0", victim) is None:
                break
            send(20)
        assert re.search(r"journal\.db(-frames)? cannot be written: ", site.log(victim))
        send(100)
        site.start(victim)
        site.supervisor.wait_ready(BOUND_S)
        site.whole()
        send(100)
    site.whole()
    for replica in site.replicas:
        assert site.ledger(replica) == list(range(number))
    assert len(site.incarnations(victim)) == 1


@pytest.mark.parametrize("role", ["slave", "master"])
def test_a_replica_whose_directory_is_removed_ends_soon_and_comes_back_as_a_new_one(
    make_site: MakeSite, role: str
) -> None:
    site = make_site(Part("s0", 3))
    site.deploy("ledger:Ledger")
    victim = site.master() if role == "master" else site.slaves()[0]
    number = 0
    with connect(site.url(), user="root", password="root") as client:
        for _ in range(100):
            client.send("ledger", Entry(number))
            number += 1
        # At once, and as a whole.
        site.directory(victim).rename(site.place / "removed")
        shutil.rmtree(site.place / "removed")
        while f"s0.{victim} ended with status 1" not in "".join(site.said):
            client.send("ledger", Entry(number))
            number += 1
        assert not site.directory(victim).exists()
        said = [line for line in site.said if line.startswith(f"s0.{victim} quorate: ")]
        assert len(said) == 1
        assert f"{site.directory(victim)} was removed, moved or replaced while s0.{victim} ran" in said[0]
        site.start(victim)
        site.supervisor.wait_ready(BOUND_S)
        site.whole()
        client.send("ledger", Entry(number))
        number += 1
    site.whole()
    for replica in site.replicas:
        assert site.ledger(replica) == list(range(number))


@pytest.mark.parametrize("victim", [0, 2])
def test_a_directory_that_was_away_is_put_back_and_the_cluster_goes_on(
    make_site: MakeSite, victim: int
) -> None:
    """Two of three disks were not mounted: one replica was started without, and is not let in."""
    site = make_site(Part("s0", 3))
    site.deploy("ledger:Ledger")
    with connect(site.url(), user="root", password="root") as client:
        for number in range(50):
            client.send("ledger", Entry(number))
    other = 2 - victim
    site.kill(0, 1, 2)
    kept = {replica: site.place / f"kept{replica}" for replica in (victim, other)}
    for replica, place in kept.items():
        site.directory(replica).rename(place)
    site.start(1, victim)
    advice = f"replica {victim} has come back without what was on the disk"
    site.until(lambda all: any(advice in each["diagnosis"] for each in all))
    site.kill(victim)
    shutil.rmtree(site.directory(victim))
    kept[victim].rename(site.directory(victim))
    site.start(victim)
    site.until(lambda all: {"master", "slave"} <= {each["role"] for each in all})
    kept[other].rename(site.directory(other))
    site.start(other)
    site.whole()
    with connect(site.url(), user="root", password="root") as client:
        client.send("ledger", Entry(50))
    site.whole()
    assert [site.ledger(replica) for replica in range(3)] == [list(range(51))] * 3


def by_command(site: Site) -> None:
    # What is about to start and does not listen yet would be down for the command.
    site.until(lambda all: sorted(each["role"] for each in all) == ["master", "slave", "slave"])
    site.stop()


def stopped_together(site: Site) -> None:
    """At each of their ends all replicas had the same of the log, and nothing that they had not saved."""
    ends = {tuple(re.findall(r"recovered: (.*)", site.log(replica))) for replica in site.replicas}
    (lines,) = ends
    assert lines
    for line in lines:
        assert line.endswith("0 entries applied again, 0 not known to be committed"), line


def by_supervisor(site: Site) -> None:
    site.supervisor.stop()
    site.supervise()


def test_a_cluster_stopped_as_a_whole_under_load_stops_after_one_entry(make_site: MakeSite) -> None:
    site = make_site(Part("s0", 3))
    site.deploy("ledger:Ledger")
    feed_through_ends(site, 2, by_command)
    stopped_together(site)


@pytest.mark.parametrize(
    ("stop", "losses"), [(by_command, (0, 1, 2) if LONG else (2,)), (by_supervisor, (0,))]
)
def test_any_two_of_three_that_were_stopped_together_bring_the_cluster_back(
    make_site: MakeSite, stop: Callable[[Site], None], losses: tuple[int, ...]
) -> None:
    """Nobody has left before: each disk has the view of all, and the state after the same entry."""
    site = make_site(Part("s0", 3))
    site.deploy("ledger:Ledger")
    for begin, lost in zip(range(0, 60, 20), losses, strict=False):
        with connect(site.url(), user="root", password="root") as client:
            for number in range(begin, begin + 20):
                client.send("ledger", Entry(number))
        site.whole()
        stop(site)
        kept = site.place / f"kept{lost}"
        site.directory(lost).rename(kept)
        site.start(*(replica for replica in site.replicas if replica != lost))
        site.until(lambda all: sorted(each["role"] for each in all) == ["master", "slave"])
        kept.rename(site.directory(lost))
        site.start(lost)
        site.whole()
        assert [site.ledger(replica) for replica in site.replicas] == [list(range(begin + 20))] * 3
    stopped_together(site)


SLOW = """
from twisted.internet.defer import Deferred

from quorate.services.base import Service


class Slow(Service):
    def init(self, ctx, args, first_time):
        pass

    def stop(self):
        return Deferred()
"""


def test_replicas_that_are_stopped_together_wait_for_a_service_that_does_not_stop(
    make_site: MakeSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The configuration is checked in this process, too.
    monkeypatch.syspath_prepend(tmp_path)
    site = make_site(Part("s0", 3, services='<service class="slow:Slow"/>'), modules={"slow": SLOW})
    site.deploy("ledger:Ledger")
    with connect(site.url(), user="root", password="root") as client:
        client.send("ledger", Entry(0))
    first = site.master()
    by_command(site)
    assert "Slow did not stop in order" in site.log(first)
    site.directory(first).rename(site.place / "kept")
    others = [replica for replica in site.replicas if replica != first]
    site.start(*others)
    site.until(lambda all: sorted(each["role"] for each in all) == ["master", "slave"])
    assert [site.ledger(replica) for replica in others] == [[0]] * 2


def damage(directory: Path) -> None:
    with (directory / "journal.db-frames").open("r+b") as file:
        file.seek(100)
        file.write(b"scratched")
