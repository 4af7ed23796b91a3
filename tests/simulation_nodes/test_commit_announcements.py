"""How slaves learn that an entry is committed: with the next one, or after a silence."""

import attrs

from quorate.agents import Note, Notification, encode, outside
from quorate.hachannel.model.messages import Commit, Message
from quorate.hachannel.model.settings import ANNOUNCE_AFTER_S
from quorate.server.node.outputs import NodeSettings
from quorate.testing.servers.cluster import Cluster

DELAY_S = (0.0001, 0.0002)


@attrs.frozen
class Word(Notification):
    number: int


class Counting(Cluster):
    """Counts the messages that only announce a commit."""

    announced = 0

    def _carry(self, sender: int, receiver: int, message: Message) -> None:
        self.announced += isinstance(message, Commit)
        super()._carry(sender, receiver, message)


def applied(cluster: Cluster) -> set[int]:
    return {replica.node.engine.applied for replica in cluster.replicas.values()}


def test_a_commit_is_announced_by_the_next_entry_or_after_a_silence() -> None:
    cluster = Counting(1, delay_s=DELAY_S)
    cluster.run_until(cluster.whole)
    cluster.run(1.0)
    cluster.announced = 0
    master = cluster.master()
    assert master is not None
    for number in range(1, 10):
        # To nobody: it is ordered like any other.
        token = cluster.post([Note(outside(0), outside(0), Word.type_name, encode(Word(number)))])
        cluster.run_until(lambda token=token: token in cluster.committed, 10 * DELAY_S[1])
        cluster.run(ANNOUNCE_AFTER_S / 2)
    assert cluster.announced == 0
    assert len(applied(cluster)) == 2
    cluster.run(ANNOUNCE_AFTER_S + 2 * DELAY_S[1])
    assert cluster.announced == 2
    assert applied(cluster) == {master.node.engine.applied}
    # Nothing is announced twice.
    cluster.run(1.0)
    assert cluster.announced == 2


def test_a_commit_is_announced_at_once_when_answers_wait_for_the_slaves() -> None:
    cluster = Counting(1, delay_s=DELAY_S, node_settings=NodeSettings(answers="confirmed"))
    cluster.run_until(cluster.whole)
    cluster.run(1.0)
    cluster.announced = 0
    token = cluster.post([Note(outside(0), outside(0), Word.type_name, encode(Word(1)))])
    cluster.run_until(lambda: token in cluster.committed, 10 * DELAY_S[1])
    assert cluster.announced == 2
