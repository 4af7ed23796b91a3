"""Several servers in memory, each a cluster or plain, that send to each other: one virtual clock, one seed.

Every replica runs the driver, the connections and the handshakes of a server over a network in memory. A run
draws faults, and checks all reactions (`delivery_checks`) and the numbers of the links after every entry
(`link_checks`). At its end:

| invariant | |
|---|---|
| acknowledged | what a master has reported as committed has happened |
| progress | once the faults have ended, everything that was sent arrives |
| one state | the replicas of each server have the same state |
"""

import random
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import attrs

from ...agents import Create, Note, agent_spec, encode, factory, outside
from ...engine import Reaction
from ...server.config import load
from ..channel.violation import Violation
from .delivery_checks import Courier, DeliveryChecker, Dispatch
from .link_checks import LinkChecker
from .memory_disk import MemoryDisk
from .memory_network import MemoryNet
from .memory_replica import MemoryReplica

__all__ = ["ServerShape", "SimulatedServers"]

LATENCIES_S = (0.0005, 0.001, 0.003, 0.02, 0.2)
"""How long bytes take between servers, by connection."""
FOUNDING_S = 60.0


@attrs.frozen
class ServerShape:
    """A server of a simulation: how many replicas, and the domains that it is in, a letter each."""

    replicas: int
    domains: str
    keeps: bool = True
    """Whether a restart finds the disk of a plain server; a cluster loses one disk at a time."""


