"""A simulated cluster of one server: nodes (channel, engine and batching) on a virtual clock and network.

All random choices come from the seed, so a run can be repeated. The cluster compares the reactions of the
replicas while it runs and raises `Violation` if two replicas react differently to the same entries, or if a
promise of the cluster is broken; `check` compares the states at the end.
"""

import random
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

import attrs

from ...agents import Note
from ...engine import Effects, Engine, EngineSettings, Program, Reaction
from ...hachannel import Message, Settings
from ...hachannel.model.log import Log
from ...server.node.factory import make_node
from ...server.node.node import Node
from ...server.node.outputs import NodeSettings, Output, RoleChange
from ..channel.violation import Violation
from .virtual_time import VirtualTime

__all__ = ["Cluster", "SimulatedReplica"]

EPOCH_NS = 1_700_000_000_000_000_000


@attrs.define(eq=False)
class SimulatedReplica:
    """One replica of a simulated cluster."""

    id: int
    node: Node
    incarnation: int
    alive: bool = False
    skew_ns: int = 0
    """Difference of its wall clock from the true time, in nanoseconds."""
    life: int = 0
    """The number of times that it was killed; calls for an earlier life are dropped."""
    roles: list[RoleChange] = attrs.field(factory=list[RoleChange])
    lines: list[str] = attrs.field(factory=list[str])


@attrs.define(eq=False)
class _Link:
    """The connection of a pair of replicas."""

    generation: int = 0
    up: bool = False
    cut: bool = False
    arrival: dict[int, float] = attrs.field(factory=dict[int, float])
    """The arrival of the last message at each side; later messages arrive after it."""


