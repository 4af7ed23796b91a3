"""One replica of several becomes the beginning of a new cluster: on its disk, and among the others."""

from pathlib import Path

import pytest

from quorate.hachannel import Channel
from quorate.hachannel.journal.durable_log import DurableLog, Remembered
from quorate.hachannel.journal.journal import Identity, Journal
from quorate.hachannel.journal.new_cluster import NothingThere, begin_again, first_view
from quorate.hachannel.model.log import Accepted, Activated, Appended, Committed, Fitness, Promised
from quorate.hachannel.model.messages import Entry, Heartbeat
from quorate.hachannel.model.view import Seat, View, ViewNumber, Voter
from quorate.testing.channel.host import Host
from quorate.testing.schedules.scripted_cluster import QUICK, ScriptedCluster, begun_again, unlist

OLD = ViewNumber(3, 1, 11)
SEATS = (Seat(0), Seat(1), Seat(2))
VIEW = View(OLD, (Voter(0, 10), Voter(1, 11), Voter(2, 12)), (Voter(1, 11), Voter(0, 10)), 2, 0, seats=SEATS)
ME = Voter(0, 99)
IDENTITY = Identity("c", "s0", 0)


def test_the_new_view_is_above_all_that_was_seen_and_of_this_replica_alone() -> None:
    remembered = Remembered(promised=ViewNumber(7, 2, 12), accepted=VIEW, active=True, commit=2, last=4)
    view = first_view(remembered, ME, ())
    assert view.number == ViewNumber(8, 0, 99)
    assert (view.config, view.members, view.k, view.start) == ((ME,), (ME,), 1, 4)
    assert (view.seats, view.lineage, view.boot) == (SEATS, ME, 0)


def test_a_new_cluster_begins_from_a_learner_with_a_state_but_not_from_an_empty_replica() -> None:
    with pytest.raises(NothingThere):
        first_view(Remembered(), ME, SEATS)
    assert first_view(Remembered(commit=5, last=5), ME, SEATS).seats == SEATS


