"""Real processes: a replica comes back with nothing to a server with many agents that goes on meanwhile."""

import threading

import pytest

from quorate.client import Connection, connect
from quorate.server.admin.connection import AdminError

from ..long import only_long
from .conftest import MakeSite
from .replicas import Entry, Part, Site, ask_ledger
from .running import BOUND_S

pytestmark = pytest.mark.processes

STOCK = '''
import attrs

from ledger import Ask, Entry, Sum
from quorate import Agent, Context, reacts


@attrs.define
class Item(Agent):
    count: int = 0
    ballast: str = ""

    @reacts
    def entry(self, ctx: Context, note: Entry) -> None:
        self.count += 1


@attrs.define
class Stock(Agent):
    """Makes items; touches one after the other."""

    made: int = 0

    @reacts
    def ask(self, ctx: Context, note: Ask) -> None:
        ctx.send(ctx.sender, Sum([self.made]))

    @reacts
    def entry(self, ctx: Context, note: Entry) -> None:
        if note.number < 0:
            for _ in range(-note.number):
                ctx.create(Item, name=f"item{self.made}", state={"ballast": "x" * 20000})
                self.made += 1
        else:
            ctx.send(f"item{note.number * 7 % self.made}", note)
'''


class Load:
    """A client that goes on sending."""

    def __init__(self, client: Connection) -> None:
        self.sent = 0
        self._client = client
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._over.is_set():
            self._client.send("ledger", Entry(self.sent))
            self._client.send("stock", Entry(self.sent))
            self.sent += 1

    def __enter__(self) -> "Load":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def stocked(make_site: MakeSite, items: int) -> Site:
    site = make_site(Part("s0", 3), modules={"stock": STOCK}, digest_every=20)
    site.deploy("ledger:Ledger")
    site.deploy("stock:Stock")
    with connect(site.url(), user="root", password="root") as client:
        for _ in range(items // 100):
            client.send("stock", Entry(-100))
        assert ask_ledger(client, "stock") == [items]
    return site


def come_back_with_nothing(site: Site, replica: int) -> None:
    site.kill(replica)
    for path in site.directory(replica).glob("journal.db*"):
        path.unlink()
    site.start(replica)


@pytest.mark.parametrize("items", [100, pytest.param(1500, marks=only_long)])
def test_the_state_is_the_same_although_clients_go_on_sending(make_site: MakeSite, items: int) -> None:
    """Scenario 11."""
    site = stocked(make_site, items)
    with connect(site.url(), user="root", password="root") as client:
        for number in range(700):
            client.send_nowait("stock", Entry(number))
        client.flush(BOUND_S)
        lost = site.slaves()[0]
        with Load(client) as load:
            come_back_with_nothing(site, lost)
            site.until(lambda statuses: sorted(s["role"] for s in statuses) == ["master", "slave", "slave"])
        assert ask_ledger(client) == list(range(load.sent))
    site.whole()
    assert "was installed" in site.log(lost)
    assert all("stopped" not in site.log(other) for other in site.replicas if other != lost)


def test_the_next_master_goes_on_when_the_donor_is_killed(make_site: MakeSite) -> None:
    """Scenario 12."""
    site = stocked(make_site, 1500)
    with connect(site.url(), user="root", password="root") as client:
        for number in range(700):
            client.send_nowait("stock", Entry(number))
        client.flush(BOUND_S)
        donor = site.master()
        lost = site.slaves()[0]
        with Load(client) as load:
            come_back_with_nothing(site, lost)
            pause = threading.Event()
            for _ in range(int(BOUND_S / 0.02)):
                if f"replica {lost} joins: sends the state" in site.log(donor) and voters(site, donor) == 2:
                    break
                pause.wait(0.02)
            site.kill(donor)
            pause.wait(0.2)
            site.start(donor)
            site.until(lambda statuses: sorted(s["role"] for s in statuses) == ["master", "slave", "slave"])
        assert ask_ledger(client) == list(range(load.sent))
    site.whole()


def voters(site: Site, replica: int) -> int:
    """Members of the view, according to one replica."""
    try:
        return max((len(s["members"]) for s in site.statuses() if s["replica"] == replica), default=0)
    except AdminError:
        return 0
