"""Mutants of clusters that were made to begin again from one replica: those of before are no part of them."""

from quorate.hachannel.replication import replica_state
from quorate.hachannel.view_change import election
from quorate.testing.mutation import mutant, rewritten
from quorate.testing.schedules.script import begun_again, unlist


def _serves(script, host):
    host.start()
    script.until(lambda: host.channel.can_submit)


def _joins(script, host, members):
    """As a new one, and is a voter of an active view."""
    host.lose_disk()
    host.start()
    script.until(lambda: set(host.channel.members) == members and len(host.channel.view.config) > 1)


def _end(script, *hosts):
    script.until(lambda: all(host.channel.role == "stopped" for host in hosts))


def the_majority_of_before_comes_back():
    """It has its disks, and hears of the cluster that began again."""
    script = begun_again()
    one, other, last = script.hosts
    _serves(script, last)
    one.start()
    other.start()
    _end(script, one, other)
    assert one.services == other.services == 0, "they serve nobody before they know"
    script.run(3.0)
    assert last.channel.members == (2,)
    assert script.submit(last, 5)


def one_of_before_comes_back_to_a_cluster_that_has_grown():
    """Its present view is not the one that began it."""
    script = begun_again()
    one, other, last = script.hosts
    _serves(script, last)
    _joins(script, one, {0, 2})
    other.start()
    _end(script, other)
    script.run(1.0)
    assert set(last.channel.members) == {0, 2}


def one_of_before_is_there_when_the_beginning_is_gone():
    """With a new replica that has everything it is a majority of three."""
    script = begun_again()
    one, other, last = script.hosts
    _serves(script, last)
    _joins(script, one, {0, 2})
    other.start()
    _end(script, other)
    last.crash()
    other.start()
    _end(script, other)
    script.run(2.0)
    assert one.channel.role == "blocked", "the one of before is no voter, whatever it has"


def two_are_forced():
    """One after the other: the later one counts."""
    script = begun_again()
    one, _, last = script.hosts
    script.force(one)
    one.start()
    last.start()
    _end(script, last)
    script.run(3.0)
    assert one.channel.can_submit


def one_that_was_removed_is_forced():
    """It is none of those who go on without it, so it ends nobody."""
    script = begun_again()
    last = script.hosts[-1]
    for host in script.hosts[:-1]:
        unlist(host, last.replica)
    for host in script.hosts:
        host.start()
    script.run(3.0)
    assert sum(host.channel.can_submit for host in script.hosts) == 2, "each of the two clusters has a master"


@mutant(
    "Only the first view of a cluster that began again says so.",
    scenario=one_of_before_comes_back_to_a_cluster_that_has_grown,
    caught=("scenario",),
    quick=True,
)
def lineage_lost_in_the_next_view():
    with rewritten(election.Election, "_install", ("source.lineage,", "None,")):
        yield


@mutant(
    "Who is of another cluster is a voter all the same.",
    scenario=one_of_before_is_there_when_the_beginning_is_gone,
    caught=("scenario",),
)
def foreign_voters_counted():
    with rewritten(
        replica_state.ReplicaState,
        "review_lineage",
        ("foreign = said.lineage != accepted.lineage", "foreign = False"),
    ):
        yield


@mutant(
    "Those of before go on when they hear of a cluster that began again.",
    scenario=the_majority_of_before_comes_back,
    caught=("scenario",),
    quick=True,
)
def those_of_before_go_on():
    with rewritten(replica_state.ReplicaState, "outdated", ("return link.replica", "return None")):
        yield


@mutant(
    "Of two that were forced the earlier one counts.",
    scenario=two_are_forced,
    caught=("scenario",),
    quick=True,
)
def earlier_forced_counts():
    later = "theirs.incarnation > own.incarnation"
    with rewritten(replica_state.ReplicaState, "outdated", (later, "theirs.incarnation < own.incarnation")):
        yield


@mutant(
    "A replica that was removed, and forced later, ends those who go on without it.",
    scenario=one_that_was_removed_is_forced,
    caught=("scenario",),
)
def removed_one_ends_the_others():
    with rewritten(
        replica_state.ReplicaState,
        "outdated",
        ("theirs is None or not self.lists(theirs.replica)", "theirs is None"),
    ):
        yield
