"""When slaves hear that an entry is committed: with the next one, or after a silence."""

import attrs

from quorate.agents import Note, Notification, encode, outside
from quorate.hachannel.model.messages import Commit, Message
from quorate.hachannel.model.settings import TELL_AFTER_S
from quorate.testing.servers.cluster import Cluster

DELAY_S = (0.0001, 0.0002)


@attrs.frozen
class Word(Notification):
    number: int


class Counting(Cluster):
    """Counts the messages that say only what is committed."""

    told = 0

    def _carry(self, sender: int, receiver: int, message: Message) -> None:
        self.told += isinstance(message, Commit)
        super()._carry(sender, receiver, message)


def applied(cluster: Cluster) -> set[int]:
    return {replica.node.engine.applied for replica in cluster.replicas.values()}


def test_what_is_committed_is_told_with_the_next_entry_or_after_a_silence() -> None:
    cluster = Counting(1, delay_s=DELAY_S)
    cluster.run_until(cluster.whole)
    cluster.run(1.0)
    cluster.told = 0
    master = cluster.master()
    assert master is not None
    for number in range(1, 10):
        # To nobody: it is ordered like any other.
        token = cluster.post([Note(outside(0), outside(0), Word.type_name, encode(Word(number)))])
        cluster.run_until(lambda token=token: token in cluster.committed, 10 * DELAY_S[1])
        cluster.run(TELL_AFTER_S / 2)
    assert cluster.told == 0
    assert len(applied(cluster)) == 2
    cluster.run(TELL_AFTER_S + 2 * DELAY_S[1])
    assert cluster.told == 2
    assert applied(cluster) == {master.node.engine.applied}
    # Nothing is said twice, and the silence is none that is looked at again and again.
    cluster.run(1.0)
    assert cluster.told == 2
