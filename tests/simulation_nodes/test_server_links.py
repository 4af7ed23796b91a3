"""Clusters that send to each other, and through a cluster, while replicas die, pause and are cut off."""

import contextlib
import os
from collections.abc import Callable, Generator, Sequence
from typing import Any

import pytest

from quorate.engine.causal_order import CausalDomain
from quorate.engine.server_links import Link
from quorate.server.master.networks import Networks
from quorate.server.network.outgoing import Outgoing
from quorate.testing.channel.violation import Violation
from quorate.testing.mutation import patched, wrapped
from quorate.testing.servers.simulated_servers import ServerShape, SimulatedServers

from ..long import amount

DIRECT = (ServerShape(3, "A"), ServerShape(3, "A"), ServerShape(1, "A"))
ROUTED = (ServerShape(3, "A"), ServerShape(3, "AB"), ServerShape(3, "B"))
FORGETFUL = (ServerShape(3, "A"), ServerShape(1, "A", keeps=False), ServerShape(1, "AB"), ServerShape(2, "B"))
ONE_A, ONE_B = ServerShape(1, "A"), ServerShape(1, "B")
TWO_GROUPS = (ONE_A, ServerShape(3, "A"), ServerShape(3, "AB"), ONE_B, ONE_B)
"""Domains of three servers, with a cluster as router."""


def seeds(usual: int) -> Sequence[int]:
    """The seeds of a test: one of them with QUORATE_SEED, more with QUORATE_SEEDS or QUORATE_LONG."""
    one = os.environ.get("QUORATE_SEED")
    return [int(one)] if one else range(int(amount("QUORATE_SEEDS", usual, 200)))


def rerun(seed: int) -> str:
    """What to type to run the present test with a seed."""
    test = os.environ["PYTEST_CURRENT_TEST"].split("[")[0].split(" (")[0]
    return f"QUORATE_SEED={seed} pytest '{test}'"


def drawn(servers: SimulatedServers) -> Callable[[], list[int]]:
    """Return a function that draws a path: any servers, now and then over one more."""
    rng = servers.random

    def draw() -> list[int]:
        path = [rng.randrange(len(servers.shapes))]
        for _ in range(rng.choice([1, 1, 2, 3])):
            path.append(rng.choice([each for each in range(len(servers.shapes)) if each != path[-1]]))
        return path

    return draw


def simulate(seed: int, shapes: Sequence[ServerShape], *, seconds: float = 12, **options: Any) -> None:
    """Run servers under load and faults, let everything arrive, and do both once more without faults."""
    servers = SimulatedServers(seed, shapes, rerun=rerun(seed), **options)
    servers.run(seconds, every_s=1.0, draw=drawn(servers))
    servers.settle()
    servers.run(1.0, draw=drawn(servers))
    servers.settle()
    assert servers.deliveries.dispatched, "nothing was sent"


@pytest.mark.parametrize("seed", seeds(4))
def test_clusters_that_lose_masters_exchange_everything_once_and_in_order(seed: int) -> None:
    simulate(seed, DIRECT)


@pytest.mark.parametrize("seed", seeds(3))
def test_clusters_of_two_domains_exchange_everything_through_a_third(seed: int) -> None:
    simulate(seed, ROUTED)


@pytest.mark.parametrize("seed", seeds(3))
def test_clusters_go_on_with_a_server_that_loses_its_state(seed: int) -> None:
    simulate(seed, FORGETFUL)


@pytest.mark.parametrize("seed", seeds(3))
def test_clusters_deliver_in_causal_order_where_the_domain_says_so(seed: int) -> None:
    simulate(seed, DIRECT, ordering="causal")


@pytest.mark.parametrize("seed", seeds(2))
def test_causal_order_holds_through_a_router_of_two_domains(seed: int) -> None:
    simulate(seed, TWO_GROUPS, ordering="causal", seconds=8)


@pytest.mark.parametrize("seed", seeds(3))
def test_causal_order_goes_on_with_servers_that_lose_their_state(seed: int) -> None:
    simulate(seed, FORGETFUL, ordering="causal")


def test_a_seed_repeats_its_run() -> None:
    runs = [SimulatedServers(5, DIRECT) for _ in range(2)]
    for servers in runs:
        servers.run(5, every_s=0.7, draw=drawn(servers))
    assert runs[0].deliveries.sent == runs[1].deliveries.sent
    assert runs[0].describe() == runs[1].describe()


def caught(mutant: Callable[[], contextlib.AbstractContextManager[None]], **options: Any) -> str:
    """Return the invariant that notices a mutant, within ten seeds."""
    for seed in range(10):
        with mutant():
            try:
                simulate(seed, DIRECT, **options)
            except Violation as violation:
                return violation.invariant
    return "none"


@contextlib.contextmanager
def acknowledged_before_the_commit() -> Generator[None]:
    def net_input(original: Any, self: Networks, server: int, birth: int, first: int, notes: Any) -> None:
        original(self, server, birth, first, notes)
        self.incoming.acknowledge(server, birth, first + len(notes) - 1)

    with wrapped(Networks, "net_input", net_input):
        yield


@contextlib.contextmanager
def numbered_from_one_after_a_failover() -> Generator[None]:
    def start(original: Any, self: Outgoing, birth: int, first_seq: int, notes: Any, settled: int) -> None:
        del first_seq
        original(self, birth, 1, notes, settled)

    with wrapped(Outgoing, "start", start):
        yield


@contextlib.contextmanager
def duplicates_forgotten() -> Generator[None]:
    def accept(original: Any, self: Link, first_seq: int, notes: Any) -> Any:
        if first_seq <= self.received:
            self.received = first_seq - 1
        return original(self, first_seq, notes)

    with wrapped(Link, "accept", accept):
        yield


@contextlib.contextmanager
def delivered_without_waiting() -> Generator[None]:
    def nothing(self: CausalDomain, note: object) -> None:
        del self, note

    with patched(CausalDomain, "_earlier", nothing):
        yield


def test_delivery_without_waiting_breaks_the_causal_order() -> None:
    assert caught(delivered_without_waiting, ordering="causal") == "causal order"


@pytest.mark.parametrize(
    ("mutant", "invariants"),
    [
        (acknowledged_before_the_commit, {"links agree"}),
        (numbered_from_one_after_a_failover, {"links agree", "FIFO", "progress", "no failure"}),
        (duplicates_forgotten, {"FIFO"}),
    ],
)
def test_a_broken_rule_of_the_links_is_noticed(mutant: Any, invariants: set[str]) -> None:
    assert caught(mutant) in invariants


def test_a_violation_says_how_to_run_its_seed_again() -> None:
    servers = SimulatedServers(1, DIRECT[2:], rerun=rerun(1))
    text = str(servers.violation("FIFO", "the second came first"))
    assert "QUORATE_SEED=1 pytest 'tests/simulation_nodes/test_server_links.py::test_a_violation" in text
