"""What goes wrong in a simulation, and the rule that keeps it survivable.

In memory mode a crash takes a voter's promises and log away for good. The protocol is safe as long as a
majority of every view that may be active survives; this injector never crashes more than that.
"""

from collections.abc import Callable

from ..hachannel.choice import quorum_of, reconfigured
from ..hachannel.messages import Join, decode_reconfig
from ..hachannel.view import View, Voter, present
from .channel_world import Host, World
from .checks import Checks


class Faults:
    """Draws faults from the world's random numbers."""

    def __init__(self, world: World, checks: Checks, rate: float, kind: str = "all") -> None:
        self._world = world
        self._checks = checks
        self._rate = rate
        self.healing = False
        self._founders_lost = False
        self.counts: dict[str, int] = {}
        self._menu: list[tuple[int, Callable[[], None]]] = [
            (5, self.crash),
            (2, self.crash_master),
            (1, self.crash_proposer),
            (3, self.pause),
            (4, self.partition),
            (2, self.one_way),
            (3, self.isolate),
            (6, self.break_connection),
            (1, self.leave),
        ]
        if kind == "split":
            self._menu += [(15, self.partition), (10, self.isolate), (5, self.crash_master)]
            self._menu += [(15, self.mute_joins), (10, self.crash_proposer)]
        elif kind == "crash":
            self._menu += [(20, self.crash), (10, self.crash_master), (10, self.break_connection)]
            self._menu += [(20, self.crash_proposer), (5, self.mute_joins)]

    def begin(self) -> None:
        """Schedule the first fault."""
        world = self._world
        world.at(world.now + world.random.expovariate(self._rate), self._next)

    def _next(self) -> None:
        if self.healing:
            return
        world = self._world
        weights = [weight for weight, _ in self._menu]
        fault = world.random.choices([fault for _, fault in self._menu], weights)[0]
        fault()
        world.at(world.now + world.random.expovariate(self._rate), self._next)

    def _count(self, name: str) -> None:
        self.counts[name] = self.counts.get(name, 0) + 1

    # The rule

    def survivable(self, victim: Host) -> bool:
        """Whether every view that may be active keeps its quorums without this process."""
        living = {
            host.state.me: host
            for host in self._world.hosts
            if host.running and host is not victim and not host.state.leaving
        }
        shape = self._world.shape
        if self._checks.latest is not None and shape.expected < shape.replicas:
            # Where fewer than all found a cluster, so many must not lose their memory that they could again.
            holding = sum(host.state.accepted is not None for host in living.values())
            if holding <= shape.replicas - shape.expected:
                return False
        if self._checks.latest is None and any(host.state.counter for host in living.values()):
            # The first view is being founded, by replicas of which some may not know it yet.
            if self._founders_lost:
                return False
            self._founders_lost = True
        views: dict[object, tuple[View, bool]] = {}
        if self._checks.latest is not None:
            views[self._checks.latest.number] = (self._checks.latest, True)
        for host in self._world.hosts:
            view = host.state.accepted if host.running else None
            if view is not None:
                known = views.get(view.number)
                views[view.number] = (view, host.state.known_active or (known is not None and known[1]))
        return all(self._survives(view, active, living) for view, active in views.values())

    def _survives(self, view: View, active: bool, living: dict[Voter, Host]) -> bool:
        if present(living, view.config) < quorum_of(view, active):
            return False
        if present(living, view.members) < len(view.members) - view.k + 1:
            return False
        holders = [
            voter
            for voter in view.members
            if voter in living
            and living[voter].state.accepted is not None
            and living[voter].state.accepted.number >= view.number  # type: ignore[union-attr]
        ]
        if active and len(holders) < len(view.members) - view.k + 1:
            return False
        for voter in holders:
            entry = living[voter].state.log.reconfig(view.start)
            if entry is not None and entry.view == view.number:
                config = reconfigured(view.config, decode_reconfig(entry.payload))
                if present(living, config) < len(config) // 2 + 1:
                    return False
        return True

    # The faults

    def _someone(self) -> Host | None:
        hosts = [host for host in self._world.hosts if host.running and not host.paused]
        return self._world.random.choice(hosts) if hosts else None

    def _crash(self, host: Host) -> None:
        if not self.survivable(host):
            return
        self._count("crash")
        host.crash()
        self._restart_later(host)

    def _restart_later(self, host: Host) -> None:
        world = self._world
        incarnation = host.incarnation

        def restart() -> None:
            if not host.running and host.incarnation == incarnation:
                host.start()

        world.at(world.now + world.random.choice([0.02, 0.2, 1.0, 3.0]) * world.random.random(), restart)

    def crash(self) -> None:
        """SIGKILL one replica; it starts again later, as another voter."""
        host = self._someone()
        if host is not None:
            self._crash(host)

    def crash_master(self) -> None:
        """SIGKILL the master."""
        host = self._world.master()
        if host is not None:
            self._crash(host)

    def crash_proposer(self) -> None:
        """SIGKILL a replica in the middle of the view change it proposes."""
        hosts = [host for host in self._world.hosts if host.running and host.channel.proposing]
        if hosts:
            self._crash(self._world.random.choice(hosts))

    def leave(self) -> None:
        """Stop one replica in order; it starts again later."""
        host = self._someone()
        if host is None or not self.survivable(host) or any(other.left for other in self._world.hosts):
            return
        self._count("leave")
        host.leave()
        self._restart_later(host)
        incarnation = host.incarnation

        def gone() -> None:
            if host.incarnation == incarnation:
                if host.running:
                    return
                host.start()

        self._world.at(self._world.now + 4.0, gone)

    def pause(self) -> None:
        """SIGSTOP one replica for a while."""
        host = self._someone()
        if host is None:
            return
        self._count("pause")
        host.pause()
        world = self._world
        incarnation = host.incarnation

        def resume() -> None:
            if host.running and host.paused and host.incarnation == incarnation:
                host.resume()

        world.at(world.now + world.random.choice([0.1, 0.6, 3.0]) * world.random.random(), resume)

    def _cut(self, directions: list[tuple[int, int]], name: str) -> None:
        world = self._world
        self._count(name)
        world.say(f"cut {directions}")
        world.net.cut.update(directions)

        def mend() -> None:
            world.say(f"mend {directions}")
            for direction in directions:
                world.net.mend(direction)

        world.at(world.now + world.random.choice([0.1, 0.7, 3.0]) * world.random.random(), mend)

    def partition(self) -> None:
        """Split the hosts in two."""
        world = self._world
        side = {host.replica for host in world.hosts if world.random.random() < 0.5}
        directions = [
            (one.replica, other.replica)
            for one in world.hosts
            for other in world.hosts
            if (one.replica in side) != (other.replica in side)
        ]
        if directions:
            self._cut(directions, "partition")

    def isolate(self) -> None:
        """Cut one host off."""
        host = self._world.random.choice(self._world.hosts)
        others = [other.replica for other in self._world.hosts if other is not host]
        self._cut(
            [(host.replica, other) for other in others] + [(other, host.replica) for other in others],
            "isolate",
        )

    def one_way(self) -> None:
        """Cut one direction between two hosts."""
        if len(self._world.hosts) > 1:
            one, other = self._world.random.sample(range(len(self._world.hosts)), 2)
            self._cut([(one, other)], "one way")

    def break_connection(self) -> None:
        """Break a connection, losing what travels on it."""
        self._count("break")
        self._world.say(self._world.net.break_one())

    def mute_joins(self) -> None:
        """Nobody joins for a while, so that views stay small."""
        self._count("mute")
        net = self._world.net
        net.muted = Join

        def unmute() -> None:
            net.muted = None

        self._world.at(self._world.now + self._world.random.random() * 4.0, unmute)

    def heal(self) -> None:
        """No more faults: everything runs and is connected."""
        world = self._world
        self.healing = True
        world.net.muted = None
        world.say("heal")
        for direction in sorted(world.net.cut):
            world.net.mend(direction)
        for host in world.hosts:
            if host.running and host.paused:
                host.resume()
            if not host.running:
                host.start()