class Cluster:
    """Replicas 0 to `size` - 1 of server 0. Times are virtual seconds.

    delay_s: range of the delay of a message. skew_s: largest error of a wall clock. on_effects: called with
    the id of a master and the effects that it acts on. witnesses: the replicas that hold no agents. time:
    shared with other clusters; its own by default. programs: see `Cluster.programs`.
    """

    def __init__(
        self,
        seed: int,
        size: int = 3,
        *,
        delay_s: tuple[float, float] = (0.0002, 0.003),
        skew_s: float = 0.0,
        channel_settings: Settings | None = None,
        engine_settings: EngineSettings | None = None,
        node_settings: NodeSettings | None = None,
        on_effects: Callable[[int, Effects], None] | None = None,
        witnesses: Collection[int] = (),
        time: VirtualTime | None = None,
        programs: Mapping[int, Program] | None = None,
    ) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.programs: dict[int, Program] = dict(programs or {})
        """By replica, the agent classes that its next start finds, in place of those of this process."""
        self.time = time or VirtualTime()
        self.current = -1
        """The replica whose code runs now, for agents that misbehave on one replica only."""
        self.committed: set[int] = set()
        """The tokens of `post` that a master has reported as committed."""
        self.reactions: dict[int, Reaction] = {}
        """The reactions of the cluster, by position."""
        self.stop_s = 0.0
        """The time that services take to stop."""
        self._delay_s = delay_s
        self._settings = (channel_settings, engine_settings, node_settings)
        self._on_effects = on_effects
        self._witnesses = frozenset(witnesses)
        self._token = 0
        self._ticks: dict[int, float] = {}
        self._begun = False
        """Whether an entry is committed: the services of the cluster were started for the first time."""
        self._ids = tuple(range(size))
        self._links = {
            frozenset((one, other)): _Link() for one in self._ids for other in self._ids if one < other
        }
        self.replicas: dict[int, SimulatedReplica] = {}
        for id in self._ids:
            skew_ns = int(self.random.uniform(-skew_s, skew_s) * 1e9)
            self.replicas[id] = SimulatedReplica(id, self._node(id, 1), 1, skew_ns=skew_ns)
        for id in self._ids:
            self.at(self.random.uniform(0, 0.2), partial(self._start, id))

    # For tests

    @property
    def now(self) -> float:
        """The virtual time."""
        return self.time.now

    def at(self, delay_s: float, call: Callable[[], None]) -> None:
        """Call `call` after `delay_s`."""
        self.time.at(delay_s, call)

    def run(self, seconds: float) -> None:
        """Let virtual seconds pass."""
        end = self.now + seconds
        while (at := self.time.next_at) is not None and at <= end:
            self.time.step()
        self.time.now = end

    def run_until(self, condition: Callable[[], bool], limit_s: float = 60.0) -> None:
        """Let time pass until a condition holds. Raises Violation after `limit_s` virtual seconds."""
        end = self.now + limit_s
        while not condition():
            if self.now > end or self.time.next_at is None:
                raise self.violation("progress", f"not within {limit_s:g} s; {self.describe()}")
            self.time.step()

    def master(self) -> SimulatedReplica | None:
        """Return the replica that serves, if there is one."""
        serving = [each for each in self.replicas.values() if each.alive and each.node.role == "master"]
        serving = [each for each in serving if each.node.serving]
        # A master that was cut off may not know yet that there is a newer one.
        return max(serving, key=_view_number, default=None)

    def whole(self) -> bool:
        """Return whether all replicas are in one view, have applied the same entries, and one serves."""
        living = [each for each in self._data_replicas() if each.alive]
        views = {_view_number(each) for each in living}
        roles = sorted(each.node.role for each in living)
        return (
            all(each.alive for each in self.replicas.values())
            and len(views) == 1
            and any(each.node.serving for each in living)
            and roles == ["master", *["slave"] * (len(living) - 1)]
            and len({each.node.engine.applied for each in living}) == 1
            and not any(each.node.unapplied or each.node.queued_notes for each in living)
            and len({each.node.channel.last for each in living}) == 1
            and len({each.node.channel.commit for each in living}) == 1
        )

    def post(self, notes: list[Note]) -> int | None:
        """Post notes at the master. Return a token that will be in `committed`, or None without a master."""
        master = self.master()
        if master is None:
            return None
        self._token += 1
        if not master.node.post(notes, self._token):
            return None
        token = self._token
        self._do(master, master.node.flush)
        return token

    def kill(self, id: int) -> None:
        """End the process of a replica at once; its connections break."""
        replica = self.replicas[id]
        replica.alive = False
        replica.life += 1
        self._ticks.pop(id, None)
        for other in self._others(id):
            self._break(id, other)

    def restart(self, id: int) -> None:
        """Start a killed replica again, without state."""
        replica = self.replicas[id]
        replica.incarnation += 1
        replica.node = self._node(id, replica.incarnation)
        self._start(id)

    def leave(self, id: int) -> None:
        """Stop a replica in order. Its services stop when its node reports that it is no longer master."""
        replica = self.replicas[id]
        self._do(replica, replica.node.leave)

    def retire(self, id: int) -> None:
        """Let a replica stop together with all others. Kill it once its node is `retired`."""
        replica = self.replicas[id]
        self._do(replica, replica.node.retire)

    def cut(self, id: int) -> None:
        """Cut a replica off from the others; its connections break after 4 s."""
        self.separate([id], self._others(id))

    def separate(self, some: Collection[int], others: Collection[int]) -> None:
        """Cut all links between two groups of replicas; connections break after 4 s."""
        for one in some:
            for other in others:
                link = self._link(one, other)
                link.cut = True
                self.at(4.0, partial(self._break, one, other, link.generation))

    def heal(self) -> None:
        """End all cuts."""
        for pair, link in self._links.items():
            if link.cut:
                link.cut = False
                one, other = pair
                # Bytes were lost: the connection cannot go on.
                self._break(one, other)
                self._connect_later(one, other)

    def describe(self) -> str:
        """Return one line about every replica."""

        def line(each: SimulatedReplica) -> str:
            channel, role = each.node.channel, each.node.role if each.alive else "down"
            indexes = f"last {channel.last} commit {channel.commit} applied {each.node.engine.applied}"
            return f"{each.id}: {role} view {_view_number(each)} {indexes}"

        return "; ".join(map(line, self.replicas.values()))

    def check(self) -> None:
        """Raise Violation unless all living replicas are in the same state."""
        digests = {each.id: each.node.engine.digest() for each in self._data_replicas() if each.alive}
        if len(set(digests.values())) != 1:
            raise self.violation("one state", f"states differ; {self.describe()}")

    def violation(self, invariant: str, text: str) -> Violation:
        """Return the error of a broken promise, with the seed and the virtual time."""
        error = Violation(f"{invariant}: {text} (seed {self.seed})", at=self.now)
        error.seed = self.seed
        return error

    # The parts of the simulation

    def _data_replicas(self) -> list[SimulatedReplica]:
        return [each for each in self.replicas.values() if each.id not in self._witnesses]

    def _node(self, id: int, incarnation: int) -> Node:
        return self._make(id, incarnation, engine=self._new_engine(id))

    def _new_engine(self, id: int) -> Engine:
        """Make the engine of a replica that starts, without agents."""
        _, engine_settings, _ = self._settings
        return Engine(0, {"s0": 0}, engine_settings, program=self.programs.get(id))

    def _make(
        self,
        id: int,
        incarnation: int,
        *,
        log: Log | None = None,
        engine: Engine | None = None,
    ) -> Node:
        """Make the node of a replica. log, engine: those that it has recovered, if any."""
        channel_settings, engine_settings, node_settings = self._settings
        return make_node(
            id,
            self._ids,
            server=0,
            names={"s0": 0},
            incarnation=incarnation,
            cluster="simulated",
            expected=len(self._ids),
            channel_settings=channel_settings,
            engine_settings=engine_settings,
            settings=node_settings,
            log=log,
            engine=engine,
            witnesses=self._witnesses,
        )

    def _others(self, id: int) -> list[int]:
        return [other for other in self._ids if other != id]

    def _link(self, one: int, other: int) -> _Link:
        return self._links[frozenset((one, other))]

    def _start(self, id: int) -> None:
        replica = self.replicas[id]
        replica.alive = True
        self._do(replica, replica.node.start)
        for other in self._others(id):
            self._connect_later(id, other)

    def _connect_later(self, one: int, other: int) -> None:
        self.at(self.random.uniform(0.001, 0.05), lambda: self._connect(one, other))

    def _connect(self, one: int, other: int) -> None:
        link = self._link(one, other)
        ends = (self.replicas[one], self.replicas[other])
        if link.up or link.cut or not all(end.alive for end in ends):
            return
        link.up = True
        link.generation += 1
        link.arrival.clear()
        generation = link.generation
        for end, peer in (ends, ends[::-1]):
            if link.generation == generation:
                self._do(end, end.node.connected, peer.id, peer.incarnation)

    def _break(self, one: int, other: int, generation: int | None = None) -> None:
        link = self._link(one, other)
        if not link.up or (generation is not None and link.generation != generation):
            return
        link.up = False
        link.generation += 1
        for end, peer in ((one, other), (other, one)):
            life = self.replicas[end].life
            self.at(self.random.uniform(*self._delay_s), partial(self._broken, end, peer, life))

    def _broken(self, end: int, peer: int, life: int) -> None:
        replica = self.replicas[end]
        if replica.alive and replica.life == life and not self._link(end, peer).up:
            self._do(replica, replica.node.disconnected, peer)
            self._connect_later(end, peer)

    def _do(self, replica: SimulatedReplica, call: Callable[..., None], *args: Any) -> None:
        """Call a method of the node of a replica, and act on all output that follows from it."""
        before, self.current = self.current, replica.id
        try:
            node = replica.node
            now, wall_ns = self.now, EPOCH_NS + int(self.now * 1e9) + replica.skew_ns
            call(now, wall_ns, *args)
            while True:
                self._act(replica, node.drain(now))
                if not node.work(now, wall_ns):
                    break
            self._act(replica, node.drain(now))
        finally:
            self.current = before
        self._arm(replica, now, wall_ns)

    def _act(self, replica: SimulatedReplica, out: Output) -> None:
        for peer, message in out.messages:
            self._carry(replica.id, peer, message)
        for reaction in out.trace:
            known = self.known(reaction)
            if known != reaction and not replica.node.channel.standing.unfit:
                self.diverged(replica, known, reaction)
        if self._on_effects is not None:
            for effects in out.effects:
                self._on_effects(replica.id, effects)
        self.committed.update(out.committed)
        replica.lines += [*out.lines, *out.divergences]
        replica.roles += out.roles
        for role in out.roles:
            self._follow_role(replica, role)
        if self._begun and any(role.first_time for role in out.roles):
            raise self.violation("one founding", f"the cluster was founded twice; {self.describe()}")
        self._begun = self._begun or replica.node.engine.birth > 0
        if out.failed:
            self.failed(replica, out.stopped)

    def failed(self, replica: SimulatedReplica, sentence: str) -> None:
        """Raise Violation: a replica has stopped in error. A subclass may override it."""
        raise self.violation("no failure", f"replica {replica.id} failed: {sentence}")

    def _follow_role(self, replica: SimulatedReplica, role: RoleChange) -> None:
        """Start or stop the services of a replica."""
        if not role.master:
            # After the present call.
            self.at(self.stop_s, partial(self._services_stopped, replica, replica.life))

    def _services_stopped(self, replica: SimulatedReplica, life: int) -> None:
        if replica.alive and replica.life == life:
            self._do(replica, replica.node.services_stopped)

    def known(self, reaction: Reaction) -> Reaction:
        """Return the first reaction of any replica at this position, which may be this one."""
        return self.reactions.setdefault(reaction.position, reaction)

    def diverged(self, replica: SimulatedReplica, known: Reaction, reaction: Reaction) -> None:
        """Raise Violation: two replicas reacted differently. A subclass may override it."""
        text = f"replica {replica.id} reacted with {reaction}, another with {known}"
        raise self.violation("one reaction", text)

    def _carry(self, sender: int, receiver: int, message: Message) -> None:
        link = self._link(sender, receiver)
        if not link.up or link.cut:
            return
        generation = link.generation
        arrival = max(self.now + self.random.uniform(*self._delay_s), link.arrival.get(receiver, 0.0))
        link.arrival[receiver] = arrival
        self.at(arrival - self.now, lambda: self._arrive(sender, receiver, message, generation))

    def _arrive(self, sender: int, receiver: int, message: Message, generation: int) -> None:
        link = self._link(sender, receiver)
        if link.generation == generation and not link.cut:
            replica = self.replicas[receiver]
            self._do(replica, replica.node.receive, sender, [message])

    def _arm(self, replica: SimulatedReplica, now: float, wall_ns: int) -> None:
        deadline = replica.node.deadline(now, wall_ns)
        armed = self._ticks.get(replica.id)
        if deadline is None or (armed is not None and armed <= deadline):
            return
        at = max(deadline, now + 1e-6)
        self._ticks[replica.id] = at
        life = replica.life
        self.at(at - now, lambda: self._tick(replica, at, life))

    def _tick(self, replica: SimulatedReplica, at: float, life: int) -> None:
        if replica.alive and replica.life == life and self._ticks.get(replica.id) == at:
            del self._ticks[replica.id]
            self._do(replica, replica.node.tick)


def _view_number(replica: SimulatedReplica) -> Any:
    view = replica.node.channel.view
    return (0, -1, 0) if view is None else tuple(view.number)
