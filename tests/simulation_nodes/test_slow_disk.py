"""A cluster in which one disk takes two seconds for each write founds, loses its master and takes joiners."""

from collections.abc import Callable

import pytest

from quorate.agents import Note, encode, outside
from quorate.hachannel import Settings
from quorate.hachannel.model.settings import Mode
from quorate.testing.servers.cluster import SimulatedReplica
from quorate.testing.servers.durable_cluster import DurableCluster

from .test_durable import Entry, Ledger, create

WRITE_S = 2.0
"""What needs one write takes up to twice as long, because it may have to wait for the write before."""
MODES: list[Mode] = ["ALL", "MAJORITY"]


class Slow:
    """A cluster whose replica `slow` has a slow disk, under a load of 20 numbered entries in a second."""

    def __init__(self, mode: Mode, slow: int, seed: int = 1) -> None:
        self.cluster = DurableCluster(
            seed, write_s={slow: WRITE_S}, channel_settings=Settings(mode=mode), snapshot_entries=100
        )
        self.posted: dict[int, tuple[int, float]] = {}
        """By token: the number of an entry, and when it was posted."""
        self.numbers = 0
        self.loading = False
        start = self.cluster.now
        self.cluster.run_until(lambda: self.cluster.master() is not None)
        self.founded_s = self.cluster.now - start
        token = self.cluster.post([create("ledger")])
        self.cluster.run_until(lambda: token in self.cluster.committed)
        self.load()

    def load(self) -> None:
        if not self.loading:
            self.loading = True
            self._post()

    def _post(self) -> None:
        if not self.loading:
            return
        self.numbers += 1
        entry = Entry(self.numbers)
        token = self.cluster.post([Note("ledger", outside(0), Entry.type_name, encode(entry))])
        if token is not None:
            self.posted[token] = (self.numbers, self.cluster.now)
        self.cluster.at(0.05, self._post)

    def seconds_until(self, condition: Callable[[], bool]) -> float:
        start = self.cluster.now
        self.cluster.run_until(condition)
        return self.cluster.now - start

    def master(self) -> SimulatedReplica:
        master = self.cluster.master()
        assert master is not None
        return master

    def seconds_until_taken(self, replica: int) -> float:
        """Wait until a replica is a member of an active view."""
        node = self.cluster.replicas[replica].node
        return self.seconds_until(lambda: node.role in ("master", "slave"))

    @property
    def views(self) -> int:
        """The number of proposals so far."""
        return max(each.node.channel.state.counter for each in self.cluster.replicas.values())

    def slowest_commit_s(self, seconds: float) -> float:
        """Let time pass, and return how long the slowest commit took of what was posted meanwhile."""
        cluster, start = self.cluster, self.cluster.now
        slowest, done = 0.0, set[int]()
        waiting = dict[int, float]()
        while cluster.now < start + seconds:
            cluster.run(0.01)
            waiting = {
                token: at for token, (_, at) in self.posted.items() if at >= start and token not in done
            }
            for token in [token for token in waiting if token in cluster.committed]:
                done.add(token)
                slowest = max(slowest, cluster.now - waiting.pop(token))
        return max([slowest, *(cluster.now - at for at in waiting.values())])

    def finish(self) -> None:
        """Check that all replicas are in one state, that nothing acknowledged is lost, and nothing twice."""
        self.loading = False
        cluster = self.cluster
        cluster.run(5 * WRITE_S)
        cluster.run_until(cluster.whole)
        cluster.check()
        cell = self.master().node.engine.find("ledger")
        assert cell is not None
        ledger = cell.agent
        assert isinstance(ledger, Ledger)
        assert len(ledger.numbers) == len(set(ledger.numbers))
        acknowledged = {number for token, (number, _) in self.posted.items() if token in cluster.committed}
        assert acknowledged
        assert acknowledged <= set(ledger.numbers)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("slow", [0, 1, 2])
def test_a_cluster_with_a_slow_disk_is_founded_by_the_first_proposal(slow: int, mode: Mode) -> None:
    run = Slow(mode, slow)
    # A promise, an acceptance, the record that the first view may be active, and that it is.
    assert run.founded_s < 5 * WRITE_S
    assert run.views == 1
    run.cluster.run(5.0)
    run.finish()
    assert run.views == 1


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("slow", [0, 1, 2])
def test_a_cluster_with_a_slow_disk_replaces_its_master_at_once_and_takes_it_back(
    slow: int, mode: Mode
) -> None:
    run = Slow(mode, slow)
    cluster = run.cluster
    cluster.run(5.0)
    master, before = run.master(), run.views
    cluster.kill(master.id)
    # What is on its way to the disk, a promise, an acceptance; and the grants of the old master.
    assert run.seconds_until(lambda: cluster.master() is not None) < 2.0 + 4 * WRITE_S
    assert run.views == before + 1
    cluster.run(5.0)
    cluster.restart(master.id)
    assert run.seconds_until_taken(master.id) < 15 * WRITE_S
    cluster.run(5.0)
    run.finish()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("slow", [0, 1, 2])
def test_a_cluster_with_a_slow_disk_takes_a_joiner_that_has_nothing(slow: int, mode: Mode) -> None:
    run = Slow(mode, slow)
    cluster = run.cluster
    cluster.run(2.0)
    cluster.kill(2)
    cluster.lose_disk(2)
    cluster.run(1.0)
    cluster.restart(2)
    assert run.seconds_until_taken(2) < 20 * WRITE_S
    cluster.run(5.0)
    run.finish()


@pytest.mark.parametrize("slow", [0, 1, 2])
def test_a_majority_commits_at_the_pace_of_its_fast_disks(slow: int) -> None:
    run = Slow("MAJORITY", slow)
    # The slow one is the master, or a slave.
    assert run.master().id == 0
    before = run.views
    assert run.slowest_commit_s(30.0) < 0.2
    assert run.views == before
    run.finish()
