"""A cluster of agent servers in a test, on virtual time: with agents, clients, faults and invariants."""

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, Literal, Self

import attrs
import msgspec

from ...agents import (
    Address,
    Agent,
    AgentError,
    AgentId,
    Create,
    Created,
    CreateFailed,
    Note,
    agent_spec,
    decode,
    encode,
    factory,
    outside,
)
from ...client import SessionSettings
from ...engine import Engine
from ...services.base import Service
from ..channel.violation import Violation
from ..determinism.guard import Guard
from ..determinism.hash_seeds import HASH_SEEDS, check_hash_seeds
from .cluster_watch import ClusterWatch, Invariant
from .memory_network import MemoryNet
from .memory_server import MemoryServer
from .random_faults import FAULT_KINDS, RandomFaults
from .simulated_client import LIMIT_S, SimulatedClient
from .simulated_config import simulated_config
from .virtual_time import VirtualTime

__all__ = ["SimulatedCluster"]

CREATE_S: Final = 5.0
"""Virtual seconds after which a creation that was not answered is requested again."""
RECOVERY_S: Final = 300.0
"""Virtual seconds in which the servers are whole again after all faults."""


class SimulatedCluster:
    """Servers of agents on a virtual clock, network and disk.

    ::

        with SimulatedCluster(replicas=3, seed=7) as cluster:
            alice = cluster.create(Account, name="alice", balance=10)
            client = cluster.client()
            client.send(alice, Deposit(5))
            cluster.kill_master()
            assert client.request(alice, Deposit(1)) == Balance(16)
            assert cluster.state(alice) == Account(balance=16)

    The replicas run what `quorate start` runs, but for sockets and files: the channel, the engine, the
    services for clients, the networks between servers. Each replica has a disk, which keeps what was synced
    when the replica is killed. All random choices come from the seed: a run can be repeated.

    Reactions of the replicas are compared while they run, and `finish`, which the end of the ``with`` block
    calls, compares their states. A promise that is broken raises `Violation`, a reaction that may differ
    between replicas raises `NondeterministicReaction`. No call takes real time beyond its computation.

    It has more than 20 methods: those that create and read agents, let time pass, and inject faults.
    """

    def __init__(
        self,
        replicas: int = 3,
        *,
        seed: int = 0,
        others: Mapping[str, int] | None = None,
        properties: Mapping[str, object] | None = None,
        services: Sequence[type[Service]] = (),
        guard: Guard | bool = True,
        skew_s: float = 0.0,
        groups: bool | str = False,
    ) -> None:
        """Start the server s0 with so many replicas, and wait until it serves.

        others: names of further servers, and their numbers of replicas. properties: those of the
        configuration, for all servers. services: services of s0, which its master starts before it lets
        clients in; they use the virtual clock and network of their machine.
        guard: watches the reactions, see `Guard`; False: nothing does.
        skew_s: the largest error of the wall clock of a machine.
        groups: the servers have ``mode="group"``: clients connect to every replica, and may form groups;
        "local": with ``context="local"``.
        Raises ConfigError for a name or property that no configuration may have.
        """
        for service in services:
            if not (isinstance(service, type) and issubclass(service, Service)):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise TypeError(
                    f"services has {service!r}; give classes derived from quorate.services.Service"
                )
        self.seed = seed
        self._time = VirtualTime()
        self._random = random.Random(f"network {seed}")
        self._net = MemoryNet(clock=self._time)
        self._net.latency_s = lambda: self._random.uniform(0.0002, 0.003)
        self._guard = Guard() if guard is True else guard or None
        self._watch = ClusterWatch(seed, self._time, self._guard)
        self.log = self._watch.log
        """The last lines of the logs of all replicas, and the faults."""
        self._faults: list[RandomFaults] = []
        self._clients: list[SimulatedClient] = []
        self._keys = 0
        self.config = simulated_config(
            {"s0": replicas, **(others or {})}, properties or {}, services, groups=groups
        )
        """The configuration of the servers."""
        self._servers = {
            server.name: MemoryServer(
                self.config,
                server,
                self._net,
                random.Random(seed + 1000 * server.id),
                self._watch,
                skew_s=skew_s,
            )
            for server in self.config.servers
        }
        self.run_until(lambda: all(each.whole() for each in self._servers.values()))

    # Agents and clients

    def create(
        self, cls: type[Agent], name: str | None = None, *, server: str = "s0", **state: Any
    ) -> AgentId:
        """Create an agent from the arguments of its constructor, and return its id.

        The class need not be importable; classes that agents create with ``ctx.create`` must be. Raises
        AgentError if the agent cannot be created.
        """
        spec = agent_spec(cls)
        self._watch.classes[spec.location] = spec
        self._keys += 1
        create = Create(spec.location, name, msgspec.msgpack.encode(state), None, f"simulated {self._keys}")
        at = self._server(server)
        note = Note(factory(at.server.id), outside(at.server.id), Create.type_name, encode(create))
        answers: list[Note] = []
        end = self.now + RECOVERY_S
        while not answers:
            if self.now > end:
                raise self._watch.violation("progress", f"no agent could be created; {self.describe()}")
            self._request(at, note, answers)
        answer = answers[0]
        if answer.type == CreateFailed.type_name:
            raise AgentError(decode(CreateFailed, answer.payload).reason)
        return decode(Created, answer.payload).id

    def _request(self, at: MemoryServer, note: Note, answers: list[Note]) -> None:
        """Ask the master; return after its answer, or when it is time to ask again."""
        master = at.master()
        if master is None:
            self.run(0.1)
            return
        over: list[object] = []
        node = master.node
        checked = node.engine.checked([note])[0]
        request = master.master.submissions.request(checked, CREATE_S)
        request.addCallbacks(answers.append, over.append)
        end = self.now + CREATE_S + 1
        self._run_while(lambda: not answers and not over and self.now < end)

    def client(
        self, name: str | None = None, *, server: str = "s0", settings: SessionSettings | None = None
    ) -> SimulatedClient:
        """Connect a client on a machine of its own. settings: its timeouts, as for `quorate.connect`."""
        name = name or f"client-{len(self._clients) + 1}"
        url = self.config.client_urls(self._server(server).server.name)
        seed = f"client {name} {self.seed}"
        client = SimulatedClient(self, self._net, name, url, seed, settings or SessionSettings())
        self._clients.append(client)
        return client

    def state(self, address: Address, *, server: str = "s0", replica: int | None = None) -> Agent:
        """Return a copy of an agent, from the running replica that has applied most, or from that one.

        Raises LookupError if there is no such agent there, or the replica does not run.
        """
        at = self._server(server)
        running = [each for each in at.replicas.values() if each.alive and replica in (None, each.id)]
        if not running:
            raise LookupError(f"no replica of {server} runs, or not the one that was asked for")
        engine = max(running, key=lambda each: each.node.engine.applied).node.engine
        cell = engine.find(address)
        if cell is None:
            raise LookupError(f"there is no agent {address} on {server}")
        return cell.spec.load(cell.spec.save(cell.agent))

    # Time

    @property
    def now(self) -> float:
        """Virtual seconds since the beginning."""
        return self._watch.now

    def run(self, seconds: float) -> None:
        """Let virtual seconds pass: timers fire, faults happen, replicas notice them."""
        end = self._time.now + seconds
        self._run_while(lambda: (self._time.next_at or end + 1) <= end)
        self._time.now = max(self._time.now, end)

    def run_until(self, condition: Callable[[], bool], limit_s: float = LIMIT_S) -> None:
        """Let virtual time pass until a condition holds. Raises Violation after `limit_s` seconds."""
        end = self.now + limit_s
        self._run_while(lambda: not condition() and self.now <= end)
        if not condition():
            raise self._watch.violation("progress", f"not within {limit_s:g} virtual s; {self.describe()}")

    def advance(self, seconds: float) -> None:
        """Set the wall clocks of all machines forward, and let the timers that are due fire.

        Timers of hours and days fire at once so. Nothing else of that time happens: leases, suspicions and
        the timeouts of clients follow the monotonic clocks.
        """
        if seconds < 0:
            raise ValueError(f"the clocks cannot be set back by {-seconds:g} s; ctx.now never goes back")
        for server in self._servers.values():
            for machine in server.machines.values():
                machine.skew_ns += round(seconds * 1e9)
        self.run(1.0)

    def _run_while(self, condition: Callable[[], bool]) -> None:
        try:
            while condition() and self._time.next_at is not None:
                self._time.step()
                if self._watch.broken is not None:
                    raise self._watch.broken
                if self._guard is not None and self._guard.findings:
                    self._guard.raise_findings()
        except (Violation, AssertionError) as error:
            self._watch.explain(error)
            raise

    # Faults

    def kill(self, *replicas: int, server: str = "s0") -> None:
        """Kill running replicas at the same time: what was not synced to their disks is lost."""
        at = self._server(server)
        for id in replicas:
            self._check_running(at, id)
        for id in replicas:
            self._log_fault("kill", at, id)
            at.kill(id)

    def kill_master(self, server: str = "s0") -> int:
        """Wait until a replica serves, and kill it. Return its id."""
        at = self._server(server)
        self.run_until(lambda: at.master() is not None)
        master = at.master()
        assert master is not None
        self.kill(master.id, server=server)
        return master.id

    def restart(self, *replicas: int, server: str = "s0") -> None:
        """Start killed replicas with what is on their disks; all killed ones of the server by default."""
        at = self._server(server)
        down = [id for id, each in at.replicas.items() if not each.alive]
        for id in replicas or down:
            if id not in down:
                raise ValueError(f"replica {id} of {server} runs; kill it before")
            self._log_fault("restart", at, id)
            at.start(id)

    def lose_disk(self, replica: int, server: str = "s0") -> None:
        """Replace the disk of a killed replica by an empty one."""
        at = self._server(server)
        if at.replicas[replica].alive:
            raise ValueError(f"replica {replica} of {server} runs; kill it before it loses its disk")
        self._log_fault("lose the disk of", at, replica)
        at.lose_disk(replica)

    def pause(self, *replicas: int, server: str = "s0") -> None:
        """Stop the processes of replicas where they stand; their connections stay open and silent."""
        at = self._server(server)
        for id in replicas:
            self._check_running(at, id)
            self._log_fault("pause", at, id)
            at.pause(id)

    def resume(self, *replicas: int, server: str = "s0") -> None:
        """Let paused replicas go on; all paused ones of the server by default."""
        at = self._server(server)
        for id in replicas or tuple(at.paused):
            self._log_fault("resume", at, id)
            at.resume(id)

    def pause_client(self, client: SimulatedClient) -> None:
        """Stop the process of a client where it stands, as SIGSTOP does, until `resume_client`."""
        if not self._net.is_paused(client.name):
            self.log.append(f"{self.now:9.3f} s  pause {client.name}")
            self._net.pause(client.name)

    def resume_client(self, client: SimulatedClient) -> None:
        """Let the process of a client go on."""
        if self._net.is_paused(client.name):
            self.log.append(f"{self.now:9.3f} s  resume {client.name}")
            self._net.resume(client.name)

    def kill_client(self, client: SimulatedClient) -> None:
        """End the process of a client; it is not to be used any more."""
        self.log.append(f"{self.now:9.3f} s  kill {client.name}")
        self._net.crash(client.name, 0.0)
        self._clients.remove(client)

    def partition(self, *groups: Collection[int | SimulatedClient], server: str = "s0") -> None:
        """Cut all traffic between groups of replicas of a server, until `heal`.

        A client that is in a group reaches the replicas of its group only; any other reaches all.
        """
        at = self._server(server)
        unknown = [id for group in groups for id in _replicas(group) if id not in at.machines]
        if unknown:
            known = ", ".join(map(str, at.machines))
            raise ValueError(f"{server} has no replica {unknown[0]}; its replicas are {known}")
        for place, group in enumerate(groups):
            for other in groups[place + 1 :]:
                one, two = _replicas(group), _replicas(other)
                at.separate(one, two)
                for client, ids in ((group, two), (other, one)):
                    for each in client:
                        if isinstance(each, SimulatedClient):
                            for id in ids:
                                self._net.cut(each.name, at.machines[id].name)
        self.log.append(f"{self.now:9.3f} s  partition of {server}: {' | '.join(map(_text, groups))}")

    def heal(self) -> None:
        """End all partitions."""
        self._net.heal()

    def inject_faults(
        self,
        seconds: float,
        *,
        every_s: float = 3.0,
        kinds: Sequence[str] = FAULT_KINDS,
        servers: Sequence[str] = (),
    ) -> None:
        """Let random faults, drawn from the seed, happen in the next virtual seconds.

        They come one after the other while the test goes on. every_s: the mean pause between two. kinds:
        kill, kill_master, pause, partition, kill_all. servers: those that have faults; all by default.
        """
        names = [self._server(name).server.name for name in servers] or list(self._servers)
        seed = f"faults {self.seed} {len(self._faults)}"
        faults = RandomFaults(_Faults(self), names, tuple(kinds), seed, every_s)
        self._faults.append(faults)
        faults.begin(seconds)

    # Checks

    def invariant(self, check: Invariant, when: Literal["entry", "end"] = "entry") -> Invariant:
        """Have an invariant checked on each replica: after each entry that it has applied, or at the end.

        It raises AssertionError or returns False if it does not hold. Return `check`, so that the method can
        be used as a decorator.
        """
        name = getattr(check, "__qualname__", repr(check)).rpartition(".")[2]
        (self._watch.each_entry if when == "entry" else self._watch.at_end).append((name, check))
        return check

    def finish(self) -> None:
        """End all faults, wait until the servers are whole, and compare the states of their replicas.

        Raises Violation if they differ, do not recover, or an invariant does not hold.
        """
        self.run_until(lambda: not any(each.active for each in self._faults), 1e6)
        self.heal()
        for name, each in self._servers.items():
            self.resume(server=name)
            if not all(replica.alive for replica in each.replicas.values()):
                self.restart(server=name)
        self.run_until(self.whole, RECOVERY_S)
        for client in self._clients:
            if client.is_open or client.unacknowledged:
                client.flush(timeout=RECOVERY_S)
        # What the servers still send each other, and the digests.
        self.run(2.0)
        self.run_until(self.whole, RECOVERY_S)
        try:
            for each in self._servers.values():
                each.check()
                for replica in each.replicas.values():
                    self._watch.check(self._watch.at_end, each, replica)
        except Violation as error:
            self._watch.explain(error)
            raise

    def check_hash_seeds(self, seeds: Sequence[int] = HASH_SEEDS) -> None:
        """Apply what each server has applied so far again, in one new process for each hash seed.

        See `Harness.check_hash_seeds`. Raises NondeterministicReaction, and HashSeedError if that cannot be
        done.
        """
        for each in self._servers.values():
            check_hash_seeds(self._watch.engines.job(each), seeds)

    def whole(self) -> bool:
        """Return whether all replicas of all servers run, in one view each, and have applied everything."""
        return all(each.whole() for each in self._servers.values()) and not any(
            engine.backlog for engine in self._engines()
        )

    def describe(self) -> str:
        """Return one line about all replicas."""
        return "; ".join(f"{name}: {each.describe()}" for name, each in self._servers.items())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        if kind is None:
            self.finish()
        elif isinstance(error, Exception):
            self._watch.explain(error)

    # Parts

    def _server(self, name: str) -> MemoryServer:
        found = self._servers.get(name)
        if found is None:
            raise ValueError(f"there is no server {name!r}; there are: {', '.join(self._servers)}")
        return found

    def _check_running(self, at: MemoryServer, id: int) -> None:
        replica = at.replicas.get(id)
        if replica is None or not replica.alive:
            running = [str(each.id) for each in at.replicas.values() if each.alive]
            raise ValueError(
                f"replica {id} of {at.server.name} does not run; these run: {', '.join(running) or 'none'}"
            )

    def _engines(self) -> list[Engine]:
        return [replica.node.engine for each in self._servers.values() for replica in each.replicas.values()]

    def _log_fault(self, fault: str, at: MemoryServer, id: int) -> None:
        self.log.append(f"{self.now:9.3f} s  {fault} {at.server.name}.{id}")


