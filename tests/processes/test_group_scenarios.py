"""What has gone wrong in other systems, with members of groups in real processes that die, freeze and leave.

The numbers are those of docs/scenarios.md. Whatever happens, what all members recorded is
compared at the end: one order, nothing confirmed lost, nothing twice (`sequences.py`).
"""

import signal

import pytest

from .conftest import MakeMembers, Start
from .members import Member, check_members, in_one_view

pytestmark = pytest.mark.processes


def test_the_master_is_killed_mid_stream_and_nothing_is_lost_repeated_or_reordered(
    make_members: MakeMembers,
) -> None:
    """Scenario 2, SequencerFailover of JGroups: all send, and who gives the order dies."""
    members = make_members(3)
    master = members[in_one_view(members)]
    survivors = [member for member in members if member is not master]
    for member in members:
        member.say("feed 50")
    for member in members:
        member.until_confirmed(300)
    delivered = master.delivered()
    master.kill()
    sure = len(master.confirmed())
    for member in survivors:
        member.until_confirmed(len(member.confirmed()) + 500)
        member.say("enough")
    assert in_one_view(survivors) == survivors[0].me
    order = check_members(survivors, gone=[master], **{master.name: delivered})
    assert len(order) >= 1000 + sure


def test_the_master_and_the_next_one_leave_together_and_one_master_remains(make_members: MakeMembers) -> None:
    """Scenario 4, BaseLeave of JGroups: the coordinator and who would follow it leave at the same time."""
    members = make_members(4)
    in_one_view(members)
    seniority = members[0].report()["members"]
    leaving, staying = ([members[me] for me in part] for part in (seniority[:2], seniority[2:]))
    for member in staying:
        member.say("feed 20")
        member.until_confirmed(100)
    for member in leaving:
        member.say("send 5")
        member.say("leave")
    for member in leaving:
        member.process.until("left")
    assert in_one_view(staying) == seniority[2]
    for member in staying:
        member.until_confirmed(len(member.confirmed()) + 100)
        member.say("enough")
    check_members(staying, gone=leaving)
    assert [member.report()["master"] for member in staying] == [seniority[2]] * 2


def test_members_leave_in_turn_and_the_last_one_lets_them_in_again(
    make_members: MakeMembers, start: Start
) -> None:
    """All are in memory: each leave takes a vote away, or the last one could agree with nobody any more."""
    members = make_members(3)
    in_one_view(members)
    last, gone = members[0], members[:0:-1]
    last.say("feed 20")
    for member in gone:
        member.say("send 50")
        member.until_confirmed(50)
        member.say("leave")
        member.process.until("left")
    in_one_view([last])
    last.until_confirmed(len(last.confirmed()) + 100)
    again = [Member(start, member.me, member.addresses, name=f"{member.me}b") for member in gone]
    assert in_one_view([last, *again]) == last.me
    for member in again:
        member.say("send 50")
        member.until_confirmed(50)
    last.say("enough")
    check_members([last, *again], gone=gone)


def test_members_that_start_together_found_one_group(make_members: MakeMembers) -> None:
    """Scenario 5, ConcurrentStartup of JGroups: five at once are one group, and one view is the first."""
    members = make_members(5)
    for member in members:
        member.say("send 10")
    in_one_view(members)
    check_members(members)
    views = [member.report()["views"] for member in members]
    firsts = {(view[0], tuple(view[1])) for seen in views for view in seen if view[2]}
    assert len(firsts) == 1
    assert all([view[2] for view in seen].count(True) <= 1 for seen in views)


def test_a_frozen_master_confirms_nothing_of_what_it_could_not_tell_the_others(
    make_members: MakeMembers,
) -> None:
    """Scenario 7, FrozenCoordinator: SIGSTOP under load; another one leads; SIGCONT, and it follows."""
    members = make_members(3, "--suspect", 1)
    master = members[in_one_view(members)]
    others = [member for member in members if member is not master]
    for member in members:
        member.say("feed 20")
        member.until_confirmed(50)
    master.signal(signal.SIGSTOP)
    heir = in_one_view(others)
    assert heir == others[0].me
    for member in others:
        member.until_confirmed(len(member.confirmed()) + 50)
    master.signal(signal.SIGCONT)
    assert in_one_view(members) == heir
    for member in members:
        member.until_confirmed(len(member.confirmed()) + 20)
        member.say("enough")
    check_members(members)
    assert len({tuple(map(str, member.report()["views"][-1])) for member in members}) == 1


def test_a_full_window_and_a_peer_that_reads_nothing_do_not_stop_the_next_view(
    make_members: MakeMembers,
) -> None:
    """Scenario 14: a slave freezes under a load that fills the window and the buffers of TCP."""
    members = make_members(3, "--suspect", 1, "--window", 8, "--padding", 100_000)
    master = members[in_one_view(members)]
    dead, living = members[2], members[:2]
    assert master in living
    dead.signal(signal.SIGSTOP)
    for member in living:
        # Far more than the window and what the system holds for the peer.
        member.say("send 200")
    assert in_one_view(living) == master.me
    for member in living:
        member.until_confirmed(200)
    assert len(check_members(living)) == 400
