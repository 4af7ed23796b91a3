"""Whole servers under random faults, and broken ones whose faults are seen.

QUORATE_CAMPAIGN=30 adds half an hour of seeds; `server_campaign.py` runs single ones.
"""

import itertools
import time

import pytest

from ..long import amount, only_long
from .plans import Plan, Step, draw
from .seeds import Total, run_many, run_plan
from .server_campaign import ServerCampaign

pytestmark = pytest.mark.processes

CAMPAIGN_MIN = amount("QUORATE_CAMPAIGN", 0, 10)
"""Minutes of random faults."""

ENDLESS_LEASE = """
import math

from quorate.hachannel.replication.lease import Lease

original = Lease.expires
Lease.expires = lambda self: math.inf if self.held or original(self) > self._state.now else -math.inf
"""
"""A lease that was gained once is kept until another view is known."""


def test_a_few_seconds_of_faults_break_no_promise_of_servers(cuts: bool) -> None:
    """Scenarios 2, 7, 15 and 29 as they come, with clients and another server."""
    plan = draw(3, 6, members=3, mode="ALL", disk=True, net=cuts)
    assert run_plan(ServerCampaign, plan, Total()) == ""


def test_services_that_act_without_the_lease_are_seen(cuts: bool) -> None:
    if not cuts:
        pytest.skip("connections cannot be cut here: no network namespaces")
    plan = Plan(0, 3, "ALL", False, True, (Step(1.0, "cut", (0, 1, 2), 3.0, "split"),))
    assert " acted at " in run_plan(ServerCampaign, plan, Total(), broken=ENDLESS_LEASE)


@only_long
def test_a_campaign_breaks_no_promise_of_servers(cuts: bool) -> None:
    until = time.monotonic() + 60 * CAMPAIGN_MIN
    total = run_many(
        ServerCampaign,
        itertools.count(),
        15,
        until=until,
        keep_going=True,
        members=3,
        net=None if cuts else False,
    )
    print(total)
    assert not total.failed, "\n".join(total.failed)
