"""Mutants of what a master of before leaves behind: with its learner, in its own transfer, in logs."""

from quorate.hachannel import Settings
from quorate.hachannel.replication import replica_state
from quorate.hachannel.transfer import donor
from quorate.testing.channel.world import Host
from quorate.testing.mutation import mutant, rewritten
from quorate.testing.schedules.script import Script


def a_master_again_that_was_not_a_slave_in_between():
    """Its learner has entries that its own log lost to another master, who died before it could go on."""
    script = Script(3, witnesses=1, settings=Settings(stall_s=60.0))
    script.form()
    old, new, _ = script.hosts
    script.everywhere(script.submit(old, 20))
    learner = Host(script.world, 3)
    script.hosts.append(learner)
    old.channel.admit(old.clock(), 3, b"")
    old.settle()
    script.run(0.5)
    script.split([0, 3], [1, 2])
    script.submit(old, 5)
    learner.start()
    script.until(lambda: learner.channel.last == old.channel.last)
    script.until(lambda: new.channel.role == "master")
    script.submit(new, 1)
    for way in ((0, 1), (1, 0), (0, 2), (2, 0)):
        script.net.mend(way)
    before = old.state.accepted.number
    script.until(lambda: old.state.accepted.number > before and old.state.member and not old.state.serving)
    script.cut((1, 0), (2, 0))
    script.run(0.3)
    assert old.channel.phases.giving == "nobody", "what the learner has may not be in its log any more"
    new.crash()
    script.net.mend((2, 0))
    script.until(lambda: old.channel.role == "master", 20)
    script.mend()
    new.start()
    script.whole(seconds=60)


@mutant(
    "A master goes on with a transfer that it began before another one's view, with another log.",
    scenario=a_master_again_that_was_not_a_slave_in_between,
    caught=("scenario",),
)
def session_of_an_earlier_reign():
    with rewritten(donor.Donor, "review", ("proposer(view.number) != self._state.me", "False")):
        yield


def a_learner_that_hears_a_master_cut_off_from_the_others():
    """That one does not know it, and gives the state too, which takes longer than to begin again."""
    script = Script(5, settings=Settings(keep=0, part_bytes=200), snapshot_s=1.0, chunk=1)
    old = script.form()
    for _ in range(20):
        script.submit(old, 100)
        script.run(0.3)
    learner = script.hosts[4]
    learner.crash()
    script.whole(but=[4])
    script.split([0], [1, 2, 3])
    script.until(lambda: script.hosts[1].channel.role == "master", 20)
    learner.start()
    script.until(lambda: learner.channel.role == "slave", 20)
    script.mend()
    script.whole(seconds=60)


@mutant(
    "Each of two masters takes the learner from the other one as soon as it hears of it.",
    scenario=a_learner_that_hears_a_master_cut_off_from_the_others,
    caught=("scenario",),
)
def learner_fought_for():
    with rewritten(
        donor.Donor, "_served", ("return by_another and not self._lease.holds(now)", "return False")
    ):
        yield


def a_slave_that_took_entries_of_a_later_view_and_dies():
    """It is of the view before, and hears its master only: behind those entries it must not append others."""
    script = Script(5, disk=True)
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
