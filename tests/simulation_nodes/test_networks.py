"""Servers joined by networks, with faults, by seed: each pair of lives gets everything once and in order."""

import random
from pathlib import Path
from typing import Any

import attrs
import pytest

from quorate.agents import (
    Agent,
    Context,
    Create,
    Note,
    Notification,
    agent_spec,
    encode,
    factory,
    outside,
    reacts,
)
from quorate.engine import Engine
from quorate.server.config import load
from quorate.server.context import ReplicaContext
from quorate.server.master.master import MasterSide
from quorate.server.metrics import Metrics
from quorate.server.network.addresses import Addresses
from quorate.server.network.hello import NETWORK
from quorate.server.network.listener import Listener
from quorate.server.node.factory import make_node
from quorate.server.settings import ReplicaSettings
from quorate.testing.servers.memory_network import MemoryNet

from ..long import amount

SEEDS = range(int(amount("QUORATE_SEEDS", 12, 240)))
EPOCH_NS = 1_700_000_000_000_000_000
LATENCIES_S = (0.001, 0.001, 0.3, 2.0)
"""How long bytes take, by connection."""
WORK_S = (0.001, 0.001, 0.01, 0.01, 0.3)
"""How long an entry takes to be committed."""
LIFE = 1_000_000
"""A number is that of the sender's life times this, and the place in that life."""


@attrs.frozen
class Entry(Notification):
    server: int
    number: int


@attrs.define
class Book(Agent):
    """What came, by server and life of the sender."""

    numbers: dict[str, list[int]] = attrs.field(factory=dict)

    @reacts
    def entry(self, ctx: Context, note: Entry) -> None:
        life, number = divmod(note.number, LIFE)
        self.numbers.setdefault(f"{note.server} {life}", []).append(number)


class Site:
    """A plain server in memory: node, networks, and no services. `restart` begins another life."""

    def __init__(self, world: "World", id: int) -> None:
        self.world = world
        self.id = id
        self.life = self.token = 0
        self.books: list[Book] = []
        """Of each life."""
        self.posted: dict[tuple[int, int], int] = {}
        """Life and target to the notifications that were committed here."""
        self.lines: list[str] = []
        self.begin()

    @property
    def name(self) -> str:
        return f"s{self.id}"

    def begin(self) -> None:
        world, config = self.world, self.world.config
        server = config.server(self.id)
        self.life += 1
        self.metrics = Metrics()
        self.reactor: Any = world.net.machine(self.name)
        self.working = False
        self.tokens: dict[int, int] = {}
        self.met: dict[int, int] = {}
        engine = Engine(self.id, config.names, routes=config.routes(self.id))
        self.node = make_node(
            0,
            [0],
            server=self.id,
            names=config.names,
            incarnation=self.life,
            cluster="c",
            expected=1,
            engine=engine,
        )
        replica = server.replicas[0]
        self.addresses = Addresses(server, replica)
        settings = ReplicaSettings.read(config, server, replica)
        context = ReplicaContext(
            *(config, server, replica, settings, config.path.parent, self.life),
            *(self.reactor, self.metrics, self.log, self.log),
        )
        self.master = MasterSide(context, self, self.addresses, world.random)
        handlers = {NETWORK: self.master.networks.incoming}
        for network in replica.networks:
            listener = Listener(self.reactor, handlers, secret=None, log=self.log, count=self.metrics.count)
            listener.listen(network.port)
        self.books.append(Book())
        self.call(self.node.start)
        self.tick()

    def restart(self, after_s: float, notice_s: float) -> None:
        self.world.net.crash(self.name, notice_s)
        self.world.net.clock.callLater(after_s, self.begin)

    @property
    def alive(self) -> bool:
        return not self.reactor.stopped

    def log(self, line: str) -> None:
        self.lines.append(line)

    def flush_soon(self) -> None:
        self.reactor.callLater(0, self.call, self.node.flush)

    def tick(self) -> None:
        self.call(self.node.tick)
        self.reactor.callLater(0.05, self.tick)

    def time(self) -> tuple[float, int]:
        now = self.world.net.clock.seconds()
        return now, EPOCH_NS + int(now * 1e9)

    def call(self, entry: Any) -> None:
        entry(*self.time())
        self.act()

    def act(self) -> None:
        """Act on what the node says; it takes a while until it has applied the next entry."""
        out = self.node.drain(self.time()[0])
        for effects in out.effects:
            self.master.carry_out(effects)
        self.lines += out.lines
        for token in out.committed:
            target = self.tokens.pop(token)
            key = (self.life, target)
            self.posted[key] = self.posted.get(key, 0) + 1
        for role in out.roles:
            assert role.master
            state = agent_spec(Book).save(Book())
            create = Create(f"{__name__}:Book", "book", state, None, "k")
            self.node.post([Note(factory(self.id), outside(self.id), Create.type_name, encode(create))])
            self.flush_soon()
            self.master.start(role.first_time)
        for peer in self.node.engine.peers():
            birth = self.node.engine.peer_birth(peer)
            assert birth >= self.met.get(peer, 0), "late news of an earlier life were believed"
            self.met[peer] = birth
        found = self.node.engine.find("book")
        if found is not None and isinstance(found.agent, Book):
            self.books[-1] = found.agent
        self.master.resume()
        if self.node.unapplied and not self.working:
            self.working = True
            self.reactor.callLater(self.world.random.choice(WORK_S), self.work)

    def work(self) -> None:
        self.working = False
        self.node.work(*self.time())
        self.act()

    def post(self, target: int) -> None:
        """Send the next number of this life to another server."""
        waiting = list(self.tokens.values()).count(target)
        number = self.posted.get((self.life, target), 0) + waiting + 1
        entry = Entry(self.id, self.life * LIFE + number)
        note = Note(f"book@s{target}", outside(self.id), Entry.type_name, encode(entry))
        self.token += 1
        if self.node.post([note], self.token):
            self.tokens[self.token] = target
            self.call(self.node.flush)


