"""Mutants of what is said a second time, or to those who missed it: that is bound by the same rules."""

from quorate.hachannel import Settings
from quorate.hachannel.replication import forwarding
from quorate.testing.mutation import mutant, rewritten
from quorate.testing.schedules.scripted_cluster import ScriptedCluster


def an_origin_comes_back_within_the_view():
    """With its disk, before anybody misses it: it numbers anew, under another number of its process."""
    script = ScriptedCluster(3, disk=True, shared_host=False, settings=Settings(verify_s=1.0))
    master = script.form()
    script.run(1.0)
    slave = next(host for host in script.hosts if host is not master)
    view = master.channel.view.number
    before = script.forward(slave, 3)
    script.run(1.0)
    slave.crash()
    script.run(0.2)
    slave.start()
    script.run(1.5)
    assert master.channel.view.number == view
    after = script.forward(slave, 5)
    script.run(8.0)
    assert script.deliveries[master.replica] == before + after


@mutant(
    "What another process of an origin forwards is counted on with that of the one before.",
    scenario=an_origin_comes_back_within_the_view,
    caught=("I7", "scenario"),
    quick=True,
)
def held_of_the_process_before():
    with rewritten(forwarding.Forwarding, "on_forward", (" or message.boot > held.boot", "")):
        yield
