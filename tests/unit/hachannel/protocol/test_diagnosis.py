"""What a replica waits for that is of no use as it is, as its starter reads it."""

import attrs
from msgspec.structs import replace

from quorate.hachannel import Settings
from quorate.hachannel.journal.new_cluster import first_view
from quorate.hachannel.model.log import Accepted, Activated
from quorate.hachannel.model.view import Voter
from quorate.hachannel.protocol.diagnosis import diagnose, strangers
from quorate.testing.channel.observer import Observer
from quorate.testing.schedules.scripted_cluster import ScriptedCluster

QUICK = Settings(suspect_s=0.5, view_change_s=0.4)


def said(cluster: ScriptedCluster, replica: int, *mute: int) -> str:
    return diagnose(cluster.hosts[replica].channel, mute, otherwise="ask those")


def refused(cluster: ScriptedCluster, replica: int, **reasons: str) -> str:
    """What it says when those in `reasons`, given as r1, r2, turn it away."""
    channel = cluster.hosts[replica].channel
    return diagnose(channel, refused={int(who[1:]): reason for who, reason in reasons.items()})


def formed(
    replicas: int = 3, *, settings: Settings = QUICK, disk: bool = True, witnesses: int = 0
) -> ScriptedCluster:
    cluster = ScriptedCluster(replicas, disk=disk, settings=settings, witnesses=witnesses)
    cluster.form()
    cluster.run(1.0)
    assert [said(cluster, replica) for replica in range(replicas)] == [""] * replicas
    return cluster


def test_before_the_very_first_start_it_says_who_is_missing() -> None:
    cluster = ScriptedCluster(3, settings=QUICK)
    cluster.hosts[0].start()
    cluster.hosts[1].start()
    cluster.run(1.0)
    assert said(cluster, 0) == (
        "waits for the others before the very first start: 2 of 3 expected are here, "
        "this replica hears 1; start replica 2"
    )
    assert said(cluster, 0, 2).endswith("; replica 2 does not answer: frozen, overloaded or cut off")
    cluster.hosts[1].crash()
    cluster.run(1.0)
    assert said(cluster, 0).endswith("1 of 3 expected are here, this replica hears none; start replicas 1, 2")


def test_whose_host_name_does_not_resolve_is_not_taken_for_frozen() -> None:
    cluster = ScriptedCluster(4, settings=QUICK)
    cluster.hosts[0].start()
    cluster.run(1.0)
    channel = cluster.hosts[0].channel
    assert diagnose(channel, {1}, astray={1}).endswith(
        "; start replicas 2, 3; the host name of replica 1 does not resolve here: mend that, or the "
        "name service"
    )
    assert diagnose(channel, {1, 2, 3}, astray={2, 3}).endswith(
        "; replica 1 does not answer: frozen, overloaded or cut off; the host names of replicas 2, 3 do not "
        "resolve here: mend that, or the name service"
    )


def test_nobody_is_to_be_started_when_all_that_are_expected_are_here() -> None:
    cluster = ScriptedCluster(3, settings=QUICK, expected=2)
    cluster.hosts[0].start()
    cluster.hosts[1].start()
    cluster.until(lambda: len(cluster.hosts[0].state.peers.links) > 0 and "about" in said(cluster, 0), 5.0)
    assert said(cluster, 0) == ("is about to begin, for the first time, with those that are here; it hears 1")


def test_a_replica_configured_with_other_replicas_is_named() -> None:
    cluster = ScriptedCluster(3, settings=QUICK)
    for host in cluster.hosts:
        host.start()
        if host.replica == 2:
            host.state.configuration = attrs.evolve(host.state.configuration, birth=b"of another file")
    cluster.run(1.0)
    assert said(cluster, 0) == (
        "waits for the others before the very first start: 3 of 3 expected are here, "
        "this replica hears 1, 2; replica 2 is configured with other replicas: use the same file for all"
    )


def test_any_one_of_those_that_suffice_is_to_be_started() -> None:
    cluster = formed()
    cluster.hosts[0].crash()
    cluster.hosts[2].crash()
    cluster.run(3.0)
    assert said(cluster, 1) == (
        "too few replicas of view 1 can be reached to go on, this one hears none; "
        "start replica 0 or 2, or mend the network"
    )