class World:
    def __init__(self, seed: int, place: Path, *servers: str) -> None:
        """`servers` are the domains of each."""
        self.random = random.Random(seed)
        self.net = MemoryNet()
        self.net.latency_s = lambda: self.random.choice(LATENCIES_S)
        path = place / "a3servers.xml"
        path.write_text(
            '<config><property name="insecure_network" value="true"/>'
            + "".join(f'<domain name="{name}"/>' for name in sorted(set("".join(servers))))
            + "".join(
                f'<server id="{id}" name="s{id}" hostname="s{id}">'
                + "".join(f'<network domain="{name}" port="{100 + at}"/>' for at, name in enumerate(domains))
                + "</server>"
                for id, domains in enumerate(servers)
            )
            + "</config>"
        )
        self.config = load(path)
        self.sites = [Site(self, id) for id in range(len(servers))]

    def run(self, seconds: float, pairs: list[tuple[int, int]]) -> None:
        """Let time pass under load."""
        end = self.net.clock.seconds() + seconds
        while self.net.clock.seconds() < end:
            for source, target in pairs:
                if self.sites[source].alive and self.random.random() < 0.3:
                    for _ in range(self.random.randint(1, 5)):
                        self.sites[source].post(target)
            self.net.advance(self.random.uniform(0.001, 0.05))
            if self.random.random() < 0.03 and self.net.wires:
                self.random.choice(self.net.wires).break_off()

    def settle(self) -> None:
        """Let everything arrive."""

        def quiet() -> bool:
            return all(
                site.alive
                and not site.tokens
                and not site.node.engine.backlog
                and not site.node.unapplied
                and not site.node.queued_notes
                for site in self.sites
            )

        self.net.until(quiet, 120)

    def check(self, source: int, target: int) -> None:
        sender, receiver = self.sites[source], self.sites[target]
        for life in range(1, sender.life + 1):
            everything: set[int] = set()
            for book in receiver.books:
                got = book.numbers.get(f"{source} {life}", [])
                if got:
                    assert got == list(range(got[0], got[-1] + 1)), "in order, once, and without gap"
                    assert got[0] <= max(everything, default=0) + 1, "nothing is left out"
                everything.update(got)
            if life == sender.life:
                posted = sender.posted.get((life, target), 0)
                assert everything == set(range(1, posted + 1)), "all of it arrives"


def faults(world: World, victims: list[int], pairs: list[tuple[int, int]]) -> None:
    rng = world.random
    for _ in range(8):
        world.run(rng.choice([0.1, 0.5, 2.0]), pairs)
        if rng.random() < 0.7:
            # Servers that call each other while one of them goes.
            for wire in list(world.net.wires):
                wire.break_off()
            world.run(rng.uniform(0.2, 4.0), pairs)
        victim = world.sites[rng.choice(victims)]
        if victim.alive:
            victim.restart(rng.choice([0.01, 0.1, 0.5]), rng.choice([0.0, 0.0, 3.0]))
    world.run(5, pairs)
    world.settle()
    world.run(1, pairs)
    world.settle()


@pytest.mark.parametrize("seed", SEEDS)
def test_servers_that_begin_again_with_nothing_get_what_is_sent_from_then_on(
    seed: int, tmp_path: Path
) -> None:
    world = World(seed, tmp_path, "A", "A")
    faults(world, [0, 1], [(0, 1), (1, 0)])
    for pair in ((0, 1), (1, 0)):
        world.check(*pair)


@pytest.mark.parametrize("seed", SEEDS)
def test_servers_of_two_domains_exchange_everything_through_a_router(seed: int, tmp_path: Path) -> None:
    world = World(seed, tmp_path, "A", "AB", "B")
    pairs = [(0, 2), (2, 0), (0, 1), (1, 2)]
    faults(world, [0, 2], pairs)
    for pair in pairs:
        world.check(*pair)
    assert set(world.sites[0].master.networks.outgoing) == {1}
    assert world.sites[2].master.networks.incoming.connected == [1]


def test_one_clear_line_tells_that_a_server_has_lost_its_state(tmp_path: Path) -> None:
    world = World(1, tmp_path, "A", "A")
    world.run(1, [(0, 1)])
    world.settle()
    world.sites[1].restart(0.3, 0.0)
    world.run(5, [(0, 1)])
    world.settle()
    said = [line for line in world.sites[0].lines if "begun a new life" in line]
    assert len(said) == 1