class SimulatedServers:
    """Servers 0, 1 and so on. Times are virtual seconds.

    ordering: the attribute `ordering` of all domains; None for none. rerun: what to type to run it again.
    """

    def __init__(
        self, seed: int, shapes: Sequence[ServerShape], *, ordering: str | None = None, rerun: str = ""
    ) -> None:
        self.seed = seed
        self.shapes = list(shapes)
        self.random = random.Random(seed)
        self.net = MemoryNet(delay_s=0.0005)
        self.net.latency_s = lambda: self.random.choice(LATENCIES_S)
        self.committed: set[int] = set()
        """Tokens that a master has reported as committed."""
        self._rerun = rerun
        with tempfile.TemporaryDirectory() as place:
            path = Path(place) / "a3servers.xml"
            path.write_text(_configuration(self.shapes, ordering))
            self.config = load(path)
        self.deliveries = DeliveryChecker(self.violation, causal=ordering == "causal")
        self.links = LinkChecker(self.violation)
        self.replicas: dict[str, MemoryReplica] = {}
        """The last process of each replica, by host."""
        self._numbers: dict[int, int] = {}
        """By token, the parcel that was posted with it."""
        self._number = 0
        self._disks: dict[str, MemoryDisk] = {}
        for server in self.config.servers:
            for declared in server.replicas:
                self._disks[declared.host] = MemoryDisk(self.random)
                self._start(server.id, declared.id)
        self.net.until(lambda: all(map(self.master, range(len(self.shapes)))), FOUNDING_S)
        self._run_until(lambda: all(map(self._has_courier, self.replicas.values())))

    # Queries

    def of(self, server: int) -> list[MemoryReplica]:
        """Return the processes of a server, the running ones and those that have ended."""
        return [each for each in self.replicas.values() if each.server.id == server]

    def master(self, server: int) -> MemoryReplica | None:
        """Return the replica of a server that serves, if there is one."""
        serving = [each for each in self.of(server) if each.alive and each.node.serving]
        return max(serving, key=_view_number, default=None)

    def whole(self, server: int) -> bool:
        """Return whether all replicas of a server run in one view, and have applied the same entries."""
        replicas = self.of(server)
        return (
            all(each.alive and not self.net.is_paused(each.host) for each in replicas)
            and any(each.node.serving for each in replicas)
            and all(each.node.role in ("master", "slave") for each in replicas)
            and len({each.node.engine.applied for each in replicas}) == 1
            and not any(each.node.unapplied or each.node.queued_notes for each in replicas)
        )

    def describe(self) -> str:
        """Return one line about all replicas."""

        def line(each: MemoryReplica) -> str:
            if not each.alive:
                return f"{each.host} down"
            engine = each.node.engine
            return f"{each.host} {each.node.role} applied {engine.applied} backlog {engine.backlog}"

        return "; ".join(map(line, self.replicas.values()))

    def violation(self, invariant: str, text: str) -> Violation:
        """Return the error of a broken promise, with the seed and how to run it again."""
        again = f"; run it again with: {self._rerun}" if self._rerun else ""
        error = Violation(
            f"{invariant}: {text} (seed {self.seed}, at {self.net.clock.seconds():.3f} s{again})",
            at=self.net.clock.seconds(),
        )
        error.seed = self.seed
        return error

    # Reports of the replicas

    def reacted(self, replica: MemoryReplica, birth: int, reactions: Sequence[Reaction]) -> None:
        """Check reactions of a replica."""
        self.deliveries.reacted(replica.server.id, birth, reactions)

    def acknowledged(self, tokens: Iterable[int]) -> None:
        """Record what a master has reported as committed."""
        self.committed.update(tokens)

    def applied(self, replica: MemoryReplica) -> None:
        """Check the numbers of a replica's links, after it has applied entries and before it acts on them."""
        self.links.applied(replica.server.id, replica.node.engine)

    def begins(self, replica: MemoryReplica) -> None:
        """Create the courier of a server, of which nothing was ever committed, before anything arrives."""
        server = replica.server.id
        name = f"{Courier.__module__}:{Courier.__qualname__}"
        create = Create(name, "courier", agent_spec(Courier).save(Courier()), None, "courier")
        replica.post([Note(factory(server), outside(server), Create.type_name, encode(create))], 0)

    # Load and faults

    def dispatch(self, source: int, path: Sequence[int]) -> bool:
        """Order the courier of a server to send a parcel along a path, if the server has a master."""
        master = self.master(source)
        if master is None or self.net.is_paused(master.host):
            return False
        self._number += 1
        note = encode(Dispatch(self._number, list(path)))
        posted = master.post(
            [Note("courier", outside(source), Dispatch.type_name, note, self._number)], self._number
        )
        if posted and self._keeps(source):
            self._numbers[self._number] = self._number
        return posted

    def kill(self, replica: MemoryReplica, *, down_s: float, lose_disk: bool = False) -> None:
        """End a process, and start it again after a while."""
        replica.kill(self.random.choice([0.0, 0.0, 1.0]))
        if lose_disk:
            self._disks[replica.host].lose()
        elif not self._keeps(replica.server.id):
            self._disks[replica.host] = MemoryDisk(self.random)
        self.net.clock.callLater(down_s, self._start, replica.server.id, replica.id)

    def fault(self) -> None:
        """Draw a fault."""
        rng, alive = self.random, [each for each in self.replicas.values() if each.alive]
        kind = rng.choice(["master", "master", "replica", "disk", "pause", "cut", "cut", "break"])
        server = rng.randrange(len(self.shapes))
        if kind == "master":
            master = self.master(server)
            if master is not None:
                self.kill(master, down_s=rng.uniform(0.05, 3.0))
        elif kind == "replica" and alive:
            self.kill(rng.choice(alive), down_s=rng.uniform(0.05, 3.0))
        elif kind == "disk":
            # Two lost disks of three would be a lost server.
            if self.shapes[server].replicas > 2 and self.whole(server):
                self.kill(rng.choice(self.of(server)), down_s=rng.uniform(0.05, 1.0), lose_disk=True)
        elif kind == "pause" and alive:
            replica = rng.choice(alive)
            self.net.pause(replica.host)
            self.net.clock.callLater(rng.uniform(0.1, 4.0), self._resume, replica)
        elif kind == "cut":
            one, other = rng.sample(sorted(self.replicas), 2)
            self.net.cut(one, other)
            self.net.clock.callLater(rng.uniform(0.1, 6.0), self.net.heal)
        elif self.net.wires:
            rng.choice(self.net.wires).break_off()

    def run(self, seconds: float, *, every_s: float = 0.0, draw: Callable[[], Sequence[int]]) -> None:
        """Let time pass under load; with `every_s`, a fault happens about so often.

        `draw` returns the servers that the next parcel visits; the first of them sends it.
        """
        rng, now = self.random, self.net.clock.seconds
        end = now() + seconds
        next_fault = now() + rng.expovariate(1 / every_s) if every_s else end
        while now() < end:
            for _ in range(rng.randint(0, 3)):
                source, *path = draw()
                self.dispatch(source, path)
            if now() >= next_fault:
                self.fault()
                next_fault = now() + rng.expovariate(1 / every_s)
            self.net.advance(rng.uniform(0.005, 0.1))

    def settle(self, limit_s: float = 120.0) -> None:
        """End all faults, let everything arrive, and check the end."""
        self.net.heal()
        for replica in self.replicas.values():
            self._resume(replica)

        def quiet() -> bool:
            return (
                all(map(self.whole, range(len(self.shapes))))
                and not any(each.node.engine.backlog for each in self.replicas.values())
                and not self.deliveries.outstanding()
            )

        self._run_until(quiet, limit_s)
        self.net.advance(0.5)
        self._check_end()

    # Parts

    def _check_end(self) -> None:
        lost = [
            number
            for token, number in self._numbers.items()
            if token in self.committed and number not in self.deliveries.dispatched
        ]
        if lost:
            raise self.violation("acknowledged", f"parcels {lost} were acknowledged and are lost")
        for server in range(len(self.shapes)):
            digests = {each.node.engine.digest() for each in self.of(server)}
            if len(digests) != 1:
                raise self.violation("one state", f"the replicas of server {server} differ")

    def _keeps(self, server: int) -> bool:
        return self.shapes[server].keeps

    def _start(self, server: int, replica: int) -> None:
        config = self.config
        declared = config.replica(server, replica)
        host = declared.host
        process = MemoryReplica(self, config.server(server), declared, host, self._disks[host])
        self.replicas[host] = process
        process.start()

    def _has_courier(self, replica: MemoryReplica) -> bool:
        return replica.node.engine.find("courier") is not None

    def _resume(self, replica: MemoryReplica) -> None:
        if replica.alive and self.net.is_paused(replica.host):
            self.net.resume(replica.host)

    def _run_until(self, condition: Callable[[], bool], limit_s: float = 60.0) -> None:
        end = self.net.clock.seconds() + limit_s
        while not condition():
            if self.net.clock.seconds() > end:
                text = f"not within {limit_s:g} s: {self.deliveries.outstanding()}; {self.describe()}"
                raise self.violation("progress", text)
            self.net.advance(0.05)


