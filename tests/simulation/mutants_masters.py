"""Mutants of what a master of before leaves behind: with its learner, in its own transfer, in logs."""

from quorate.hachannel.replication import replica_state
from quorate.testing.mutation import mutant, rewritten
from quorate.testing.schedules.scripted_cluster import ScriptedCluster


def a_slave_that_took_entries_of_a_later_view_and_dies():
    """It is of the view before, and hears its master only: behind those entries it must not append others."""
    script = ScriptedCluster(5, disk=True)
    script.form()
    old, new, slave = script.hosts[0], script.hosts[1], script.hosts[4]
    script.everywhere(script.submit(old, 10))
    script.split([0, 4], [1, 2, 3])
    script.submit(old, 3)
    script.until(lambda: new.channel.role == "master", 20)
    script.submit(new, 5)
    script.until(lambda: new.channel.commit == new.channel.last)
    for way in ((1, 4), (4, 1)):
        script.net.mend(way)
    script.until(lambda: slave.channel.last == new.channel.last and not slave.disk.waiting, 1.4)
    script.split([4], [1, 2, 3])
    slave.crash(0)
    slave.start()
    script.run(3)
    script.forward(old, 4)
    script.run(2)
    script.mend()
    script.whole(seconds=60)


@mutant(
    "A replica that took entries of a later view goes on in an earlier one when it comes back from its disk.",
    scenario=a_slave_that_took_entries_of_a_later_view_and_dies,
    caught=("I4",),
)
def later_view_forgotten():
    with rewritten(
        replica_state.ReplicaState,
        "__init__",
        ("if log.last.view > self.resumed else NO_VIEW", "if False else NO_VIEW"),
    ):
        yield
