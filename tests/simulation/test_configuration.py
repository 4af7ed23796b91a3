"""Changes of the configuration: which are refused, how they take effect, and who is told."""

from quorate.hachannel import ChangeRefused, Settings
from quorate.hachannel.model.messages import Seats, Unlisted
from quorate.hachannel.model.view import Seat, ViewNumber
from quorate.testing.channel.manual_cluster import ManualCluster
from quorate.testing.schedules.scripted_cluster import ScriptedCluster, begun_again


def serves(cluster, host):
    host.start()
    cluster.until(lambda: host.channel.can_submit)


def joins(cluster, host, members):
    """Start the host without a disk, until it is a voter of an active view."""
    host.lose_disk()
    host.start()
    cluster.until(lambda: set(host.channel.members) == members and len(host.channel.view.config) > 1)


def end(cluster, *hosts):
    cluster.until(lambda: all(host.channel.role == "stopped" for host in hosts))


def refused(cluster, request):
    """Return whether the master refuses a request."""
    master = cluster.master()
    try:
        request(master.channel, cluster.world.now)
    except ChangeRefused:
        return True
    return False


def test_a_replica_of_before_stops_at_a_forced_cluster_that_has_grown():
    """The present view of the forced cluster is not the one that began it."""
    cluster = begun_again()
    one, other, last = cluster.hosts
    serves(cluster, last)
    joins(cluster, one, {0, 2})
    other.start()
    end(cluster, other)
    cluster.run(1.0)
    assert set(last.channel.members) == {0, 2}


def test_a_removal_is_given_up_when_the_remaining_voter_dies():
    cluster = ScriptedCluster(3)
    master = cluster.form()
    removed, other = [host for host in cluster.hosts if host is not master]
    master.channel.remove(cluster.world.now, removed.replica)
    # It dies when the change is in the log, and not yet in a view.
    other.crash()
    master.settle()
    cluster.run(3.0)
    assert master.channel.can_submit
    assert master.channel.members == (master.replica, removed.replica)


def test_a_change_is_not_trimmed_from_the_log_before_the_next_view():
    """The master commits many entries after it, alone, with a witness that it does not reach."""
    cluster = ScriptedCluster(3, witnesses=1, settings=Settings(keep=0))
    master = cluster.form()
    cluster.hosts[1].crash()
    cluster.until(lambda: master.channel.members == (0,) and master.channel.can_submit)
    cluster.split([0], [2])
    cluster.run(3.0)
    master.channel.admit(cluster.world.now, 3)
    master.settle()
    for _ in range(40):
        cluster.submit(master, 10)
        cluster.run(0.05)
    assert master.channel.applied > 300
    cluster.mend()
    cluster.until(lambda: any(seat.replica == 3 for seat in master.channel.seats))


def test_the_only_replica_that_has_the_state_cannot_be_removed():
    """A witness and a seat that nobody has taken are left."""
    cluster = ScriptedCluster(2, witnesses=1)
    master = cluster.form()
    master.channel.admit(cluster.world.now, 5)
    master.settle()
    cluster.until(lambda: len(master.channel.view.seats) == 3 and master.channel.can_submit)
    assert refused(cluster, lambda channel, now: channel.remove(now, 0))


def test_a_replica_ignores_unlisted_of_an_older_view():
    """It was removed and added again; the sender knows only of the removal."""
    cluster = ManualCluster()
    cluster.form()
    cluster.channels[2].state.supersede(ViewNumber(7, 0, 1))
    cluster.inject(1, 2, Unlisted(ViewNumber(5, 1, 2)))
    assert cluster.channels[2].role == "joining"
    cluster.inject(0, 2, Unlisted(ViewNumber(7, 0, 1)))
    assert cluster.channels[2].role == "stopped"


def test_an_outsider_keeps_the_seats_of_the_newest_view():
    """A member of the older view says so later."""
    cluster = ManualCluster()
    cluster.form()
    channel = cluster.channels[2]
    channel.state.supersede(ViewNumber(7, 0, 1))
    four = tuple(Seat(replica) for replica in range(4))
    cluster.inject(0, 2, Seats(ViewNumber(7, 0, 1), four))
    cluster.inject(1, 2, Seats(ViewNumber(5, 1, 2), four[:3]))
    assert [seat.replica for seat in channel.seats] == [0, 1, 2, 3]


def test_a_removed_voter_is_reachable_until_the_view_without_it_is_active():
    """Its vote may be needed until then; afterwards nobody tries to reach it."""
    cluster = ManualCluster()
    cluster.form()
    cluster.act(0, lambda channel: channel.remove(cluster.now, 2))
    seen = []
    for _ in range(100):
        channel = cluster.channels[1]
        ways = [way for way in cluster.wires if cluster.wires[way]]
        if not channel.view.lists(2):
            seen.append((channel.state.known_active, 2 in channel.state.seats.others))
        if not ways:
            break
        cluster.deliver(*ways[0], 1)
    assert (False, True) in seen
    assert seen[-1] == (True, False)