def _view_number(replica: MemoryReplica) -> tuple[int, ...]:
    view = replica.node.channel.view
    return (-1,) if view is None else tuple(view.number)


def _configuration(shapes: Sequence[ServerShape], ordering: str | None) -> str:
    """Return the text of a configuration with short timeouts."""
    attribute = f' ordering="{ordering}"' if ordering else ""
    domains = sorted(set("".join(shape.domains for shape in shapes)))

    def replica(host: str, id: int, shape: ServerShape, name: str) -> str:
        networks = "".join(
            f'<network domain="{domain}" port="{100 + domains.index(domain)}"/>' for domain in shape.domains
        )
        return f'<server id="{id}" {name}hostname="{host}">{networks}</server>'

    def server(id: int, shape: ServerShape) -> str:
        if shape.replicas == 1:
            return replica(f"s{id}r0", id, shape, f'name="s{id}" ')
        replicas = "".join(replica(f"s{id}r{at}", at, shape, "") for at in range(shape.replicas))
        return f'<cluster id="{id}" name="s{id}">{replicas}</cluster>'

    properties = {"insecure_network": "true", "heartbeat_s": "0.1", "suspect_s": "0.8", "digest_every": "20"}
    return (
        "<config>"
        + "".join(f'<property name="{name}" value="{value}"/>' for name, value in properties.items())
        + "".join(f'<domain name="{domain}"{attribute}/>' for domain in domains)
        + "".join(map(server, range(len(shapes)), shapes))
        + "</config>"
    )