def test_only_the_replicas_that_hold_the_last_view_are_named() -> None:
    cluster = formed(witnesses=1)
    cluster.hosts[1].crash()
    assert cluster.whole(but=[1]) is cluster.hosts[0]
    cluster.hosts[0].crash()
    cluster.hosts[1].start()
    cluster.run(3.0)
    assert cluster.hosts[1].channel.role == "blocked"
    assert said(cluster, 1).endswith(
        "this one hears 2; start replica 0, which holds the last view, or mend the network"
    )
    cluster.hosts[0].start()
    cluster.whole()
    assert said(cluster, 1) == ""


def test_a_witness_that_is_left_alone_says_so() -> None:
    cluster = formed(witnesses=1)
    cluster.hosts[1].crash()
    assert cluster.whole(but=[1]) is cluster.hosts[0]
    assert said(cluster, 2) == ""
    cluster.hosts[0].crash()
    cluster.run(3.0)
    assert said(cluster, 2) == (
        "too few replicas of view 2 can be reached to go on, this one hears none; "
        "start replica 0, which holds the last view, or mend the network"
    )
    cluster.hosts[0].start()
    cluster.whole(but=[1])
    assert said(cluster, 2) == ""


def test_a_frozen_replica_is_not_to_be_started() -> None:
    cluster = formed()
    cluster.hosts[0].crash()
    cluster.hosts[2].pause()
    cluster.run(3.0)
    assert said(cluster, 1).endswith(
        "hears none; start replica 0, or mend the network; "
        "replica 2 does not answer: frozen, overloaded or cut off"
    )


def test_replicas_that_lost_their_disks_are_there_and_do_not_count() -> None:
    cluster = formed()
    for lost in (0, 2):
        cluster.hosts[lost].crash()
        cluster.hosts[lost].lose_disk()
        cluster.hosts[lost].start()
    cluster.run(3.0)
    assert said(cluster, 1).endswith(
        "this one hears none that has a vote; replicas 0, 2 have come back without what was on the disk, "
        "and cannot stand for what they were: put back the directory of one of them, or give up what only "
        "they have with `quorate replica force-new-cluster`"
    )
    assert said(cluster, 0) == ("waits for a master; this replica hears 1, 2; ask those")


def test_without_disks_what_is_lost_is_said() -> None:
    cluster = formed(disk=False)
    cluster.hosts[0].crash()
    cluster.hosts[2].pause()
    cluster.run(3.0)
    assert said(cluster, 1).endswith(
        "; if replica 2 still runs, let it go on if it is frozen, or mend the network; if it has ended, "
        "what the cluster held is lost: "
        "stop all replicas and start them again, they begin with nothing"
    )
    cluster.hosts[2].crash()
    cluster.hosts[0].start()
    cluster.hosts[2].start()
    cluster.run(3.0)
    assert said(cluster, 1).endswith(
        "; replicas 0, 2 have ended, and kept nothing without a disk; what the cluster held is lost: "
        "stop all replicas and start them again, they begin with nothing"
    )


def test_of_two_that_join_one_waits_for_its_turn() -> None:
    cluster = formed(5, disk=False)
    joiners = cluster.hosts[3:]
    for host in joiners:
        host.crash()
    master = cluster.whole(but=[3, 4])
    for host in joiners:
        host.start()
    learns = ["", ""]

    def one_waits() -> bool:
        learns[:] = [host.channel.phases.learning for host in joiners]
        knows = all(host.channel.role == "joining" and host.channel.master == 0 for host in joiners)
        return knows and sorted(learns) in (["alone", "entries"], ["alone", "state"])

    cluster.until(one_waits)
    assert master is cluster.hosts[0]
    first = 3 + (learns[0] == "alone")
    assert said(cluster, first) == (
        "has the state, and waits for replica 0, the master, to let it in"
        if "entries" in learns
        else "gets the state from the others, whose master is replica 0"
    )
    assert said(cluster, 7 - first) == (
        "waits for replica 0, the master, to let it in: one replica joins at a time; "
        "if this lasts, the log of replica 0 says why"
    )


def test_a_master_is_known_before_it_has_said_that_it_is_one() -> None:
    """Of a view of which another member has told first."""
    cluster = formed(5)
    outside = cluster.hosts[4]
    outside.crash()
    master = cluster.whole(but=[4])
    outside.start()
    cluster.until(lambda: outside.channel.role == "joining" and outside.channel.master == master.replica)
    cluster.cut((master.replica, 4))
    master.channel._election.propose(master.clock(), "test")
    master.settle()
    cluster.until(lambda: outside.state.newer == master.state.promised)
    assert outside.state.peers.links[master.replica].heartbeat.view < outside.state.newer
    assert outside.channel.master == master.replica
    cluster.mend()
    cluster.whole()


