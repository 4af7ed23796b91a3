"""The base class of faults, the list of all kinds, and the injector.

A replica that loses its memory or its disk loses the promises and the log of a voter for good. The protocol
stays safe, but it makes progress only while a majority of every view that may be active survives. The
injector skips a fault that would lose more than that, unless the fault has `force`.
"""

from collections.abc import Callable, Iterable
from random import Random
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar

import attrs
import msgspec

from ...hachannel import View, Voter
from ...hachannel.model.messages import RECONFIG, Dismiss, decode_reconfig
from ..channel.cluster_shape import Shape
from ..channel.host import Host
from ..channel.world import World
from ..checks import Checks
from ..checks.history import changed, count, majority
from ..checks.liveness import seated

Who: TypeAlias = int | Literal["any", "master", "slave", "heir", "proposer", "donor", "learner"]
"""A replica: its id, any running one, or the one that has this role at the moment. Donor and learner are the
ends of a state transfer."""


class Fault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An event that happens to a simulated cluster at a virtual time.

    Fields that end with `_s`, `at` and `seconds` are virtual seconds.
    """

    at: float
    """The time from the start of the run."""

    name: ClassVar[str]
    """The name in schedules and on the command line."""
    disk: ClassVar[bool] = False
    """Whether the fault needs replicas with disks."""
    weight: ClassVar[int] = 0
    """The weight of the fault in random schedules, relative to others; 0: it is not drawn with them."""
    apart: ClassVar[bool] = False
    """Whether random schedules draw the fault apart from the others, which stay the same then."""

    def inject(self, cluster: "Injector", random: Random) -> bool:
        """Inject the fault. Return False if it cannot happen. random: draws what the fault leaves open."""
        raise NotImplementedError

    @classmethod
    def draw(cls, at: float, random: Random, shape: Shape) -> "Fault":
        """Return a fault of this kind for a random schedule."""
        raise NotImplementedError

    def __str__(self) -> str:
        fields = [f"{name}={getattr(self, name)!r}" for name in self.__struct_fields__ if name != "at"]
        return f"{self.name}({', '.join(fields)})"


FAULTS: dict[str, type[Fault]] = {}
"""All kinds of faults by name."""

AnyFault = TypeVar("AnyFault", bound=type[Fault])


def named(
    name: str, *, weight: int = 0, disk: bool = False, apart: bool = False
) -> Callable[[AnyFault], AnyFault]:
    """Add a class to `FAULTS` under a name."""

    def put(cls: AnyFault) -> AnyFault:
        cls.name, cls.weight, cls.disk, cls.apart = name, weight, disk, apart
        FAULTS[name] = cls
        return cls

    return put


@attrs.define(eq=False)
class _Memory:
    """The memory of a replica: what it knows, and will know after a crash if it has a disk."""

    voter: Voter
    accepted: View | None
    active: bool
    unfit: bool
    reconfig: Callable[[View], bytes | None]
    """Returns the payload of the RECONFIG that was appended in a view, if the replica holds one."""


class Injector:
    """Injects faults into a world, and ends them."""

    def __init__(self, world: World, checks: Checks) -> None:
        self.world = world
        self.checks = checks
        self.healing = False
        self.counts: dict[str, int] = {}
        """The number of injected faults, by name."""
        self.skipped = 0
        """The number of faults that could not happen, or that the cluster would not have survived."""
        self.lost = 0
        """The number of replicas that stayed dead while the others had to recover."""
        self.beyond = False
        """Whether `force` has lost more than a cluster survives: it need not recover then."""
        self._left = False
        """Whether a replica has left that the others need for a majority, unless they remove its vote."""
        self._founders_lost = False
        self._undo: list[Callable[[], None]] = []

    def schedule(self, faults: Iterable[Fault]) -> None:
        """Inject each fault at its time."""
        for fault in faults:
            self.world.at(fault.at, self._injection(fault))

    def _injection(self, fault: Fault) -> Callable[[], None]:
        def inject() -> None:
            if not self.healing:
                self.inject(fault)

        return inject

    def inject(self, fault: Fault) -> bool:
        """Inject a fault now. Return whether it had an effect."""
        world = self.world
        # A stream of its own: without one fault, the other ones must stay the same.
        random = Random(f"{world.seed} {fault.name} {fault.at!r}")
        world.trace(f"fault: {fault}")
        done = not (fault.disk and not world.shape.disk) and fault.inject(self, random)
        if done:
            self.counts[fault.name] = self.counts.get(fault.name, 0) + 1
        else:
            self.skipped += 1
            world.trace("skipped")
        return done

    # For faults

    def pick(self, who: Who, random: Random) -> Host | None:
        """Return the running replica that `who` means, if there is one."""
        hosts = [host for host in self.world.hosts if host.running and not host.paused]
        if isinstance(who, int):
            hosts = [host for host in self.world.hosts if host.running and host.replica == who]
        elif who == "master":
            hosts = [host for host in hosts if host.state.leading]
        elif who == "slave":
            hosts = [host for host in hosts if host.state.serving and not host.state.leading]
        elif who == "heir":
            hosts = [host for host in hosts if host.state.serving and self._is_heir(host)]
        elif who == "proposer":
            hosts = [host for host in hosts if host.channel.proposing]
        elif who == "donor":
            hosts = [host for host in hosts if host.channel.phases.giving == "state"]
        elif who == "learner":
            hosts = [host for host in hosts if host.channel.phases.learning != "alone"]
        return random.choice(hosts) if hosts else None

    @staticmethod
    def _is_heir(host: Host) -> bool:
        """Return whether it is the first slave, which leads after the master."""
        return host.channel.members[1:2] == (host.replica,)

    def crash(self, host: Host, back_s: float | None, *, force: bool = False) -> bool:
        """Kill a process if the others survive that, and start it again later.

        A replica with a disk may always be killed, since its disk is there when it returns.
        """
        if host.disk is None and not self.may_lose(host, force=force):
            return False
        host.crash()
        self.start_later(host, back_s)
        return True

    def may_lose(self, host: Host, *, force: bool = False) -> bool:
        """Return whether the memory of a replica without a disk, or a disk, may be lost for good.

        force: also if the cluster cannot go on then; it need not recover in that case.
        """
        if self.survivable([host]):
            return True
        self.beyond = self.beyond or force
        return force

    def may_disqualify(self, host: Host) -> bool:
        """Return whether the others can go on if the state of this replica is wrong: one at a time."""
        world, latest = self.world, self.checks.latest
        if latest is None or not host.state.serving or host.state.accepted != latest:
            return False
        if any(self._is_unfit(other) for other in world.hosts):
            return False
        others = [
            other
            for other in world.hosts
            if other is not host and other.running and other.state.me in latest.members
        ]
        return any(other.state.accepted == latest and other.state.serving for other in others) and all(
            len(memory.accepted.members) > 1 or memory.voter != host.state.me
            for memory in map(self._memory, world.hosts)
            if memory is not None and memory.accepted is not None
        )

    @staticmethod
    def _is_unfit(host: Host) -> bool:
        kept = None if host.disk is None or host.disk.spoiled else host.disk.remembered
        return (host.running and host.state.unfit) or (kept is not None and kept.unfit)

    def leave(self, host: Host, back_s: float | None) -> bool:
        """Stop a process in order, one at a time, and start it again later."""
        if any(other.running and other.state.leaving for other in self.world.hosts):
            return False
        if not (host.disk is not None or self.survivable([host])):
            # The others can do without it only if they remove its vote before it stops.
            latest = self.checks.latest
            if latest is None or latest.members == (host.state.me,) or not self.survivable([]):
                return False
            if self.world.could_found_again(self.world.configured, [host]):
                return False
            self._left = True
        host.leave()
        self.start_later(host, back_s)
        return True

    @property
    def recoverable(self) -> bool:
        """Whether the cluster must recover when all faults are over.

        It need not if a replica that the others needed has left before they removed its vote, since other
        faults kept its messages from them.
        """
        return not (self.beyond or (self._left and not self.survivable([])))

    def start_later(self, host: Host, back_s: float | None) -> None:
        """Start the process of a host again after `back_s`; None: not before the end of all faults."""
        if back_s is None:
            return
        life = host.life

        def start() -> None:
            if not host.running and host.life == life:
                host.start()

        self.world.at(self.world.now + back_s, start)

    def free_later(self, host: Host, back_s: float | None) -> None:
        """Free the space on a full disk after `back_s`, and start its replica if it has ended."""

        def free() -> None:
            if host.disk is not None:
                host.disk.full = False
            if not host.running:
                host.start()

        self.for_a_while(back_s, free)

    def for_a_while(self, seconds: float | None, undo: Callable[[], None]) -> None:
        """Undo something after `seconds`; None: not before the end of all faults."""
        pending = self._undo
        pending.append(undo)

        def end() -> None:
            if undo in pending:
                pending.remove(undo)
                undo()

        if seconds is not None:
            self.world.at(self.world.now + seconds, end)

    def weather(self, name: str, value: float, seconds: float | None) -> bool:
        """Change one property of the network for `seconds`."""
        net, fair = self.world.net, self.world.shape.weather
        setattr(net.weather, name, value)
        self.for_a_while(seconds, lambda: setattr(net.weather, name, getattr(fair, name)))
        return True

    def cut(self, directions: list[tuple[int, int]], seconds: float | None) -> bool:
        """Stall the network in these directions, (sender, receiver), for `seconds`."""
        net = self.world.net
        net.cut.update(directions)

        def mend() -> None:
            self.world.trace(f"mend {directions}")
            for direction in directions:
                net.mend(direction)

        self.for_a_while(seconds, mend)
        return bool(directions)

    def heal(self) -> None:
        """End everything that cuts, slows, pauses or stops replicas."""
        world = self.world
        world.trace("heal")
        undo, self._undo = self._undo, []
        for action in undo:
            action()
        for direction in sorted(world.net.cut):
            world.net.mend(direction)
        for host in world.hosts:
            host.driver.countdown = None
            if host.running and host.paused:
                host.resume()
            if not host.running:
                host.start()

    # What a cluster survives

    def lose(self, random: Random) -> list[Host]:
        """Kill some replicas that the others must be able to do without; they stay dead until `find`.

        Does nothing before there is a cluster, since all founders are needed to found it.
        """
        world = self.world
        removed = self._removed()
        hosts = [host for host in seated(world) if host.replica not in removed]
        copies = sum(not host.is_witness for host in hosts)
        spare = copies - max(1, world.shape.settings.min_copies)
        lost: list[Host] = []
        most = random.randint(1, max(1, (len(hosts) - 1) // 2))
        for host in random.sample(hosts, len(hosts)) if self.checks.latest is not None else ():
            if len(lost) < most and (host.is_witness or spare) and self.survivable([*lost, host]):
                lost.append(host)
                spare -= not host.is_witness
        for host in lost:
            host.lost = True
            host.crash()
        self.lost += len(lost)
        world.trace(f"lost: {', '.join(map(str, lost)) or 'nobody, the others could not do without'}")
        return lost

    def _removed(self) -> set[int]:
        """Return the replicas that an administrator is about to remove."""
        removed: set[int] = set()
        for memory in filter(None, map(self._memory, self.world.hosts)):
            payload = None if memory.accepted is None else memory.reconfig(memory.accepted)
            change = None if payload is None else decode_reconfig(payload)
            if isinstance(change, Dismiss):
                removed.add(change.replica)
        return removed

    def find(self) -> None:
        """Start the lost replicas again."""
        for host in self.world.hosts:
            if host.lost:
                host.lost = False
                host.start()

    def survivable(self, victims: list[Host]) -> bool:
        """Return whether every view that may be active keeps its quorums without the memory of these
        replicas."""
        shape = self.world.shape
        latest = self.checks.latest
        living = {
            memory.voter: memory
            for host in self.world.hosts
            if host not in victims and (memory := self._memory(host)) is not None
        }
        if shape.disk and latest is None:
            # A replica that has lost its disk must not found a cluster, so there would never be one.
            return False
        if latest is not None and self.world.could_found_again(self.world.configured, victims):
            return False
        others = [host for host in self.world.hosts if host.running and host not in victims]
        if latest is None and any(host.state.counter for host in others):
            # The first view is being founded; some of its founders may not know it yet.
            if self._founders_lost:
                return False
            self._founders_lost = True
        views: dict[object, tuple[View, bool]] = {}
        if latest is not None:
            views[latest.number] = (latest, True)
        for host in self.world.hosts:
            memory = self._memory(host)
            if memory is not None and memory.accepted is not None:
                view = memory.accepted
                known = views.get(view.number)
                # If only victims know that it is active, that is lost with them.
                active = memory.active and host not in victims
                views[view.number] = (view, active or (known is not None and known[1]))
            installing = host.channel.installing if host.running else None
            if installing is not None:
                # It may be accepted after its proposer has ended.
                views.setdefault(installing.view.number, (installing.view, False))
        return all(_survives(view, active, living) for view, active in views.values())

    def _memory(self, host: Host) -> _Memory | None:
        state = host.state if host.running else None
        disk = host.disk
        if state is not None and (disk is not None or not state.leaving):

            def in_memory(view: View) -> bytes | None:
                entry = state.log.reconfig(view.start)
                return entry.payload if entry is not None and entry.view == view.number else None

            return _Memory(state.me, state.accepted, state.known_active, state.unfit, in_memory)
        if disk is None or disk.spoiled:
            return None
        kept = disk.remembered

        def on_disk(view: View) -> bytes | None:
            payloads = [
                entry.payload
                for entry in disk.entries.values()
                if entry.kind == RECONFIG and entry.view == view.number and entry.index > view.start
            ]
            return payloads[-1] if payloads else None

        me = Voter(host.replica, disk.incarnation)
        return _Memory(me, kept.accepted, kept.active, kept.unfit, on_disk)


def _survives(view: View, active: bool, living: dict[Voter, _Memory]) -> bool:
    needed = majority(view.config) if active else max(majority(view.config), view.boot)
    if count(living, view.config) < needed:
        return False
    if count(living, view.members) < len(view.members) - view.k + 1:
        return False
    holders = [
        memory
        for voter in view.members
        if (memory := living.get(voter)) is not None
        and memory.accepted is not None
        and memory.accepted.number >= view.number
    ]
    if active and len(holders) < len(view.members) - view.k + 1:
        return False
    if all(voter not in living or living[voter].unfit for voter in view.members):
        # Only a member with the right state can lead the next view.
        return False
    for memory in holders:
        payload = memory.reconfig(view)
        if payload is not None:
            config = changed(view.config, payload)
            if count(living, config) < majority(config):
                return False
    return True


def while_random(random: Random, longest: Iterable[float]) -> float:
    """Draw a duration in seconds; short ones are more frequent."""
    return round(random.choice(list(longest)) * random.random(), 4)


def draw_any(random: Random, shape: Shape) -> Any:
    """Draw the id of a replica."""
    return random.randrange(shape.replicas)
