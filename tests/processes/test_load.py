"""Under full load, with every processor taken by somebody else, nobody is suspected falsely."""

import os
import threading
import time

import pytest

from quorate.client import connect

from ..long import only_long
from .conftest import MakeSite, Start
from .replicas import Entry, Part
from .running import BOUND_S

pytestmark = [
    pytest.mark.processes,
    only_long,
]

LOAD_S = 60.0
COUNTER = """
import attrs

from quorate import Agent, Context, reacts

from ledger import Entry


@attrs.define
class Counter(Agent):
    count: int = 0

    @reacts
    def entry(self, ctx: Context, note: Entry) -> None:
        self.count += 1
"""


def test_a_minute_of_full_load_beside_busy_processors_changes_no_view(
    make_site: MakeSite, start: Start
) -> None:
    """Scenario 13, FalseSuspicion, with real processes that get too little of the processors."""
    site = make_site(Part("s0", 3), modules={"counter": COUNTER}, trace="true")
    site.deploy("counter:Counter")
    for _ in range(os.cpu_count() or 1):
        start("-c", "while True: pass")
    end = time.monotonic() + LOAD_S

    def feed() -> None:
        with connect(site.url(), user="root", password="root", timeout=BOUND_S) as client:
            while time.monotonic() < end:
                for _ in range(200):
                    client.send_nowait("counter", Entry(1), timeout=BOUND_S)
            client.flush(BOUND_S)
            reconnections.append(client.reconnections)

    reconnections: list[int] = []
    feeders = [threading.Thread(target=feed) for _ in range(4)]
    for feeder in feeders:
        feeder.start()
    for feeder in feeders:
        feeder.join()
    logs = [site.log(replica) for replica in site.replicas]
    assert [log.count(" is active from ") for log in logs] == [1, 1, 1]
    # The lease lasts, so that services do: none was stopped, and nobody had to connect again.
    assert [log.count("lost the lease") for log in logs] == [0, 0, 0]
    assert reconnections == [0] * 4
    site.whole()