def test_with_too_few_copies_it_says_whom_to_start() -> None:
    cluster = formed(settings=Settings(suspect_s=0.5, view_change_s=0.4, min_copies=3))
    cluster.hosts[2].crash()
    cluster.until(lambda: cluster.hosts[0].channel.members == (0, 1))
    cluster.run(1.0)
    assert said(cluster, 0) == (
        "takes nothing new; it waits for more replicas: the view has 2 of the 3 copies it needs; "
        "start replica 2"
    )


def test_replicas_of_the_cluster_of_before_are_not_said_to_be_silent() -> None:
    cluster = formed(settings=Settings(suspect_s=0.5, view_change_s=0.4, min_copies=2))
    for host in cluster.hosts:
        host.crash()
    one, other, last = cluster.hosts
    cluster.world.observer = Observer()
    for host in cluster.hosts:
        disk = host.disk
        assert disk is not None
        view = disk.remembered.accepted
        assert view is not None
        if host is last:
            disk.incarnation = cluster.world.incarnation()
            view = first_view(disk.remembered, Voter(2, disk.incarnation), ())
        else:
            # It was removed before: what it says does not stop them.
            view = replace(view, seats=view.seats[:2])
        disk.remembered.apply(Accepted(view))
        disk.remembered.apply(Activated(view.number))
        host.start()
    cluster.until(lambda: last.channel.foreigners == [0, 1])
    cluster.run(1.0)
    assert said(cluster, 2) == (
        "takes nothing new; it waits for more replicas: the view has 1 of the 2 copies it needs; "
        f"{strangers(last.channel)}"
    )
    assert strangers(last.channel).startswith("replicas 0, 1 belong to the cluster as it was before")
    assert (said(cluster, 0), said(cluster, 1)) == ("", "")
    assert strangers(one.channel).startswith("replica 2 belongs to a cluster that was begun again from")
    other.crash()
    cluster.run(1.0)
    cluster.until(lambda: one.channel.role == "blocked")
    assert said(cluster, 0).endswith(f"; start replica 1, or mend the network; {strangers(one.channel)}")


ANEW = "stop all replicas and start them again, they begin with nothing"
LOST = f"ended, and kept nothing without a disk; nobody can join what is left of the cluster: {ANEW}"


def left_alone(*, disk: bool = False) -> ScriptedCluster:
    """Replica 0 is the master of a view of its own; replica 1 and the witness 2 have crashed, and votes."""
    cluster = formed(disk=disk, witnesses=1)
    cluster.submit(cluster.hosts[0], 5)
    cluster.hosts[1].crash()
    assert cluster.whole(but=[1]) is cluster.hosts[0]
    cluster.hosts[2].crash()
    cluster.run(0.1)
    assert said(cluster, 0) == ""
    cluster.until(lambda: not cluster.hosts[0].channel.lease.held)
    assert cluster.hosts[0].channel.role == "master"
    return cluster


def test_a_master_without_a_majority_says_whom_it_lacks() -> None:
    cluster = left_alone(disk=True)
    assert said(cluster, 0) == (
        "too few replicas of view 2 can be reached to hold the lease or let anybody in, this one hears none; "
        "start replica 1 or 2, or mend the network"
    )
    assert said(cluster, 0, 2).endswith(
        "; start replica 1, or mend the network; replica 2 does not answer: frozen, overloaded or cut off"
    )
    cluster.hosts[2].start()
    cluster.until(lambda: cluster.hosts[0].channel.lease.held)
    assert said(cluster, 0) == ""


def test_a_master_that_can_have_the_lease_waits_for_nobody() -> None:
    cluster = left_alone(disk=True)
    cluster.hosts[2].start()
    sentences = set[str]()

    def leased() -> bool:
        alive = len(cluster.hosts[0].state.alive(cluster.hosts[0].state.accepted or view)) > 1
        sentences.update([said(cluster, 0)] if alive else [])
        return cluster.hosts[0].channel.lease.held

    view = cluster.hosts[0].channel.view
    assert view is not None
    cluster.until(leased)
    assert sentences == {""}


