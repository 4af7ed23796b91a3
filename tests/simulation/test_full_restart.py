"""All replicas end at once and start again with their disks, message by message."""

import pytest

from quorate.hachannel import Settings, ViewNumber
from quorate.hachannel.journal.durable_log import DurableLog, Remembered
from quorate.hachannel.model.log import Appended, Truncated
from quorate.hachannel.model.messages import Ack, Entry, Prepare, Promise, Refuse
from quorate.testing.channel.manual_cluster import ManualCluster

REPLICAS = range(3)
PROMISED = ViewNumber(5, 2, 3)
"""Proposed by replica 2, and promised by replica 1 only."""
LOWER = ViewNumber(4, 0, 1)


class Disks:
    """Three channels whose records are on their disks when the test says so."""

    def __init__(self) -> None:
        self.remembered = [Remembered() for _ in REPLICAS]
        self.entries: list[list[Entry]] = [[] for _ in REPLICAS]
        self.cluster = ManualCluster(logs=[DurableLog(Remembered()) for _ in REPLICAS])

    def sync(self, *replicas: int) -> None:
        cluster = self.cluster
        for replica in replicas or REPLICAS:
            for record in cluster.records[replica]:
                self.remembered[replica].apply(record)
                if isinstance(record, Appended):
                    self.entries[replica] += record.entries
                elif isinstance(record, Truncated):
                    del self.entries[replica][record.index :]
            cluster.records[replica].clear()
            token = cluster.tokens[replica]
            cluster.act(replica, lambda channel, token=token: channel.persisted(cluster.now, token))

    def run(self, rounds: int = 100) -> None:
        for _ in range(rounds):
            self.cluster.settle()
            self.sync()
            self.cluster.tick(0.02)

    def restart(self) -> None:
        """All at once, each as the voter that it was; what was on its way is lost."""
        for replica in REPLICAS:
            log = DurableLog(self.remembered[replica], self.entries[replica])
            self.cluster.start(replica, len(REPLICAS), replica + 1, log)
        for one in REPLICAS:
            for other in range(one):
                self.cluster.connect(one, other)


@pytest.fixture
def disks():
    disks = Disks()
    disks.run()
    cluster = disks.cluster
    assert [cluster.channels[replica].role for replica in REPLICAS] == ["master", "slave", "slave"]
    cluster.act(0, lambda channel: channel.submit(cluster.now, 0, b"committed"))
    disks.run(10)
    cluster.act(0, lambda channel: channel.submit(cluster.now, 0, b"pending"))
    cluster.deliver(0, 1)
    disks.sync(0, 1)
    # Replica 1 has heard nothing of the master for so long that its grant to it is over.
    cluster.tick(Settings().lease_s + 0.1, 1)
    cluster.inject(2, 1, Prepare(PROMISED, "test"))
    disks.sync(1)
    assert [promise.number for promise in cluster.waiting(1, 2, Promise)] == [PROMISED]
    disks.restart()
    return disks


def test_a_promise_made_before_a_full_restart_is_kept_after_it(disks):
    """Scenario 29, vote amnesia: who has promised a view votes for no lower one after a restart of all."""
    cluster = disks.cluster
    cluster.inject(0, 1, Prepare(LOWER, "test"))
    disks.sync(1)
    assert cluster.waiting(1, 0, Refuse) == [Refuse(LOWER, PROMISED)]
    assert cluster.waiting(1, 0, Promise) == []


def test_after_a_full_restart_everything_committed_and_one_end_of_the_log_is_everywhere(disks):
    """Scenario 29: the next view is above every promise, and nobody goes on in the old one."""
    cluster = disks.cluster
    old = disks.remembered[0].accepted.number
    disks.run(300)
    views = {cluster.channels[replica].view.number for replica in REPLICAS}
    assert len(views) == 1
    assert views.pop() > PROMISED > old
    assert [cluster.channels[replica].role for replica in REPLICAS].count("master") == 1
    logs = [[entry.payload for entry in disks.entries[replica]] for replica in REPLICAS]
    # Replica 0 and 1 had it, so it was perhaps committed.
    assert logs == [[b"committed", b"pending"]] * 3
    assert all(cluster.channels[replica].commit == 2 for replica in REPLICAS)
    assert not any(isinstance(message, Ack) and message.view == old for message in cluster.waiting(1, 0))
