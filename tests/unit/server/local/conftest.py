"""A cluster of three replicas in the process of the test, on a virtual clock and a network in memory."""

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest
from twisted.internet.defer import Deferred

from quorate import Agent, Context, Notification, reacts
from quorate.agents import Create, Note, agent_spec, encode, factory, outside
from quorate.client.twisted import tconnect
from quorate.server.config import load
from quorate.server.context import ReplicaContext
from quorate.server.network.source_check import SourceCheck
from quorate.server.replica.composition import make_replica
from quorate.server.replica.replica import Replica
from quorate.testing.servers.memory_network import MemoryNet

__all__ = ["Balance", "Deposit", "Place", "place"]


@attrs.frozen
class Deposit(Notification, name="local.deposit"):
    amount: int


@attrs.frozen
class Balance(Notification, name="local.balance"):
    amount: int


@attrs.define
class Account(Agent, name="local.account"):
    balance: int = 0

    @reacts
    def deposit(self, ctx: Context, note: Deposit) -> None:
        if note.amount < 0:
            raise ValueError("no debts")
        self.balance += note.amount
        ctx.put("balances", Balance(self.balance))
        ctx.send(ctx.sender, Balance(self.balance))


class Place:
    """The replicas, their machines, and the collocated clients of the test."""

    def __init__(self, net: MemoryNet, directory: Path, count: int) -> None:
        self.net = net
        self.directory = directory
        path = directory / "a3servers.xml"
        replicas = "".join(
            f'<server id="{id}" hostname="m{id}"><network domain="D1" port="100"/></server>'
            for id in range(count)
        )
        path.write_text(
            f'<config><domain name="D1"/><cluster id="0" name="s0" durability="memory">{replicas}'
            '<property name="trace" value="false"/>'
            '<property name="insecure_network" value="true"/>'
            "</cluster></config>"
        )
        self.config = load(path)
        self.replicas: dict[int, Replica] = {}
        for id in range(count):
            self.start(id, 1)

    def start(self, id: int, incarnation: int) -> Replica:
        """Start a replica, on a new machine if it ran before."""
        server = self.config.server("s0")
        replica = self.replicas[id] = make_replica(
            self.config,
            server,
            server.replicas[id],
            data=self.directory,
            expected=None,
            incarnation=incarnation,
            reactor=self.net.machine(f"m{id}"),
        )
        replica.start()
        return replica

    def master(self) -> Replica:
        """Wait until a replica is master, and its clients can connect. Return it."""

        def serving() -> list[Replica]:
            return [each for each in self.replicas.values() if each.node.serving]

        self.net.until(lambda: len(serving()) == 1)
        return serving()[0]

    def slaves(self) -> list[Replica]:
        """Return the replicas that are slaves, in the order of their numbers."""
        return [each for each in self.replicas.values() if each.node.role == "slave"]

    def kill(self, replica: Replica) -> None:
        """End the machine of a replica at once."""
        id = replica.context.replica.id
        self.net.crash(f"m{id}")
        del self.replicas[id]
        # The process is gone, and its registry with it.
        replica.local.close()

    def cut_off(self, replica: Replica) -> None:
        """Stop all traffic between a replica and the others."""
        name = replica.context.reactor.name
        for other in self.net.reactors:
            if other != name:
                self.net.cut(name, other)

    def open(self, replica: Replica, **options: Any) -> "Deferred[Any]":
        """Open a collocated connection."""
        return tconnect(replica.context.reactor, f"local:{replica.local.name}", **options)

    def result(self, deferred: "Deferred[Any]") -> Any:
        """Wait for the result of a Deferred. An error is raised."""
        results: list[Any] = []
        deferred.addBoth(results.append)
        self.net.until(lambda: bool(results))
        if hasattr(results[0], "raiseException"):
            results[0].raiseException()
        return results[0]

    def deploy(self, replica: Replica, cls: type[Agent], name: str) -> None:
        """Create an agent."""
        create = Create(class_name=agent_spec(cls).location, name=name)
        note = Note(factory(0), outside(0), create.type_name, encode(create))
        self.result(replica.master.submissions.request(note, 5))


@pytest.fixture
def place(net: MemoryNet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setattr(time, "monotonic", net.clock.seconds)
    context = partial(ReplicaContext, clock=net.clock.seconds)
    monkeypatch.setattr("quorate.server.replica.composition.ReplicaContext", context)
    # The machines have names only, and the system would look for these in the network.
    checked = partial(SourceCheck, is_own=lambda _: True)
    monkeypatch.setattr("quorate.server.replica.composition.SourceCheck", checked)
    place = Place(net, tmp_path, 3)
    yield place
    for replica in list(place.replicas.values()):
        place.kill(replica)
