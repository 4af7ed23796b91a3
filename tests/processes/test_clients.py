"""Real clients against real processes, through the SIGKILL of the master."""

import asyncio
import functools
import threading
from typing import Any

import attrs
import pytest

from quorate.agents import Notification
from quorate.client import (
    AuthenticationError,
    ReactionError,
    UnhandledTypeError,
    UnknownAgentError,
    aconnect,
    connect,
)

from .conftest import MakeSite
from .replicas import Part, Site
from .running import BOUND_S

pytestmark = pytest.mark.processes

BANK = """
import attrs

from quorate import Agent, Context, Notification, reacts


@attrs.frozen
class Deposit(Notification):
    amount: int


@attrs.frozen
class Balance(Notification):
    amount: int
    deposits: int


@attrs.define
class Account(Agent):
    balance: int = 0
    deposits: int = 0

    @reacts
    def deposit(self, ctx: Context, note: Deposit) -> None:
        if note.amount < 0:
            raise ValueError("no debts")
        self.balance += note.amount
        self.deposits += 1
        if ctx.request:
            ctx.send(ctx.sender, Balance(self.balance, self.deposits))
"""


@attrs.frozen
class Deposit(Notification):
    amount: int


@attrs.frozen
class Balance(Notification):
    amount: int
    deposits: int


@attrs.frozen
class Other(Notification):
    pass


# What the servers know as the module of the agents.
for _cls in (Deposit, Balance, Other):
    _cls.type_name = f"bank:{_cls.__name__}"


@pytest.fixture
def cluster(make_site: MakeSite) -> Site:
    site = make_site(Part("s0", 3), modules={"bank": BANK})
    site.deploy("bank:Account", name="alice")
    return site


class Killer(threading.Thread):
    """Kills the master when told, and keeps what went wrong."""

    def __init__(self, cluster: Site):
        super().__init__()
        self.cluster = cluster
        self.master = -1

    def run(self) -> None:
        self.master = self.cluster.master()
        self.cluster.kill(self.master)


def test_clients_live_through_the_death_of_two_masters(cluster: Site) -> None:
    sent = 0
    with connect(cluster.url(), user="root", password="root", timeout=BOUND_S) as connection:
        for _ in range(2):
            before = connection.reconnections
            killer = Killer(cluster)
            killer.start()
            while killer.is_alive() or connection.reconnections == before or not connection.is_open:
                connection.send("alice", Deposit(1), timeout=BOUND_S)
                for _ in range(50):
                    connection.send_nowait("alice", Deposit(1))
                sent += 51
            balance = connection.request("alice", Deposit(0), reply=Balance, timeout=BOUND_S)
            sent += 1
            assert balance.deposits == sent
            cluster.start(killer.master)
            cluster.supervisor.wait_ready(BOUND_S)

    async def many() -> list[Any]:
        async with aconnect(cluster.url(), user="root", password="root", timeout=BOUND_S) as connection:
            killer = Killer(cluster)
            killer.start()
            replies: list[Any] = []
            while killer.is_alive() or not connection.reconnections or not connection.is_open:
                ask = functools.partial(connection.request, reply=Balance, timeout=BOUND_S)
                tasks = (ask("alice", Deposit(1)) for _ in range(20))
                replies += await asyncio.gather(*tasks)
            return replies

    replies = asyncio.run(many())
    assert [reply.deposits for reply in replies] == list(range(sent + 1, sent + 1 + len(replies)))


def test_failures_are_told_by_the_errors(cluster: Site) -> None:
    with pytest.raises(AuthenticationError):
        connect(cluster.url(), user="root", password="guess", timeout=BOUND_S)
    with connect(cluster.url(), user="root", password="root", timeout=BOUND_S) as connection:
        with pytest.raises(ReactionError, match="no debts"):
            connection.request("alice", Deposit(-1))
        with pytest.raises(UnhandledTypeError, match="does not react to bank:Other"):
            connection.request("alice", Other())
        with pytest.raises(UnknownAgentError):
            connection.request("nobody", Deposit(1))
        assert connection.request("alice", Deposit(2), reply=Balance) == Balance(2, 1)