def test_a_master_says_which_slaves_it_hears_and_who_has_begun_anew() -> None:
    cluster = formed(5, settings=Settings(suspect_s=0.5, view_change_s=0.4, mode="MAJORITY"), disk=False)
    for lost in (4, 3, 2):
        cluster.hosts[lost].crash()
        cluster.run(2.0)
    assert cluster.hosts[0].channel.role == "master"
    begins = "too few replicas of view 3 can be reached to hold the lease or let anybody in, this one hears 1"
    assert said(cluster, 0) == f"{begins}; replicas 2, 3, 4 have {LOST}"
    cluster.hosts[2].start()
    cluster.run(3.0)
    assert said(cluster, 0) == (
        f"{begins}, and replica 2, begun anew and without a vote; replicas 2, 3, 4 have {LOST}"
    )


def test_a_master_without_a_disk_says_what_is_lost_and_that_those_who_came_back_have_no_vote() -> None:
    cluster = left_alone()
    begins = "too few replicas of view 2 can be reached to hold the lease or let anybody in, this one hears"
    assert said(cluster, 0) == f"{begins} none; replicas 1, 2 have {LOST}"
    cluster.hosts[1].start()
    cluster.run(3.0)
    assert said(cluster, 0) == (
        f"{begins} only replica 1, begun anew and without a vote; replicas 1, 2 have {LOST}"
    )


def test_a_newcomer_that_is_not_let_in_says_what_it_takes_and_where_to_look() -> None:
    cluster = formed(disk=False)
    cluster.submit(cluster.hosts[0], 5)
    cluster.hosts[2].crash()
    cluster.until(lambda: cluster.hosts[0].channel.members == (0, 1))
    cluster.run(1.0)
    cluster.hosts[1].crash()
    cluster.run(1.0)
    assert said(cluster, 0).startswith(
        "too few replicas of view 2 can be reached to go on, this one hears none;"
    )
    for lost in (1, 2):
        cluster.hosts[lost].start()
    cluster.run(3.0)
    takes = "; that takes more than half of the voters of view 2, of which this one hears replica 0 only"
    sentences = [diagnose(cluster.hosts[replica].channel) for replica in (1, 2)]
    where = "; if this lasts, the log of replica 0 says whom it lacks"
    assert sorted(sentences) == [
        f"has the state, and waits for replica 0, the master, to let it in{takes}{where}",
        f"waits for replica 0, the master, to let it in{takes}{where}",
    ]
    assert said(cluster, 1).endswith(f"{takes}; if this lasts, ask those")
    assert said(cluster, 0) == (
        "too few replicas of view 2 can be reached to go on, this one hears only replicas 1, 2, begun anew "
        "and without a vote; replicas 1, 2 have ended, and kept nothing without a disk; "
        f"what the cluster held is lost: {ANEW}"
    )
    cluster.run(30.0)
    assert [diagnose(cluster.hosts[replica].channel) for replica in (1, 2)] == sentences


def test_newcomers_of_a_view_without_a_master_say_where_to_look() -> None:
    cluster = formed(disk=False)
    cluster.hosts[0].crash()
    cluster.hosts[2].crash()
    cluster.run(1.0)
    cluster.hosts[0].start()
    cluster.hosts[2].start()
    cluster.run(3.0)
    assert diagnose(cluster.hosts[0].channel) == (
        "waits for a master; this replica hears 1, 2; the log of replica 1 says why there is none"
    )
    assert said(cluster, 0) == "waits for a master; this replica hears 1, 2; ask those"


def test_newcomers_of_a_cluster_of_which_no_member_is_left_say_that_it_is_lost() -> None:
    cluster = formed(disk=False)
    learner = cluster.hosts[1]
    cluster.leave(learner)
    cluster.run(1.0)
    learner.start()
    cluster.until(lambda: learner.channel.phases.learning != "alone")
    cluster.hosts[0].crash()
    cluster.hosts[2].crash()
    cluster.run(3.0)
    lost = f"nobody who is left was a member, and what the cluster held is lost: {ANEW}"
    # The system says that both have ended.
    assert said(cluster, 1) == f"waits for a master; this replica hears none; {lost}"
    cluster.hosts[0].start()
    cluster.run(3.0)
    assert said(cluster, 0) == (
        "waits for a master; this replica hears 1; if replica 2 still runs, mend the network; if it has "
        f"ended, what the cluster held is lost: {ANEW}"
    )
    cluster.hosts[2].start()
    cluster.run(3.0)
    assert [said(cluster, replica) for replica in (0, 1)] == [
        f"waits for a master; this replica hears {others}; {lost}" for others in ("1, 2", "0, 2")
    ]


