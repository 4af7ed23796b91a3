"""What a replica that is neither master nor slave waits for, as its starter reads it."""

from msgspec.structs import replace

from quorate.hachannel import Settings
from quorate.hachannel.force import first_view
from quorate.hachannel.log import Accepted, Activated
from quorate.hachannel.situation import situation, strangers
from quorate.hachannel.view import Voter
from quorate.testing.channel_script import Script
from quorate.testing.channel_world import Observer

QUICK = Settings(suspect_s=0.5, view_change_s=0.4)


def said(script: Script, replica: int, *mute: int) -> str:
    return situation(script.hosts[replica].channel, mute, otherwise="ask those")


def formed(replicas: int = 3, *, settings: Settings = QUICK, disk: bool = True, witnesses: int = 0) -> Script:
    script = Script(replicas, disk=disk, settings=settings, witnesses=witnesses)
    script.form()
    script.run(1.0)
    assert [said(script, replica) for replica in range(replicas)] == [""] * replicas
    return script


def test_before_the_very_first_start_it_says_who_is_missing() -> None:
    script = Script(3, settings=QUICK)
    script.hosts[0].start()
    script.hosts[1].start()
    script.run(1.0)
    assert said(script, 0) == (
        "waits for the others before the very first start: 2 of 3 expected are here, "
        "this replica hears 1; start replica 2"
    )
    assert said(script, 0, 2).endswith("; replica 2 does not answer: frozen, overloaded or cut off")
    script.hosts[1].crash()
    script.run(1.0)
    assert said(script, 0).endswith("1 of 3 expected are here, this replica hears none; start replicas 1, 2")


def test_nobody_is_to_be_started_when_all_that_are_expected_are_here() -> None:
    script = Script(3, settings=QUICK, expected=2)
    script.hosts[0].start()
    script.hosts[1].start()
    script.until(lambda: len(script.hosts[0].state.peers.links) > 0 and "2 of 2" in said(script, 0), 5.0)
    assert said(script, 0).endswith("2 of 2 expected are here, this replica hears 1")


def test_any_one_of_those_that_suffice_is_to_be_started() -> None:
    script = formed()
    script.hosts[0].crash()
    script.hosts[2].crash()
    script.run(3.0)
    assert said(script, 1) == (
        "too few replicas of view 1 can be reached to go on, this one hears none; "
        "start replica 0 or 2, or mend the network"
    )


def test_who_holds_the_last_view_is_named_and_nobody_else() -> None:
    script = formed(witnesses=1)
    script.hosts[1].crash()
    assert script.whole(but=[1]) is script.hosts[0]
    script.hosts[0].crash()
    script.hosts[1].start()
    script.run(3.0)
    assert script.hosts[1].channel.role == "blocked"
    assert said(script, 1).endswith(
        "this one hears 2; start replica 0, which holds the last view, or mend the network"
    )
    script.hosts[0].start()
    script.whole()
    assert said(script, 1) == ""


def test_a_witness_that_is_left_alone_says_so() -> None:
    script = formed(witnesses=1)
    script.hosts[1].crash()
    assert script.whole(but=[1]) is script.hosts[0]
    assert said(script, 2) == ""
    script.hosts[0].crash()
    script.run(3.0)
    assert said(script, 2) == (
        "too few replicas of view 2 can be reached to go on, this one hears none; "
        "start replica 0, which holds the last view, or mend the network"
    )
    script.hosts[0].start()
    script.whole(but=[1])
    assert said(script, 2) == ""


def test_a_frozen_replica_is_not_to_be_started() -> None:
    script = formed()
    script.hosts[0].crash()
    script.hosts[2].pause()
    script.run(3.0)
    assert said(script, 1).endswith(
        "hears none; start replica 0, or mend the network; "
        "replica 2 does not answer: frozen, overloaded or cut off"
    )


