"""Several servers in memory, each a cluster or plain, that send to each other: one virtual clock, one seed.

Every replica runs the driver, the connections and the handshakes of a server (`memory_replica`). A run draws
faults, checks each server (`memory_server`), what the servers deliver (`delivery_checks`), and the numbers of
the links after every entry (`link_checks`). At its end:

| invariant | |
|---|---|
| acknowledged | what a master has reported as committed has happened |
| progress | once the faults have ended, everything that was sent arrives |
"""

import random
import tempfile
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import attrs

from ...agents import Create, Note, agent_spec, encode, factory, outside
from ...engine import Reaction
from ...server.config import load
from ..channel.violation import Violation
from .delivery_checks import Courier, DeliveryChecker, Dispatch
from .link_checks import LinkChecker
from .memory_disk import DiskTimes
from .memory_network import MemoryNet
from .memory_replica import MemoryReplica
from .memory_server import MemoryServer, ServerFollower
from .virtual_time import VirtualTime

__all__ = ["ServerShape", "SimulatedServers"]

LATENCIES_S = (0.0005, 0.001, 0.003, 0.02, 0.2)
"""How long bytes take between servers, by connection."""
SYNCS_S = ((0.001, 0.02), (0.01, 0.1), (0.1, 0.4))
"""How long a sync takes, by disk: with slow ones, much is not committed when a connection is lost."""


@attrs.frozen
class ServerShape:
    """A server of a simulation: how many replicas, and the domains that it is in, a letter each."""

    replicas: int
    domains: str
    keeps: bool = True
    """Whether a restart finds the disk of a plain server; a cluster loses one disk at a time."""


