"""A simulated server: the processes of its replicas, the machines that outlive them, and what must hold.

| invariant | |
|---|---|
| one reaction | all replicas, also after a restart, react alike at each position |
| one founding | the services of a server are started for the first time once |
| no failure | no replica ends by itself, and none has a defect |
| no gap | the state and the log on a disk follow each other |
| one state | at the end, the replicas have the same state |
"""

import random
from collections.abc import Callable, Collection, Sequence

from ...engine import Engine, Reaction
from ...server.config import Config, Server
from ...server.node.outputs import Output
from ...server.settings import ReplicaSettings
from ..channel.disk import DiskError
from ..channel.violation import Violation
from .memory_disk import DiskTimes, MemoryDisk
from .memory_machine import MemoryMachine
from .memory_network import MemoryNet
from .memory_replica import MemoryReplica

__all__ = ["MemoryServer", "ServerFollower"]


class ServerFollower:
    """The simulation that a server belongs to. The methods here do nothing; override some of them."""

    broken: Violation | None = None
    """The first promise that was broken. It is raised too, but what waits for a result may swallow that."""

    def new_engine(self, config: Config, server: Server) -> Engine:
        """Return an engine of a server, without agents."""
        settings = ReplicaSettings.read(config, server, server.replicas[0]).engine
        return Engine(
            server.id,
            config.names,
            settings,
            routes=config.routes(server.id),
            causal=config.causal_domains(server.id),
        )

    def violation(self, invariant: str, text: str) -> Violation:
        """Return the error of a broken promise."""
        raise NotImplementedError

    def applied(self, server: "MemoryServer", replica: MemoryReplica) -> None:
        """Check a replica that has applied entries, before it acts on them."""

    def reacted(self, server: "MemoryServer", birth: int, reaction: Reaction) -> None:
        """Check a reaction of the server in one of its lives, the first time that a replica has it."""

    def acknowledged(self, tokens: Collection[int]) -> None:
        """Record the posts that a master has reported as committed."""

    def founded(self, replica: MemoryReplica) -> None:
        """Follow the first master of a server, of which nothing is committed, before its services start."""

    def follow_log(self, server: "MemoryServer", replica: int, line: str) -> None:
        """Record a line of a log."""


