"""State transfer under load, with members of groups in real processes. Numbers as in docs/scenarios.md."""

import pytest

from quorate.server.processes.free_ports import free_ports

from .conftest import MakeMembers, Start
from .members import Member, check_members, in_one_view

pytestmark = pytest.mark.processes

LARGE = 40_000_000
"""Bytes of a state that is on its way long enough for something to happen meanwhile."""


@pytest.mark.parametrize("size", [0, LARGE], ids=["small", "large"])
def test_a_member_that_comes_back_under_load_gets_what_the_others_have(
    make_members: MakeMembers, start: Start, size: int
) -> None:
    """Scenario 11, StateTransferWhileSending of JGroups: everybody sends while one gets the state."""
    options = ("--state", size, "--keep", 0)
    members = make_members(3, *options)
    in_one_view(members)
    for member in members:
        member.say("feed 20")
        member.until_confirmed(100)
    dead, others = members[2], members[:2]
    dead.kill()
    in_one_view(others)
    newcomer = Member(start, dead.me, dead.addresses, *options, name="2b")
    newcomer.process.until("received")
    present = [*others, newcomer]
    in_one_view(present)
    newcomer.say("feed 20")
    for member in present:
        member.until_confirmed(len(member.confirmed()) + 50)
        member.say("enough")
    check_members(present, gone=[dead])


def test_the_provider_is_killed_mid_transfer_and_the_next_master_provides(start: Start) -> None:
    """Scenario 12: a part of the state has arrived when its provider dies; the load goes on."""
    options = ("--expected", 3, "--state", LARGE, "--keep", 0)
    ports = free_ports(4)
    members = [Member(start, me, ports, *options) for me in range(3)]
    provider = members[in_one_view(members)]
    for member in members:
        member.say("feed 10")
        member.until_confirmed(50)
    newcomer = Member(start, 3, ports, *options)
    provider.process.until("providing")
    provider.kill()
    present = [*(member for member in members if member is not provider), newcomer]
    newcomer.process.until("received")
    in_one_view(present)
    newcomer.say("feed 10")
    for member in present:
        member.until_confirmed(len(member.confirmed()) + 50)
        member.say("enough")
    assert any("providing" in member.process.lines for member in present)
    check_members(present, gone=[provider])
