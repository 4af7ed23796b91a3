"""A server is down, and a client sends it more than may wait for it unnoticed."""

import contextlib
import threading

import pytest

from quorate.client import QuorateClientError, RequestTimeout, connect

from .conftest import MakeSite
from .replicas import Entry, Part, ask_ledger
from .running import BOUND_S
from .running import until as wait_until

pytestmark = pytest.mark.processes

COUNT = 20_000


def test_only_the_client_that_sends_to_a_server_that_is_down_waits(make_site: MakeSite) -> None:
    memory = 'durability="memory"'
    site = make_site(
        Part("s0", attributes=memory), Part("s1", clients=False, attributes=memory), high_water=1000
    )
    site.deploy("ledger:Ledger")
    site.deploy("ledger:Ledger", "s1")
    site.kill(0, server="s1")
    with (
        connect(site.url(), user="root", password="root") as sender,
        connect(site.url(), user="root", password="root") as other,
    ):

        def flood() -> None:
            with contextlib.suppress(QuorateClientError):
                for number in range(COUNT):
                    sender.send_nowait("ledger@s1", Entry(number))

        flooding = threading.Thread(target=flood, daemon=True)
        flooding.start()
        wait_until(lambda: site.statuses("s0")[0]["servers"]["1"]["waiting"] >= 1000)
        with pytest.raises(RequestTimeout):
            sender.flush(2)
        for number in range(200):
            other.send("ledger", Entry(number), timeout=BOUND_S)
        assert ask_ledger(other, "ledger") == list(range(200))
        assert flooding.is_alive()
        assert sender.unacknowledged > 0
        assert sender.reconnections == 0
        site.supervisor.start_replica("s1", 0)
        site.supervisor.wait_ready(BOUND_S)
        flooding.join(BOUND_S)
        sender.flush(BOUND_S)
        assert sender.unacknowledged == 0
