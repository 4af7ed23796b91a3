"""Groups of real processes under random faults, and broken ones whose faults are seen.

QUORATE_CAMPAIGN=30 adds half an hour of seeds; `campaign.py` runs single ones. Seeds that want cuts do
without where network namespaces are not allowed.
"""

import itertools
import os
import time

import pytest

from quorate.testing.namespaces import Namespaces, NamespacesUnavailable

from .campaign import Total, run_many, run_plan
from .plans import draw

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def cuts() -> bool:
    """Whether connections can be cut here."""
    try:
        with Namespaces(1):
            return True
    except NamespacesUnavailable:
        return False


@pytest.mark.parametrize(
    ("seed", "members", "mode", "disk", "apart"),
    [(1, 3, "ALL", False, False), (2, 3, "MAJORITY", True, True)],
)
def test_a_few_seconds_of_faults_break_no_promise(
    cuts: bool, seed: int, members: int, mode: str, disk: bool, apart: bool
) -> None:
    plan = draw(seed, 6, members=members, mode=mode, disk=disk, net=apart and cuts)
    assert run_plan(plan, Total()) == ""


@pytest.mark.skipif("QUORATE_CAMPAIGN" not in os.environ, reason="long: set QUORATE_CAMPAIGN to minutes")
def test_a_campaign_breaks_no_promise(cuts: bool) -> None:
    until = time.monotonic() + 60 * float(os.environ["QUORATE_CAMPAIGN"])
    total = run_many(itertools.count(), 12, until=until, keep_going=True, net=None if cuts else False)
    print(total)
    assert not total.failed, "\n".join(total.failed)
