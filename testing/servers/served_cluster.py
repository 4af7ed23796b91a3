"""A simulated server with its services and networks: replicas with disks, each on a machine of its own."""

from collections.abc import Callable
from functools import partial
from typing import Any

import attrs

from ...agents import AgentSpec
from ...engine import Effects, Engine, Reaction
from ...server.config import Config, Server
from ...server.node.outputs import Output, RoleChange
from ...server.settings import ReplicaSettings
from ..channel.violation import Violation
from ..determinism.guard import Guard
from ..determinism.hash_seeds import HashSeedError, modules_of
from ..determinism.rerun_log import Job
from .cluster import SimulatedReplica
from .durable_cluster import DurableCluster
from .memory_network import MemoryNet
from .replica_machine import ReplicaMachine
from .virtual_time import VirtualTime

__all__ = ["ServedCluster"]

MAX_ENTRIES = 100_000
"""Entries of a server that are kept to be applied again under other hash seeds."""
LOG_LINES = 200
"""Lines of the logs of all replicas that are kept, and shown with a failure."""


class _RecordedEngine(Engine):
    """An engine that keeps the entries it applies."""

    entries: dict[int, tuple[int, int, bytes]]

    def apply(self, index: int, now_ns: int, payload: bytes) -> Effects:
        """Run the reactions to one entry."""
        if len(self.entries) < MAX_ENTRIES:
            self.entries.setdefault(index, (index, now_ns, payload))
        return super().apply(index, now_ns, payload)


