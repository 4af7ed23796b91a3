"""Groups of real processes under random faults, and broken ones whose faults are seen.

QUORATE_CAMPAIGN=30 adds half an hour of seeds, and more ways to break them; `campaign.py` runs single seeds.
Seeds that want cuts do without where network namespaces are not allowed.
"""

import itertools
import time

import pytest

from ..long import amount, only_long
from .campaign import Campaign
from .plans import Plan, Step, draw
from .seeds import Total, run_many, run_plan

pytestmark = pytest.mark.processes

CAMPAIGN_MIN = amount("QUORATE_CAMPAIGN", 0, 10)
"""Minutes of random faults."""


def plan(*steps: Step, members: int = 3, mode: str = "ALL", disk: bool = False, net: bool = False) -> Plan:
    """A plan by hand. The master is 0."""
    return Plan(0, members, mode, disk, net, steps)


FREEZE = Step(0.5, "freeze", (0,), 2.5)
"""Longer than a lease, and than what a suspicion takes."""
NAP = Step(0.5, "freeze", (0,), 0.8)
"""Long enough for others to send again, too short for a suspicion."""
BROKEN = {
    "duplicates_admitted": (plan(NAP, NAP, NAP, NAP), "it stands at"),
    "lease_without_end": (plan(FREEZE), "acted at"),
    "one_ack_short": (
        plan(Step(0.5, "behead", (0, 1, 2), 2.5, "cut"), mode="MAJORITY", disk=True, net=True),
        "and another one",
    ),
}
"""Mutants of the simulation, what makes their fault show, and what is said then."""
BROKEN_MORE = {
    "delivered_again": (plan(FREEZE), "and it stands at"),
    "delivered_before_commit": (
        plan(Step(0.5, "cut", (0, 1, 2, 3, 4), 2.5, "split"), members=5, net=True),
        "and another one",
    ),
    "entries_not_written": (plan(Step(0.5, "kill_all", (0, 1, 2), 0.5), disk=True), "did not happen"),
    "grants_below_majority": (plan(FREEZE), "acted at"),
    "sent_again_after_new_ones": (plan(*[Step(0.5, "kill", (0,), 0.5)] * 3), "stands in the order where"),
    "table_forgotten_at_failover": (
        plan(Step(0.5, "kill", (0,), 1.0), Step(2.5, "freeze", (0,), 2.5)),
        "stands in the order where",
    ),
    "timeout_commits": (plan(Step(0.5, "cut", (0, 1, 2), 4.5, "split"), net=True), "and another one"),
    "truncated_below_commit": (
        plan(Step(0.5, "cut", (0, 1, 2), 2.5, "split"), Step(3.0, "kill", (0,), 0.5), net=True),
        "did not happen",
    ),
}


@pytest.mark.parametrize(
    ("seed", "members", "mode", "disk", "apart"),
    [(1, 3, "ALL", False, False), (2, 3, "MAJORITY", True, True)],
)
def test_a_few_seconds_of_faults_break_no_promise(
    cuts: bool, seed: int, members: int, mode: str, disk: bool, apart: bool
) -> None:
    """Scenarios 2, 7, 15, 24, 28 and 29 as they come, one after the other."""
    plan = draw(seed, 6, members=members, mode=mode, disk=disk, net=apart and cuts)
    assert run_plan(Campaign, plan, Total()) == ""


def test_a_received_state_survives_a_kill_of_the_receiver() -> None:
    steps = Step(0.5, "lose", (2,), 0.3), Step(2.0, "kill_all", (0, 1, 2), 0.3)
    assert run_plan(Campaign, plan(*steps, disk=True), Total()) == ""


@only_long
def test_a_campaign_breaks_no_promise(cuts: bool) -> None:
    until = time.monotonic() + 60 * CAMPAIGN_MIN
    total = run_many(
        Campaign, itertools.count(), 12, until=until, keep_going=True, net=None if cuts else False
    )
    print(total)
    assert not total.failed, "\n".join(total.failed)


@pytest.mark.parametrize("name", [*BROKEN, *(pytest.param(name, marks=only_long) for name in BROKEN_MORE)])
def test_a_member_that_breaks_a_rule_is_seen(cuts: bool, name: str) -> None:
    plan, what = {**BROKEN, **BROKEN_MORE}[name]
    if plan.net and not cuts:
        pytest.skip("connections cannot be cut here: no network namespaces")
    # It may need another try: processes do not run twice the same way.
    for _ in range(3):
        if wrong := run_plan(Campaign, plan, Total(), broken=name):
            break
    assert what in wrong
