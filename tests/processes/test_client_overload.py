"""More for a client than it takes for a while, with real processes."""

from pathlib import Path

import pytest

from quorate.client import SessionSettings, connect

from . import feed
from .conftest import MakeSite
from .feed import Done, Large, Start
from .replicas import Part
from .running import BOUND_S

pytestmark = pytest.mark.processes


def test_everything_arrives_at_a_client_that_computes_meanwhile(make_site: MakeSite) -> None:
    site = make_site(Part("s0", 3), modules={"feed": Path(feed.__file__).read_text("utf-8")})
    site.deploy("feed:Feed", name="feed")
    tuning = SessionSettings(inbox_notes=10_000)
    with connect(site.url(), user="root", password="root", settings=tuning) as connection:
        # The client receives nothing yet, and is answered all the same.
        for _ in range(72):
            connection.request("feed", Start(1000), reply=Done, timeout=BOUND_S)
        site.kill(site.master())
        connection.request("feed", Large(6), reply=Done, timeout=BOUND_S)
        numbers = [connection.receive(BOUND_S).notification.number for _ in range(72_000)]
        assert numbers == list(range(1, 72_001))
        parts = [connection.receive(BOUND_S).notification.data for _ in range(6)]
        assert [len(part) for part in parts] == [1_000_000] * 6
        assert connection.inbox_dropped == 0