def test_newcomers_beside_a_member_are_not_told_to_start_who_cannot_help() -> None:
    cluster = formed(disk=False)
    cluster.hosts[0].crash()
    cluster.hosts[1].crash()
    cluster.run(1.0)
    cluster.hosts[0].start()
    cluster.run(3.0)
    assert diagnose(cluster.hosts[0].channel) == (
        "waits for a master; this replica hears 2; the log of replica 2 says why there is none"
    )


def test_a_replica_without_a_vote_that_was_never_there_is_heard() -> None:
    cluster = ScriptedCluster(4, settings=QUICK, expected=3, disk=True)
    for host in cluster.hosts[:3]:
        host.start()
    cluster.whole(but=[3])
    for lost in (1, 2):
        cluster.hosts[lost].crash()
    cluster.hosts[3].start()
    cluster.run(3.0)
    assert said(cluster, 0) == (
        "too few replicas of view 1 can be reached to go on, this one hears only replica 3 without a vote; "
        "start replica 1 or 2, or mend the network"
    )


def test_guests_that_are_all_there_learn_that_nobody_has_anything() -> None:
    cluster = ScriptedCluster(3, settings=QUICK)
    for host in cluster.hosts:
        host.start()
        host.channel.bar_founding()
    cluster.run(2.0)
    for replica, others in enumerate(("1, 2", "0, 2", "0, 1")):
        assert said(cluster, replica) == (
            "waits for the others to let it in: it founds no cluster, for it was started to join one, was "
            f"turned away by one, or has lost its journal; this replica hears {others}. None of them has "
            "anything of the cluster: if it runs, start them with a file that has its replicas, too; if it "
            "is lost, put the directory of one back from a copy and use `quorate replica force-new-cluster` "
            "with it, or, to begin anew with nothing, stop all, remove their directories and start them"
        )
    cluster.hosts[2].crash()
    cluster.run(2.0)
    assert said(cluster, 0).endswith("this replica hears 1; start replica 2")


def test_before_the_very_first_start_who_turns_this_one_away_is_not_to_be_started() -> None:
    cluster = ScriptedCluster(4, settings=QUICK)
    cluster.hosts[0].start()
    cluster.run(1.0)
    begins = (
        "waits for the others before the very first start: 1 of 4 expected are here, this replica hears none"
    )
    assert refused(cluster, 0, r2="no", r3="no") == (
        f"{begins}; start replica 1; replicas 2, 3 turn this one away: no"
    )
    assert refused(cluster, 0, r1="other mode", r2="no", r3="no") == (
        f"{begins}; replica 1 turns this one away: other mode; replicas 2, 3 turn this one away: no"
    )


def test_a_replica_refused_by_all_others_does_not_call_them_lost() -> None:
    cluster = formed(disk=False)
    cluster.hosts[1].crash()
    cluster.hosts[2].pause()
    cluster.run(3.0)
    begins = "too few replicas of view 1 can be reached to go on, this one hears none"
    assert refused(cluster, 0, r1="no", r2="no") == f"{begins}; replicas 1, 2 turn this one away: no"
    assert refused(cluster, 0, r1="no") == (
        f"{begins}; if replica 2 still runs, let it go on if it is frozen, or mend the network; "
        "replica 1 turns this one away: no"
    )


def test_with_disks_who_turns_this_one_away_is_not_to_be_started_either() -> None:
    cluster = formed()
    cluster.hosts[1].crash()
    cluster.hosts[2].crash()
    cluster.run(3.0)
    assert refused(cluster, 0, r1="no") == (
        "too few replicas of view 1 can be reached to go on, this one hears none; "
        "start replica 2, or mend the network; replica 1 turns this one away: no"
    )


def test_a_newcomer_that_is_turned_away_by_the_members_is_not_told_that_they_are_lost() -> None:
    cluster = formed(disk=False)
    for lost in (1, 2):
        cluster.hosts[lost].crash()
    cluster.hosts[1].start()
    cluster.run(1.0)
    cluster.hosts[0].crash()
    cluster.run(3.0)
    assert refused(cluster, 1, r0="no", r2="no") == (
        "waits for a master; this replica hears none; replicas 0, 2 turn this one away: no"
    )