class ServedCluster(DurableCluster):
    """The replicas of one server of a configuration. A master runs its services and networks.

    Replica n of the server is on the machine that the configuration names.
    """

    def __init__(
        self,
        seed: int,
        config: Config,
        server: Server,
        net: MemoryNet,
        time: VirtualTime,
        *,
        load: Callable[[str], AgentSpec],
        guard: Guard | None,
        on_applied: Callable[["ServedCluster", SimulatedReplica], None],
        on_line: Callable[[str], None],
        skew_s: float = 0.0,
    ) -> None:
        """load: finds agent classes. guard: watches the reactions of all replicas; None: nothing does.

        on_applied: called with a replica after it has applied entries. on_line: gets the lines of the logs.
        """
        self.config = config
        self.server = server
        self.net = net
        self.machines: dict[int, ReplicaMachine] = {}
        """Of the present or last life of each replica."""
        self.paused: dict[int, list[Callable[[], None]]] = {}
        """By paused replica, what happens to it when it goes on."""
        self.entries: dict[int, tuple[int, int, bytes]] = {}
        """The first entries of the server by index: index, time stamp in nanoseconds, payload."""
        self._load = load
        self._guard = guard
        self._on_applied = on_applied
        self._on_line = on_line
        self._applied: dict[int, int] = {}
        settings = ReplicaSettings.read(config, server, server.replicas[0])
        super().__init__(
            seed,
            len(server.replicas),
            skew_s=skew_s,
            channel_settings=settings.channel,
            engine_settings=settings.engine,
            node_settings=settings.node,
            on_effects=self._carry_out,
            time=time,
        )

    # For tests

    def kill(self, id: int) -> None:
        """End the process of a replica at once; its connections break, and what was not synced is lost."""
        self.paused.pop(id, None)
        super().kill(id)
        self.net.crash(self.host(id))

    def pause(self, id: int) -> None:
        """Stop the process of a replica where it stands, as SIGSTOP does."""
        self.paused.setdefault(id, [])
        self.net.pause(self.host(id))

    def resume(self, id: int) -> None:
        """Let a paused replica go on."""
        for call in self.paused.pop(id, []):
            call()
        self.net.resume(self.host(id))

    def host(self, id: int) -> str:
        """Return the machine of a replica."""
        return self.server.replicas[id].host

    def violation(self, invariant: str, text: str) -> Violation:
        """Return the error of a broken promise, with the server, the seed and the virtual time."""
        error = super().violation(f"{self.server.name}: {invariant}", text)
        error.invariant = invariant
        return error

    def diverged(self, replica: SimulatedReplica, known: Reaction, reaction: Reaction) -> None:
        """Raise Violation: two replicas reacted differently."""
        differing = [
            name for name in Reaction.__struct_fields__ if getattr(known, name) != getattr(reaction, name)
        ]
        raise self.violation(
            "one reaction",
            f"at {self.now:.3f} s, in entry {reaction.index}, agent {reaction.agent} "
            f"({reaction.cls or 'built-in'}) of replica {replica.id} reacted to {reaction.type} otherwise "
            f"than on another replica: {', '.join(differing)}; reactions may depend only on state, "
            "notification and context",
        )

    def job(self) -> Job:
        """Return the entries for another process. Raises HashSeedError for a class that it cannot import."""
        if len(self.entries) >= MAX_ENTRIES:
            raise HashSeedError(f"more than {MAX_ENTRIES} entries are not applied again; check a shorter run")
        engine = max((each.node.engine for each in self.replicas.values()), key=lambda each: each.applied)
        return Job(
            self.server.id,
            dict(self.config.names),
            self.config.routes(self.server.id),
            attrs.asdict(engine.settings),
            modules_of({cell.spec.cls for cell in engine.cells()}),
            [self.entries[index] for index in sorted(self.entries)],
        )

    # The parts of the simulation

    def _new_engine(self, id: int) -> Engine:
        config, server = self.config, self.server
        routes = config.routes(server.id)
        program = self.programs.get(id)
        engine = _RecordedEngine(server.id, config.names, self._settings[1], self._load, routes, program)
        engine.entries = self.entries
        if self._guard is not None:
            engine.current = self._guard.reaction_of()
        return engine

    def _start(self, id: int) -> None:
        replica = self.replicas[id]
        self._applied[id] = replica.node.engine.applied
        self.machines[id] = ReplicaMachine(
            self.config,
            self.server,
            self.server.replicas[id],
            self.net,
            lambda: replica.node,
            partial(self._flush_later, replica, replica.life),
            # Requests of different lives have different numbers.
            life=1 + id + 100 * replica.life,
            log=partial(self._log, id),
            jitter=self.random,
        )
        super()._start(id)

    def _flush_later(self, replica: SimulatedReplica, life: int) -> None:
        def flush() -> None:
            if replica.alive and replica.life == life:
                self._do(replica, replica.node.flush)

        self.at(0.0, flush)

    def _do(self, replica: SimulatedReplica, call: Callable[..., None], *args: Any) -> None:
        held = self.paused.get(replica.id)
        if held is not None:
            node, life = replica.node, replica.life

            def later() -> None:
                if replica.alive and replica.life == life and replica.node is node:
                    self._do(replica, call, *args)

            held.append(later)
            return
        super()._do(replica, call, *args)
        self.machines[replica.id].settled()
        applied = replica.node.engine.applied
        if self._applied[replica.id] != applied:
            self._applied[replica.id] = applied
            self._on_applied(self, replica)

    def _act(self, replica: SimulatedReplica, out: Output) -> None:
        lines, committed = [*out.lines, *out.divergences], out.committed
        out.committed = []
        super()._act(replica, out)
        replica.lines.clear()
        for line in lines:
            self._log(replica.id, line)
        for token in committed:
            self.machines[replica.id].master.submissions.committed(token)

    def _carry_out(self, id: int, effects: Effects) -> None:
        self.machines[id].carry_out(effects)

    def _follow_role(self, replica: SimulatedReplica, role: RoleChange) -> None:
        master = self.machines[replica.id].master
        if role.master:
            self._log(replica.id, f"this replica is master now: {role.reason}")
            master.start(role.first_time)
            return
        self._log(replica.id, f"this replica is master no longer: {role.reason}")
        life = replica.life
        master.stop(role.reason).addBoth(
            lambda _: self.at(0.0, partial(self._services_stopped, replica, life))
        )

    def _log(self, id: int, line: str) -> None:
        self._on_line(f"{self.now - 100:9.3f} s  {self.server.name}.{id}  {line}")