@attrs.frozen
class _Faults:
    """A cluster, as `RandomFaults` uses it."""

    cluster: SimulatedCluster

    def after(self, delay_s: float, call: Callable[[], None]) -> None:
        """Call a function after virtual seconds."""
        self.cluster._time.at(delay_s, call)  # pyright: ignore[reportPrivateUsage]

    def replica_ids(self, server: str) -> list[int]:
        """Return the replicas of a server."""
        return list(self._server(server).replicas)

    def master_id(self, server: str) -> int | None:
        """Return the replica that serves, None if there is none."""
        master = self._server(server).master()
        return None if master is None else master.id

    def fail(self, kind: str, server: str, replicas: list[int]) -> None:
        """Begin a fault, for those of the replicas that run and are not paused by the test."""
        at = self._server(server)
        running = [id for id in replicas if at.replicas[id].alive and id not in at.paused]
        if kind == "kill":
            self.cluster.kill(*running, server=server)
        elif kind == "pause":
            self.cluster.pause(*running, server=server)
        elif len(at.replicas) > len(replicas):
            rest = [id for id in at.replicas if id not in replicas]
            self.cluster.partition(replicas, rest, server=server)

    def recover(self, kind: str, server: str, replicas: list[int]) -> None:
        """End a fault, unless the test has done so."""
        at = self._server(server)
        down = [id for id in replicas if not at.replicas[id].alive]
        paused = [id for id in replicas if id in at.paused]
        if kind == "kill" and down:
            self.cluster.restart(*down, server=server)
        elif kind == "pause" and paused:
            self.cluster.resume(*paused, server=server)
        elif kind == "partition":
            self.cluster.heal()

    def _server(self, name: str) -> MemoryServer:
        return self.cluster._server(name)  # pyright: ignore[reportPrivateUsage]


def _replicas(group: Collection[int | SimulatedClient]) -> list[int]:
    return [each for each in group if isinstance(each, int)]


def _text(group: Collection[int | SimulatedClient]) -> str:
    return ", ".join(each.name if isinstance(each, SimulatedClient) else str(each) for each in group)
