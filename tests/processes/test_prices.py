"""The example prices.py: a tree of topics, a durable subscription, requests, and a killed master."""

from collections.abc import Iterator

import pytest

from quorate import Servers

from .conftest import Start
from .running import ROOT

pytestmark = pytest.mark.processes

PRICES = 40


@pytest.fixture
def servers() -> Iterator[Servers]:
    with Servers(ROOT / "examples" / "prices.xml", free_ports=True) as servers:
        yield servers


def test_watchers_get_what_they_watch_and_books_miss_nothing(servers: Servers, start: Start) -> None:
    url = servers.url()
    # The books are opened once, and then closed while prices are published.
    start("-m", "examples.prices", "books", url, "0.5").rest()
    europe = start("-m", "examples.prices", "watch", "prices.eu.*", url, "5")
    europe.until("watching")
    start("-m", "examples.prices", "market", str(PRICES), url).rest()
    servers.kill_master()
    start("-m", "examples.prices", "market", str(PRICES), url).rest()
    lines = europe.rest()[1:]
    watched = int(lines[-1].split()[0])
    assert len(lines) == watched + 1
    assert all(line.startswith("prices.eu.") for line in lines[:-1])
    counts = dict(line.split(": ") for line in start("-m", "examples.prices", "books", url, "2").rest())
    assert sum(map(int, counts.values())) == 2 * PRICES
    assert sum(int(count) for title, count in counts.items() if title.startswith("prices.eu.")) == watched


def test_a_dealer_answers_requests(servers: Servers, start: Start) -> None:
    url = servers.url()
    dealer = start("-m", "examples.prices", "dealer", url, "8")
    assert start("-m", "examples.prices", "ask", "wheat", "10", url).rest() == ["10 t of wheat cost 2100.0."]
    servers.kill_master()
    assert start("-m", "examples.prices", "ask", "gold", "1", url).rest() == ["gold is not dealt in here."]
    dealer.until("2 quotes were given")