class MemoryServer:
    """The replicas of one server of a configuration, each on the machine that the configuration names.

    Implements `ReplicaOwner`. It has more than 20 methods: queries, faults, and the reports of the replicas.
    """

    def __init__(
        self,
        config: Config,
        server: Server,
        net: MemoryNet,
        rng: random.Random,
        follower: ServerFollower,
        *,
        skew_s: float = 0.0,
        disk_times: Callable[[], DiskTimes] = DiskTimes,
    ) -> None:
        """Start all replicas.

        `skew_s` is the largest error of a machine's wall clock, `disk_times` returns how fast its disk is.
        """
        self.config = config
        self.server = server
        self.random = rng
        self.replicas: dict[int, MemoryReplica] = {}
        """The present or last process of each replica."""
        self.machines = {
            each.id: MemoryMachine(
                net, each.host, rng, MemoryDisk(rng, disk_times()), int(rng.uniform(-skew_s, skew_s) * 1e9)
            )
            for each in server.replicas
        }
        self._follower = follower
        self._reactions: dict[tuple[int, int], Reaction] = {}
        """The first reaction of any replica, by birth and position."""
        self._begun = False
        """Whether an entry is committed: the services of the server were started for the first time."""
        self._applied: dict[int, int] = {}
        self._lives = 0
        for each in self.machines:
            self.start(each)

    # Queries

    def master(self) -> MemoryReplica | None:
        """Return the replica that serves, if there is one."""
        serving = [each for each in self.replicas.values() if each.alive and each.node.serving]
        # A master that was cut off may not know yet that there is a newer one.
        return max(serving, key=lambda each: each.view_number, default=None)

    def caught_up(self) -> bool:
        """Return whether all replicas run, one serves, and all have applied the same entries."""
        replicas = self.replicas.values()
        return (
            all(each.alive and not each.paused for each in replicas)
            and any(each.node.serving for each in replicas)
            and all(each.node.role in ("master", "slave") for each in replicas)
            and len({each.engine.applied for each in replicas}) == 1
            and not any(each.node.unapplied or each.node.queued_notes for each in replicas)
        )

    def whole(self) -> bool:
        """Return whether the replicas have caught up, in one view, and their logs are equal."""
        replicas = self.replicas.values()
        return (
            self.caught_up()
            and sum(each.node.role == "master" for each in replicas) == 1
            and len({each.view_number for each in replicas}) == 1
            and len({(each.node.channel.last, each.node.channel.commit) for each in replicas}) == 1
        )

    @property
    def paused(self) -> list[int]:
        """The paused replicas."""
        return [id for id, machine in self.machines.items() if machine.paused]

    def describe(self) -> str:
        """Return one line about all replicas."""

        def line(each: MemoryReplica) -> str:
            channel, role = each.node.channel, each.node.role if each.alive else "down"
            indexes = f"last {channel.last} commit {channel.commit} applied {each.engine.applied}"
            return f"{each.host} {role} view {each.view_number} {indexes} backlog {each.engine.backlog}"

        return "; ".join(map(line, self.replicas.values()))

    def check(self) -> None:
        """Raise Violation unless all living replicas are in the same state."""
        if len({each.engine.digest() for each in self.replicas.values() if each.alive}) != 1:
            raise self._violation("one state", f"the states of the replicas differ; {self.describe()}")

    # Faults

    def start(self, id: int) -> None:
        """Start a replica with what is on its disk."""
        # Requests of different lives have different numbers.
        life = 1 + id + 100 * self._lives
        self._lives += 1
        declared = self.config.replica(self.server.id, id)
        replica = MemoryReplica(self, self.config, self.server, declared, self.machines[id], life=life)
        self.replicas[id] = replica
        try:
            replica.start()
        except DiskError as error:
            raise self._violation("no gap", str(error)) from error

    def kill(self, id: int, notice_s: float = 0.0) -> None:
        """End the process of a replica: what was not synced is lost. Others notice after `notice_s`."""
        self.replicas[id].kill(notice_s)

    def lose_disk(self, id: int) -> None:
        """Replace the disk of a killed replica by an empty one: it joins as a new voter."""
        self.machines[id].disk.lose()
        self.machines[id].lose_files()

    def forget(self, id: int) -> None:
        """Replace the disk of a killed plain server by a new one: it begins another life."""
        self._begun = False
        machine = self.machines[id]
        machine.disk = MemoryDisk(self.random, machine.disk.times)

    def pause(self, id: int) -> None:
        """Stop the process of a replica where it stands, as SIGSTOP does."""
        self.machines[id].pause()

    def resume(self, id: int) -> None:
        """Let a paused replica go on."""
        self.machines[id].resume()

    def separate(self, some: Collection[int], others: Collection[int]) -> None:
        """Cut all traffic between two groups of replicas, until the network is healed."""
        for one in some:
            for other in others:
                self.machines[one].cut(self.machines[other])

    # The interface ReplicaOwner

    def new_engine(self, replica: int) -> Engine:
        """Return the engine of a process that starts, without agents."""
        self._applied.pop(replica, None)
        return self._follower.new_engine(self.config, self.server)

    def applying(self, replica: MemoryReplica) -> None:
        """Have a replica checked that has applied entries, before it acts on them."""
        applied = replica.engine.applied
        if self._applied.get(replica.id) != applied:
            self._applied[replica.id] = applied
            self._follower.applied(self, replica)

    def reacted(self, replica: MemoryReplica, reactions: Sequence[Reaction]) -> None:
        """Compare reactions with those of the other replicas."""
        birth = replica.engine.birth
        for reaction in reactions:
            known = self._reactions.setdefault((birth, reaction.position), reaction)
            if known is reaction:
                self._follower.reacted(self, birth, reaction)
            elif known != reaction and not replica.node.channel.standing.unfit:
                raise self._diverged(replica, known, reaction)

    def acted(self, replica: MemoryReplica, out: Output) -> None:
        """Record what a replica has put out."""
        self._follower.acknowledged(out.committed)
        if out.stopped:
            raise self._violation("no failure", f"replica {replica.id} has ended: {out.stopped}")
        if any(role.first_time for role in out.roles):
            if self._begun:
                raise self._violation("one founding", f"it was founded twice; {self.describe()}")
            self._follower.founded(replica)
        self._begun = self._begun or replica.engine.birth > 0

    def log(self, replica: MemoryReplica, line: str) -> None:
        """Record a line of the log of a replica."""
        self._follower.follow_log(self, replica.id, line)
        if line.startswith("defect"):
            raise self._violation("no failure", f"replica {replica.id}: {line}")

    # Parts

    def _diverged(self, replica: MemoryReplica, known: Reaction, reaction: Reaction) -> Violation:
        differing = [
            name for name in Reaction.__struct_fields__ if getattr(known, name) != getattr(reaction, name)
        ]
        return self._violation(
            "one reaction",
            f"in entry {reaction.index}, agent {reaction.agent} ({reaction.cls or 'built-in'}) of replica "
            f"{replica.id} reacted to {reaction.type} otherwise than on another replica, or than before: "
            f"{', '.join(differing)}; reactions may depend only on state, notification and context",
        )

    def _violation(self, invariant: str, text: str) -> Violation:
        """Return the error of a broken promise, which the simulation raises also if the caller's is lost."""
        error = self._follower.violation(invariant, f"{self.server.name}: {text}")
        self._follower.broken = self._follower.broken or error
        return error