class SimulatedServers(ServerFollower):
    """Servers 0, 1 and so on. Times are virtual seconds.

    ordering: the attribute `ordering` of all domains; None for none. rerun: what to type to run it again.
    """

    def __init__(
        self, seed: int, shapes: Sequence[ServerShape], *, ordering: str | None = None, rerun: str = ""
    ) -> None:
        self.seed = seed
        self.shapes = list(shapes)
        self.random = random.Random(seed)
        self.time = VirtualTime(0.0)
        self.net = MemoryNet(clock=self.time)
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
        self._numbers: dict[int, int] = {}
        """By token, the parcel that was posted with it."""
        self._number = 0
        self.servers = [
            MemoryServer(self.config, each, self.net, self.random, self, disk_times=self._disk_times)
            for each in self.config.servers
        ]
        self._run_until(lambda: all(each.master() for each in self.servers))
        self._run_until(lambda: all(map(_has_courier, self.replicas())))

    # Queries

    def replicas(self) -> list[MemoryReplica]:
        """Return the processes of all servers, the running ones and those that have ended."""
        return [each for server in self.servers for each in server.replicas.values()]

    def describe(self) -> str:
        """Return one line about all replicas."""
        return "; ".join(each.describe() for each in self.servers)

    def violation(self, invariant: str, text: str) -> Violation:
        """Return the error of a broken promise, with the seed and how to run it again."""
        again = f"; run it again with: {self._rerun}" if self._rerun else ""
        error = Violation(
            f"{invariant}: {text} (seed {self.seed}, at {self.time.now:.3f} s{again})", at=self.time.now
        )
        error.seed = self.seed
        return error

    # Reports of the servers

    def reacted(self, server: MemoryServer, birth: int, reaction: Reaction) -> None:
        """Check a reaction of a server."""
        self.deliveries.reacted(server.server.id, birth, reaction)

    def acknowledged(self, tokens: Collection[int]) -> None:
        """Record what a master has reported as committed."""
        self.committed.update(tokens)

    def applied(self, server: MemoryServer, replica: MemoryReplica) -> None:
        """Check the numbers of a replica's links, after it has applied entries and before it acts on them."""
        self.links.applied(server.server.id, replica.engine)

    def founded(self, replica: MemoryReplica) -> None:
        """Create the courier of a server, of which nothing was ever committed, before anything arrives."""
        server = replica.server.id
        name = f"{Courier.__module__}:{Courier.__qualname__}"
        create = Create(name, "courier", agent_spec(Courier).save(Courier()), None, "courier")
        replica.post([Note(factory(server), outside(server), Create.type_name, encode(create))], 0)

    # Load and faults

    def dispatch(self, source: int, path: Sequence[int]) -> bool:
        """Order the courier of a server to send a parcel along a path, if the server has a master."""
        master = self.servers[source].master()
        if master is None or master.paused:
            return False
        self._number += 1
        note = encode(Dispatch(self._number, list(path)))
        posted = master.post(
            [Note("courier", outside(source), Dispatch.type_name, note, self._number)], self._number
        )
        if posted and self.shapes[source].keeps:
            self._numbers[self._number] = self._number
        return posted

    def kill(self, replica: MemoryReplica, *, down_s: float, lose_disk: bool = False) -> None:
        """End a process, and start it again after a while."""
        server = self.servers[replica.server.id]
        server.kill(replica.id, self.random.choice([0.0, 0.0, 1.0]))
        if lose_disk:
            server.lose_disk(replica.id)
        elif not self.shapes[replica.server.id].keeps:
            server.forget(replica.id)
        self.time.at(down_s, lambda: server.start(replica.id))

    def fault(self) -> None:
        """Draw a fault."""
        rng, alive = self.random, [each for each in self.replicas() if each.alive]
        kind = rng.choice(["master", "master", "replica", "disk", "pause", "cut", "cut", "break"])
        server = rng.choice(self.servers)
        if kind == "master":
            master = server.master()
            if master is not None:
                self.kill(master, down_s=rng.uniform(0.05, 3.0))
        elif kind == "replica" and alive:
            self.kill(rng.choice(alive), down_s=rng.uniform(0.05, 3.0))
        elif kind == "disk":
            # Two lost disks of three would be a lost server.
            if len(server.replicas) > 2 and server.caught_up():
                self.kill(
                    rng.choice(list(server.replicas.values())), down_s=rng.uniform(0.05, 1.0), lose_disk=True
                )
        elif kind == "pause" and alive:
            replica = rng.choice(alive)
            replica.machine.pause()
            self.time.at(rng.uniform(0.1, 4.0), replica.machine.resume)
        elif kind == "cut":
            one, other = rng.sample(self.replicas(), 2)
            one.machine.cut(other.machine)
            self.time.at(rng.uniform(0.1, 6.0), self.net.heal)
        elif self.net.wires:
            rng.choice(self.net.wires).break_off()

    def run(self, seconds: float, *, every_s: float = 0.0, draw: Callable[[], Sequence[int]]) -> None:
        """Let time pass under load; with `every_s`, a fault happens about so often.

        `draw` returns the servers that the next parcel visits; the first of them sends it.
        """
        rng, time = self.random, self.time
        end = time.now + seconds
        next_fault = time.now + rng.expovariate(1 / every_s) if every_s else end
        while time.now < end:
            for _ in range(rng.randint(0, 3)):
                source, *path = draw()
                self.dispatch(source, path)
            if time.now >= next_fault:
                self.fault()
                next_fault = time.now + rng.expovariate(1 / every_s)
            self._advance(rng.uniform(0.005, 0.1))

    def settle(self, limit_s: float = 120.0) -> None:
        """End all faults, let everything arrive, and check the end."""
        self.net.heal()
        for replica in self.replicas():
            replica.machine.resume()

        def quiet() -> bool:
            return (
                all(each.whole() for each in self.servers)
                and not any(each.engine.backlog for each in self.replicas())
                and not self.deliveries.outstanding()
            )

        self._run_until(quiet, limit_s)
        self._advance(0.5)
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
        for server in self.servers:
            server.check()

    def _disk_times(self) -> DiskTimes:
        return DiskTimes(sync_s=self.random.choice(SYNCS_S))

    def _advance(self, seconds: float) -> None:
        try:
            self.time.advance(seconds)
        except Violation:
            raise
        except Exception as error:
            raise self.violation("no failure", f"a replica has raised {error!r}") from error
        if self.broken is not None:
            raise self.broken

    def _run_until(self, condition: Callable[[], bool], limit_s: float = 60.0) -> None:
        end = self.time.now + limit_s
        while not condition():
            if self.time.now > end:
                text = f"not within {limit_s:g} s: {self.deliveries.outstanding()}; {self.describe()}"
                raise self.violation("progress", text)
            self._advance(0.05)


def _has_courier(replica: MemoryReplica) -> bool:
    return replica.engine.find("courier") is not None


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