def test_the_journal_is_another_voters_and_keeps_its_entries(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    journal = Journal.open(path, IDENTITY, 10)
    entries = tuple(Entry(OLD, index, index, b"x") for index in (1, 2, 3))
    journal.write(
        [Accepted(VIEW), Activated(OLD), Appended(entries), Committed(2), Promised(OLD), Fitness(True)]
    )
    journal.close()
    journal = Journal.open(path, IDENTITY, 99, existing=True)
    assert journal.remembered.unfit
    assert journal.incarnation == 10
    view = begin_again(journal, ME, ())
    journal.close()
    found = Journal.open(path, IDENTITY, 100, existing=True)
    assert found.incarnation == 99
    assert tuple(found.recovered) == entries
    remembered = found.remembered
    assert (remembered.accepted, remembered.active, remembered.promised) == (view, True, view.number)
    assert (remembered.commit, remembered.last) == (2, 3)
    assert not remembered.unfit, "there is no other state"
    found.close()


def test_the_new_view_is_above_that_of_the_last_entry(tmp_path: Path) -> None:
    """A learner has taken it from a later view than it was in."""
    journal = Journal.open(tmp_path / "journal.db", IDENTITY, 10)
    later = ViewNumber(9, 2, 12)
    journal.write([Accepted(VIEW), Activated(OLD), Appended((Entry(later, 1, 1, b"x"),)), Committed(1)])
    journal.close()
    journal = Journal.open(tmp_path / "journal.db", IDENTITY, 99, existing=True)
    assert begin_again(journal, ME, ()).number == ViewNumber(10, 0, 99)
    journal.close()


@pytest.mark.parametrize(("lineage", "role"), [(None, "blocked"), (ME, "stopped")])
def test_what_the_cluster_of_before_lacks_concerns_only_its_own(lineage: Voter | None, role: str) -> None:
    """Its views may have higher numbers: they count from where the two went apart."""
    voters = (ME, Voter(1, 11), Voter(2, 12))
    number = ViewNumber(8, 0, 99)
    view = View(number, voters, voters, 3, 0, seats=SEATS, lineage=ME)
    remembered = Remembered(promised=number, accepted=view, active=True, commit=3, last=3)
    log = DurableLog(remembered, [Entry(number, index, index, b"x") for index in (1, 2, 3)])
    channel = Channel(0, [0, 1, 2], incarnation=99, cluster="c", expected=3, log=log)
    channel.start(0.0)
    channel.connected(0.1, 1, 11)
    high = ViewNumber(20, 1, 11)
    said = Heartbeat(high, high, True, True, True, True, False, 1, 1, 1, 0, 0, None, lineage, high)
    channel.receive(0.2, 1, said)
    assert channel.role == role


@pytest.fixture
def cluster() -> ScriptedCluster:
    """A cluster that has lost replicas 0 and 1 after 20 entries, of which replica 2 has all."""
    return begun_again()


def index(host: Host) -> int:
    return host.app.index


def test_it_serves_alone_with_everything_and_the_others_join_as_new_ones(cluster: ScriptedCluster) -> None:
    last = cluster.hosts[2]
    before = last.disk.remembered.last if last.disk is not None else 0
    last.start()
    cluster.until(lambda: last.channel.can_submit)
    assert index(last) == before
    assert cluster.submit(last, 3)
    for host in cluster.hosts[:2]:
        host.lose_disk()
        host.start()
    cluster.whole()
    cluster.until(lambda: len({host.app.chain for host in cluster.hosts}) == 1)
    assert {host.channel.view.lineage for host in cluster.hosts if host.channel.view} == {
        Voter(2, last.incarnation)
    }
    assert len(cluster.hosts[0].channel.members) == 3


def ends(host: Host) -> bool:
    return host.channel.role == "stopped"


def test_those_of_before_stop_when_they_hear_of_it_and_never_serve(cluster: ScriptedCluster) -> None:
    """Their directories were forgotten: they have their disks, and are a majority."""
    one, other, last = cluster.hosts
    last.start()
    cluster.until(lambda: last.channel.can_submit)
    for _ in range(2):
        one.start()
        other.start()
        cluster.until(lambda: ends(one) and ends(other))
        assert (one.services, other.services) == (0, 0)
    cluster.run(3.0)
    assert last.channel.members == (2,)
    assert cluster.submit(last, 5)


def test_a_majority_of_before_that_is_cut_off_serves_until_it_hears_of_it(cluster: ScriptedCluster) -> None:
    one, other, last = cluster.hosts
    cluster.split({0, 1}, {2})
    for host in cluster.hosts:
        host.start()
    cluster.until(lambda: last.channel.can_submit)
    cluster.until(lambda: any(host.channel.can_submit for host in (one, other)))
    old = one if one.channel.can_submit else other
    for _ in range(20):
        cluster.submit(old, 1)
        cluster.submit(last, 1)
        cluster.run(0.1)
    assert one.app.chain == other.app.chain != last.app.chain
    cluster.mend()
    cluster.until(lambda: ends(one) and ends(other))
    assert not old.channel.holds_lease(cluster.world.now)
    assert cluster.submit(last, 5)


def test_one_that_was_removed_before_it_was_forced_stops_nobody(cluster: ScriptedCluster) -> None:
    one, other, last = cluster.hosts
    for host in (one, other):
        unlist(host, last.replica)
    for host in cluster.hosts:
        host.start()
    cluster.until(lambda: last.channel.can_submit)
    cluster.until(lambda: any(host.channel.can_submit for host in (one, other)))
    cluster.run(3.0)
    assert not ends(one)
    assert not ends(other)


def test_one_that_has_joined_the_new_cluster_does_not_hear_the_old(cluster: ScriptedCluster) -> None:
    one, other, last = cluster.hosts
    last.start()
    cluster.until(lambda: last.channel.can_submit)
    one.lose_disk()
    one.start()
    other.start()
    cluster.until(lambda: set(last.channel.members) == {0, 2} and last.channel.can_submit)
    assert cluster.submit(last, 5)
    cluster.until(lambda: ends(other))
    last.crash()
    other.start()
    cluster.until(lambda: ends(other))
    cluster.run(2.0)
    assert one.channel.role == "blocked", "the one of before is no voter, whatever it has"
    last.start()
    cluster.until(lambda: last.channel.can_submit or one.channel.can_submit)
    cluster.until(lambda: one.app.chain == last.app.chain)


def test_of_two_that_were_forced_the_later_one_counts(cluster: ScriptedCluster) -> None:
    one, _, last = cluster.hosts
    cluster.force(one)
    one.start()
    last.start()
    cluster.until(lambda: ends(last))
    cluster.run(3.0)
    assert one.channel.can_submit


def test_one_of_two_is_forced_and_the_witness_of_before_has_to_begin_anew() -> None:
    cluster = ScriptedCluster(3, disk=True, settings=QUICK, witnesses=1)
    cluster.everywhere(cluster.submit(cluster.form(), 5))
    for host in cluster.hosts:
        host.crash()
    one, _, witness = cluster.hosts
    cluster.force(one)
    one.start()
    witness.start()
    cluster.until(lambda: one.channel.can_submit)
    cluster.until(lambda: ends(witness))
    assert one.channel.view is not None
    assert one.channel.view.witnesses == ()
    witness.lose_disk()
    witness.start()
    cluster.until(lambda: witness.channel.role == "witness")
    cluster.until(lambda: one.channel.view is not None and len(one.channel.view.config) == 2)