def test_replicas_that_lost_their_disks_are_there_and_do_not_count() -> None:
    script = formed()
    for lost in (0, 2):
        script.hosts[lost].crash()
        script.hosts[lost].lose_disk()
        script.hosts[lost].start()
    script.run(3.0)
    assert said(script, 1).endswith(
        "this one hears none; replicas 0, 2 have come back without what was on the disk, and cannot stand "
        "for what they were: put back the directory of one of them, or give up what only they have with "
        "`quorate replica force-new-cluster`"
    )
    assert said(script, 0) == ("waits for a master; this replica hears 1, 2; ask those")


def test_without_disks_what_is_lost_is_said() -> None:
    script = formed(disk=False)
    script.hosts[0].crash()
    script.hosts[2].pause()
    script.run(3.0)
    assert said(script, 1).endswith(
        "; if replica 2 still runs, mend the network; if it has ended, what the cluster held is lost: "
        "stop all replicas and start them again, they begin with nothing"
    )
    script.hosts[2].crash()
    script.hosts[0].start()
    script.hosts[2].start()
    script.run(3.0)
    assert said(script, 1).endswith(
        "; replicas 0, 2 have ended, and kept nothing without a disk; what the cluster held is lost: "
        "stop all replicas and start them again, they begin with nothing"
    )


def test_of_two_that_join_one_waits_for_its_turn() -> None:
    script = formed(5, disk=False)
    joiners = script.hosts[3:]
    for host in joiners:
        host.crash()
    master = script.whole(but=[3, 4])
    for host in joiners:
        host.start()
    learns = ["", ""]

    def one_waits() -> bool:
        learns[:] = [host.channel.phases.learning for host in joiners]
        knows = all(host.channel.role == "joining" and host.channel.master == 0 for host in joiners)
        return knows and sorted(learns) in (["alone", "entries"], ["alone", "state"])

    script.until(one_waits)
    assert master is script.hosts[0]
    first = 3 + (learns[0] == "alone")
    assert said(script, first) == "gets the state from the others, whose master is replica 0"
    assert said(script, 7 - first) == (
        "waits for replica 0, the master, to let it in: one replica joins at a time"
    )


def test_with_too_few_copies_it_says_whom_to_start() -> None:
    script = formed(settings=Settings(suspect_s=0.5, view_change_s=0.4, min_copies=3))
    script.hosts[2].crash()
    script.until(lambda: script.hosts[0].channel.members == (0, 1))
    script.run(1.0)
    assert said(script, 0) == (
        "takes nothing new; it waits for more replicas: the view has 2 of the 3 copies it needs; "
        "start replica 2"
    )


def test_replicas_of_the_cluster_of_before_are_not_said_to_be_silent() -> None:
    script = formed(settings=Settings(suspect_s=0.5, view_change_s=0.4, min_copies=2))
    for host in script.hosts:
        host.crash()
    one, other, last = script.hosts
    script.world.observer = Observer()
    for host in script.hosts:
        disk = host.disk
        assert disk is not None
        view = disk.remembered.accepted
        assert view is not None
        if host is last:
            disk.incarnation = script.world.incarnation()
            view = first_view(disk.remembered, Voter(2, disk.incarnation), ())
        else:
            # It was removed before: what it says does not stop them.
            view = replace(view, seats=view.seats[:2])
        disk.remembered.apply(Accepted(view))
        disk.remembered.apply(Activated(view.number))
        host.start()
    script.until(lambda: last.channel.foreigners == [0, 1])
    script.run(1.0)
    assert said(script, 2) == (
        "takes nothing new; it waits for more replicas: the view has 1 of the 2 copies it needs; "
        f"{strangers(last.channel)}"
    )
    assert strangers(last.channel).startswith("replicas 0, 1 belong to the cluster as it was before")
    assert (said(script, 0), said(script, 1)) == ("", "")
    assert strangers(one.channel).startswith("replica 2 belongs to a cluster that was begun again from")
    other.crash()
    script.run(1.0)
    script.until(lambda: one.channel.role == "blocked")
    assert said(script, 0).endswith(f"; start replica 1, or mend the network; {strangers(one.channel)}")
